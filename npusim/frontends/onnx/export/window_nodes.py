"""Convolutions, pools, matrix products, resizes and normalizations as ONNX nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from npusim.frontends.bias_scales import of_sums
from npusim.frontends.onnx.export.onnx_export import FIRST_AXIS, OPSET, TO_FIRST, Export
from npusim.frontends.written_layers import Layer
from npusim.isa.base.errors import GraphError
from npusim.isa.base.tensor import Array
from npusim.kernels.operator.geometry import covered
from npusim.kernels.operator.parameters import NO_BORDERS


def _optional(n: Layer, position: int) -> int | None:
    return n.inputs[position] if position < len(n.inputs) else None


def _pads(padding: Any) -> list[int]:
    """Return ONNX's pads: the amounts before all axes, then those behind."""
    (top, bottom), (left, right) = padding
    return [top, left, bottom, right]


def _codes(e: Export, number: int, order: Sequence[int]) -> str:
    """Return weights in another order of their axes, quantized as they are."""
    data = e.array(number)
    name = f"{e.graph.tensors[number].name}_filter"
    if data is not None:
        return e.constant(data.transpose(order), data.dtype.name, name)
    return e.op("Transpose", e.last(number), label=name, perm=list(order))


def _filter(e: Export, number: int, order: Sequence[int]) -> str:
    """Return weights dequantized in another order of their axes, with the scales along the moved channel axis."""
    kind, codes = e.kind(number), _codes(e, number, order)
    if kind.quantization is None:
        return codes
    axis = kind.quantization.axis
    return e.dequantize(
        codes, kind.dtype, kind.quantization, None if axis is None else list(order).index(axis)
    )


def _bias(e: Export, n: Layer) -> list[str]:
    """Return the bias dequantized by input scale times weight scale, whatever scale the graph states for it."""
    number = _optional(n, 2)
    if number is None:
        return []
    kind, image, weights = e.kind(number), e.kind(n[0]), e.kind(n[1])
    if kind.real or image.quantization is None or weights.quantization is None:
        return [e.last(number)]
    if kind.dtype != "int32":
        raise GraphError(f"ONNX's biases are int32, not {kind.dtype}")
    scaling = of_sums(image.quantization, weights.quantization)
    return [e.dequantize(e.last(number), kind.dtype, scaling, scaling.axis)]


# int32 accumulators


def _are_integers(e: Export, n: Layer) -> bool:
    """Return whether the result is the int32 accumulator without a scale."""
    codes = e.kind(n[0]).quantization, e.kind(n[1]).quantization
    result = e.kind(n.result)
    return None not in codes and result.dtype == "int32" and result.quantization is None


def _integer_sum(e: Export, n: Layer, operation: str, names: Sequence[str], **steps: Any) -> str:
    """Return ConvInteger or MatMulInteger, plus the bias."""
    zeros = []
    for position in range(2):
        kind = e.kind(n[position])
        assert kind.quantization is not None
        if len(set(kind.quantization.zero_points)) > 1:
            raise GraphError("npusim writes no weighted sums with several zero points as ONNX")
        zeros.append(e.constant(np.array(kind.quantization.zero_points[0]), kind.dtype, "zero_point"))
    name = e.op(operation, *names, *zeros, **steps)
    number = _optional(n, 2)
    if number is None:
        return name
    shape = (-1, 1, 1) if operation == "ConvInteger" else (-1,)
    return e.op("Add", name, e.op("Reshape", e.last(number), e.whole(*shape)))


# Convolutions and products


def convolution(e: Export, n: Layer) -> None:
    """Add Conv; in a depthwise one each channel is a group."""
    params, image, weights, depth = n.params, n[0], n[1], n.shape[3]
    if n.op == "depthwise_conv_2d":
        groups, order = depth, (3, 0, 1, 2)
    else:
        groups, order = depth // e.shape(weights)[3], TO_FIRST
    steps: dict[str, Any] = {
        "pads": _pads(params.padding),
        "strides": params.strides,
        "dilations": params.dilations,
    }
    if _are_integers(e, n):
        names = (e.first(image), _codes(e, weights, order))
        e.result(n, _integer_sum(e, n, "ConvInteger", names, group=groups, **steps), first=True)
        return
    operands = [e.real(image, first=True), _filter(e, weights, order), *_bias(e, n)]
    e.result(n, e.op("Conv", *operands, group=groups, **steps), first=True)


