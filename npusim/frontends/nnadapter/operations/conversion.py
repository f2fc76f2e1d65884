"""What `convert` of a row works with: one operation on its way into a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from npusim.frontends.nnadapter.codes import FuseCode, Precision
from npusim.frontends.nnadapter.errors import InvalidParameter
from npusim.frontends.nnadapter.operand import Operand
from npusim.frontends.nnadapter.operand_type import member
from npusim.frontends.nnadapter.operations.bound import Bound
from npusim.frontends.steps import Steps
from npusim.frontends.sums import bias_fault
from npusim.isa.base.errors import GraphError
from npusim.isa.base.tensor import Array, Quantization, TensorType
from npusim.kernels.graph.builder import GraphBuilder, unshaped
from npusim.kernels.graph.graph import UNRANKED, Node
from npusim.kernels.graph.taking import takes
from npusim.kernels.operator.parameters import Activation
from npusim.kernels.table import operator

if TYPE_CHECKING:
    from npusim.frontends.nnadapter.operations.signature import Argument, Outcome

_CONVERTING = ("quantize", "dequantize")
"""Operators between codes and real numbers."""

_ACTIVATIONS: Mapping[FuseCode, Activation] = {
    FuseCode.FUSED_NONE: "none",
    FuseCode.FUSED_RELU: "relu",
    FuseCode.FUSED_RELU1: "relu_n1_to_1",
    FuseCode.FUSED_RELU6: "relu6",
}


class NotKnown(Exception):
    """The value of an argument is needed before anything runs, and nothing says it."""

    def __init__(self, place: str, name: str, operand: str) -> None:
        super().__init__(
            f"{place}: {name} ({operand}) decides shapes or parameters, so it must be a constant, or follow from "
            "constants and shapes"
        )


class Operands(Protocol):
    """Where a conversion finds tensors and shapes."""

    @property
    def builder(self) -> GraphBuilder:
        """What the nodes go to."""

    @property
    def in_reals(self) -> bool:
        """Whether operations on codes are to be computed on real numbers, with results cut off (`builtin_device`)."""

    def tensor(self, operand: Operand) -> int:
        """The tensor of an operand. Raises NotKnown if its sizes are not known."""

    def shape(self, operand: Operand) -> tuple[int, ...]:
        """The sizes of an operand. Raises NotKnown likewise."""

    def known(self, operand: Operand) -> Array | None:
        """The value of an operand, where it is fixed before anything runs."""


class Conversion(Steps):
    """One operation on its way into a graph: what `convert` of its row reads and makes.

    Reading a value that is not known raises NotKnown; what an operator cannot take raises InvalidParameter.
    """

    def __init__(self, bound: Bound, operands: Operands) -> None:
        self.operation = bound.operation
        self._bound = bound
        self._operands = operands
        self.builder = operands.builder

    # What the operation says

    def operand(self, name: str) -> Operand | None:
        """The operand of an argument; None where it is omitted."""
        operands: Sequence[Operand | None] = (
            self._bound.inputs.get(name) or self._bound.outputs.get(name) or (None,)
        )
        return operands[0]

    def given(self, name: str) -> Operand:
        """The operand of an argument or result that must be there."""
        operand = self.operand(name)
        if operand is None:
            raise InvalidParameter(f"{self.operation.place}: {name} is omitted, it must be there")
        return operand

    def has(self, name: str) -> bool:
        """Whether an argument, or a result that may be left out, is there."""
        return self.operand(name) is not None

    def value(self, name: str) -> Array:
        """The value of an argument."""
        operand = self.given(name)
        value = self._operands.known(operand)
        if value is None:
            raise NotKnown(self.operation.place, name, operand.name)
        return value

    def known(self, name: str) -> Array | None:
        """The value of an argument; None where only a run gives it."""
        return self._operands.known(self.given(name))

    def whole(self, name: str) -> int:
        """A whole number."""
        return int(self._one(name))

    def real(self, name: str) -> float:
        """A real number."""
        return float(self._one(name))

    def number(self, name: str) -> int | float:
        """A number of any kind."""
        number: int | float = self._one(name).item()
        return number

    def flag(self, name: str) -> bool:
        """A truth."""
        return bool(self._one(name))

    def wholes(self, name: str) -> list[int]:
        """Whole numbers, none where the argument is omitted."""
        return [int(number) for number in self.value(name).reshape(-1)] if self.has(name) else []

    def reals(self, name: str) -> list[float]:
        """Real numbers, none where the argument is omitted."""
        return [float(number) for number in self.value(name).reshape(-1)] if self.has(name) else []

    def code(self, name: str, kind: Any) -> Any:
        """A member of an enumeration by its number."""
        return member(kind, self.whole(name), f"{self.operation.place}: {name}")

    def activation(self) -> Activation:
        """The fused activation."""
        return _ACTIVATIONS[self.code("fuse_code", FuseCode)]

    def axis(self, name: str, of: str = "input", more: int = 0) -> int:
        """An axis of `of`, with `more` dimensions, counted from the front."""
        return self.axis_of(self.whole(name), name, len(self.shape(of)) + more)

    def axes(self, name: str, of: str = "input", more: int = 0) -> list[int]:
        """Axes likewise."""
        rank = len(self.shape(of)) + more
        return [self.axis_of(axis, name, rank) for axis in self.wholes(name)]

    def axis_of(self, axis: int, name: str, rank: int) -> int:
        """An axis counted from the front, of `rank`. Raises InvalidParameter for one that is none."""
        self.require(-rank <= axis < rank, f"{name} is {axis}, must be -{rank}..{rank - 1}")
        return axis % rank

    def shape(self, tensor: str | int) -> tuple[int, ...]:
        """The sizes of an argument, or of a tensor."""
        if isinstance(tensor, int):
            return self.builder.shape(tensor)
        return self._operands.shape(self.given(tensor))

    def require(self, holds: bool, text: str) -> None:
        """Raises InvalidParameter with a text where something does not hold."""
        if not holds:
            raise InvalidParameter(f"{self.operation.place}: {text}")

    def _one(self, name: str) -> Any:
        value = self.value(name)
        self.require(value.size == 1, f"{name} has shape {list(value.shape)}, must have one element")
        return value.reshape(-1)[0]

    # Tensors and nodes

    def tensor(self, name: str) -> int:
        """The tensor of an argument that must be there."""
        return self._operands.tensor(self.given(name))

    def optional(self, name: str) -> int | None:
        """The tensor of an argument; None where it is omitted."""
        return self.tensor(name) if self.has(name) else None

    def bias(self, weights: str = "filter") -> int | None:
        """Return the tensor of the bias; None if omitted. Quantized, its scale is input scale times weight scale."""
        operands = [self.given("input").type, self.given(weights).type]
        scalings = [operand.quantization for operand in operands]
        if self.has("bias") and scalings[0] is not None and scalings[1] is not None:
            own = self.given("bias").type
            if own.dtype.kind != "f":
                fault = bias_fault(own.row.dtype, own.quantization, scalings[0], scalings[1])
                self.require(fault is None, str(fault))
        return self.optional("bias")

    def tensors(self, name: str) -> list[int]:
        """The tensors of an argument of which there are several."""
        return [self._operands.tensor(operand) for operand in self._bound.inputs[name] if operand is not None]

    def operands(self, name: str) -> list[int | None]:
        """Return the tensors of a repeated argument, None for omitted ones."""
        return [
            None if operand is None else self._operands.tensor(operand)
            for operand in self._bound.inputs[name]
        ]

    def result(self, name: str = "output") -> TensorType:
        """The type of an output, of the shape that operands will say."""
        return self.given(name).type.tensor_type()

    def results(self, name: str) -> list[TensorType]:
        """The types of an output of which there are several."""
        return [operand.type.tensor_type() for operand in self._bound.outputs[name]]

    def constant(self, data: Any, quantization: Quantization | None = None) -> int:
        """A new constant."""
        return self.builder.constant(
            f"{self.operation.name}/constant", np.ascontiguousarray(data), quantization
        )

    def one(self, op: str, tensor: int, kind: TensorType, **parameters: Any) -> int:
        """Adds a node of one operand and one result of this type, and returns the result."""
        return self.node(op, [tensor], kind, **parameters)[0]

    def node(
        self, op: str, inputs: Sequence[int | None], *results: TensorType, **parameters: Any
    ) -> tuple[int, ...]:
        """Adds a node with these results (not said: the operation's outputs) and returns them.

        Where the operator does not take codes, or none of these scales, its operands become real numbers and its
        results codes again.
        """
        results = results or self._all_results()
        kinds = [None if number is None else self.builder.type(number) for number in inputs]
        coded = any(kind is not None and kind.quantized for kind in (*kinds, *results))
        direct = not coded or op in _CONVERTING
        if direct or (not self._operands.in_reals and takes(op, kinds, results, parameters)):
            return self._added(op, inputs, results, parameters)
        return self._in_reals(op, inputs, results, parameters)

    def node_in_reals(
        self, op: str, inputs: Sequence[int | None], *results: TensorType, **parameters: Any
    ) -> tuple[int, ...]:
        """`node` of an operator whose codes are no real numbers: they become such in any case."""
        return self._in_reals(op, inputs, results or self._all_results(), parameters)

    def _all_results(self) -> tuple[TensorType, ...]:
        return tuple(
            operand.type.tensor_type() for operands in self._bound.outputs.values() for operand in operands
        )

    def _added(
        self,
        op: str,
        inputs: Sequence[int | None],
        results: Sequence[TensorType],
        parameters: Mapping[str, Any],
    ) -> tuple[int, ...]:
        try:
            made = operator(op).parameters(**parameters)
            numbers = self.builder.node(op, inputs, results, made, name=self.operation.name)
        except GraphError as fault:
            raise InvalidParameter(f"{self.operation.place}: {fault}") from None
        for number in numbers:
            self._require_channels(self.builder.type(number))
        return numbers

    def _require_channels(self, kind: TensorType) -> None:
        """Raises InvalidParameter for a result with other channels than scales."""
        scaling = kind.quantization
        if scaling is not None and scaling.axis is not None and kind.shape != UNRANKED:
            axis, count = scaling.axis, len(scaling.scales)
            self.require(
                axis < len(kind.shape) and kind.shape[axis] == count,
                f"a result has {count} scales along dimension {axis}, and shape {list(kind.shape)}",
            )

    def _in_reals(
        self,
        op: str,
        inputs: Sequence[int | None],
        results: Sequence[TensorType],
        parameters: Mapping[str, Any],
    ) -> tuple[int, ...]:
        """A node on real numbers between codes."""
        reals = [None if number is None else self.as_real(number) for number in inputs]
        wide = [unshaped("float32") if kind.quantized else kind for kind in results]
        made = self._added(op, reals, wide, parameters)
        return tuple(self.as_code(number, kind) for number, kind in zip(made, results, strict=True))

    def _cut_off(self) -> Mapping[str, Any]:
        return {"truncate": True} if self._operands.in_reals else {"saturating": True}

    def as_code(self, number: int, kind: TensorType) -> int:
        """Real numbers as codes of a type; as they are for a type without scale."""
        return self._added("quantize", [number], [kind], self._cut_off())[0] if kind.quantized else number

    def real_of(self, name: str) -> float:
        """A known number, that a code stands for if the argument has one."""
        scaling, number = self.given(name).type.quantization, self.real(name)
        if scaling is None:
            return number
        return float(np.float32(scaling.scale) * np.float32(number - scaling.zero_point))

    def in_type_of_input(self, tensor: int) -> int:
        """Real numbers in the type of the input, if that has real numbers, too."""
        kind, wanted = self.builder.type(tensor), self.builder.type(self.tensor("input"))
        if not (kind.real and wanted.real) or kind.dtype == wanted.dtype:
            return tensor
        return self._added("cast", [tensor], [unshaped(wanted.dtype)], {})[0]

    def copied(self, tensor: int) -> int:
        """A copy, for a result that is an operand."""
        held = self.builder.tensors[tensor]
        if held.array is not None:
            return self.constant(held.array, held.type.quantization)
        return self.one("reshape", tensor, self.like(tensor), shape=held.type.shape)


def types_of_outputs(bound: Bound) -> None:
    """Gives the outputs of an operation the precisions that its definition says, and codes the scale of their input.

    Raises InvalidParameter where an output has codes and nothing says their scale.
    """
    for outcome in bound.signature.outputs:
        for operand in bound.outputs[outcome.name]:
            _type_output(bound, outcome, operand)


def _type_output(bound: Bound, outcome: Outcome, operand: Operand) -> None:
    own = operand.type
    if outcome.precision is not None:
        wanted = outcome.precision
    elif outcome.like:
        model = bound.inputs[outcome.like][0]
        assert model is not None
        wanted = model.type.precision
        if wanted == own.precision or (own.row.dtype == model.type.row.dtype and own.row.scaled):
            return
        if model.type.row.scaled:
            own.take_scaling(model.type)
    elif outcome.named_by:
        named = bound.inputs[outcome.named_by][0]
        if named is None or named.known is None or named.known.size != 1:
            return
        where = f"{bound.operation.place}: {outcome.named_by}"
        wanted = member(Precision, int(named.known.reshape(-1)[0]), where)
    else:
        return
    own.precision = wanted
    if not own.row.scaled:
        own.scale = own.zero_point = own.scales = own.zero_points = own.channel_dim = None


def argument_fault(argument: Argument, operand: Operand) -> str:
    """Why an operand cannot be a parameter of a kind; "" where it can."""
    kinds = {
        "i": ("signed", "unsigned"),
        "I": ("signed", "unsigned"),
        "f": ("real",),
        "F": ("real",),
        "b": ("truth",),
    }.get(argument.kind)
    if kinds is None or operand.type.tensor_type().element.kind in kinds:
        return ""
    words = {"i": "a whole number", "f": "a real number", "b": "a BOOL8"}[argument.kind.lower()]
    some = " or some" if argument.kind.isupper() else ""
    return f"{argument.name} ({operand.name}) is {operand.type.words()}, must be {words}{some}"


def require_sound(builder: GraphBuilder, node: Node, place: str) -> None:
    """Raises InvalidParameter for a node that breaks a rule of its operator."""
    from npusim.kernels.graph.call import call_of

    broken = operator(node.op).broken_rule(call_of(builder, node))
    if broken is not None:
        raise InvalidParameter(f"{place}: {broken}")
