"""What `convert` of a row works with: one call of an operation on its way into a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, Protocol

import numpy as np

from npusim.frontends.nnef.language import standard
from npusim.frontends.nnef.language.types import Tensor
from npusim.frontends.nnef.network import Attribute, Call, Operand
from npusim.frontends.steps import Steps
from npusim.isa.base.errors import GraphError
from npusim.isa.base.tensor import Array, Quantization, TensorType
from npusim.kernels.graph.builder import GraphBuilder, unshaped
from npusim.kernels.graph.call import call_of
from npusim.kernels.graph.taking import takes
from npusim.kernels.operator.parameters import Activation
from npusim.kernels.table import operator

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


class Conversion(Steps):
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

    def kind(self, index: int = 0) -> TensorType:
        """The type of a result, whose shape its operands say."""
        return self._around.kind(self._names[index])

    def kinds(self) -> list[TensorType]:
        """The types of all results."""
        return [self._around.kind(name) for name in self._names]

    def shape(self, tensor: str | int) -> tuple[int, ...]:
        """The shape of a tensor, or of an argument."""
        return self.builder.shape(self.tensor(tensor) if isinstance(tensor, str) else tensor)

    def axis(self, axis: int, rank: int, name: str = "axis") -> int:
        """An axis of so many. Raises DocumentError for one that is none."""
        self.require(0 <= axis < rank, f"{name} {axis} is not one of 0 to {rank - 1}")
        return axis

    def axes(self, name: str, rank: int) -> list[int]:
        """An attribute that names axes, each once, ascending."""
        axes = self.wholes(name)
        self.require(len(set(axes)) == len(axes), f"{name} {axes} has an axis twice")
        return sorted(self.axis(axis, rank, name) for axis in axes)

    def require(self, holds: bool, text: str) -> None:
        """Raises DocumentError with a text where something does not hold."""
        if not holds:
            raise self.call.fault("S1", text)

    # Tensors and nodes

    def constant(self, data: Array, quantization: Quantization | None = None) -> int:
        """A new constant."""
        return self.builder.constant(f"{self._names[0]}/constant", np.ascontiguousarray(data), quantization)

    def literal(self, value: float, beside: int) -> int:
        """A new constant of one element that broadcasts with a tensor."""
        return self.filled((1,) * len(self.shape(beside)), value)

    def filled(self, shape: Sequence[int], value: float) -> int:
        """A new constant that has one number everywhere. Raises DocumentError for one of too many elements."""
        count = prod(shape)
        self.require(
            count <= MOST_ELEMENTS, f"a constant of {count:,} elements is more than {MOST_ELEMENTS:,}"
        )
        with np.errstate(over="ignore"):
            return self.constant(np.full(shape, value, np.float32))

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
        if own.quantization is None:
            return self._added("quantize", [tensor], [kind], {"saturating": True})[0]
        if self._takes("quantize", [tensor], [kind], {}):
            return self._added("quantize", [tensor], [kind], {})[0]
        return self._added("quantize", [self.as_real(tensor)], [kind], {"saturating": True})[0]

    def moved(self, op: str, inputs: Sequence[int], results: int = 1, **parameters: Any) -> list[int]:
        """A node that moves elements: results have the codes of the first input, whatever the document says of them.

        Its other inputs get these codes, too.
        """
        first = self.like(inputs[0])
        alike = [inputs[0], *(self.in_type(tensor, first) for tensor in inputs[1:])]
        return list(self._added(op, alike, [first] * results, parameters))

    def one(self, op: str, tensor: int, kind: TensorType, **parameters: Any) -> int:
        """Adds a node of one operand and one result of this type, and returns the result."""
        return self.nodes(op, [tensor], [kind], **parameters)[0]

    def node(
        self, op: str, inputs: Sequence[int | None], kind: TensorType | None = None, **parameters: Any
    ) -> int:
        """Adds a node with one result (its type not said: the call's) and returns it."""
        return self.nodes(op, inputs, [kind or self.kind()], **parameters)[0]

    def nodes(
        self, op: str, inputs: Sequence[int | None], results: Sequence[TensorType], **parameters: Any
    ) -> Sequence[int]:
        """Adds a node and returns its results.

        Where the operator does not take codes, or none of these scales, its operands become real numbers and its
        results codes again.
        """
        kinds = [None if number is None else self.builder.type(number) for number in inputs]
        coded = any(kind is not None and kind.quantization is not None for kind in (*kinds, *results))
        if not coded or self._takes(op, inputs, results, parameters):
            return self._added(op, inputs, results, parameters)
        return self.in_reals(op, inputs, results, **parameters)

    def in_reals(
        self, op: str, inputs: Sequence[int | None], results: Sequence[TensorType], **parameters: Any
    ) -> Sequence[int]:
        """A node on real numbers between codes."""
        reals = [None if number is None else self.as_real(number) for number in inputs]
        wide = [unshaped("float32") if kind.quantization is not None else kind for kind in results]
        made = self._added(op, reals, wide, parameters)
        return [self.in_type(number, kind) for number, kind in zip(made, results, strict=True)]

    def _takes(
        self,
        op: str,
        inputs: Sequence[int | None],
        results: Sequence[TensorType],
        parameters: Mapping[str, Any],
    ) -> bool:
        """Whether an operator takes these codes; beside reals only those that convert do."""
        kinds = [None if number is None else self.builder.type(number) for number in inputs]
        reals_beside = any(kind is not None and kind.real for kind in (*kinds, *results))
        return (op in _CONVERTING or not reals_beside) and takes(op, kinds, results, parameters)

    def _added(
        self,
        op: str,
        inputs: Sequence[int | None],
        results: Sequence[TensorType],
        parameters: Mapping[str, Any],
    ) -> tuple[int, ...]:
        builder, name = self.builder, self._names[0]
        outputs = tuple(builder.tensor(name, kind) for kind in results)
        try:
            node = builder.add(op, inputs, outputs, operator(op).parameters(**parameters), name=name)
            call = call_of(builder, node)
            if all(kind is None or min(kind.shape, default=0) >= 0 for kind in call.inputs):
                broken = operator(node.op).broken_rule(call)
                self.require(broken is None, f"{node.op}: {broken}")
        except GraphError as fault:
            raise self.call.fault("S1", str(fault)) from None
        return outputs