def transposed(e: Export, n: Layer) -> None:
    """Add ConvTranspose: rows that no window reaches are its output padding, those that are cut its pads."""
    params, image, weights = n.params, n[0], n[1]
    rows, kernel = e.shape(image)[1:3], e.shape(weights)[1:3]
    if e.shape(image)[3] != e.shape(weights)[3]:
        raise GraphError("npusim writes no transposed convolutions in groups as ONNX")
    if _are_integers(e, n):
        raise GraphError("ONNX has no transposed convolutions of quantized values in int32")
    ends, more = [], []
    for axis in range(2):
        reached = covered(rows[axis], kernel[axis], params.strides[axis], params.dilations[axis])
        end = reached - params.padding[axis][0] - e.shape(n.result)[1 + axis]
        ends.append(max(end, 0))
        more.append(max(-end, 0))
    if any(extra >= max(pair) for extra, *pair in zip(more, params.strides, params.dilations, strict=True)):
        raise GraphError("its result is larger than ONNX's ConvTranspose can make it")
    operands = [e.real(image, first=True), _filter(e, weights, (3, 0, 1, 2)), *_bias(e, n)]
    steps: dict[str, Any] = {
        "pads": [params.padding[0][0], params.padding[1][0], *ends],
        "output_padding": more,
    }
    steps |= {"strides": params.strides, "dilations": params.dilations}
    e.result(n, e.op("ConvTranspose", *operands, **steps), first=True)


