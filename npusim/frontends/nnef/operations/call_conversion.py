"""What adds the nodes of one NNEF call to a graph: its arguments, its results' types, its quantized values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Protocol

import numpy as np

from npusim.frontends.forms.conversion import Conversion, Step
from npusim.frontends.nnef.call_network import Attribute, Call, Operand
from npusim.frontends.nnef.language import standard
from npusim.frontends.nnef.language.value_types import Tensor
from npusim.frontends.nnef.places import DocumentError
from npusim.isa.base.tensor import TensorType
from npusim.kernels.graph.builder import GraphBuilder
from npusim.kernels.operator.parameters import Activation

_CONVERTING = ("quantize", "dequantize")
"""Operators between codes and real numbers."""

DTYPES = {"scalar": "float32", "integer": "int32", "logical": "bool"}
"""What tensors of an item hold where they have no codes."""

MOST_ELEMENTS = 1 << 26
"""Of a constant that is no data of the document's."""

NUMBERED = "#"
"""Begins the name of a tensor of the graph that no document names: its number follows."""

_NUMBERS = {float: "float32", int: "int32", bool: "bool"}


class Surroundings(Protocol):
    """Where a conversion finds tensors and says what it makes."""

    @property
    def builder(self) -> GraphBuilder:
        """What the nodes go to."""

    def number(self, name: str) -> int:
        """The tensor that is called so."""

    def kind(self, name: str) -> TensorType:
        """The type of a result of that name, without shape."""

    def made(self, call: Call) -> Sequence[int]:
        """The results of a call that stands in no document, as numbers."""


