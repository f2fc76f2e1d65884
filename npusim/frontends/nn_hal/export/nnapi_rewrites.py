"""Rewrites of operators that NNAPI does not have, or has with other parameters. The results keep their bytes."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from npusim.frontends.rewriting import (
    COMPARING,
    LIMITS,
    Rewrite,
    Rewriting,
    axes_from_front,
    last_axis,
    plain_slice,
    resolved,
    strided_slice,
)
from npusim.frontends.written_layers import Layer
from npusim.isa.base.errors import GraphError
from npusim.isa.base.tensor import Array
from npusim.kernels.graph.graph import Graph, Tensor
from npusim.kernels.operator.geometry import covered
from npusim.kernels.operator.parameters import NO_BORDERS
from npusim.kernels.table import operator

_CHOOSING = ("maximum", "minimum", "select")


def in_tensors(graph: Graph) -> Graph:
    """Return the graph with one axis for constants that have none, and without the unused scales of int32 tensors."""
    return replace(graph, tensors=tuple(map(_in_one_axis, graph.tensors)))


def _in_one_axis(tensor: Tensor) -> Tensor:
    kind, data = tensor.type, tensor.data
    if kind.dtype == "int32" and kind.quantization is not None:
        kind = replace(kind, quantization=None)
    if not kind.shape and tensor.array is not None:
        kind, data = replace(kind, shape=(1,)), tensor.array.reshape(1)
    return replace(tensor, type=kind, data=data)


# Values


def _by_value(to: Rewriting, n: Layer) -> None:
    """Compare real values as NNAPI does, if that is the same as comparing quantized values: all have one scale."""
    numbers = [number for number in (*n.inputs, *n.outputs) if number is not None]
    scalings = {to.type(number).quantization for number in numbers} - {None}
    to.changed(n, by_value=len(scalings) <= 1 or n.params.by_value)


def _selected(to: Rewriting, n: Layer) -> None:
    """Require operands of one shape, as NNAPI's SELECT does."""
    shapes = {to.shape(number) for number in n.given}
    if len(shapes) > 1:
        raise GraphError("NNAPI's SELECT has operands of one shape")
    parameters = operator("select").parameters(by_value=getattr(n.params, "by_value", False))
    _by_value(to, Layer(to, replace(n.node, op="select", parameters=parameters)))


def _exclusive_or(to: Rewriting, n: Layer) -> None:
    to.become(n, "not_equal", by_value=True)


def _clip(to: Rewriting, n: Layer) -> None:
    op = LIMITS.get((n.params.least, n.params.most))
    if op is None:
        raise GraphError(f"NNAPI has no limits {n.params.least} and {n.params.most}")
    to.become(n, op)


def _unit(to: Rewriting, n: Layer) -> None:
    """Write the limits 0 and 1 as RELU, then MINIMUM with 1."""
    if not n.kind.real:
        raise GraphError("NNAPI has no limits 0 and 1 of quantized values")
    positive = to.made("relu", n.inputs, n.kind, f"{n.name}/relu")
    one = to.constant(f"{n.name}/one", np.ones(1, n.kind.numpy_dtype))
    to.become(n, "minimum", (positive, one), by_value=True)


def _top(to: Rewriting, n: Layer) -> None:
    if not n.params.last_first:
        raise GraphError("of equal elements NNAPI's TOPK_V2 has the last first, not the first")
    last_axis(to, n)


def _cast(to: Rewriting, n: Layer) -> None:
    """Cast with saturation, as NNAPI does for integers."""
    source, result = n.kind, n.wanted
    whole = ("signed", "unsigned")
    is_narrower = (
        source.element.kind in whole
        and result.element.kind in whole
        and source.dtype not in (result.dtype, "bool")
    )
    is_same = not is_narrower or (source.dtype == "uint8" and result.dtype == "int32")
    to.changed(n, saturating=is_same or n.params.saturating)


