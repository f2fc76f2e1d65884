"""Defines `Conversion`, which turns one operation of a model into nodes of a graph.

The front ends for ONNX, Paddle, NNEF and NNAdapter each derive their own class from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any, NamedTuple

import numpy as np

from npusim.isa.base.errors import GraphError
from npusim.isa.base.tensor import Array, Quantization, TensorType
from npusim.kernels.graph.builder import GraphBuilder, unshaped
from npusim.kernels.graph.graph import call_of
from npusim.kernels.graph.taking import takes
from npusim.kernels.operator.element_types import dequantize_values
from npusim.kernels.table import operator

MOST_MADE = 1 << 26
"""Elements of the largest tensor that a run makes because a few bytes of a file ask for it."""

MOST_COPIED = 1 << 20
"""Elements of the largest constant that is copied to put its axes in another order."""

MOST_CONSTANT = 1 << 24
"""Elements of the largest constant that reading a file makes."""

CONVERTERS = ("quantize", "dequantize")
"""Operators between quantized and floating-point values, which take both."""

Kinds = list[TensorType | None]
"""Types of operands, None for those that are left out."""


class Step(NamedTuple):
    """A node that is to be added to a graph.

    op:         its operator.
    inputs:     the tensors of its operands, None for one that is left out.
    results:    the types of its results; their shapes follow from the operands.
    parameters: the parameters of the operator by name.
    """

    op: str
    inputs: Sequence[int | None]
    results: Sequence[TensorType]
    parameters: Mapping[str, Any]


class Conversion:
    """The conversion of one operation of a model into nodes of a graph.

    Forms (windows, convolutions, pools, moves ...) add nodes through it and know no format. A subclass per front end
    says where operands come from, which types results have, how errors read (`fault`), and what happens to quantized
    values that an operator does not take (`calculated`, `takes`, `in_type`).
    """

    builder: GraphBuilder

    # What a front end says

    @property
    def name(self) -> str:
        """The name of the nodes."""
        raise NotImplementedError

    def fault(self, text: str) -> Exception:
        """Return the error of the front end for this operation."""
        raise NotImplementedError

    def tensor(self, name: str) -> int:
        """Return the tensor of an argument."""
        raise NotImplementedError

    def parameter(self, name: str, default: Any) -> Any:
        """Return a parameter of the operation, in the type of the default (bool, int, float or tuple)."""
        raise NotImplementedError

    @property
    def outputs(self) -> Sequence[str]:
        """The names of the results, "" for one that is left out."""
        raise NotImplementedError

    def kind(self, index: int = 0, dtype: str = "float32") -> TensorType:
        """Return the type of a result of the operation, without its shape; `dtype` if the model does not state it."""
        raise NotImplementedError

    def result_of(self, inputs: Sequence[int | None]) -> TensorType:
        """Return the type of the operation's only result, computed from these operands."""
        return self.kind()

    @property
    def sums_stay(self) -> bool:
        """Whether the result is the int32 accumulator itself."""
        return False

    # Checks and types

    def require(self, holds: bool, text: str) -> None:
        """Raise the front end's error with a text unless something holds."""
        if not holds:
            raise self.fault(text)

    def shape(self, tensor: str | int) -> tuple[int, ...]:
        """Return the shape of a tensor, or of an argument."""
        return self.builder.shape(self.tensor(tensor) if isinstance(tensor, str) else tensor)

    def kinds_of(self, inputs: Sequence[int | None]) -> Kinds:
        """Return the types of operands."""
        return [None if number is None else self.builder.type(number) for number in inputs]

    def axis(self, axis: int, rank: int, name: str = "axis") -> int:
        """Return an axis counted from the front. Raises the front end's error for one beyond the rank."""
        self.require(-rank <= axis < rank, f"{name} is {axis}, must be {-rank}..{rank - 1}")
        return axis % rank

    def small(self, shape: Sequence[int], most: int = MOST_MADE) -> tuple[int, ...]:
        """Return a shape. Raises the front end's error for one of more elements than npusim makes for a model."""
        self.require(
            min(shape, default=0) >= 0 and prod(shape) <= most,
            f"makes a tensor of shape {list(shape)}, and npusim makes {most:,} elements at most",
        )
        return tuple(shape)

    def like(self, tensor: int) -> TensorType:
        """Return the type of a tensor without its shape."""
        kind = self.builder.type(tensor)
        return unshaped(kind.dtype, kind.quantization)

    def reshaped(self, tensor: int, shape: Sequence[int]) -> int:
        """Return a tensor under another shape; a constant becomes another constant."""
        held, shape = self.builder.tensors[tensor], tuple(shape)
        if shape == held.type.shape:
            return tensor
        kind = _reshaped_scales(self.like(tensor), held.type.shape, shape)
        if held.array is not None and held.array.size == prod(shape):
            return self.constant(held.array.reshape(shape), kind.quantization)
        return self.one("reshape", tensor, kind, shape=shape)

    def transposed(self, tensor: int, perm: Sequence[int]) -> int:
        """Return a tensor with its axes in another order; a constant becomes another constant."""
        if list(perm) == sorted(perm):
            return tensor
        held, kind = self.builder.tensors[tensor], self.like(tensor)
        scaling = kind.quantization
        if scaling is not None and scaling.axis is not None:
            scaling = replace(scaling, axis=list(perm).index(scaling.axis))
        if held.array is not None:
            return self.constant(held.array.transpose(perm), scaling)
        return self.one("transpose", tensor, replace(kind, quantization=scaling), perm=tuple(perm))

    def as_real(self, tensor: int) -> int:
        """Return a tensor dequantized, f32(f32(q - zero point) * scale), if it is quantized; constants too."""
        held = self.builder.tensors[tensor]
        if held.type.quantization is None:
            return tensor
        if held.array is not None:
            return self.constant(dequantize_values(held.array, held.type))
        return self.one("dequantize", tensor, unshaped("float32"))

    # Constants

    def constant(self, data: Array, quantization: Quantization | None = None) -> int:
        """Add a constant and return it."""
        # A transposed view of a large constant is kept, because its bytes may be mapped and never read.
        array: Array = data if data.size > MOST_COPIED else np.asarray(data, order="C")
        return self.builder.constant(f"{self.name}/constant", array, quantization)

    def scalar(self, value: float, like: int) -> int:
        """Add a constant number of the element type of a tensor and return it."""
        return self.constant(np.array(value, self.builder.type(like).numpy_dtype))

    def filled(self, shape: Sequence[int], value: Any, dtype: str = "float32") -> int:
        """Add a constant with one value everywhere and return it. Raises the front end's error for a large one."""
        count = prod(self.small(shape, MOST_CONSTANT))
        self.require(
            self.builder.afford(count), f"makes {count:,} elements more than npusim makes of one file"
        )
        return self.constant(np.full(tuple(shape), value, np.dtype(dtype)))

    # Nodes

    def cast(self, tensor: int, dtype: str) -> int:
        """Return the same numbers in another element type."""
        if self.builder.type(tensor).dtype == dtype:
            return tensor
        return self.added(Step("cast", [tensor], [unshaped(dtype)], {}))[0]

    def one(self, op: str, tensor: int, kind: TensorType, **parameters: Any) -> int:
        """Add a node of one operand and one result of this type, and return the result."""
        return self.nodes(op, [tensor], [kind], **parameters)[0]

    def node(
        self, op: str, inputs: Sequence[int | None], kind: TensorType | None = None, **parameters: Any
    ) -> int:
        """Add a node with one result and return it; its type, if not stated, is that of the operation's result."""
        return self.nodes(op, inputs, [self.result_of(inputs) if kind is None else kind], **parameters)[0]

    def step(self, op: str, inputs: Sequence[int | None], dtype: str | None = None, **parameters: Any) -> int:
        """Add a node on the way to a result and return its result, which is not quantized.

        dtype: its element type, if that is not the first operand's.
        """
        if dtype is None:
            dtype = next(self.builder.type(number).dtype for number in inputs if number is not None)
        return self.nodes(op, inputs, [unshaped(dtype)], **parameters)[0]

    def nodes(
        self, op: str, inputs: Sequence[int | None], results: Sequence[TensorType], **parameters: Any
    ) -> tuple[int, ...]:
        """Add a node and return its results, quantized values handled as the front end does (`calculated`)."""
        return self.calculated(Step(op, inputs, results, parameters))

    # Quantized values

    def on_quantized(self, step: Step) -> bool:
        """Return whether any operand or result of a node is quantized."""
        return any(kind is not None and kind.quantization is not None for kind in self.all_kinds(step))

    def calculated(self, step: Step) -> tuple[int, ...]:
        """Add a node and return its results: on quantized values if the operator takes these, otherwise on floats."""
        return self.added(step) if not self.on_quantized(step) or self.takes(step) else self.by_floats(step)

    def takes(self, step: Step) -> bool:
        """Return whether the operator of a node takes these quantized values."""
        return takes(step.op, self.kinds_of(step.inputs), step.results, step.parameters)

    def by_floats(self, step: Step) -> tuple[int, ...]:
        """Dequantize the operands of a node, add it in float32, quantize its results and return these."""
        floats = [None if number is None else self.as_real(number) for number in step.inputs]
        wide = [unshaped("float32") if kind.quantization is not None else kind for kind in step.results]
        numbers = self.added(step._replace(inputs=floats, results=wide))
        return tuple([self.in_type(number, kind) for number, kind in zip(numbers, step.results, strict=True)])

    def in_type(self, tensor: int, kind: TensorType) -> int:
        """Return a tensor converted to a type: quantized, requantized, or as it is."""
        raise NotImplementedError

    def added(self, step: Step) -> tuple[int, ...]:
        """Add a node unchanged and return its results. Raises the front end's error if its operator refuses it."""
        builder = self.builder
        outputs = tuple([builder.tensor(self.name, kind) for kind in step.results])
        try:
            parameters = operator(step.op).parameters(**step.parameters)
            node = builder.add(step.op, step.inputs, outputs, parameters, name=self.name)
            if builder.nodes and builder.nodes[-1] is node:
                self.remember(outputs)
            call = call_of(builder, node)
            if all(kind is None or min(kind.shape, default=0) >= 0 for kind in call.inputs):
                broken = operator(node.op).broken_rule(call)
                self.require(broken is None, self.broken_rule(node.op, str(broken)))
        except GraphError as fault:
            raise self.located(fault) from None
        return outputs

    def remember(self, outputs: Sequence[int]) -> None:
        """Take note of the results of the node that was added last. Overridden by front ends that need it."""

    def broken_rule(self, op: str, rule: str) -> str:
        """Return the text of the error for a rule that an operator states and a node breaks."""
        return f"{op}: {rule}"

    def located(self, fault: GraphError) -> Exception:
        """Return an error of the graph as one of the front end, with the operation's place."""
        return self.fault(str(fault))

    def all_kinds(self, step: Step) -> Kinds:
        """Return the types of the operands and results of a node."""
        return [*self.kinds_of(step.inputs), *step.results]


def _reshaped_scales(kind: TensorType, own: Sequence[int], shape: Sequence[int]) -> TensorType:
    """Return a type whose scales per channel follow a reshape that adds or drops axes of extent 1.

    If the channels are no axis of the new shape, the type is returned unchanged, and the operator's rules report the
    fault.
    """
    scaling = kind.quantization
    if scaling is None or scaling.axis is None:
        return kind
    before = prod(own[: scaling.axis])
    for axis, extent in enumerate(shape):
        if extent == len(scaling.scales) and prod(shape[:axis]) == before:
            return replace(kind, quantization=replace(scaling, axis=axis))
    return kind
