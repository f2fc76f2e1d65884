"""Convolutions, pools, matrix products, resizes and normalizations as ONNX nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from npusim.frontends.onnx.export.onnx_export import FIRST_AXIS, TO_FIRST, Export
from npusim.frontends.rewriting import there
from npusim.frontends.sums import of_sums
from npusim.isa.base.errors import GraphError
from npusim.isa.base.tensor import Array
from npusim.kernels.graph.graph import Node
from npusim.kernels.operator.parameters import NO_BORDERS


def _optional(node: Node, position: int) -> int | None:
    return node.inputs[position] if position < len(node.inputs) else None


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
    return e.reals(codes, kind.dtype, kind.quantization, None if axis is None else list(order).index(axis))


def _bias(e: Export, node: Node) -> list[str]:
    """Return the bias dequantized by input scale times weight scale, whatever scale the graph states for it."""
    number = _optional(node, 2)
    if number is None:
        return []
    kind, image, weights = e.kind(number), e.kind(there(node, 0)), e.kind(there(node, 1))
    if kind.real or image.quantization is None or weights.quantization is None:
        return [e.last(number)]
    if kind.dtype != "int32":
        raise GraphError(f"ONNX's biases are int32, not {kind.dtype}")
    scaling = of_sums(image.quantization, weights.quantization)
    return [e.reals(e.last(number), kind.dtype, scaling, scaling.axis)]


# int32 accumulators


def _are_integers(e: Export, node: Node) -> bool:
    """Return whether the result is the int32 accumulator without a scale."""
    codes = e.kind(there(node, 0)).quantization, e.kind(there(node, 1)).quantization
    result = e.kind(node.outputs[0])
    return None not in codes and result.dtype == "int32" and result.quantization is None


def _integer_sum(e: Export, node: Node, operation: str, names: Sequence[str], **steps: Any) -> str:
    """Return ConvInteger or MatMulInteger, plus the bias."""
    zeros = []
    for position in range(2):
        kind = e.kind(there(node, position))
        assert kind.quantization is not None
        if len(set(kind.quantization.zero_points)) > 1:
            raise GraphError("npusim writes no weighted sums with several zero points as ONNX")
        zeros.append(e.constant(np.array(kind.quantization.zero_points[0]), kind.dtype, "zero_point"))
    name = e.op(operation, *names, *zeros, **steps)
    number = _optional(node, 2)
    if number is None:
        return name
    shape = (-1, 1, 1) if operation == "ConvInteger" else (-1,)
    return e.op("Add", name, e.op("Reshape", e.last(number), e.whole(*shape)))


# Convolutions and products


def convolution(e: Export, node: Node) -> None:
    """Add Conv; in a depthwise one each channel is a group."""
    how: Any = node.parameters
    image, weights = there(node, 0), there(node, 1)
    depth = e.shape(image)[3]
    if node.op == "depthwise_conv_2d":
        groups, order = depth, (3, 0, 1, 2)
    else:
        groups, order = depth // e.shape(weights)[3], TO_FIRST
    steps: dict[str, Any] = {"pads": _pads(how.padding), "strides": how.strides, "dilations": how.dilations}
    if _are_integers(e, node):
        names = (e.first(image), _codes(e, weights, order))
        e.result(node, _integer_sum(e, node, "ConvInteger", names, group=groups, **steps), first=True)
        return
    operands = [e.real(image, first=True), _filter(e, weights, order), *_bias(e, node)]
    e.result(node, e.op("Conv", *operands, group=groups, **steps), first=True)


def transposed(e: Export, node: Node) -> None:
    """Add ConvTranspose: rows that no window reaches are its output padding, those that are cut its pads."""
    how: Any = node.parameters
    image, weights = there(node, 0), there(node, 1)
    rows, kernel = e.shape(image)[1:3], e.shape(weights)[1:3]
    if e.shape(image)[3] != e.shape(weights)[3]:
        raise GraphError("npusim writes no transposed convolutions in groups as ONNX")
    if _are_integers(e, node):
        raise GraphError("ONNX has no transposed convolutions of quantized values in int32")
    ends, more = [], []
    for axis in range(2):
        covered = (rows[axis] - 1) * how.strides[axis] + (kernel[axis] - 1) * how.dilations[axis] + 1
        end = covered - how.padding[axis][0] - e.shape(node.outputs[0])[1 + axis]
        ends.append(max(end, 0))
        more.append(max(-end, 0))
    if any(
        extra >= max(pair)
        for extra, pair in zip(more, zip(how.strides, how.dilations, strict=True), strict=True)
    ):
        raise GraphError("its result is larger than ONNX's ConvTranspose can make it")
    operands = [e.real(image, first=True), _filter(e, weights, (3, 0, 1, 2)), *_bias(e, node)]
    pads = [how.padding[0][0], how.padding[1][0], *ends]
    name = e.op(
        "ConvTranspose",
        *operands,
        pads=pads,
        output_padding=more,
        strides=how.strides,
        dilations=how.dilations,
    )
    e.result(node, name, first=True)


def vectors(e: Export, node: Node) -> None:
    """Add Gemm; other shapes are reshaped to rows."""
    image, weights = there(node, 0), there(node, 1)
    units, length = e.shape(weights)
    shape, wanted = (prod(e.shape(image)) // length, length), e.shape(node.outputs[0])
    name = e.at(image, e.is_first(image) and prod(e.shape(image)[1:3]) == 1)
    if e.shape(image) != shape:
        name = e.op("Reshape", name, e.whole(*shape))
    if _are_integers(e, node):
        product = _integer_sum(e, node, "MatMulInteger", (name, _codes(e, weights, (1, 0))))
    else:
        rows = e.dequantised(name, e.kind(image))
        product = e.op("Gemm", rows, _filter(e, weights, (0, 1)), *_bias(e, node), transB=1)
    if wanted != (shape[0], units):
        product = e.op("Reshape", product, e.whole(*wanted))
    e.result(node, product)


def matrices(e: Export, node: Node) -> None:
    """Add MatMul; operands are transposed before it if stated."""
    how: Any = node.parameters
    names, are_integers = [], _are_integers(e, node)
    for position, is_turned in enumerate((how.adj_x, how.adj_y)):
        number = there(node, position)
        name = e.last(number) if are_integers else e.real(number)
        if is_turned:
            rank = len(e.shape(number))
            name = e.op("Transpose", name, perm=[*range(rank - 2), rank - 1, rank - 2])
        names.append(name)
    made = _integer_sum(e, node, "MatMulInteger", names) if are_integers else e.op("MatMul", *names)
    e.result(node, made)


def pool(e: Export, node: Node) -> None:
    """Add MaxPool, AveragePool, or the root of the mean of squares."""
    how: Any = node.parameters
    image = there(node, 0)
    counted = getattr(how, "counted", NO_BORDERS)
    steps: dict[str, Any] = {"kernel_shape": how.filter, "strides": how.strides, "pads": _pads(how.padding)}
    if counted not in (NO_BORDERS, how.padding):
        raise GraphError("ONNX counts all of a padding or none")
    if how.rescale == "fused":
        fused = e.op(
            "QLinearAveragePool",
            *e.coded(image, first=True),
            *e.scale_of(node.outputs[0]),
            count_include_pad=int(counted == how.padding != NO_BORDERS),
            **steps,
        )
        e.settle(node.outputs[0], fused, first=True)
        return
    if node.op == "max_pool_2d":
        e.result(node, e.op("MaxPool", e.real(image, first=True), **steps), first=True)
        return
    counts = int(counted == how.padding != NO_BORDERS)
    x = e.real(image, first=True)
    if node.op == "l2_pool_2d":
        mean = e.op("AveragePool", e.op("Mul", x, x), count_include_pad=counts, **steps)
        e.result(node, e.op("Sqrt", mean), first=True)
        return
    e.result(node, e.op("AveragePool", x, count_include_pad=counts, **steps), first=True)


_LARGEST_STEP = 1e-5


def resize(e: Export, node: Node) -> None:
    """Add Resize: TFLite's corner and centre rules are modes of ONNX, and nearest pixels are rounded as there."""
    how: Any = node.parameters
    image, result = there(node, 0), node.outputs[0]
    old, new = e.shape(image)[1:3], e.shape(result)[1:3]
    is_nearest = node.op == "resize_nearest_neighbor"
    mode = "align_corners" if how.align_corners else "half_pixel" if how.half_pixel_centers else "asymmetric"
    rounding = {
        "align_corners": "round_prefer_ceil",
        "half_pixel": "round_prefer_ceil",
        "asymmetric": "floor",
    }
    wanted = [before / after for before, after in zip(old, new, strict=True)]
    if how.steps is not None and any(
        abs(step / should - 1) > _LARGEST_STEP for step, should in zip(how.steps, wanted, strict=True)
    ):
        raise GraphError(f"ONNX's steps of a resize follow from sizes, not {list(how.steps)}")
    chosen: dict[str, Any] = {
        "coordinate_transformation_mode": mode,
        "mode": "nearest" if is_nearest else "linear",
    }
    if is_nearest:
        chosen["nearest_mode"] = rounding[mode]
    shape = [e.shape(result)[axis] for axis in TO_FIRST]
    e.result(node, e.op("Resize", e.real(image, first=True), "", "", e.whole(*shape), **chosen), first=True)