def _quotient(to: Rewriting, n: Layer) -> None:
    if n.kind.dtype != "int32":
        raise GraphError("NNAPI has no quotients that are rounded downwards but those of int32")
    to.keep_node(n)


def _square(to: Rewriting, n: Layer) -> None:
    if not n.kind.real:
        raise GraphError("NNAPI has no squares of quantized values")
    to.become(n, "mul", (n[0], n[0]))


def _squared_difference(to: Rewriting, n: Layer) -> None:
    if not n.wanted.real:
        raise GraphError("NNAPI has no squared differences of quantized values")
    difference = to.made("sub", n.inputs, n.wanted, f"{n.name}/difference")
    to.become(n, "mul", (difference, difference))


def _leaky(to: Rewriting, n: Layer) -> None:
    """Write LEAKY_RELU as PRELU with one slope."""
    if not n.kind.real:
        raise GraphError("NNAPI has no LEAKY_RELU of quantized values")
    slope = to.constant(f"{n.name}/alpha", np.array([n.params.alpha], n.kind.numpy_dtype))
    to.become(n, "prelu", (n[0], slope))


# Windows and products


def _biased(to: Rewriting, n: Layer) -> None:
    """Add a bias of zeros, which NNAPI requires."""
    to.keep_node(n, inputs=_with_bias(to, n))


def _with_bias(to: Rewriting, n: Layer) -> tuple[int | None, ...]:
    if len(n.inputs) > 2 and n.inputs[2] is not None:
        return n.inputs
    channels, kind = n.wanted.shape[-1], n.kind
    data: Array = np.zeros(channels, kind.numpy_dtype if kind.real else np.int32)
    return (*n.inputs[:2], to.constant(f"{n.name}/bias", data))


def _vectors(to: Rewriting, n: Layer) -> None:
    """Write the product of vectors as FULLY_CONNECTED with a matrix as its result, and a reshape of that."""
    result, plain, inputs = n.wanted, n.params.changed(keep_num_dims=False), _with_bias(to, n)
    rows = (prod(result.shape[:-1]), result.shape[-1])
    if rows == result.shape:
        to.keep_node(n, inputs=inputs, parameters=plain)
        return
    [vectors] = to.node(n.op, inputs, [replace(result, shape=rows)], plain, name=f"{n.name}/rows")
    to.become(n, "reshape", (vectors,), shape=result.shape)


def _transposed(to: Rewriting, n: Layer) -> None:
    """Compute the paddings below and to the right from how far windows reach beyond the result."""
    image, weights, result = n.kind, n.kind_of(1), n.wanted
    sides = []
    for axis in range(2):
        before = n.params.padding[axis][0]
        reached = covered(image.shape[1 + axis], weights.shape[1 + axis], n.params.strides[axis])
        sides.append((before, reached - before - result.shape[1 + axis]))
    if min(end for _, end in sides) >= 0:
        padding = tuple(sides)
    elif n.params.padding[0][0] or n.params.padding[1][0]:
        raise GraphError("NNAPI's result of a transposed convolution is what windows reach")
    else:
        padding = NO_BORDERS
    to.changed(n, _with_bias(to, n), padding=padding, size=result.shape[1:3])


# Moves


def _reshaped(to: Rewriting, n: Layer) -> None:
    to.become(n, "reshape", shape=n.wanted.shape)


def _unpacked(to: Rewriting, n: Layer) -> None:
    """Write UNPACK as SPLIT into parts of one element, and a reshape of each part."""
    axis = n.axis
    part = replace(n.kind, shape=(*n.shape[:axis], 1, *n.shape[axis + 1 :]))
    sizes = operator("split").parameters(axis=axis, sizes=(1,) * len(n.outputs))
    parts = to.node("split", n.inputs, [part] * len(n.outputs), sizes, name=f"{n.name}/parts")
    for number, piece in zip(n.outputs, parts, strict=True):
        to.become(n, "reshape", [piece], [number], shape=to.shape(number))


