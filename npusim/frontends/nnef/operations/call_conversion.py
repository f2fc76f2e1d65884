"""The conversion of one NNEF call: its arguments, the types of its results, and its quantized values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Protocol

import numpy as np

from npusim.frontends.forms.conversion import CONVERTERS, MOST_MADE, Conversion, Step
from npusim.frontends.nnef.call_network import Attribute, Call, Operand
from npusim.frontends.nnef.language import standard
from npusim.frontends.nnef.language.value_types import Tensor
from npusim.frontends.nnef.places import DocumentError
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.tensor import TensorType
from npusim.kernels.graph.builder import GraphBuilder
from npusim.kernels.operator.parameters import Activation

DTYPES = {"scalar": "float32", "integer": "int32", "logical": "bool"}
"""The element type of tensors that are not quantized, by item."""

NUMBERED = "#"
"""The first character of names for tensors that the document does not name; the tensor's number follows."""

_NUMBERS = {float: "float32", int: "int32", bool: "bool"}


class Surroundings(Protocol):
    """The part of a reader that the conversion of one call uses."""

    @property
    def builder(self) -> GraphBuilder:
        """The builder that nodes are added to."""

    def number(self, name: str) -> int:
        """Return the tensor of a name."""

    def kind(self, name: str) -> TensorType:
        """Return the type of a result by its name, without its shape."""

    def results_of(self, call: Call) -> Sequence[int]:
        """Return the results of a call that the document does not contain, as numbers."""


class CallConversion(Conversion):
    """A call that is being added to the graph. DocumentError is raised, with its place, for what npusim lacks."""

    def __init__(
        self, call: Call, around: Surroundings, activation: Activation = "none", named: str | None = None
    ) -> None:
        """activation: fused, of the operation that follows; named: the name of the result in that case."""
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

    # Arguments

    def value(self, name: str) -> Any:
        """Return an attribute."""
        return self.call.attributes[name]

    def wholes(self, name: str) -> list[int]:
        """Return an attribute that is an array of integers."""
        return list(self.value(name))

    def number(self, name: str) -> float | None:
        """Return a tensor argument that is one constant number without quantization; None for others."""
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
        """Return the tensor of an argument; a literal is a constant of one element."""
        operand = self.call.tensors[name]
        assert not isinstance(operand, tuple)
        return self._tensor(operand)

    def tensors(self, name: str) -> list[int]:
        """Return the tensors of an argument that is an array."""
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
        """Return the types of all results."""
        return [self._around.kind(name) for name in self._names]

    def axis(self, axis: int, rank: int, name: str = "axis") -> int:
        """Return an axis after a check. Raises DocumentError for one beyond the rank."""
        self.require(0 <= axis < rank, f"{name} {axis} is not one of 0 to {rank - 1}")
        return axis

    def axes(self, name: str, rank: int) -> list[int]:
        """Return an attribute that names axes, each once, in ascending order."""
        axes = self.wholes(name)
        self.require(len(set(axes)) == len(axes), f"{name} {axes} has an axis twice")
        return sorted(self.axis(axis, rank, name) for axis in axes)

    # Tensors and nodes

    def literal(self, value: float, beside: int) -> int:
        """Add a constant of one element that broadcasts with a tensor."""
        return self.filled((1,) * len(self.shape(beside)), value)

    def filled(self, shape: Sequence[int], value: Any, dtype: str = "float32") -> int:
        """Add a constant with one number everywhere. Raises DocumentError for one of too many elements."""
        count = prod(shape)
        self.require(count <= MOST_MADE, f"a constant of {count:,} elements is more than {MOST_MADE:,}")
        with np.errstate(over="ignore"):
            return self.constant(np.full(shape, value, np.dtype(dtype)))

    def apply(self, operation: str, *tensors: int, **attributes: Any) -> int:
        """Return the float result of another operation on these tensors; other attributes have their defaults."""
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
        return self._around.results_of(call)[0]

    def aligned(self, tensors: Sequence[int]) -> list[int]:
        """Return tensors of one rank: those of lower rank get trailing axes of one (rule S3)."""
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
        """Return a tensor quantized as a type is, or dequantized."""
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
        """Return whether an operator takes these quantized values; beside floats only conversions do."""
        floats_beside = any(kind is not None and kind.real for kind in self.all_kinds(step))
        return (step.op in CONVERTERS or not floats_beside) and super().takes(step)

    def moved(self, op: str, inputs: Sequence[int], results: int = 1, **parameters: Any) -> list[int]:
        """Add a node that moves elements: its results have the quantization of the first input, whatever the document
        states.

        Its other inputs are requantized to match.
        """
        first = self.like(inputs[0])
        alike = [inputs[0], *(self.in_type(tensor, first) for tensor in inputs[1:])]
        return list(self.added(Step(op, alike, [first] * results, parameters)))


Convert = Callable[[CallConversion], Sequence[int]]
"""The function that adds the nodes of a call to a graph and returns the tensors of its results, arrays flattened."""


@dataclass(frozen=True, slots=True)
class Row:
    """An operation of NNEF.

    name: the operation's name in documents.
    convert: the function that adds the nodes of a call.
    ops: the operators that these nodes may have, the main one first.
    activated: whether the main operator can fuse an activation that follows.
    """

    name: str
    convert: Convert
    ops: str = ""
    activated: bool = False

    @property
    def operators(self) -> tuple[str, ...]:
        """The operators that its nodes may have, the main one first."""
        return tuple(self.ops.split())