class CallConversion(Conversion):
    """One call on its way into a graph. What an operation cannot take raises DocumentError, at its place."""

    def __init__(
        self, call: Call, around: Surroundings, activation: Activation = "none", named: str | None = None
    ) -> None:
        """`activation` is one that follows; `named` is the name that the result has then."""
        self.call = call
        self.activation = activation
        self._around = around
        self._names = (named,) if named is not None else call.result_names()
        self.builder = around.builder

    @property
    def name(self) -> str:
        """The name of the nodes."""
        return self._names[0]

    @property
    def outputs(self) -> Sequence[str]:
        """The names of the results."""
        return self._names

    def fault(self, text: str) -> DocumentError:
        """Return the error for this call."""
        return self.call.fault("S1", text)

    # What the call says

    def value(self, name: str) -> Any:
        """An attribute."""
        return self.call.attributes[name]

    def wholes(self, name: str) -> list[int]:
        """An attribute that is an array of integers."""
        return list(self.value(name))

    def number(self, name: str) -> float | None:
        """A tensor argument that is a literal, or a constant of one element and no codes; None for any other."""
        operand = self.call.tensors[name]
        if not isinstance(operand, (str, tuple)):
            return float(operand)
        if isinstance(operand, tuple):
            return None
        held = self.builder.tensors[self._around.number(operand)]
        values: Any = held.array
        if values is None or values.size != 1 or held.type.quantization is not None:
            return None
        return float(values.reshape(-1)[0])

    def tensor(self, name: str) -> int:
        """The tensor of an argument; a literal is a constant of one element."""
        operand = self.call.tensors[name]
        assert not isinstance(operand, tuple)
        return self._tensor(operand)

    def tensors(self, name: str) -> list[int]:
        """The tensors of an argument that is an array."""
        operand = self.call.tensors[name]
        assert isinstance(operand, tuple)
        self.require(bool(operand), f"{name} is empty")
        return [self._tensor(part) for part in operand]  # type: ignore[arg-type]

    def _tensor(self, operand: str | float | int | bool) -> int:
        if isinstance(operand, str):
            return self._around.number(operand)
        try:
            with np.errstate(over="ignore"):
                return self.constant(np.array([operand], _NUMBERS[type(operand)]))
        except OverflowError:
            raise self.call.fault("S1", f"{operand} is beyond the 32 bits of integers") from None

    def kind(self, index: int = 0, dtype: str = "float32") -> TensorType:
        """Return the type of a result as the document states it, without its shape."""
        return self._around.kind(self._names[index])

    def kinds(self) -> list[TensorType]:
        """The types of all results."""
        return [self._around.kind(name) for name in self._names]

    def axis(self, axis: int, rank: int, name: str = "axis") -> int:
        """An axis of so many. Raises DocumentError for one that is none."""
        self.require(0 <= axis < rank, f"{name} {axis} is not one of 0 to {rank - 1}")
        return axis

    def axes(self, name: str, rank: int) -> list[int]:
        """An attribute that names axes, each once, ascending."""
        axes = self.wholes(name)
        self.require(len(set(axes)) == len(axes), f"{name} {axes} has an axis twice")
        return sorted(self.axis(axis, rank, name) for axis in axes)

    # Tensors and nodes

    def literal(self, value: float, beside: int) -> int:
        """A new constant of one element that broadcasts with a tensor."""
        return self.filled((1,) * len(self.shape(beside)), value)

    def filled(self, shape: Sequence[int], value: Any, dtype: str = "float32") -> int:
        """A new constant that has one number everywhere. Raises DocumentError for one of too many elements."""
        count = prod(shape)
        self.require(
            count <= MOST_ELEMENTS, f"a constant of {count:,} elements is more than {MOST_ELEMENTS:,}"
        )
        with np.errstate(over="ignore"):
            return self.constant(np.full(shape, value, np.dtype(dtype)))

    def apply(self, operation: str, *tensors: int, **attributes: Any) -> int:
        """The result, in reals, of another operation with these tensors; attributes not said have their defaults."""
        declared = standard.OPERATIONS[operation].parameters
        operands: dict[str, Operand] = {}
        values: dict[str, Attribute] = {}
        for index, parameter in enumerate(declared):
            if index < len(tensors):
                operands[parameter.name] = f"{NUMBERED}{tensors[index]}"
            elif parameter.name in attributes:
                values[parameter.name] = attributes[parameter.name]
            elif parameter.default is not None:
                whole = operands if isinstance(parameter.type, Tensor) else values
                whole[parameter.name] = parameter.default.value
        name = f"{self._names[0]}/{operation}"
        call = Call(operation, (name,), operands, values, "scalar", self.call.place, self.call.within)
        return self._around.made(call)[0]

    def aligned(self, tensors: Sequence[int]) -> list[int]:
        """Tensors of one rank: those of lower rank get ones behind (rule S3)."""
        rank = max(len(self.shape(tensor)) for tensor in tensors)
        aligned = [
            self.reshaped(tensor, (*self.shape(tensor), *(1,) * (rank - len(self.shape(tensor)))))
            for tensor in tensors
        ]
        shapes = [self.shape(tensor) for tensor in aligned]
        for axis, extents in enumerate(zip(*shapes, strict=True)):
            self.require(
                len(set(extents) - {1}) < 2,
                f"shapes {' and '.join(str(list(self.shape(tensor))) for tensor in tensors)} do not broadcast: "
                f"extents along axis {axis} are neither equal nor 1",
            )
        return aligned

    def in_type(self, tensor: int, kind: TensorType) -> int:
        """A tensor in the codes, or the reals, of a type."""
        own = self.builder.type(tensor)
        if own.dtype == kind.dtype and own.quantization == kind.quantization:
            return tensor
        if kind.quantization is None:
            return self.as_real(tensor) if kind.real else tensor
        again = Step("quantize", [tensor], [kind], {})
        if own.quantization is not None and self.takes(again):
            return self.added(again)[0]
        return self.added(Step("quantize", [self.as_real(tensor)], [kind], {"saturating": True}))[0]

    def takes(self, step: Step) -> bool:
        """Whether an operator takes these quantized values; beside floats only conversions do."""
        floats_beside = any(kind is not None and kind.real for kind in self.all_kinds(step))
        return (step.op in _CONVERTING or not floats_beside) and super().takes(step)

    def moved(self, op: str, inputs: Sequence[int], results: int = 1, **parameters: Any) -> list[int]:
        """A node that moves elements: results have the codes of the first input, whatever the document says of them.

        Its other inputs get these codes, too.
        """
        first = self.like(inputs[0])
        alike = [inputs[0], *(self.in_type(tensor, first) for tensor in inputs[1:])]
        return list(self.added(Step(op, alike, [first] * results, parameters)))


Convert = Callable[[CallConversion], Sequence[int]]
"""Adds the nodes of a call to a graph and returns the tensors of its results, arrays flattened."""


@dataclass(frozen=True, slots=True)
class Row:
    """One operation of NNEF.

    name:      as documents have it.
    convert:   how a call becomes nodes.
    operators: the operators that these nodes may have, the main one first.
    activated: whether the main operator takes an activation that follows as an operation of its own.
    """

    name: str
    convert: Convert
    operators: tuple[str, ...]
    activated: bool = False