def _split(to: Rewriting, n: Layer) -> None:
    """Write parts of different sizes as slices."""
    if len(set(n.params.sizes)) == 1:
        resolved(to, n)
        return
    shape, axis, first = n.shape, n.axis, 0
    for number, size in zip(n.outputs, n.params.sizes, strict=True):
        begin = tuple(first if place == axis else 0 for place in range(len(shape)))
        to.become(n, "slice", n.inputs, [number], begin=begin, size=to.shape(number))
        first += size


def _repeated(to: Rewriting, n: Layer) -> None:
    """Write BROADCAST_TO as TILE."""
    kind, result = n.kind, n.wanted
    shape = (1,) * (len(result.shape) - len(kind.shape)) + kind.shape
    inputs = n.inputs
    if shape != kind.shape:
        inputs = (to.made("reshape", inputs, replace(kind, shape=shape), f"{n.name}/axes", shape=shape),)
    multiples = tuple(wide if size == 1 else 1 for size, wide in zip(shape, result.shape, strict=True))
    to.become(n, "tile", inputs, multiples=multiples)


def _reversed(to: Rewriting, n: Layer) -> None:
    """Reverse one axis after the other."""
    axes, image = sorted({axis % len(n.shape) for axis in n.params.axes}), n[0]
    for axis in axes[:-1]:
        image = to.made("reverse_v2", [image], n.kind, f"{n.name}/{axis}", axes=(axis,))
    to.changed(n, inputs=(image,), axes=tuple(axes[-1:]))


def _summed(to: Rewriting, n: Layer) -> None:
    """Add one operand after the other."""
    if len(n.given) < 2:
        raise GraphError("NNAPI has no sum of one operand")
    total = n.given[0]
    for number in n.given[1:-1]:
        total = to.made("add", [total, number], n.wanted, f"{n.name}/sum")
    to.become(n, "add", (total, n.given[-1]))


def _blocks(to: Rewriting, n: Layer) -> None:
    """Write the crops of BATCH_TO_SPACE_ND, which NNAPI does not have, as a slice."""
    if not any(sum(pair) for pair in n.params.crops):
        to.keep_node(n)
        return
    kind, result = n.kind, n.wanted
    sizes = (size * parts for size, parts in zip(kind.shape[1:], n.params.block_shape, strict=False))
    rest = kind.shape[1 + len(n.params.block_shape) :]
    whole = replace(result, shape=(result.shape[0], *sizes, *rest))
    plain = n.params.changed(crops=((0, 0),) * len(n.params.crops))
    [image] = to.node(n.op, n.inputs, [whole], plain, name=f"{n.name}/whole")
    begin = (0, *(pair[0] for pair in n.params.crops), *(0,) * len(rest))
    to.become(n, "slice", (image,), begin=begin, size=result.shape)


REWRITES: dict[str, Rewrite] = {
    **dict.fromkeys((*COMPARING, *_CHOOSING[:2]), _by_value),
    **dict.fromkeys(("select", "select_v2"), _selected),
    **dict.fromkeys(("conv_2d", "depthwise_conv_2d"), _biased),
    **dict.fromkeys(
        ("mean", "sum", "reduce_max", "reduce_min", "reduce_prod", "reduce_all", "reduce_any"),
        axes_from_front,
    ),
    "add_n": _summed,
    "batch_to_space_nd": _blocks,
    "broadcast_to": _repeated,
    "cast": _cast,
    "floor_div": _quotient,
    "fully_connected": _vectors,
    "leaky_relu": _leaky,
    "clip": _clip,
    "logical_xor": _exclusive_or,
    "relu_0_to_1": _unit,
    "topk_v2": _top,
    "reshape": _reshaped,
    "reverse_v2": _reversed,
    "slice": plain_slice,
    "split": _split,
    "square": _square,
    "squared_difference": _squared_difference,
    "squeeze": _reshaped,
    "strided_slice": strided_slice,
    "transpose_conv": _transposed,
    "unpack": _unpacked,
}
"""The rewrite of each operator. Operators without one only get their axes counted from the front."""