def interpolated(e: Export, node: Node) -> None:
    """Return sums of gathered taps times their weights, axis by axis, or all at once."""
    how: Any = node.parameters
    number = there(node, 0)
    if not e.kind(number).real and how.rescale != "float32":
        raise GraphError("npusim writes no interpolations of whole numbers as ONNX")
    taps = [_taps(e, node, turn) for turn in range(len(how.axes))]
    steps = [how.axes] if how.together else [(axis,) for axis in reversed(how.axes)]
    name = e.real(number)
    for axes in steps:
        name = _interpolated(e, name, number, {axis: taps[how.axes.index(axis)] for axis in axes})
    e.result(node, name)


def _taps(e: Export, node: Node, turn: int) -> list[tuple[Array, Array]]:
    """Return the places and weights of each tap along an axis."""
    places, weights = e.array(there(node, 1 + 2 * turn)), e.array(there(node, 2 + 2 * turn))
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


def sampled(e: Export, node: Node) -> None:
    """Add GridSample, whose grid has (x, y) as in the graph."""
    how: Any = node.parameters
    outside = {"zeros": "zeros", "edge": "border", "reflection": "reflection"}[how.outside]
    if how.nearest:
        raise GraphError("ONNX rounds halves to even for the nearest pixel of a grid")
    name = e.op(
        "GridSample",
        e.real(there(node, 0), first=True),
        e.real(there(node, 1)),
        mode="linear",
        padding_mode=outside,
        align_corners=int(how.align_corners),
    )
    e.result(node, name, first=True)


