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
    axes_from_front,
    exclusive_or,
    last_axis,
    plain_slice,
    rewritten,
    strided_slice,
)
from npusim.frontends.written_layers import Layer
from npusim.isa.base.errors import GraphError
from npusim.isa.base.tensor import Array, Quantization, TensorType
from npusim.kernels.graph.graph import Graph
from npusim.kernels.operator.geometry import covered, same_padding
from npusim.kernels.operator.parameters import NO_BORDERS


def expressible(graph: Graph, refusals: Refusals) -> Graph:
    """Return the rewritten graph. Layers that TFLite lacks are left as they are, and added to the refusals."""
    return rewritten(graph, REWRITES, refusals)


# Windows


def _is_tflites(padding: Any, sizes: Sequence[int], kernel: Sequence[int], steps: Any, apart: Any) -> bool:
    """Return True if a padding is none, or TFLite's SAME."""
    same = tuple(same_padding(*axis) for axis in zip(sizes, kernel, steps, apart, strict=True))
    return padding in (NO_BORDERS, same)


def _padded(to: Rewriting, n: Layer, paddings: Any, value: int | float | None = None) -> int:
    """Return the image with a border of its own in front of a window."""
    kind = n.kind
    shape = tuple(size + sum(pair) for size, pair in zip(kind.shape, paddings, strict=True))
    values = {"paddings": paddings} if value is None else {"paddings": paddings, "pad_value": value}
    return to.made("pad", [n.inputs[0]], replace(kind, shape=shape), f"{n.name}/padded", **values)


def _convolution(to: Rewriting, n: Layer) -> None:
    """Write a padding that is neither none nor SAME as PAD, and add the bias that LiteRT requires."""
    kernel, inputs, params = n.kind_of(1).shape[1:3], list(n.inputs), n.params
    if not _is_tflites(params.padding, n.shape[1:3], kernel, params.strides, params.dilations):
        inputs[0] = _padded(to, n, ((0, 0), *params.padding, (0, 0)))
        params = params.changed(padding=NO_BORDERS)
    to.keep_node(n, inputs=_with_bias(to, n, inputs), parameters=params)


def _vectors(to: Rewriting, n: Layer) -> None:
    to.keep_node(n, inputs=_with_bias(to, n, n.inputs))


def _with_bias(to: Rewriting, n: Layer, inputs: Sequence[int | None]) -> tuple[int | None, ...]:
    """Return the operands with a bias of zeros if LiteRT requires one; its scale is that of the accumulator."""
    if len(inputs) > 2 and inputs[2] is not None:
        bias = to.tensors[inputs[2]]
        if bias.type.quantization is not None or bias.type.real:
            return tuple(inputs)
        scales = _sum_scales(n.kind, n.kind_of(1))
        if bias.array is not None:
            return (*inputs[:2], to.constant(bias.name, bias.array, scales))
        to.tensors[inputs[2]] = replace(bias, type=replace(bias.type, quantization=scales))
        return tuple(inputs)
    if n.op != "conv_2d":
        return tuple(inputs)
    channels = n.wanted.shape[-1]
    ifm, weights = n.kind, n.kind_of(1)
    if ifm.real:
        data: Array = np.zeros(channels, ifm.dtype)
        return (*inputs[:2], to.constant(f"{n.name}/bias", data))
    data = np.zeros(channels, np.int64 if ifm.element.bits == 16 else np.int32)
    return (*inputs[:2], to.constant(f"{n.name}/bias", data, _sum_scales(ifm, weights)))


def _sum_scales(ifm: TensorType, weights: TensorType) -> Quantization | None:
    if ifm.quantization is None or weights.quantization is None:
        return None
    return of_sums(ifm.quantization, weights.quantization)


