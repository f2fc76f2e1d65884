"""Conversion of one NNAdapter operation into nodes of a graph, and the rows that say how each operation is converted.

Values are quantized as their operands declare. Operators that take those values compute on them; for others the
operation dequantizes its inputs, computes in floating point and quantizes its outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from npusim.frontends.bias_scales import bias_fault
from npusim.frontends.forms import conversion as forms
from npusim.frontends.forms.conversion import CONVERTERS, Step
from npusim.frontends.nnadapter.nnadapter_codes import Custom, FuseCode, InvalidParameter, OperationType
from npusim.frontends.nnadapter.operand import Operand
from npusim.frontends.nnadapter.operand_type import Shape, member
from npusim.frontends.nnadapter.operation_arguments import Bound, Signature, signature, types_of_outputs
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.tensor import Array, TensorType
from npusim.kernels.graph.builder import GraphBuilder
from npusim.kernels.graph.graph import UNRANKED
from npusim.kernels.operator.parameters import Activation

_MAXIMA = tuple(
    f"{pool}{positions}"
    for pool in ("max_pool_2d", "adaptive_max_pool_2d")
    for positions in ("", "_with_positions")
)

_KEEPERS = frozenset(
    {
        *("reshape", "transpose", "strided_slice", "split", "unpack", "gather", "roll", "tile"),
        *("broadcast_to", "pad", "mirror_pad", "edge_pad", "channel_shuffle", "resize_nearest_neighbor"),
        *_MAXIMA,
    }
)
"""Operators whose results are elements of the first input, so that they have its scale; a requantization follows where
the operation's output has another one."""

_ONE_SCALE = frozenset({"average_pool_2d", "adaptive_average_pool_2d", "resize_bilinear"})
"""Operators that compute on quantized values only if input and output have the same scale."""

_ACTIVATIONS: Mapping[FuseCode, Activation] = {
    FuseCode.FUSED_NONE: "none",
    FuseCode.FUSED_RELU: "relu",
    FuseCode.FUSED_RELU1: "relu_n1_to_1",
    FuseCode.FUSED_RELU6: "relu6",
}


class NotKnown(Exception):
    """Raised if an argument decides shapes or parameters, but only a run gives its value."""

    def __init__(self, place: str, name: str, operand: str) -> None:
        super().__init__(
            f"{place}: {name} ({operand}) decides shapes or parameters, so it must be a constant, or follow from "
            "constants and shapes"
        )


class Operands:
    """The tensors, shapes and known values of a model's operands while its graph is built.

    all_in_float: whether all quantized operations compute in floating point and truncate results (`builtin_device`).
    inputs:       the operands that became inputs of the graph, in order.
    values:       values of operands that follow from constants and shapes.
    """

    def __init__(
        self,
        builder: GraphBuilder,
        shapes: Mapping[Operand, Shape],
        values: Mapping[Operand, Array],
        all_in_float: bool,
    ) -> None:
        """`shapes` and `values` are of operands whose types and constants do not state them."""
        self.builder, self.all_in_float = builder, all_in_float
        self.inputs: list[Operand] = []
        self.values = dict(values)
        self._shapes = dict(shapes)
        self._tensors: dict[Operand, int] = {}

    def known(self, operand: Operand) -> Array | None:
        """Return the value of an operand; None if only a run gives it."""
        return operand.buffer if operand.buffer is not None else self.values.get(operand)

    def shape(self, operand: Operand) -> Shape:
        """Return the sizes of an operand. Raises NotKnown if they are not known."""
        if operand in self._tensors:
            return self.builder.shape(self._tensors[operand])
        known = self.known(operand)
        if known is not None:
            return known.shape
        shape = self._shapes.get(operand, operand.type.shape)
        if min(shape, default=0) < 0:
            raise NotKnown("model", "the shape", f"{operand.name}: {operand.type.words()}")
        return shape

    def tensor(self, operand: Operand) -> int:
        """Return the tensor of an operand, made at the first call. Raises NotKnown for unknown sizes."""
        if operand not in self._tensors:
            known = self.known(operand)
            if known is not None:
                number = self.builder.constant(operand.name, known, operand.type.quantization)
            else:
                number = self.builder.input(operand.name, operand.type.tensor_type(self.shape(operand)))
                self.inputs.append(operand)
            self._tensors[operand] = number
        return self._tensors[operand]


