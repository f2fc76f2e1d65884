"""Operators that become several NNEF calls, or calls with other operands: transposed windows, norms, blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from npusim.frontends.nnef.call_network import Operand
from npusim.frontends.nnef.export.nnef_export import Convert, Export
from npusim.frontends.rewriting import there
from npusim.frontends.sums import of_sums
from npusim.isa.base.errors import GraphError
from npusim.isa.base.tensor import Quantization as Scaling
from npusim.isa.base.tensor import TensorType
from npusim.kernels.graph.graph import Node, Tensor
from npusim.kernels.graph.layout import permuted_tensor


def of_reals(convert: Convert) -> Convert:
    """Return the conversion of an operator that NNEF defines on floats only; quantized operands are refused."""

    def checked(e: Export, node: Node) -> None:
        if not e.kind(there(node)).real:
            raise GraphError(f"npusim writes no {node.op} of quantized values as NNEF")
        convert(e, node)

    return checked


def bias_of(e: Export, node: Node) -> Operand:
    """Return the bias of a weighted sum as a row; quantized, it gets the scales of the sum instead of its own."""
    number = node.inputs[2] if len(node.inputs) > 2 else None
    if number is None:
        return 0.0
    kind, image, weights = (e.kind(there(node, place)) for place in (2, 0, 1))
    scaling = kind.quantization
    if not kind.real and image.quantization and weights.quantization:
        scaling = of_sums(image.quantization, weights.quantization)
    return row_of_channels(e, number, scaling)


def row_of_channels(e: Export, number: int, scaling: Scaling | None) -> str:
    """Return a vector as a row [1, channels]."""
    tensor = e.graph.tensors[number]
    if scaling is not None and scaling.axis is not None:
        scaling = Scaling(scaling.scales, scaling.zero_points, 1)
    kind = TensorType(tensor.type.dtype, (1, tensor.type.elements), scaling)
    if tensor.array is None:
        name = e.fresh(number, "_row")
        return e.call("reshape", name, kind, e.last(number), shape=list(kind.shape))
    return e.variable(number, Tensor(tensor.name, kind, tensor.data), tensor.array.reshape(kind.shape))


# Windows


def transposed(e: Export, node: Node) -> None:
    """Add deconv with the size of its result, which includes pixels that no window reaches."""
    how: Any = node.parameters
    image, weights = there(node), there(node, 1)
    before, filter_, result = e.kind(image).shape, e.kind(weights).shape, e.kind(node.outputs[0]).shape
    if before[3] != filter_[3]:
        raise GraphError("npusim writes no transposed convolutions in groups as NNEF")
    padding = []
    for axis in range(2):
        first, step = how.padding[axis][0], how.strides[axis]
        covered = (before[1 + axis] - 1) * step + (filter_[1 + axis] - 1) * how.dilations[axis] + 1
        end = covered - first - result[1 + axis]
        if end <= -step:
            raise GraphError("NNEF's size of a result is what windows cover")
        padding.append((first, max(end, 0)))
    e.result(
        node,
        "deconv",
        e.first(image),
        _filter(e, weights),
        bias_of(e, node),
        first=True,
        border="constant",
        padding=padding,
        stride=list(how.strides),
        dilation=list(how.dilations),
        output_shape=[result[axis] for axis in (0, 3, 1, 2)],
    )


def _filter(e: Export, number: int) -> str:
    order = (3, 0, 1, 2)
    tensor = permuted_tensor(e.graph.tensors[number], order)
    if tensor.array is None:
        name = e.fresh(number, "_turned")
        return e.call("transpose", name, tensor.type, e.last(number), axes=list(order))
    return e.variable(number, tensor)


def root_of_mean_squares(e: Export, node: Node) -> None:
    """Add rms_pool."""
    how: Any = node.parameters
    e.result(
        node,
        "rms_pool",
        e.first(there(node)),
        first=True,
        size=[1, 1, *how.filter],
        border="ignore",
        padding=[(0, 0), (0, 0), *(tuple(pair) for pair in how.padding)],
        stride=[1, 1, *how.strides],
    )


# Norms


def norm(e: Export, node: Node) -> None:
    """Add l1_normalization or l2_normalization with a number added to the divisor."""
    how: Any = node.parameters
    name = e.last(there(node))
    e.result(node, f"l{how.p}_normalization", name, axes=list(how.axes), bias=how.epsilon, epsilon=0.0)


_LEAST_NORM = 1e-6


def l2(e: Export, node: Node) -> None:
    """Add l2_normalization, whose divisor is at least a millionth; for quantized values it has no such limit."""
    how: Any = node.parameters
    number = there(node)
    axis = how.axis % len(e.kind(number).shape)
    least = _LEAST_NORM if e.kind(number).real else 0.0
    e.result(node, "l2_normalization", e.last(number), axes=[axis], bias=0.0, epsilon=least)


def batch(e: Export, node: Node) -> None:
    """Add batch_normalization, whose channels are the second axis."""
    how: Any = node.parameters
    number = there(node)
    rank = len(e.kind(number).shape)
    axis = how.axis % rank
    is_first = rank == 4 and axis == 3
    if axis != 1 and not is_first:
        raise GraphError("NNEF's channels are the second axis")
    image = e.first(number) if is_first else e.last(number)
    scale, offset, mean, variance = (row_of_channels(e, there(node, place), None) for place in range(1, 5))
    operands = (image, mean, variance, offset, scale)
    e.result(node, "batch_normalization", *operands, first=is_first, epsilon=how.epsilon)


def local_response(e: Export, node: Node) -> None:
    """Add local_response_normalization over the channels of images, with centred windows."""
    how: Any = node.parameters
    number = there(node)
    rank = len(e.kind(number).shape)
    if how.last_left_out or how.one_more or rank != 4 or how.axis % rank != 3:
        raise GraphError("NNEF's windows of channels are centred")
    size = 2 * how.radius + 1
    e.result(
        node,
        "local_response_normalization",
        e.first(number),
        first=True,
        size=[1, size, 1, 1],
        alpha=how.alpha * size,
        beta=how.beta,
        bias=how.bias,
    )


# Elementwise operators


def clipped(e: Export, node: Node) -> None:
    """Add clamp, or max or min for a single limit."""
    how: Any = node.parameters
    limits = [limit for limit in (how.least, how.most) if limit is not None]
    if not limits:
        raise GraphError("has no limits")
    operation = "clamp" if len(limits) == 2 else "max" if how.most is None else "min"
    e.result(node, operation, e.last(there(node)), *(float(limit) for limit in limits))


def selected(e: Export, node: Node) -> None:
    """Add select, whose operands have one shape."""
    shapes = {e.kind(number).shape for number in node.inputs if number is not None}
    if len(shapes) > 1:
        raise GraphError("npusim writes a choice by rows as no NNEF")
    e.result(node, "select", *(e.last(there(node, place)) for place in range(3)))


def exclusive_or(e: Export, node: Node) -> None:
    """Add exclusive or: one and not the other, or the reverse."""
    result = node.outputs[0]
    kind, names = e.kind(result), [e.last(there(node, place)) for place in range(2)]
    parts = []
    for first, second in (names, reversed(names)):
        other = e.call("not", e.fresh(result, "_not"), kind, second)
        parts.append(e.call("and", e.fresh(result, "_and"), kind, first, other))
    e.result(node, "or", *parts)


def summed(e: Export, node: Node) -> None:
    """Add operands one after the other."""
    numbers = [number for number in node.inputs if number is not None]
    total, result = e.last(numbers[0]), node.outputs[0]
    for number in numbers[1:-1]:
        total = e.call("add", e.fresh(result, "_part"), e.kind(result), total, e.last(number))
    if len(numbers) == 1:
        raise GraphError("NNEF has no sum of one operand")
    e.result(node, "add", total, e.last(numbers[-1]))


def squared_difference(e: Export, node: Node) -> None:
    result = node.outputs[0]
    operands = (e.last(there(node, place)) for place in range(2))
    difference = e.call("sub", e.fresh(result, "_difference"), e.kind(result), *operands)
    e.result(node, "sqr", difference)


# Parts of tensors


def unpacked(e: Export, node: Node) -> None:
    """Add unstack."""
    how: Any = node.parameters
    number = there(node)
    names = []
    for output in node.outputs:
        names.append(e.fresh(output))
        e.note(names[-1], e.kind(output))
        e.lasts[output] = names[-1]
    kinds = [e.kind(output) for output in node.outputs]
    axis = how.axis % len(e.kind(number).shape)
    e.calls_of_several("unstack", names, kinds, e.last(number), axis=axis)


def repeated(e: Export, node: Node) -> None:
    """Add tile of a tensor that gets as many axes."""
    number, result = there(node), node.outputs[0]
    own, wide = e.kind(number), e.kind(result).shape
    shape, name = (1,) * (len(wide) - len(own.shape)) + own.shape, e.last(number)
    if shape != own.shape:
        kind = TensorType(own.dtype, shape, own.quantization)
        name = e.call("reshape", e.fresh(number, "_axes"), kind, name, shape=list(shape))
    repeats = [after if before == 1 else 1 for before, after in zip(shape, wide, strict=True)]
    e.result(node, "tile", name, repeats=repeats)


def in_blocks(apart: Callable[[Any, tuple[int, ...]], list[int]]) -> Convert:
    """Return the conversion of blocks of images: a reshape into blocks, and a transpose."""

    def convert(e: Export, node: Node) -> None:
        number, result = there(node), node.outputs[0]
        own, stem = e.kind(number), e.kind(result)
        sizes, order = apart(node.parameters, own.shape), [0, 1, 3, 2, 4, 5]
        cut = TensorType(own.dtype, tuple(sizes), own.quantization)
        turned = TensorType(own.dtype, tuple(sizes[axis] for axis in order), own.quantization)
        name = e.call("reshape", e.fresh(result, "_cut"), cut, e.last(number), shape=sizes)
        name = e.call("transpose", e.fresh(result, "_turned"), turned, name, axes=order)
        e.result(node, "reshape", name, shape=list(stem.shape))

    return convert


def _deep(how: Any, shape: tuple[int, ...]) -> list[int]:
    batch_, height, width, depth = shape
    return [batch_, height, width, how.block_size, how.block_size, depth // how.block_size**2]


def _wide(how: Any, shape: tuple[int, ...]) -> list[int]:
    batch_, height, width, depth = shape
    size = how.block_size
    return [batch_, height // size, size, width // size, size, depth]


PARTS: dict[str, Convert] = {
    "add_n": summed,
    "batch_normalization": of_reals(batch),
    "broadcast_to": repeated,
    "clip": of_reals(clipped),
    "depth_to_space": in_blocks(_deep),
    "l2_normalization": l2,
    "l2_pool_2d": of_reals(root_of_mean_squares),
    "local_response_normalization": of_reals(local_response),
    "logical_xor": exclusive_or,
    "lp_normalization": of_reals(norm),
    "select": selected,
    "space_to_depth": in_blocks(_wide),
    "squared_difference": of_reals(squared_difference),
    "transpose_conv": transposed,
    "unpack": unpacked,
}
"""The conversions of these operators."""