# Normalizations


def instance(e: Export, node: Node) -> None:
    """Add InstanceNormalization with one gamma and beta for all channels."""
    how: Any = node.parameters
    number = there(node, 0)
    depth, dtype = e.shape(number)[3], e.real_type(number)
    numbers = [e.constant(np.full(depth, value, np.float32), dtype) for value in (how.gamma, how.beta)]
    name = e.op("InstanceNormalization", e.real(number, first=True), *numbers, epsilon=how.epsilon)
    e.result(node, name, first=True)


def _channels_second(e: Export, node: Node) -> tuple[str, bool, list[int]]:
    """Return the image with its channels second, whether that is NCHW, and how to restore the order."""
    how: Any = node.parameters
    number = there(node, 0)
    rank = len(e.shape(number))
    axis = how.axis % rank
    if rank == 4 and axis == 3:
        return e.real(number, first=True), True, []
    if axis == 1:
        return e.real(number), False, []
    if axis == 0:
        raise GraphError("ONNX's channels are not the first axis")
    order = [0, axis, *(other for other in range(1, rank) if other != axis)]
    back = [order.index(place) for place in range(rank)]
    return e.op("Transpose", e.real(number), perm=order), False, back


def batch(e: Export, node: Node) -> None:
    """Add BatchNormalization of x, scale, bias, mean and variance."""
    how: Any = node.parameters
    x, is_first, back = _channels_second(e, node)
    numbers = [e.real(there(node, position)) for position in range(1, 5)]
    name = e.op("BatchNormalization", x, *numbers, epsilon=how.epsilon)
    e.result(node, e.op("Transpose", name, perm=back) if back else name, first=is_first)


