"""Operators that become several NNEF calls, or calls with other operands: transposed windows, norms, blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from npusim.frontends.bias_scales import of_sums
from npusim.frontends.nnef.call_network import Operand
from npusim.frontends.nnef.export.nnef_export import Convert, Export
from npusim.frontends.written_layers import Layer
from npusim.isa.base.errors import GraphError
from npusim.isa.base.tensor import Quantization as Scaling
from npusim.isa.base.tensor import TensorType
from npusim.kernels.graph.graph import Tensor
from npusim.kernels.graph.layout import permuted_tensor
from npusim.kernels.operator.geometry import covered


def of_reals(convert: Convert) -> Convert:
    """Return the conversion of an operator that NNEF defines on floats only; quantized operands are refused."""

    def checked(e: Export, n: Layer) -> None:
        if not e.kind(n[0]).real:
            raise GraphError(f"npusim writes no {n.op} of quantized values as NNEF")
        convert(e, n)

    return checked


def bias_of(e: Export, n: Layer) -> Operand:
    """Return the bias of a weighted sum as a row; quantized, it gets the scales of the sum instead of its own."""
    number = n.inputs[2] if len(n.inputs) > 2 else None
    if number is None:
        return 0.0
    kind, image, weights = (e.kind(n[place]) for place in (2, 0, 1))
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


def transposed(e: Export, n: Layer) -> None:
    """Add deconv with the size of its result, which includes pixels that no window reaches."""
    params, filter_, result = n.params, e.shape(n[1]), e.shape(n.result)
    if n.shape[3] != filter_[3]:
        raise GraphError("npusim writes no transposed convolutions in groups as NNEF")
    padding = []
    for axis in range(2):
        first, step = params.padding[axis][0], params.strides[axis]
        reached = covered(n.shape[1 + axis], filter_[1 + axis], step, params.dilations[axis])
        end = reached - first - result[1 + axis]
        if end <= -step:
            raise GraphError("NNEF's size of a result is what windows cover")
        padding.append((first, max(end, 0)))
    steps: dict[str, Any] = {"border": "constant", "padding": padding, "stride": list(params.strides)}
    steps |= {"dilation": list(params.dilations), "output_shape": [result[axis] for axis in (0, 3, 1, 2)]}
    operands = (e.first(n[0]), filter_of(e, n[1], (3, 0, 1, 2)), bias_of(e, n))
    e.result(n, "deconv", *operands, first=True, **steps)


def filter_of(e: Export, number: int, order: tuple[int, ...]) -> str:
    """Return weights in another order of their axes."""
    tensor = permuted_tensor(e.graph.tensors[number], order)
    if tensor.array is None:
        return e.call("transpose", e.fresh(number, "_turned"), tensor.type, e.last(number), axes=list(order))
    return e.variable(number, tensor)


def root_of_mean_squares(e: Export, n: Layer) -> None:
    """Add rms_pool."""
    e.result(
        n,
        "rms_pool",
        e.first(n[0]),
        first=True,
        size=[1, 1, *n.params.filter],
        border="ignore",
        padding=[(0, 0), (0, 0), *(tuple(pair) for pair in n.params.padding)],
        stride=[1, 1, *n.params.strides],
    )


# Norms


def norm(e: Export, n: Layer) -> None:
    """Add l1_normalization or l2_normalization with a number added to the divisor."""
    name = e.last(n[0])
    e.result(
        n, f"l{n.params.p}_normalization", name, axes=list(n.params.axes), bias=n.params.epsilon, epsilon=0.0
    )


_LEAST_NORM = 1e-6


def l2(e: Export, n: Layer) -> None:
    """Add l2_normalization, whose divisor is at least a millionth; for quantized values it has no such limit."""
    axis = n.axis
    least = _LEAST_NORM if e.kind(n[0]).real else 0.0
    e.result(n, "l2_normalization", e.last(n[0]), axes=[axis], bias=0.0, epsilon=least)


def batch(e: Export, n: Layer) -> None:
    """Add batch_normalization, whose channels are the second axis."""
    rank = len(n.shape)
    axis = n.params.axis % rank
    is_first = rank == 4 and axis == 3
    if axis != 1 and not is_first:
        raise GraphError("NNEF's channels are the second axis")
    image = e.first(n[0]) if is_first else e.last(n[0])
    scale, offset, mean, variance = (row_of_channels(e, n[place], None) for place in range(1, 5))
    operands = (image, mean, variance, offset, scale)
    e.result(n, "batch_normalization", *operands, first=is_first, epsilon=n.params.epsilon)


def local_response(e: Export, n: Layer) -> None:
    """Add local_response_normalization over the channels of images, with centred windows."""
    rank = len(n.shape)
    if n.params.last_left_out or n.params.one_more or rank != 4 or n.params.axis % rank != 3:
        raise GraphError("NNEF's windows of channels are centred")
    size = 2 * n.params.radius + 1
    e.result(
        n,
        "local_response_normalization",
        e.first(n[0]),
        first=True,
        size=[1, size, 1, 1],
        alpha=n.params.alpha * size,
        beta=n.params.beta,
        bias=n.params.bias,
    )


# Elementwise operators


def clipped(e: Export, n: Layer) -> None:
    """Add clamp, or max or min for a single limit."""
    limits = [limit for limit in (n.params.least, n.params.most) if limit is not None]
    if not limits:
        raise GraphError("has no limits")
    operation = "clamp" if len(limits) == 2 else "max" if n.params.most is None else "min"
    e.result(n, operation, e.last(n[0]), *(float(limit) for limit in limits))


def selected(e: Export, n: Layer) -> None:
    """Add select, whose operands have one shape."""
    shapes = {e.shape(number) for number in n.given}
    if len(shapes) > 1:
        raise GraphError("npusim writes a choice by rows as no NNEF")
    e.result(n, "select", *(e.last(n[place]) for place in range(3)))


def exclusive_or(e: Export, n: Layer) -> None:
    """Add exclusive or: one and not the other, or the reverse."""
    kind, names, parts = e.kind(n.result), [e.last(n[0]), e.last(n[1])], []
    for first, second in (names, reversed(names)):
        other = e.call("not", e.fresh(n.result, "_not"), kind, second)
        parts.append(e.call("and", e.fresh(n.result, "_and"), kind, first, other))
    e.result(n, "or", *parts)


def summed(e: Export, n: Layer) -> None:
    """Add operands one after the other."""
    total = e.last(n.given[0])
    for number in n.given[1:-1]:
        total = e.call("add", e.fresh(n.result, "_part"), e.kind(n.result), total, e.last(number))
    if len(n.given) == 1:
        raise GraphError("NNEF has no sum of one operand")
    e.result(n, "add", total, e.last(n.given[-1]))


def squared_difference(e: Export, n: Layer) -> None:
    """Add the square of a difference."""
    operands = e.last(n[0]), e.last(n[1])
    difference = e.call("sub", e.fresh(n.result, "_difference"), e.kind(n.result), *operands)
    e.result(n, "sqr", difference)


# Parts of tensors


def repeated(e: Export, n: Layer) -> None:
    """Add tile of a tensor that gets as many axes."""
    own, wide = e.kind(n[0]), e.shape(n.result)
    shape, name = (1,) * (len(wide) - len(own.shape)) + own.shape, e.last(n[0])
    if shape != own.shape:
        kind = TensorType(own.dtype, shape, own.quantization)
        name = e.call("reshape", e.fresh(n[0], "_axes"), kind, name, shape=list(shape))
    repeats = [after if before == 1 else 1 for before, after in zip(shape, wide, strict=True)]
    e.result(n, "tile", name, repeats=repeats)


def in_blocks(apart: Callable[[Any, tuple[int, ...]], list[int]]) -> Convert:
    """Return the conversion of blocks of images: a reshape into blocks, and a transpose."""

    def convert(e: Export, n: Layer) -> None:
        own, stem = e.kind(n[0]), e.kind(n.result)
        sizes, order = apart(n.params, own.shape), [0, 1, 3, 2, 4, 5]
        cut = TensorType(own.dtype, tuple(sizes), own.quantization)
        turned = TensorType(own.dtype, tuple(sizes[axis] for axis in order), own.quantization)
        name = e.call("reshape", e.fresh(n.result, "_cut"), cut, e.last(n[0]), shape=sizes)
        name = e.call("transpose", e.fresh(n.result, "_turned"), turned, name, axes=order)
        e.result(n, "reshape", name, shape=list(stem.shape))

    return convert


def _deep(params: Any, shape: tuple[int, ...]) -> list[int]:
    batch_, height, width, depth = shape
    return [batch_, height, width, params.block_size, params.block_size, depth // params.block_size**2]


def _wide(params: Any, shape: tuple[int, ...]) -> list[int]:
    batch_, height, width, depth = shape
    size = params.block_size
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
    "unpack": lambda e, n: e.results(n, "unstack", axis=n.axis),
}
"""The conversions of these operators."""