class Conversion(forms.Conversion):
    """The conversion of one NNAdapter operation into nodes of a graph, with its arguments by name.

    Reading a value that is not known raises NotKnown; what an operator cannot take raises InvalidParameter.
    """

    def __init__(self, bound: Bound, operands: Operands) -> None:
        self.operation = bound.operation
        self._bound = bound
        self._operands = operands
        self.builder = operands.builder

    @property
    def name(self) -> str:
        """The name of the nodes, such as operations[3]."""
        return self.operation.name

    def fault(self, text: str) -> InvalidParameter:
        """Return the error for this operation."""
        return InvalidParameter(f"{self.operation.place}: {text}")

    def broken_rule(self, op: str, rule: str) -> str:
        """Return the rule alone: messages name the operation, and users do not know its operators."""
        return rule

    # Arguments

    def operand(self, name: str) -> Operand | None:
        """Return the operand of an argument or result; None if the call omits it or the operation lacks it."""
        operands: Sequence[Operand | None] = (
            self._bound.inputs.get(name) or self._bound.outputs.get(name) or (None,)
        )
        return operands[0]

    def given(self, name: str) -> Operand:
        """Return the operand of an argument or result. Raises InvalidParameter if it is omitted."""
        operand = self.operand(name)
        if operand is None:
            raise self.fault(f"{name} is omitted, it must be there")
        return operand

    def has(self, name: str) -> bool:
        """Return whether an optional argument or result is there."""
        return self.operand(name) is not None

    def value(self, name: str) -> Array:
        """Return the value of an argument. Raises NotKnown if only a run gives it."""
        operand = self.given(name)
        value = self._operands.known(operand)
        if value is None:
            raise NotKnown(self.operation.place, name, operand.name)
        return value

    def known(self, name: str) -> Array | None:
        """Return the value of an argument; None if only a run gives it."""
        return self._operands.known(self.given(name))

    def number(self, name: str) -> Any:
        """Return the value of an argument of one element, as Python's int, float or bool."""
        value = self.value(name)
        self.require(value.size == 1, f"{name} has shape {list(value.shape)}, must have one element")
        return value.reshape(-1)[0].item()

    def whole(self, name: str) -> int:
        """Return an argument as an int."""
        return int(self.number(name))

    def real(self, name: str) -> float:
        """Return an argument as a float."""
        return float(self.number(name))

    def flag(self, name: str) -> bool:
        """Return an argument as a bool."""
        return bool(self.number(name))

    def numbers(self, name: str) -> list[Any]:
        """Return the elements of an argument; none if it is omitted."""
        return list(self.value(name).reshape(-1).tolist()) if self.has(name) else []

    def wholes(self, name: str) -> list[int]:
        """Return the elements of an argument as ints; none if it is omitted."""
        return [int(number) for number in self.numbers(name)]

    def reals(self, name: str) -> list[float]:
        """Return the elements of an argument as floats; none if it is omitted."""
        return [float(number) for number in self.numbers(name)]

    def parameter(self, name: str, default: Any) -> Any:
        """Return an argument in the type of the default; a list that is omitted is empty."""
        if isinstance(default, tuple):
            return tuple(self.reals(name))
        return type(default)(self.number(name))

    def code(self, name: str, kind: Any) -> Any:
        """Return the member of an enumeration whose number an argument holds."""
        return member(kind, self.whole(name), f"{self.operation.place}: {name}")

    @property
    def activation(self) -> Activation:
        """The fused activation; "none" for an operation without the argument fuse_code."""
        return _ACTIVATIONS[self.code("fuse_code", FuseCode)] if self.has("fuse_code") else "none"

    def axis_of(self, name: str = "axis", of: str = "input", more: int = 0) -> int:
        """Return an axis, counted from the front, of the argument `of` with `more` dimensions added."""
        return self.axis(self.whole(name), len(self.shape(of)) + more, name)

    def axes_of(self, name: str = "axes", of: str = "input") -> list[int]:
        """Return axes of the argument `of`, counted from the front."""
        rank = len(self.shape(of))
        return [self.axis(axis, rank, name) for axis in self.wholes(name)]

    def float_of(self, name: str) -> float:
        """Return the number that a known argument stands for, dequantized if it is quantized."""
        scaling, number = self.given(name).type.quantization, self.real(name)
        if scaling is None:
            return number
        return float(np.float32(scaling.scale) * np.float32(number - scaling.zero_point))

    # Tensors

    def shape(self, tensor: str | int) -> tuple[int, ...]:
        """Return the sizes of an argument, or of a tensor."""
        if isinstance(tensor, int):
            return self.builder.shape(tensor)
        return self._operands.shape(self.given(tensor))

    def tensor(self, name: str) -> int:
        """Return the tensor of an argument. Raises InvalidParameter if it is omitted."""
        return self._operands.tensor(self.given(name))

    def optional(self, name: str) -> int | None:
        """Return the tensor of an argument; None if it is omitted."""
        return self.tensor(name) if self.has(name) else None

    def tensors(self, name: str) -> list[int]:
        """Return the tensors of a repeated argument, without omitted ones."""
        return [tensor for tensor in self.operands(name) if tensor is not None]

    def operands(self, name: str) -> list[int | None]:
        """Return the tensors of a repeated argument, None for omitted ones."""
        return [
            None if operand is None else self._operands.tensor(operand)
            for operand in self._bound.inputs[name]
        ]

    def bias(self, weights: str = "filter") -> int | None:
        """Return the tensor of the bias; None if omitted. Quantized, its scale is input scale times weight scale."""
        scalings = [self.given(name).type.quantization for name in ("input", weights)]
        if self.has("bias") and scalings[0] is not None and scalings[1] is not None:
            own = self.given("bias").type
            if own.dtype.kind != "f":
                fault = bias_fault(own.row.dtype, own.quantization, scalings[0], scalings[1])
                self.require(fault is None, str(fault))
        return self.optional("bias")

    def result(self, name: str = "output") -> TensorType:
        """Return the type of an output, without its shape."""
        return self.given(name).type.tensor_type()

    def results(self, *names: str) -> list[TensorType]:
        """Return the types of all operands of some outputs; of all outputs if no names are given."""
        return [
            operand.type.tensor_type()
            for name in names or self._bound.outputs
            for operand in self._bound.outputs[name]
        ]

    @property
    def outputs(self) -> Sequence[str]:
        """The names of the outputs."""
        return [operand.name for operands in self._bound.outputs.values() for operand in operands]

    def kind(self, index: int = 0, dtype: str = "") -> TensorType:
        """Return the type of an output by its place, without its shape."""
        return self.results()[index]

    def small(self, shape: Sequence[int], most: int = 0) -> tuple[int, ...]:
        """Return a shape of any size: the caller's own calls ask for it, not a few bytes of a file."""
        return tuple(shape)

    def in_float_type_of_input(self, tensor: int) -> int:
        """Return floating-point values in the type of the input if that is floating-point too."""
        kind, wanted = self.builder.type(tensor), self.builder.type(self.tensor("input"))
        return self.cast(tensor, wanted.dtype) if kind.real and wanted.real else tensor

    def copied(self, tensor: int) -> int:
        """Return a copy, for an output that would be an input otherwise."""
        held = self.builder.tensors[tensor]
        if held.array is not None:
            return self.constant(held.array, held.type.quantization)
        return self.one("reshape", tensor, self.like(tensor), shape=held.type.shape)

    # Quantized values

    def on_quantized(self, step: Step) -> bool:
        """Return whether any operand or result of a node is quantized; an unscaled type beside a scale is not."""
        return any(kind is not None and kind.quantized for kind in self.all_kinds(step))

    def calculated(self, step: Step) -> tuple[int, ...]:
        """Add a node and return its results, on quantized values if its operator takes them, otherwise on floats."""
        if step.op in _KEEPERS:
            return self._kept(step)
        if step.op in _ONE_SCALE and self._rescales(step):
            return self.by_floats(step)
        return self._computed(step)

    def _computed(self, step: Step) -> tuple[int, ...]:
        if step.op in CONVERTERS or not self.on_quantized(step):
            return self.added(step)
        return (
            self.added(step) if not self._operands.all_in_float and self.takes(step) else self.by_floats(step)
        )

    def _rescales(self, step: Step) -> bool:
        """Return whether the first result has another scale than the first operand."""
        [first] = self.kinds_of(step.inputs[:1])
        return first is not None and first.quantization != step.results[0].quantization

    def _kept(self, step: Step) -> tuple[int, ...]:
        """Add a node whose results have the scale of its first operand, then requantize to the scales of `step`."""
        assert step.inputs[0] is not None
        if (
            step.op in _MAXIMA
            and self._rescales(step)
            and step.parameters.get("activation", "none") != "none"
        ):
            return self.by_floats(step)
        source = self.like(step.inputs[0])
        self.require(
            source.quantization is None or source.quantization.axis is None or step.results[0] == source,
            "the input has a scale per channel; only weights of convolutions and matrix products may",
        )
        elements = 1 if step.op in _MAXIMA else len(step.results)
        same = [source] * elements + list(step.results[elements:])
        numbers = self._computed(step._replace(results=same))
        converted = [
            self.in_type(number, kind) for number, kind in zip(numbers, step.results[:elements], strict=False)
        ]
        return (*converted, *numbers[elements:])

    def in_type(self, tensor: int, kind: TensorType) -> int:
        """Return a tensor in a quantized type: quantized or requantized. A type without scale leaves it as it is."""
        own = self.builder.type(tensor)
        if not kind.quantized or own.quantization == kind.quantization:
            return tensor
        rounding = "truncate" if self._operands.all_in_float else "saturating"
        parameters = {} if own.quantized else {rounding: True}
        return self.added(Step("quantize", [tensor], [kind], parameters))[0]

    def added(self, step: Step) -> tuple[int, ...]:
        """Add a node unchanged. Raises InvalidParameter if a result has other channels than scales."""
        numbers = super().added(step)
        for place, number in enumerate(numbers):
            if place:  # further results are told apart in reports
                self.builder.rename(number, f"{self.name}:{place}")
            kind = self.builder.type(number)
            scaling = kind.quantization
            if scaling is not None and scaling.axis is not None and kind.shape != UNRANKED:
                axis, count = scaling.axis, len(scaling.scales)
                self.require(
                    axis < len(kind.shape) and kind.shape[axis] == count,
                    f"a result has {count} scales along dimension {axis}, and shape {list(kind.shape)}",
                )
        return numbers


