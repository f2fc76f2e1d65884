"""Rewrites of operators that TFLite does not have, or has with other parameters. The results keep their bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from npusim.frontends.bias_scales import of_sums
from npusim.frontends.inexpressible import Refusals
from npusim.frontends.rewriting import (
    COMPARING,
    LIMITS,
    Rewrite,
    Rewriting,
    changed,
    exclusive_or,
    plain_slice,
    reduction,
    rewritten,
    squeeze,
    strided_slice,
)
from npusim.frontends.written_layers import there
from npusim.isa.base.errors import GraphError
from npusim.isa.base.tensor import Array, Quantization, TensorType
from npusim.kernels.graph.graph import Graph, Node
from npusim.kernels.operator.geometry import same_padding
from npusim.kernels.operator.parameters import NO_BORDERS, NONE
from npusim.kernels.table import operator


def expressible(graph: Graph, refusals: Refusals) -> Graph:
    """Return the rewritten graph. Layers that TFLite lacks are left as they are, and added to the refusals."""
    return rewritten(graph, REWRITES, refusals)


# Windows


def _is_tflites(padding: Any, sizes: Sequence[int], kernel: Sequence[int], steps: Any, apart: Any) -> bool:
    """Return True if a padding is none, or TFLite's SAME."""
    same = tuple(same_padding(*axis) for axis in zip(sizes, kernel, steps, apart, strict=True))
    return padding in (NO_BORDERS, same)


def _padded(to: Rewriting, node: Node, paddings: Any, value: int | float | None = None) -> int:
    """Return the image with a border of its own in front of a window."""
    kind = to.image(node)
    shape = tuple(size + sum(pair) for size, pair in zip(kind.shape, paddings, strict=True))
    values = {"paddings": paddings} if value is None else {"paddings": paddings, "pad_value": value}
    return to.made("pad", [node.inputs[0]], replace(kind, shape=shape), f"{node.name}/padded", **values)


def _convolution(to: Rewriting, node: Node) -> None:
    """Write a padding that is neither none nor SAME as PAD, and add the bias that LiteRT requires."""
    how: Any = node.parameters
    kernel = to.image(node, 1).shape[1:3]
    inputs = list(node.inputs)
    if not _is_tflites(how.padding, to.image(node).shape[1:3], kernel, how.strides, how.dilations):
        inputs[0] = _padded(to, node, ((0, 0), *how.padding, (0, 0)))
        how = how.changed(padding=NO_BORDERS)
    to.keep_node(node, inputs=_with_bias(to, node, inputs), parameters=how)


def _vectors(to: Rewriting, node: Node) -> None:
    to.keep_node(node, inputs=_with_bias(to, node, node.inputs))


def _with_bias(to: Rewriting, node: Node, inputs: Sequence[int | None]) -> tuple[int | None, ...]:
    """Return the operands with a bias of zeros if LiteRT requires one; its scale is that of the accumulator."""
    if len(inputs) > 2 and inputs[2] is not None:
        bias = to.tensors[inputs[2]]
        if bias.type.quantization is not None or bias.type.real:
            return tuple(inputs)
        scales = _sum_scales(to.image(node), to.image(node, 1))
        if bias.array is not None:
            return (*inputs[:2], to.constant(bias.name, bias.array, scales))
        to.tensors[inputs[2]] = replace(bias, type=replace(bias.type, quantization=scales))
        return tuple(inputs)
    if node.op != "conv_2d":
        return tuple(inputs)
    channels = to.type(node.outputs[0]).shape[-1]
    ifm, weights = to.image(node), to.image(node, 1)
    if ifm.real:
        data: Array = np.zeros(channels, ifm.dtype)
        return (*inputs[:2], to.constant(f"{node.name}/bias", data))
    data = np.zeros(channels, np.int64 if ifm.element.bits == 16 else np.int32)
    return (*inputs[:2], to.constant(f"{node.name}/bias", data, _sum_scales(ifm, weights)))


def _sum_scales(ifm: TensorType, weights: TensorType) -> Quantization | None:
    if ifm.quantization is None or weights.quantization is None:
        return None
    return of_sums(ifm.quantization, weights.quantization)


