"""Rewrites of operators that NNAPI does not have, or has with other parameters. The results keep their bytes."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from npusim.frontends.rewriting import (
    COMPARING,
    LIMITS,
    Rewrite,
    Rewriting,
    plain_slice,
    reduction,
    resolved,
    strided_slice,
)
from npusim.frontends.written_layers import there
from npusim.isa.base.errors import GraphError
from npusim.isa.base.tensor import Array
from npusim.kernels.graph.graph import Graph, Node, Tensor
from npusim.kernels.operator.parameters import NO_BORDERS, NONE
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


def _by_value(to: Rewriting, node: Node) -> None:
    """Compare real values as NNAPI does, if that is the same as comparing quantized values: all have one scale."""
    numbers = [number for number in (*node.inputs, *node.outputs) if number is not None]
    scalings = {to.type(number).quantization for number in numbers} - {None}
    how: Any = node.parameters
    is_alike = len(scalings) <= 1
    to.keep_node(node, parameters=how.changed(by_value=True) if is_alike else how)


def _selected(to: Rewriting, node: Node) -> None:
    """Require operands of one shape, as NNAPI's SELECT does."""
    shapes = {to.shape(number) for number in node.inputs if number is not None}
    if len(shapes) > 1:
        raise GraphError("NNAPI's SELECT has operands of one shape")
    how = operator("select").parameters(by_value=getattr(node.parameters, "by_value", False))
    _by_value(to, replace(node, op="select", parameters=how))


def _exclusive_or(to: Rewriting, node: Node) -> None:
    to.keep_node(node, op="not_equal", parameters=operator("not_equal").parameters(by_value=True))


def _clip(to: Rewriting, node: Node) -> None:
    how: Any = node.parameters
    op = LIMITS.get((how.least, how.most))
    if op is None:
        raise GraphError(f"NNAPI has no limits {how.least} and {how.most}")
    to.keep_node(node, op=op, parameters=NONE)


def _unit(to: Rewriting, node: Node) -> None:
    """Write the limits 0 and 1 as RELU, then MINIMUM with 1."""
    kind = to.image(node)
    if not kind.real:
        raise GraphError("NNAPI has no limits 0 and 1 of quantized values")
    positive = to.made("relu", node.inputs, kind, f"{node.name}/relu")
    one = to.constant(f"{node.name}/one", np.ones(1, kind.numpy_dtype))
    how = operator("minimum").parameters(by_value=True)
    to.keep_node(node, op="minimum", inputs=(positive, one), parameters=how)


def _top(to: Rewriting, node: Node) -> None:
    how: Any = node.parameters
    if not how.last_first:
        raise GraphError("of equal elements NNAPI's TOPK_V2 has the last first, not the first")
    is_last = how.axis % len(to.image(node).shape) == len(to.image(node).shape) - 1
    to.keep_node(node, parameters=how.changed(axis=-1 if is_last else how.axis))


def _cast(to: Rewriting, node: Node) -> None:
    """Cast with saturation, as NNAPI does for integers."""
    how: Any = node.parameters
    source, result = to.image(node), to.type(node.outputs[0])
    whole = ("signed", "unsigned")
    is_narrower = (
        source.element.kind in whole
        and result.element.kind in whole
        and source.dtype not in (result.dtype, "bool")
    )
    is_same = not is_narrower or (source.dtype == "uint8" and result.dtype == "int32")
    to.keep_node(node, parameters=how.changed(saturating=True) if is_same else how)


def _quotient(to: Rewriting, node: Node) -> None:
    if to.image(node).dtype != "int32":
        raise GraphError("NNAPI has no quotients that are rounded downwards but those of int32")
    to.keep_node(node)


def _square(to: Rewriting, node: Node) -> None:
    if not to.image(node).real:
        raise GraphError("NNAPI has no squares of quantized values")
    x = there(node, 0)
    to.keep_node(node, op="mul", inputs=(x, x), parameters=operator("mul").parameters())


