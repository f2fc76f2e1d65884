"""Pools over windows of fixed size: average, maximum and L2 norm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npusim.isa.arithmetic.integer import clamp, rounding_divide
from npusim.isa.base.elements import Workload
from npusim.isa.base.tensor import Array, IntArray
from npusim.isa.hardware.hardware import Hardware
from npusim.kernels.lowering.float_lanes import lower_float_pool, on_float_lanes
from npusim.kernels.lowering.quantized_in_float32 import (
    float32_rescale,
    lower_float_average,
    lower_largest_code,
    on_codes,
)
from npusim.kernels.lowering.vector_work import int16_passes, lower_average_pool, lower_max_pool
from npusim.kernels.lowering.work import Parts
from npusim.kernels.operator import rules
from npusim.kernels.operator.element_types import alike, dequantize_values
from npusim.kernels.operator.expansion import Expansion
from npusim.kernels.operator.fused import fused_average, in_32_bits, only_codes
from npusim.kernels.operator.geometry import (
    Window,
    image_ranks,
    maps_on_npu,
    padding_on_npu,
    window_shape,
)
from npusim.kernels.operator.geometry import (
    limited as sizes_limited,
)
from npusim.kernels.operator.operands import (
    by_type,
    code_of_zero,
    code_range,
    elementwise,
    input_type,
    input_value,
    quantization,
    with_halves,
)
from npusim.kernels.operator.operator import (
    ROOM,
    Arithmetic,
    Call,
    Lowering,
    Need,
    Operator,
    Rule,
    Shapes,
    SlidingWindow,
    Values,
    literal,
    need,
)
from npusim.kernels.operator.parameters import NO_BORDERS, Border, Borders, Pair
from npusim.kernels.operator.rescale import act_range, activation_in_32_bits, limited, sound_scales
from npusim.kernels.operators.movement.padding import PadParameters


class Pooling(Window):
    """Parameters of a pool: filter size, strides and padding, (height, width) each."""

    filter: Pair


def infer(call: Call[Pooling]) -> Shapes:
    """Return the output shape from filter, strides and padding."""
    images, _, _, channels = input_type(call).shape
    return ((images, *window_shape(call, call.parameters.filter), channels),)


_output_shape = rules.inferred(
    # Positions, if the pool gives them, have the shape of the values.
    lambda call: infer(call) * len(call.outputs),
    "the output has the shape that filter, strides and padding give",
)


def _padding_below_filter(call: Call[Pooling]) -> bool:
    """padding is smaller than the filter, so that every window overlaps the image"""
    pairs = zip(call.parameters.padding, call.parameters.filter, strict=True)
    return all(max(padding) < size for padding, size in pairs)


def one_scale(call: Call) -> bool:
    """8-bit input and output have one zero point and one scale (to 1e-6): pooling does not requantize"""
    if input_type(call).real:
        return True
    ifm, ofm = quantization(input_type(call)), quantization(call.outputs[0])
    return ifm.zero_point == ofm.zero_point and abs(ifm.scale - ofm.scale) <= 1e-6


SHAPE_RULES: tuple[Rule, ...] = (
    rules.operands(1),
    rules.per_tensor,
    image_ranks,
    _output_shape,
    _padding_below_filter,
    sound_scales,
)
RULES: tuple[Rule, ...] = (*SHAPE_RULES, one_scale, activation_in_32_bits)

NPU_RULES: tuple[Rule, ...] = (
    rules.eight_bit,
    sizes_limited(("filter",), 255),
    sizes_limited(("strides",), 31),
    padding_on_npu,
    maps_on_npu,
)


@need(ROOM)
def rows_fit(call: Call[Pooling], hardware: Hardware) -> bool:
    """room in the scratchpad for the input rows of one row of windows"""
    ifm = input_type(call)
    rows = int(seen(call, 1)[1].max(initial=0))
    return rows * ifm.shape[2] * ifm.shape[3] * ifm.numpy_dtype.itemsize <= hardware.scratchpad_bytes


def npu_lowering(
    lower: Callable[[Call, Hardware], Parts],
    *more: Rule,
    needs: tuple[Need, ...] = (),
) -> Lowering:
    """Return the lowering of a pool of quantized values to the vector unit."""
    return Lowering("vector", (*NPU_RULES, *more), lower, (rows_fit, *needs))


def on_int16(lower: Callable[[Call, Hardware], Parts], *more: Rule) -> Lowering:
    """Return the lowering of a pool of int16 values to the vector unit."""
    row = npu_lowering(lower, *more, needs=(int16_passes,))
    return row._replace(rules=(rules.all_int16, *row.rules[1:]))


def combine_windows(values: NDArray[Any], call: Call[Pooling], combine: np.ufunc) -> NDArray[Any]:
    """Combine the elements of each window that lie in the image, [n, h, w, c] -> [n, rows, columns, c], same dtype.

    First along the height, then along the width. Windows are cut to the image, which may be much smaller than they
    are; every one sees some of it.
    """
    result = values
    for axis in (1, 2):
        result = combine_runs(result, axis, *seen(call, axis), combine)
    return result


def combine_runs(
    values: NDArray[Any], axis: int, first: IntArray, lengths: IntArray, combine: np.ufunc
) -> NDArray[Any]:
    """Combine, for each window, `lengths` elements from `first` on along an axis.

    By doubling: first what 1, 2, 4, ... elements from each position combine to. The binary digits of a window's length
                 select which of these make it up, so the number of passes grows with the logarithm of the longest
                 window.
    """
    values = np.moveaxis(values, axis, 0)
    result, begun = np.empty((len(first), *values.shape[1:]), values.dtype), np.zeros(len(first), bool)
    position, doubled = first.copy(), values
    for digit in range(int(lengths.max()).bit_length()):
        if digit:
            half = 1 << (digit - 1)
            doubled = combine(doubled[:-half], doubled[half:])
        chosen = (lengths >> digit & 1).astype(bool)
        fresh, more = chosen & ~begun, chosen & begun
        result[fresh] = doubled[position[fresh]]
        result[more] = combine(result[more], doubled[position[more]])
        begun |= chosen
        position[chosen] += 1 << digit
    return np.moveaxis(result, 0, axis)


def sums_in_order(values: NDArray[np.float32], call: Call[Pooling], by_columns: bool) -> NDArray[np.float32]:
    """Add the elements of each window that are in the image one after the other in float32, row by row.

    Or each column from the top, and then the columns from the left.
    """
    images, rows, columns, channels = call.outputs[0].shape
    result = np.zeros((images, rows, columns, channels), np.float32)
    down, across = (_taps(call, axis) for axis in (1, 2))
    if not by_columns:
        for windows, lines in down:
            for places, pixels in across:
                result[np.ix_(np.arange(images), windows, places)] += values[:, lines][:, :, pixels]
        return result
    for places, pixels in across:
        column = np.zeros((images, rows, len(places), channels), np.float32)
        for windows, lines in down:
            column[:, windows] += values[:, lines][:, :, pixels]
        result[:, :, places] += column
    return result


def _taps(call: Call[Pooling], axis: int) -> list[tuple[IntArray, IntArray]]:
    """Yield for each element of a window along an axis the windows that see it in the image, and its position."""
    window, size = call.parameters, input_type(call).shape[axis]
    begin = np.arange(call.outputs[0].shape[axis]) * window.strides[axis - 1] - window.padding[axis - 1][0]
    least, most = max(0, -int(begin.max())), min(window.filter[axis - 1], size - int(begin.min()))
    taps: list[tuple[IntArray, IntArray]] = []
    for element in range(least, most):
        places = begin + element
        seen_by = np.flatnonzero((places >= 0) & (places < size))
        taps.append((seen_by, places[seen_by]))
    return taps


def elements_seen(call: Call[Pooling], counted: Borders = NO_BORDERS) -> NDArray[np.int32]:
    """Return how many elements of the image and its borders each window sees: [rows, columns, 1]."""
    rows, columns = (seen(call, axis, counted[axis - 1])[1].astype(np.int32) for axis in (1, 2))
    elements: NDArray[np.int32] = rows[:, np.newaxis, np.newaxis] * columns[:, np.newaxis]
    return elements


def seen(call: Call[Pooling], axis: int, border: Border = (0, 0)) -> tuple[IntArray, IntArray]:
    """Return the first element that each window sees along axis 1 (height) or 2 (width), and how many it sees.

    The image has a border before and behind.
    """
    window = call.parameters
    first = np.arange(call.outputs[0].shape[axis]) * window.strides[axis - 1]
    first -= window.padding[axis - 1][0]
    last = np.minimum(first + window.filter[axis - 1], input_type(call).shape[axis] + border[1])
    first = np.maximum(first, -border[0])
    return first, last - first


def workload(call: Call[Pooling]) -> Workload:
    """Return one elementwise step per element read, counted once for each window that has it."""
    images, _, _, channels = input_type(call).shape
    height, width = (int(seen(call, axis)[1].sum()) for axis in (1, 2))
    return elementwise(call, images * channels * height * width)


def window(call: Call[Pooling]) -> SlidingWindow:
    """Return the filter, and its steps."""
    return SlidingWindow(call.parameters.filter, call.parameters.strides)


def on_lanes(name: str, *more: Rule) -> Lowering:
    """Return the lowering of a pool of floats to the float lanes: "average", "maximum" or "l2"."""
    return on_float_lanes(lambda call: lower_float_pool(call, name), *NPU_RULES[1:], *more, needs=(rows_fit,))


class AveragePool2dParameters(Pooling):
    """counted: how much of the padding, next to the image, counts as zeros.
    by_columns: with rescale "float32" the elements of a window are added column by column, as ONNX Runtime does before
    version 19 of the operator where strides along the width are 1 or 2.
    """

    counted: Borders = NO_BORDERS
    by_columns: bool = False


def _average_codes(call: Call[AveragePool2dParameters], values: Values) -> list[Array]:
    """Average quantized values directly: input and output have one scale and zero point."""
    image: Any = input_value(values)
    ofm, counted = call.outputs[0], call.parameters.counted
    sums, elements = (
        combine_windows(image.astype(np.int32), call, np.add),
        elements_seen(call),
    )
    if counted != NO_BORDERS:
        inside, elements = elements, elements_seen(call, counted)
        sums += (elements - inside) * code_of_zero(input_type(call))
    means = rounding_divide(sums, elements)
    return [clamp(means, *act_range(call.parameters.activation, ofm), ofm.numpy_dtype)]


def _average_floats(call: Call[AveragePool2dParameters], values: Values) -> list[Array]:
    sums = combine_windows(input_value(values), call, np.add)
    sums /= elements_seen(call, call.parameters.counted)
    return [limited(call.parameters.activation, sums)]


def _averages(call: Call[AveragePool2dParameters], image: Array, by_columns: bool) -> NDArray[np.float32]:
    """Return averages in float32, whose elements are added one after the other."""
    with np.errstate(all="ignore"):
        sums = sums_in_order(image.astype(np.float32, copy=False), call, by_columns)
        sums /= elements_seen(call, call.parameters.counted).astype(np.float32)
    return sums


def _in_order(call: Call[AveragePool2dParameters], values: Values) -> list[Array]:
    averages = _averages(call, input_value(values), call.parameters.by_columns)
    return [limited(call.parameters.activation, averages)]


def _fused(call: Call[AveragePool2dParameters], values: Values) -> list[Array]:
    floats = dequantize_values(input_value(values), input_type(call))
    return fused_average(call, _averages(call, floats, False))


def _counted_padding(call: Call[AveragePool2dParameters]) -> bool:
    """no more padding counts than is present"""
    parameters = call.parameters
    sides = zip(sum(parameters.counted, ()), sum(parameters.padding, ()), strict=True)
    return all(counted <= border for counted, border in sides)


def _image_only(call: Call[AveragePool2dParameters]) -> bool:
    """on the NPU windows count the elements inside the image only"""
    return call.parameters.counted == NO_BORDERS


def _padded(call: Call[AveragePool2dParameters]) -> Expansion | None:
    """Return the padding that counts as zeros around the image, then a pool."""
    parameters, image = call.parameters, input_type(call)
    if parameters.counted == NO_BORDERS:
        return None
    body = Expansion(len(call.inputs))
    paddings = ((0, 0), *parameters.counted, (0, 0))
    shape = tuple(size + sum(border) for size, border in zip(image.shape, paddings, strict=True))
    (wide,) = body.call("pad", "pad", (0,), [replace(image, shape=shape)], PadParameters(paddings=paddings))
    left = tuple(
        (whole[0] - counted[0], whole[1] - counted[1])
        for whole, counted in zip(parameters.padding, parameters.counted, strict=True)
    )
    pool = parameters.changed(padding=left, counted=NO_BORDERS)
    body.results += body.call("pool", "average_pool_2d", (wide,), call.outputs, pool)
    return body


AVERAGE_REFERENCES = with_halves(
    {"int8": _average_codes, "uint8": _average_codes, "int16": _average_codes, "float32": _average_floats}
)
_IN_FLOAT = npu_lowering(lower_float_average, on_codes, _image_only, needs=(float32_rescale,))

AVERAGE_POOL_2D = Operator(
    name="average_pool_2d",
    parameters=AveragePool2dParameters,
    types=alike(*AVERAGE_REFERENCES),
    rules=(*RULES, _counted_padding),
    infer=infer,
    reference=by_type(AVERAGE_REFERENCES),
    workload=workload,
    window=window,
    expand=_padded,
    lowerings=(
        npu_lowering(lower_average_pool, _image_only),
        on_int16(lower_average_pool, _image_only),
        on_lanes("average", _image_only),
    ),
    arithmetics=(
        literal(_IN_FLOAT, reference=_in_order),
        Arithmetic(
            ("fused",),
            None,
            (*SHAPE_RULES, activation_in_32_bits, _counted_padding, only_codes, in_32_bits(sum)),
            _fused,
            (_IN_FLOAT,),
            expand=_padded,
        ),
    ),
)
"""The mean of each window of an image; padding is not counted, unless the parameters say so."""


MaxPool2dParameters = Pooling


def _max_codes(call: Call[MaxPool2dParameters], values: Values) -> list[Array]:
    ofm = call.outputs[0]
    largest = combine_windows(input_value(values), call, np.maximum)
    return [clamp(largest, *act_range(call.parameters.activation, ofm), ofm.numpy_dtype)]


def _max_floats(call: Call[MaxPool2dParameters], values: Values) -> list[Array]:
    return [limited(call.parameters.activation, combine_windows(input_value(values), call, np.maximum))]


def _border(call: Call) -> int:
    """Return the value outside the image: the smallest one, which never wins."""
    return code_range(input_type(call).dtype)[0]


MAX_REFERENCES = with_halves(
    {"int8": _max_codes, "uint8": _max_codes, "int16": _max_codes, "float32": _max_floats}
)

MAX_POOL_2D = Operator(
    name="max_pool_2d",
    parameters=MaxPool2dParameters,
    types=alike(*MAX_REFERENCES),
    rules=RULES,
    infer=infer,
    reference=by_type(MAX_REFERENCES),
    workload=workload,
    window=window,
    border=_border,
    lowerings=(
        npu_lowering(lower_max_pool),
        on_int16(lower_max_pool),
        on_lanes("maximum"),
    ),
    arithmetics=(literal(npu_lowering(lower_largest_code, rules.same_codes)),),
)
"""The largest value of each window of an image."""


L2Pool2dParameters = Pooling


def _l2_floats(call: Call[L2Pool2dParameters], values: Values) -> list[Array]:
    image: Any = input_value(values)
    with np.errstate(over="ignore"):
        squares = combine_windows(image * image, call, np.add)
    squares /= elements_seen(call)
    return [limited(call.parameters.activation, np.sqrt(squares, out=squares))]


L2_REFERENCES = with_halves({"float32": _l2_floats})

L2_POOL_2D = Operator(
    name="l2_pool_2d",
    parameters=L2Pool2dParameters,
    types=alike(*L2_REFERENCES),
    rules=RULES,
    infer=infer,
    reference=by_type(L2_REFERENCES),
    workload=workload,
    window=window,
    lowerings=(on_lanes("l2"),),
)
"""The root of the mean square of each window of an image; padding is not counted."""


OPERATORS = (
    AVERAGE_POOL_2D,
    MAX_POOL_2D,
    L2_POOL_2D,
)