def _transposed(to: Rewriting, node: Node) -> None:
    """Write a padding that is neither none nor SAME as a wider result that is sliced."""
    how: Any = node.parameters
    if to.image(node).shape[3] != to.image(node, 1).shape[3]:
        raise GraphError("TFLite's transposed convolutions have no groups")
    node = replace(node, inputs=_with_bias(to, node, node.inputs))
    kernel, result = to.image(node, 1).shape[1:3], to.type(node.outputs[0])
    size, rows = result.shape[1:3], to.image(node).shape[1:3]
    axes = list(zip(size, kernel, how.strides, strict=True))
    same, none = tuple(same_padding(*axis) for axis in axes), NO_BORDERS
    windows = {
        same: tuple(-(-extent // step) for extent, _, step in axes),
        none: tuple(-(-(extent - k + 1) // step) for extent, k, step in axes),
    }
    if windows.get(how.padding) == rows:
        to.keep_node(node, parameters=how.changed(size=size))
        return
    (top, _), (left, _) = how.padding
    covered = [(row - 1) * step + k for row, (_, k, step) in zip(rows, axes, strict=True)]
    whole = [max(pair) for pair in zip(covered, (size[0] + top, size[1] + left), strict=True)]
    if any(more - least >= step for more, least, (_, _, step) in zip(whole, covered, axes, strict=True)):
        raise GraphError(f"TFLite's size of a result is what windows cover, not {list(size)}")
    shape = (result.shape[0], *whole, result.shape[3])
    wide = how.changed(padding=NO_BORDERS, size=tuple(whole))
    [image] = to.node(node.op, node.inputs, [replace(result, shape=shape)], wide, name=f"{node.name}/whole")
    cut = operator("slice").parameters(begin=(0, top, left, 0), size=result.shape)
    to.add("slice", [image], node.outputs, cut, name=node.name)


def _pool(to: Rewriting, node: Node) -> None:
    how: Any = node.parameters
    ones = (1, 1)
    counted = getattr(how, "counted", NO_BORDERS)
    fits = _is_tflites(how.padding, to.image(node).shape[1:3], how.filter, how.strides, ones)
    if fits and counted == NO_BORDERS:
        to.keep_node(node)
        return
    borders = ((0, 0), *how.padding, (0, 0))
    if node.op == "max_pool_2d":
        wide, plain = _padded(to, node, borders, _least(to.image(node))), how.changed(padding=NO_BORDERS)
    elif node.op == "average_pool_2d" and counted == how.padding:
        wide, plain = _padded(to, node, borders), how.changed(padding=NO_BORDERS, counted=NO_BORDERS)
    else:
        raise GraphError(f"TFLite's windows have SAME padding or none, not {list(map(list, how.padding))}")
    to.keep_node(node, inputs=(wide,), parameters=plain)


def _least(kind: TensorType) -> int | float:
    """Return the smallest value of a type."""
    return float(np.finfo(kind.numpy_dtype).min) if kind.real else kind.element.limits[0]  # type: ignore[type-var]


# Moves


def _shuffled(to: Rewriting, node: Node) -> None:
    """Write CHANNEL_SHUFFLE as a transposition of the channels, reshaped to a matrix."""
    how: Any = node.parameters
    kind = to.image(node)
    axis = how.axis % len(kind.shape)
    before, size, after = kind.shape[:axis], kind.shape[axis], kind.shape[axis + 1 :]
    apart = (prod(before), how.groups, size // how.groups, prod(after))
    groups = to.made("reshape", node.inputs, replace(kind, shape=apart), f"{node.name}/groups", shape=apart)
    turned = replace(kind, shape=(apart[0], apart[2], apart[1], apart[3]))
    flat = to.made("transpose", [groups], turned, f"{node.name}/turned", perm=(0, 2, 1, 3))
    back = operator("reshape").parameters(shape=kind.shape)
    to.add("reshape", [flat], node.outputs, back, name=node.name)


def _filled(to: Rewriting, node: Node) -> None:
    """Reshape the value to a scalar, which TFLite requires."""
    kind = to.image(node)
    inputs = node.inputs
    if kind.shape:
        inputs = (to.made("reshape", inputs, replace(kind, shape=()), f"{node.name}/value", shape=()),)
    to.keep_node(node, inputs=inputs, parameters=changed(node.parameters, shape=to.shape(node.outputs[0])))


def _along_last(to: Rewriting, node: Node) -> None:
    """Transpose the axis to the last place and back, because TFLite has these operators along the last axis only."""
    how: Any = node.parameters
    rank = len(to.image(node).shape)
    axis = how.axis % rank
    if axis == rank - 1:
        to.keep_node(node, parameters=how.changed(axis=-1))
        return
    order = (*(other for other in range(rank) if other != axis), axis)
    back = tuple(order.index(place) for place in range(rank))
    image = to.made(
        "transpose", [node.inputs[0]], _turned(to.image(node), order), f"{node.name}/turned", perm=order
    )
    kinds = [_turned(to.type(number), order) for number in node.outputs]
    results = to.node(
        node.op, [image, *node.inputs[1:]], kinds, how.changed(axis=-1), name=f"{node.name}/last"
    )
    perm = operator("transpose").parameters(perm=back)
    for result, number in zip(results, node.outputs, strict=True):
        to.add("transpose", [result], [number], perm, name=node.name)


def _top(to: Rewriting, node: Node) -> None:
    """Cast positions from int32, the type that LiteRT gives."""
    values, places = node.outputs
    kind = to.type(places)
    if kind.dtype == "int32":
        _along_last(to, node)
        return
    found = to.tensor(f"{node.name}/positions", replace(kind, dtype="int32"))
    _along_last(to, replace(node, outputs=(values, found)))
    to.add("cast", [found], [places], operator("cast").parameters(), name=node.name)


def _last_or_none(to: Rewriting, node: Node) -> None:
    """Write the last axis as -1, as the reader gives it."""
    how: Any = node.parameters
    is_last = how.axis % len(to.image(node).shape) == len(to.image(node).shape) - 1
    to.keep_node(node, parameters=how.changed(axis=-1 if is_last else how.axis))


def _turned(kind: TensorType, order: Sequence[int]) -> TensorType:
    return replace(kind, shape=tuple(kind.shape[axis] for axis in order))


# Elements


def _by_code(to: Rewriting, node: Node) -> None:
    """Compare quantized values if that is the same as comparing real ones: all have one scale and zero point."""
    kinds = {to.type(number).quantization for number in (*node.inputs, *node.outputs) if number is not None}
    is_plain = kinds == {None} or (len(kinds - {None}) == 1 and node.op in _CHOOSING)
    how: Any = node.parameters
    same = {"by_value": False, "rescale": "fixed_point"}  # nothing is rescaled
    to.keep_node(node, parameters=how.changed(**same) if is_plain else how)


_CHOOSING = ("maximum", "minimum", "select", "select_v2")


def _clip(to: Rewriting, node: Node) -> None:
    """Write limits as an operator that TFLite has, or floating-point ones as MAXIMUM and MINIMUM."""
    how: Any = node.parameters
    kind = to.image(node)
    op = _LIMITS.get((how.least, how.most))
    if op is not None:
        to.keep_node(node, op=op, parameters=NONE)
        return
    limits = [
        (name, value) for name, value in (("maximum", how.least), ("minimum", how.most)) if value is not None
    ]
    if not kind.real or not limits:
        raise GraphError(f"TFLite has no limits {how.least} and {how.most} of {kind.dtype}")
    image = there(node, 0)
    for name, value in limits[:-1]:
        limit = to.constant(f"{node.name}/limit", np.array(value, kind.numpy_dtype))
        image = to.made(name, [image, limit], kind, f"{node.name}/{name}")
    name, value = limits[-1]
    limit = to.constant(f"{node.name}/limit", np.array(value, kind.numpy_dtype))
    to.keep_node(node, op=name, inputs=(image, limit), parameters=operator(name).parameters())


_LIMITS = {**LIMITS, (0.0, 1.0): "relu_0_to_1"}


REWRITES: dict[str, Rewrite] = {
    "average_pool_2d": _pool,
    "channel_shuffle": _shuffled,
    "clip": _clip,
    "conv_2d": _convolution,
    "depthwise_conv_2d": _convolution,
    "fill": _filled,
    "fully_connected": _vectors,
    "l2_pool_2d": _pool,
    "local_response_normalization": _last_or_none,
    "logical_xor": exclusive_or,
    "max_pool_2d": _pool,
    "slice": plain_slice,
    "squeeze": squeeze,
    "strided_slice": strided_slice,
    "transpose_conv": _transposed,
    **dict.fromkeys(("softmax", "log_softmax", "l2_normalization"), _along_last),
    "topk_v2": _top,
    **dict.fromkeys((*_CHOOSING, *COMPARING), _by_code),
    **dict.fromkeys(
        ("mean", "sum", "reduce_max", "reduce_min", "reduce_prod", "reduce_all", "reduce_any", "reverse_v2"),
        reduction,
    ),
}
"""By the operator. Operators without a rewrite only get their axes counted from the front."""