def group(e: Export, node: Node) -> None:
    """Add GroupNormalization with a scale and a bias per channel."""
    how: Any = node.parameters
    x, is_first, back = _channels_second(e, node)
    numbers = [e.real(there(node, position)) for position in (1, 2)]
    name = e.op("GroupNormalization", x, *numbers, epsilon=how.epsilon, num_groups=how.groups)
    e.result(node, e.op("Transpose", name, perm=back) if back else name, first=is_first)


def layer(e: Export, node: Node) -> None:
    """Add LayerNormalization over the last axes."""
    how: Any = node.parameters
    numbers = [e.real(there(node, position)) for position in range(3)]
    e.result(node, e.op("LayerNormalization", *numbers, axis=how.begin_axis, epsilon=how.epsilon))


def local_response(e: Export, node: Node) -> None:
    """Add LRN along the channels; windows that are not centred become pools of squares along the axis."""
    how: Any = node.parameters
    number = there(node, 0)
    shape, rank = e.shape(number), len(e.shape(number))
    axis = how.axis % rank
    size = 2 * how.radius + 1 - how.last_left_out + how.one_more
    if rank == 4 and axis == 3 and size == 2 * how.radius + 1:
        x = e.real(number, first=True)
        chosen = {"size": size, "alpha": how.alpha * size, "beta": how.beta, "bias": how.bias}
        e.result(node, e.op("LRN", x, **chosen), first=True)
        return
    if size < 1:
        raise GraphError("ONNX has no windows of no element")
    x = e.real(number)
    sizes = (prod(shape[:axis]), 1, shape[axis], prod(shape[axis + 1 :]))
    squares = e.op("Reshape", e.op("Mul", x, x), e.whole(*sizes))
    pads = [how.radius, 0, size - 1 - how.radius, 0]
    mean = e.op("AveragePool", squares, kernel_shape=[size, 1], pads=pads, count_include_pad=1)
    factors = e.op("Mul", e.op("Reshape", mean, e.whole(*shape)), e.number(how.alpha * size, number))
    divisor = e.op("Pow", e.op("Add", factors, e.number(how.bias, number)), e.number(how.beta, number))
    e.result(node, e.op("Div", x, divisor))


def l2(e: Export, node: Node) -> None:
    """Divide by the root of the sum of squares, which is at least a millionth."""
    how: Any = node.parameters
    number = there(node, 0)
    axis = how.axis % len(e.shape(number))
    is_first = e.follows(number)
    x = e.real(number, is_first)
    norm = e.op("ReduceL2", x, e.whole(FIRST_AXIS[axis] if is_first else axis), keepdims=1)
    e.result(node, e.op("Div", x, e.op("Max", norm, e.number(1e-6, number))), is_first)


def lp(e: Export, node: Node) -> None:
    """Divide by a norm plus epsilon."""
    how: Any = node.parameters
    number = there(node, 0)
    x = e.real(number)
    norm = e.op(f"ReduceL{how.p}", x, e.whole(*how.axes), keepdims=1)
    e.result(node, e.op("Div", x, e.op("Add", norm, e.number(how.epsilon, number))))