def vectors(e: Export, n: Layer) -> None:
    """Add Gemm; other shapes are reshaped to rows."""
    image, weights = n[0], n[1]
    units, length = e.shape(weights)
    shape, wanted = (prod(e.shape(image)) // length, length), e.shape(n.result)
    name = e.at(image, e.is_first(image) and prod(e.shape(image)[1:3]) == 1)
    if e.shape(image) != shape:
        name = e.op("Reshape", name, e.whole(*shape))
    if _are_integers(e, n):
        product = _integer_sum(e, n, "MatMulInteger", (name, _codes(e, weights, (1, 0))))
    else:
        rows = e.dequantised(name, e.kind(image))
        product = e.op("Gemm", rows, _filter(e, weights, (0, 1)), *_bias(e, n), transB=1)
    if wanted != (shape[0], units):
        product = e.op("Reshape", product, e.whole(*wanted))
    e.result(n, product)


def matrices(e: Export, n: Layer) -> None:
    """Add MatMul; operands are transposed before it if stated."""
    names, are_integers = [], _are_integers(e, n)
    for position, is_turned in enumerate((n.params.adj_x, n.params.adj_y)):
        number = n[position]
        name = e.last(number) if are_integers else e.real(number)
        if is_turned:
            rank = len(e.shape(number))
            name = e.op("Transpose", name, perm=[*range(rank - 2), rank - 1, rank - 2])
        names.append(name)
    product = _integer_sum(e, n, "MatMulInteger", names) if are_integers else e.op("MatMul", *names)
    e.result(n, product)


def pool(e: Export, n: Layer) -> None:
    """Add MaxPool, AveragePool, or the root of the mean of squares."""
    params, counted = n.params, getattr(n.params, "counted", NO_BORDERS)
    steps: dict[str, Any] = {
        "kernel_shape": params.filter,
        "strides": params.strides,
        "pads": _pads(params.padding),
    }
    if counted not in (NO_BORDERS, params.padding):
        raise GraphError("ONNX counts all of a padding or none")
    if n.op != "max_pool_2d":
        steps = {"count_include_pad": int(counted == params.padding != NO_BORDERS), **steps}
    if params.rescale == "fused":
        operands = *e.coded(n[0], first=True), *e.scale_of(n.result)
        e.settle(n.result, e.op("QLinearAveragePool", *operands, **steps), first=True)
        return
    x = e.real(n[0], first=True)
    if n.op == "l2_pool_2d":
        name = e.op("Sqrt", e.op("AveragePool", e.op("Mul", x, x), **steps))
    else:
        name = e.op("MaxPool" if n.op == "max_pool_2d" else "AveragePool", x, **steps)
    e.result(n, name, first=True)


_LARGEST_STEP = 1e-5


def resize(e: Export, n: Layer) -> None:
    """Add Resize: TFLite's corner and centre rules are modes of ONNX, and nearest pixels are rounded as there."""
    old, new = n.shape[1:3], e.shape(n.result)[1:3]
    is_nearest = n.op == "resize_nearest_neighbor"
    centers = "half_pixel" if n.params.half_pixel_centers else "asymmetric"
    mode = "align_corners" if n.params.align_corners else centers
    wanted = [before / after for before, after in zip(old, new, strict=True)]
    if n.params.steps is not None and any(
        abs(step / should - 1) > _LARGEST_STEP for step, should in zip(n.params.steps, wanted, strict=True)
    ):
        raise GraphError(f"ONNX's steps of a resize follow from sizes, not {list(n.params.steps)}")
    chosen: dict[str, Any] = {
        "coordinate_transformation_mode": mode,
        "mode": "nearest" if is_nearest else "linear",
    }
    if is_nearest:
        chosen["nearest_mode"] = "floor" if mode == "asymmetric" else "round_prefer_ceil"
    shape = [e.shape(n.result)[axis] for axis in TO_FIRST]
    e.result(n, e.op("Resize", e.real(n[0], first=True), "", "", e.whole(*shape), **chosen), first=True)


def interpolated(e: Export, n: Layer) -> None:
    """Return sums of gathered taps times their weights, axis by axis, or all at once."""
    if not e.kind(n[0]).real and n.params.rescale != "float32":
        raise GraphError("npusim writes no interpolations of whole numbers as ONNX")
    taps = [_taps(e, n, turn) for turn in range(len(n.params.axes))]
    steps = [n.params.axes] if n.params.together else [(axis,) for axis in reversed(n.params.axes)]
    name = e.real(n[0])
    for axes in steps:
        name = _interpolated(e, name, n[0], {axis: taps[n.params.axes.index(axis)] for axis in axes})
    e.result(n, name)


def _taps(e: Export, n: Layer, turn: int) -> list[tuple[Array, Array]]:
    """Return the places and weights of each tap along an axis."""
    places, weights = e.array(n[1 + 2 * turn]), e.array(n[2 + 2 * turn])
    if places is None or weights is None:
        raise GraphError("npusim writes no interpolations at computed places as ONNX")
    return [(places[:, tap], weights[:, tap]) for tap in range(places.shape[1])]


def _interpolated(e: Export, name: str, number: int, taps: Mapping[int, list[tuple[Array, Array]]]) -> str:
    """Return the sum over all combinations of taps along these axes, whose weights are multiplied first."""
    rank, total = len(e.shape(number)), ""
    for chosen in product(*taps.values()):
        part, weight = name, np.ones((1,) * rank, e.real_type(number))
        for axis, (places, weights) in reversed(list(zip(taps, chosen, strict=True))):
            weight = weight * weights.reshape([-1 if place == axis else 1 for place in range(rank)])
            part = e.op("Gather", part, e.constant(places, "int64", "places"), axis=axis)
        term = e.op("Mul", part, e.constant(weight, e.real_type(number), "weights"))
        total = e.op("Add", term, total) if total else term
    return total


def sampled(e: Export, n: Layer) -> None:
    """Add GridSample, whose grid has (x, y) as in the graph."""
    outside = {"zeros": "zeros", "edge": "border", "reflection": "reflection"}[n.params.outside]
    if n.params.nearest:
        raise GraphError("ONNX rounds halves to even for the nearest pixel of a grid")
    steps: dict[str, Any] = {"mode": "linear", "padding_mode": outside}
    steps["align_corners"] = int(n.params.align_corners)
    e.result(n, e.op("GridSample", e.real(n[0], first=True), e.real(n[1]), **steps), first=True)


# Normalizations


def instance(e: Export, n: Layer) -> None:
    """Add InstanceNormalization with one gamma and beta for all channels."""
    depth, dtype = n.shape[3], e.real_type(n[0])
    numbers = [
        e.constant(np.full(depth, value, np.float32), dtype) for value in (n.params.gamma, n.params.beta)
    ]
    name = e.op("InstanceNormalization", e.real(n[0], first=True), *numbers, epsilon=n.params.epsilon)
    e.result(n, name, first=True)


def _channels_second(e: Export, n: Layer) -> tuple[str, bool, list[int]]:
    """Return the image with its channels second, whether that is NCHW, and how to restore the order."""
    rank, axis = len(n.shape), n.axis
    if rank == 4 and axis == 3:
        return e.real(n[0], first=True), True, []
    if axis == 1:
        return e.real(n[0]), False, []
    if axis == 0:
        raise GraphError("ONNX's channels are not the first axis")
    order = [0, axis, *(other for other in range(1, rank) if other != axis)]
    back = [order.index(place) for place in range(rank)]
    return e.op("Transpose", e.real(n[0]), perm=order), False, back


def batch(e: Export, n: Layer) -> None:
    """Add BatchNormalization of x, scale, bias, mean and variance."""
    x, is_first, back = _channels_second(e, n)
    numbers = [e.real(n[position]) for position in range(1, 5)]
    name = e.op("BatchNormalization", x, *numbers, epsilon=n.params.epsilon)
    e.result(n, e.op("Transpose", name, perm=back) if back else name, first=is_first)


def group(e: Export, n: Layer) -> None:
    """Add GroupNormalization with a scale and a bias per channel."""
    x, is_first, back = _channels_second(e, n)
    numbers = [e.real(n[position]) for position in (1, 2)]
    name = e.op("GroupNormalization", x, *numbers, epsilon=n.params.epsilon, num_groups=n.params.groups)
    e.result(n, e.op("Transpose", name, perm=back) if back else name, first=is_first)


def layer(e: Export, n: Layer) -> None:
    """Add LayerNormalization over the last axes. Raises GraphError for RMS normalization."""
    if not n.params.centred:
        raise GraphError(f"RMSNormalization is of opset 23, npusim writes opset {OPSET}")
    numbers = [e.real(n[position]) for position in range(3)]
    e.result(n, e.op("LayerNormalization", *numbers, axis=n.params.begin_axis, epsilon=n.params.epsilon))


def local_response(e: Export, n: Layer) -> None:
    """Add LRN along the channels; windows that are not centred become pools of squares along the axis."""
    shape, axis = n.shape, n.axis
    size = 2 * n.params.radius + 1 - n.params.last_left_out + n.params.one_more
    if len(shape) == 4 and axis == 3 and size == 2 * n.params.radius + 1:
        x = e.real(n[0], first=True)
        chosen = {"size": size, "alpha": n.params.alpha * size, "beta": n.params.beta, "bias": n.params.bias}
        e.result(n, e.op("LRN", x, **chosen), first=True)
        return
    if size < 1:
        raise GraphError("ONNX has no windows of no element")
    x = e.real(n[0])
    sizes = (prod(shape[:axis]), 1, shape[axis], prod(shape[axis + 1 :]))
    squares = e.op("Reshape", e.op("Mul", x, x), e.whole(*sizes))
    pads = [n.params.radius, 0, size - 1 - n.params.radius, 0]
    mean = e.op("AveragePool", squares, kernel_shape=[size, 1], pads=pads, count_include_pad=1)
    factors = e.op("Mul", e.op("Reshape", mean, e.whole(*shape)), e.number(n.params.alpha * size, n[0]))
    divisor = e.op("Pow", e.op("Add", factors, e.number(n.params.bias, n[0])), e.number(n.params.beta, n[0]))
    e.result(n, e.op("Div", x, divisor))


def l2(e: Export, n: Layer) -> None:
    """Divide by the root of the sum of squares, which is at least a millionth."""
    is_first = e.follows(n[0])
    x = e.real(n[0], is_first)
    norm = e.op("ReduceL2", x, e.whole(FIRST_AXIS[n.axis] if is_first else n.axis), keepdims=1)
    e.result(n, e.op("Div", x, e.op("Max", norm, e.number(1e-6, n[0]))), is_first)


def lp(e: Export, n: Layer) -> None:
    """Divide by a norm plus epsilon."""
    x = e.real(n[0])
    norm = e.op(f"ReduceL{n.params.p}", x, e.whole(*n.params.axes), keepdims=1)
    e.result(n, e.op("Div", x, e.op("Add", norm, e.number(n.params.epsilon, n[0]))))