def _squared_difference(to: Rewriting, node: Node) -> None:
    result = to.type(node.outputs[0])
    if not result.real:
        raise GraphError("NNAPI has no squared differences of quantized values")
    difference = to.made("sub", node.inputs, result, f"{node.name}/difference")
    to.keep_node(node, op="mul", inputs=(difference, difference), parameters=operator("mul").parameters())


def _leaky(to: Rewriting, node: Node) -> None:
    """Write LEAKY_RELU as PRELU with one slope."""
    how: Any = node.parameters
    kind = to.image(node)
    if not kind.real:
        raise GraphError("NNAPI has no LEAKY_RELU of quantized values")
    slope = to.constant(f"{node.name}/alpha", np.array([how.alpha], kind.numpy_dtype))
    inputs = (there(node, 0), slope)
    to.keep_node(node, op="prelu", inputs=inputs, parameters=operator("prelu").parameters())


# Windows and products


def _biased(to: Rewriting, node: Node) -> None:
    """Add a bias of zeros, which NNAPI requires."""
    to.keep_node(node, inputs=_with_bias(to, node))


def _with_bias(to: Rewriting, node: Node) -> tuple[int | None, ...]:
    if len(node.inputs) > 2 and node.inputs[2] is not None:
        return node.inputs
    channels, kind = to.type(node.outputs[0]).shape[-1], to.image(node)
    data: Array = np.zeros(channels, kind.numpy_dtype if kind.real else np.int32)
    return (*node.inputs[:2], to.constant(f"{node.name}/bias", data))


def _vectors(to: Rewriting, node: Node) -> None:
    """Let FULLY_CONNECTED give a matrix, and reshape it."""
    how: Any = node.parameters
    result = to.type(node.outputs[0])
    plain, inputs = how.changed(keep_num_dims=False), _with_bias(to, node)
    rows = (prod(result.shape[:-1]), result.shape[-1])
    if rows == result.shape:
        to.keep_node(node, inputs=inputs, parameters=plain)
        return
    [made] = to.node(node.op, inputs, [replace(result, shape=rows)], plain, name=f"{node.name}/rows")
    to.keep_node(
        node, op="reshape", inputs=(made,), parameters=operator("reshape").parameters(shape=result.shape)
    )


def _transposed(to: Rewriting, node: Node) -> None:
    """Compute the paddings below and to the right from how far windows reach beyond the result."""
    how: Any = node.parameters
    image, weights, result = to.image(node), to.image(node, 1), to.type(node.outputs[0])
    sides = []
    for axis in range(2):
        covered = (image.shape[1 + axis] - 1) * how.strides[axis] + weights.shape[1 + axis]
        sides.append((how.padding[axis][0], covered - how.padding[axis][0] - result.shape[1 + axis]))
    if min(end for _, end in sides) >= 0:
        padding = tuple(sides)
    elif how.padding[0][0] or how.padding[1][0]:
        raise GraphError("NNAPI's result of a transposed convolution is what windows reach")
    else:
        padding = NO_BORDERS
    changed = how.changed(padding=padding, size=result.shape[1:3])
    to.keep_node(node, inputs=_with_bias(to, node), parameters=changed)


# Moves


def _reshaped(to: Rewriting, node: Node) -> None:
    shape = operator("reshape").parameters(shape=to.shape(node.outputs[0]))
    to.keep_node(node, op="reshape", parameters=shape)


def _unpacked(to: Rewriting, node: Node) -> None:
    """Write UNPACK as SPLIT into parts of one element, and a reshape of each part."""
    how: Any = node.parameters
    kind = to.image(node)
    axis = how.axis % len(kind.shape)
    part = replace(kind, shape=(*kind.shape[:axis], 1, *kind.shape[axis + 1 :]))
    sizes = operator("split").parameters(axis=axis, sizes=(1,) * len(node.outputs))
    parts = to.node("split", node.inputs, [part] * len(node.outputs), sizes, name=f"{node.name}/parts")
    for number, made in zip(node.outputs, parts, strict=True):
        shape = operator("reshape").parameters(shape=to.shape(number))
        to.add("reshape", [made], [number], shape, name=node.name)