Convert = Callable[[Conversion], int | Sequence[int]]
"""A function that adds the nodes of an operation to a graph and returns the tensors of its outputs, or of its only
one."""


@dataclass(frozen=True, slots=True)
class Row:
    """How one operation of NNAdapter is converted.

    type:      its code and name.
    form:      its signature (`npusim.frontends.nnadapter.operation_arguments`); `> output=input` may be left out.
    convert:   the function that adds its nodes.
    ops:       the operators of these nodes, the main one first.
    types:     sets precision and scale of outputs for which the signature does not say them.
    counted:   the output that holds, per image, the number of valid rows of all other outputs; these have room for the
               largest possible number.
    """

    type: OperationType | Custom
    form: str
    convert: Convert
    ops: str
    types: Callable[[Bound], None] = types_of_outputs
    counted: str = ""

    @property
    def operators(self) -> tuple[str, ...]:
        """The operators that its nodes may have, the main one first."""
        return tuple(self.ops.split())

    @property
    def text(self) -> str:
        """The whole signature."""
        return self.form if ">" in self.form else f"{self.form} > output=input"

    @property
    def signature(self) -> Signature:
        """The inputs and outputs of the operation."""
        return signature(self.text)


def plain(type_: OperationType, form: str, op: str = "", **fixed: Any) -> Row:
    """Return the row of an operation that becomes one node: tensors are its operands, parameters its parameters.

    op:    the operator; by default it is called as the operation is.
    fixed: parameters of the operator that the operation has no argument for.
    """
    name = op or type_.name.lower()
    arguments = signature(form).inputs

    def convert(c: Conversion) -> Sequence[int]:
        inputs = [c.optional(argument.name) for argument in arguments if not argument.kind]
        parameters = {
            argument.name: c.axis_of() if argument.name == "axis" else c.number(argument.name)
            for argument in arguments
            if argument.kind
        }
        return c.nodes(name, inputs, c.results(), **fixed, **parameters)

    return Row(type_, form, convert, name)