def _transposed(to: Rewriting, n: Layer) -> None:
    """Write a padding that is neither none nor SAME as a wider result that is sliced."""
    if n.shape[3] != n.kind_of(1).shape[3]:
        raise GraphError("TFLite's transposed convolutions have no groups")
    n = Layer(to, replace(n.node, inputs=_with_bias(to, n, n.inputs)))
    kernel, result = n.kind_of(1).shape[1:3], n.wanted
    size, rows = result.shape[1:3], n.shape[1:3]
    axes = list(zip(size, kernel, n.params.strides, strict=True))
    same, none = tuple(same_padding(*axis) for axis in axes), NO_BORDERS
    windows = {
        same: tuple(-(-extent // step) for extent, _, step in axes),
        none: tuple(-(-(extent - k + 1) // step) for extent, k, step in axes),
    }
    if windows.get(n.params.padding) == rows:
        to.changed(n, size=size)
        return
    (top, _), (left, _) = n.params.padding
    reached = [covered(row, *axis[1:]) for row, axis in zip(rows, axes, strict=True)]
    whole = [max(pair) for pair in zip(reached, (size[0] + top, size[1] + left), strict=True)]
    if any(more - least >= step for more, least, (_, _, step) in zip(whole, reached, axes, strict=True)):
        raise GraphError(f"TFLite's size of a result is what windows cover, not {list(size)}")
    shape = (result.shape[0], *whole, result.shape[3])
    wide = n.params.changed(padding=NO_BORDERS, size=tuple(whole))
    [image] = to.node(n.op, n.inputs, [replace(result, shape=shape)], wide, name=f"{n.name}/whole")
    to.become(n, "slice", [image], n.outputs, begin=(0, top, left, 0), size=result.shape)


def _pool(to: Rewriting, n: Layer) -> None:
    params, counted = n.params, getattr(n.params, "counted", NO_BORDERS)
    fits = _is_tflites(params.padding, n.shape[1:3], params.filter, params.strides, (1, 1))
    if fits and counted == NO_BORDERS:
        to.keep_node(n)
        return
    borders = ((0, 0), *params.padding, (0, 0))
    if n.op == "max_pool_2d":
        to.changed(n, [_padded(to, n, borders, _least(n.kind))], padding=NO_BORDERS)
    elif n.op == "average_pool_2d" and counted == params.padding:
        to.changed(n, [_padded(to, n, borders)], padding=NO_BORDERS, counted=NO_BORDERS)
    else:
        raise GraphError(f"TFLite's windows have SAME padding or none, not {list(map(list, params.padding))}")


def _least(kind: TensorType) -> int | float:
    """Return the smallest value of a type."""
    return float(np.finfo(kind.numpy_dtype).min) if kind.real else kind.element.limits[0]  # type: ignore[type-var]


# Moves


def _shuffled(to: Rewriting, n: Layer) -> None:
    """Write CHANNEL_SHUFFLE as a transposition of the channels, reshaped to a matrix."""
    kind, axis = n.kind, n.axis
    before, size, after = kind.shape[:axis], kind.shape[axis], kind.shape[axis + 1 :]
    apart = (prod(before), n.params.groups, size // n.params.groups, prod(after))
    groups = to.made("reshape", n.inputs, replace(kind, shape=apart), f"{n.name}/groups", shape=apart)
    turned = replace(kind, shape=(apart[0], apart[2], apart[1], apart[3]))
    flat = to.made("transpose", [groups], turned, f"{n.name}/turned", perm=(0, 2, 1, 3))
    to.become(n, "reshape", [flat], n.outputs, shape=kind.shape)


def _filled(to: Rewriting, n: Layer) -> None:
    """Reshape the value to a scalar, which TFLite requires."""
    inputs = n.inputs
    if n.shape:
        inputs = (to.made("reshape", inputs, replace(n.kind, shape=()), f"{n.name}/value", shape=()),)
    to.changed(n, inputs, shape=n.wanted.shape)


def _along_last(to: Rewriting, n: Layer) -> None:
    """Transpose the axis to the last place and back, because TFLite has these operators along the last axis only."""
    rank, axis = len(n.shape), n.axis
    if axis == rank - 1:
        to.changed(n, axis=-1)
        return
    order = (*(other for other in range(rank) if other != axis), axis)
    back = tuple(order.index(place) for place in range(rank))
    image = to.made("transpose", [n.inputs[0]], _turned(n.kind, order), f"{n.name}/turned", perm=order)
    kinds = [_turned(to.type(number), order) for number in n.outputs]
    results = to.node(n.op, [image, *n.inputs[1:]], kinds, n.params.changed(axis=-1), name=f"{n.name}/last")
    for result, number in zip(results, n.outputs, strict=True):
        to.become(n, "transpose", [result], [number], perm=back)


def _top(to: Rewriting, n: Layer) -> None:
    """Cast positions from int32, the type that LiteRT gives."""
    values, places = n.outputs
    kind = to.type(places)
    if kind.dtype == "int32":
        _along_last(to, n)
        return
    positions = to.tensor(f"{n.name}/positions", replace(kind, dtype="int32"))
    _along_last(to, Layer(to, replace(n.node, outputs=(values, positions))))
    to.become(n, "cast", [positions], [places])


def _turned(kind: TensorType, order: Sequence[int]) -> TensorType:
    return replace(kind, shape=tuple(kind.shape[axis] for axis in order))


# Elements


def _by_code(to: Rewriting, n: Layer) -> None:
    """Compare quantized values if that is the same as comparing real ones: all have one scale and zero point."""
    kinds = {to.type(number).quantization for number in (*n.inputs, *n.outputs) if number is not None}
    is_plain = kinds == {None} or (len(kinds - {None}) == 1 and n.op in _CHOOSING)
    same: dict[str, Any] = {"by_value": False, "rescale": "fixed_point"}  # nothing is rescaled
    to.changed(n, **(same if is_plain else {}))


_CHOOSING = ("maximum", "minimum", "select", "select_v2")


def _clip(to: Rewriting, n: Layer) -> None:
    """Write limits as an operator that TFLite has, or floating-point ones as MAXIMUM and MINIMUM."""
    kind = n.kind
    op = _LIMITS.get((n.params.least, n.params.most))
    if op is not None:
        to.become(n, op)
        return
    limits = [
        (name, value)
        for name, value in (("maximum", n.params.least), ("minimum", n.params.most))
        if value is not None
    ]
    if not kind.real or not limits:
        raise GraphError(f"TFLite has no limits {n.params.least} and {n.params.most} of {kind.dtype}")
    image = n[0]
    for name, value in limits[:-1]:
        limit = to.constant(f"{n.name}/limit", np.array(value, kind.numpy_dtype))
        image = to.made(name, [image, limit], kind, f"{n.name}/{name}")
    name, value = limits[-1]
    limit = to.constant(f"{n.name}/limit", np.array(value, kind.numpy_dtype))
    to.become(n, name, (image, limit))


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
    "local_response_normalization": last_axis,
    "logical_xor": exclusive_or,
    "max_pool_2d": _pool,
    "slice": plain_slice,
    "squeeze": axes_from_front,
    "strided_slice": strided_slice,
    "transpose_conv": _transposed,
    **dict.fromkeys(("softmax", "log_softmax", "l2_normalization"), _along_last),
    "topk_v2": _top,
    **dict.fromkeys((*_CHOOSING, *COMPARING), _by_code),
    **dict.fromkeys(
        ("mean", "sum", "reduce_max", "reduce_min", "reduce_prod", "reduce_all", "reduce_any", "reverse_v2"),
        axes_from_front,
    ),
}
"""By the operator. Operators without a rewrite only get their axes counted from the front."""