def _split(to: Rewriting, node: Node) -> None:
    """Write parts of different sizes as slices."""
    how: Any = node.parameters
    if len(set(how.sizes)) == 1:
        resolved(to, node)
        return
    shape = to.image(node).shape
    axis, first = how.axis % len(shape), 0
    for number, size in zip(node.outputs, how.sizes, strict=True):
        begin = tuple(first if place == axis else 0 for place in range(len(shape)))
        cut = operator("slice").parameters(begin=begin, size=to.shape(number))
        to.add("slice", node.inputs, [number], cut, name=node.name)
        first += size


def _repeated(to: Rewriting, node: Node) -> None:
    """Write BROADCAST_TO as TILE."""
    kind, result = to.image(node), to.type(node.outputs[0])
    shape = (1,) * (len(result.shape) - len(kind.shape)) + kind.shape
    inputs = node.inputs
    if shape != kind.shape:
        inputs = (to.made("reshape", inputs, replace(kind, shape=shape), f"{node.name}/axes", shape=shape),)
    multiples = tuple(wide if size == 1 else 1 for size, wide in zip(shape, result.shape, strict=True))
    to.keep_node(node, op="tile", inputs=inputs, parameters=operator("tile").parameters(multiples=multiples))


def _reversed(to: Rewriting, node: Node) -> None:
    """Reverse one axis after the other."""
    how: Any = node.parameters
    kind = to.image(node)
    axes = sorted({axis % len(kind.shape) for axis in how.axes})
    image = there(node, 0)
    for axis in axes[:-1]:
        image = to.made("reverse_v2", [image], kind, f"{node.name}/{axis}", axes=(axis,))
    to.keep_node(node, inputs=(image,), parameters=how.changed(axes=tuple(axes[-1:])))


def _summed(to: Rewriting, node: Node) -> None:
    """Add one operand after the other."""
    numbers = [number for number in node.inputs if number is not None]
    if len(numbers) < 2:
        raise GraphError("NNAPI has no sum of one operand")
    total, kind = numbers[0], to.type(node.outputs[0])
    for number in numbers[1:-1]:
        total = to.made("add", [total, number], kind, f"{node.name}/sum")
    to.keep_node(node, op="add", inputs=(total, numbers[-1]), parameters=operator("add").parameters())


def _blocks(to: Rewriting, node: Node) -> None:
    """Write the crops of BATCH_TO_SPACE_ND, which NNAPI does not have, as a slice."""
    how: Any = node.parameters
    if not any(sum(pair) for pair in how.crops):
        to.keep_node(node)
        return
    kind, result = to.image(node), to.type(node.outputs[0])
    sizes = (size * parts for size, parts in zip(kind.shape[1:], how.block_shape, strict=False))
    rest = kind.shape[1 + len(how.block_shape) :]
    whole = replace(result, shape=(result.shape[0], *sizes, *rest))
    plain = how.changed(crops=((0, 0),) * len(how.crops))
    [image] = to.node(node.op, node.inputs, [whole], plain, name=f"{node.name}/whole")
    begin = (0, *(pair[0] for pair in how.crops), *(0,) * len(rest))
    cut = operator("slice").parameters(begin=begin, size=result.shape)
    to.keep_node(node, op="slice", inputs=(image,), parameters=cut)


REWRITES: dict[str, Rewrite] = {
    **dict.fromkeys((*COMPARING, *_CHOOSING[:2]), _by_value),
    **dict.fromkeys(("select", "select_v2"), _selected),
    **dict.fromkeys(("conv_2d", "depthwise_conv_2d"), _biased),
    **dict.fromkeys(
        ("mean", "sum", "reduce_max", "reduce_min", "reduce_prod", "reduce_all", "reduce_any"), reduction
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
"""By the operator. Operators without a rewrite only get their axes counted from the front."""
