"""Pools over windows that cover the image evenly, and pools that also give the positions of the maxima."""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npusim.isa.arithmetic.integer import clamp, rounding_divide
from npusim.isa.base.elements import Workload
from npusim.isa.base.tensor import Array, IntArray
from npusim.isa.hardware.hardware import Hardware
from npusim.kernels.lowering.adaptive import Runs, lower_adaptive_pool, lower_float_adaptive_pool, runs
from npusim.kernels.lowering.float_lanes import on_float_lanes
from npusim.kernels.operator import rules
from npusim.kernels.operator.element_types import alike
from npusim.kernels.operator.geometry import image_ranks, maps_on_npu
from npusim.kernels.operator.operands import by_type, elementwise, input_type, input_value, with_halves
from npusim.kernels.operator.operator import ROOM, Call, Lowering, Operator, Rule, Shapes, Values, need
from npusim.kernels.operator.parameters import Activated, Pair
from npusim.kernels.operator.rescale import act_range, activation_in_32_bits, limited, sound_scales
from npusim.kernels.operators.pooling.window_pools import (
    RULES,
    Pooling,
    combine_runs,
    infer,
    one_scale,
    seen,
    window,
    workload,
)

Axis = tuple[IntArray, IntArray]
"""The first element of each window along an axis, and its number of elements."""

TYPES = tuple(f"{dtype} -> {dtype}, int32|int64" for dtype in ("int8", "uint8", "float16", "float32"))

ON_HOST = "no instruction gives the position of the largest value in a window"


def largest(call: Call, values: Values, rows: Axis, columns: Axis) -> list[Array]:
    """Return the largest value of each window and its position, [n, rows, columns, c] each."""
    extremes, places = _search(input_value(values), rows, columns)
    ofm, positions = call.outputs
    activation = call.parameters.activation
    if ofm.real:
        best: Any = limited(activation, extremes)
    else:
        best = clamp(extremes, *act_range(activation, ofm), ofm.numpy_dtype)
    return [best, places.astype(positions.numpy_dtype)]


def _search(x: NDArray[Any], rows: Axis, columns: Axis) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Search all windows at once, element by element; a value that is not larger does not replace the one found."""
    width = x.shape[2]
    (top, heights), (left, widths) = rows, columns
    extremes, places = None, None
    for down in range(int(heights.max())):
        for right in range(int(widths.max())):
            y, there_y = top + np.minimum(down, heights - 1), down < heights
            z, there_z = left + np.minimum(right, widths - 1), right < widths
            values = x[:, y[:, None], z]
            numbers = (y[:, None] * width + z)[None, :, :, None]
            if extremes is None or places is None:
                extremes, places = values.copy(), np.broadcast_to(numbers, values.shape).copy()
                continue
            better = (values > extremes) & (there_y[:, None] & there_z)[None, :, :, None]
            np.copyto(extremes, values, where=better)
            np.copyto(places, numbers, where=better)
    assert extremes is not None
    assert places is not None
    return extremes, places


def two_outputs(call: Call) -> bool:
    """takes 1 input and gives 2 outputs: the largest values and their positions, of one shape"""
    present = len(call.inputs) == 1 and call.inputs[0] is not None and len(call.outputs) == 2
    return present and call.outputs[0].shape == call.outputs[1].shape


def rules_of(first: tuple[Rule, ...]) -> tuple[Rule, ...]:
    """Return the rules of a pool without positions, for one with them."""
    return (two_outputs, *first[1:])


MaxPool2dWithPositionsParameters = Pooling


def _max_positions_reference(call: Call[MaxPool2dWithPositionsParameters], values: Values) -> list[Array]:
    return largest(call, values, seen(call, 1), seen(call, 2))


MAX_POOL_2D_WITH_POSITIONS = Operator(
    name="max_pool_2d_with_positions",
    parameters=MaxPool2dWithPositionsParameters,
    types=TYPES,
    rules=rules_of(RULES),
    infer=lambda call: infer(call) * 2,
    reference=_max_positions_reference,
    workload=workload,
    window=window,
    on_host=ON_HOST,
)
"""The largest value of each window of an image, and its position in the height x width plane."""


_MOST_PARTS = 1024


class Adaptive(Activated):
    """size: height and width of the output, which is the number of bins."""

    size: Pair


def bins(size: int, count: int) -> tuple[IntArray, IntArray]:
    """Return the first element of each of `count` bins over an axis, and how many each has."""
    numbers = np.arange(count, dtype=np.int64)
    first = numbers * size // count
    return first, -(-(numbers + 1) * size // count) - first


def adaptive_seen(call: Call[Adaptive], axis: int) -> tuple[IntArray, IntArray]:
    """Return the bins along axis 1 (height) or 2 (width)."""
    return bins(input_type(call).shape[axis], call.outputs[0].shape[axis])


def combine_bins(values: NDArray[Any], call: Call[Adaptive], combine: np.ufunc) -> NDArray[Any]:
    """Combine the elements of each bin, [n, h, w, c] -> [n, rows, columns, c], same dtype."""
    result = values
    for axis in (1, 2):
        result = combine_runs(result, axis, *adaptive_seen(call, axis), combine)
    return result


def adaptive_infer(call: Call[Adaptive]) -> Shapes:
    """Return the size, for as many images and channels as before."""
    images, _, _, channels = input_type(call).shape
    return ((images, *call.parameters.size, channels),)


_output_shape = rules.inferred(
    # Positions, if the pool gives them, have the shape of the values.
    lambda call: adaptive_infer(call) * len(call.outputs),
    "the output has the height and width that size says",
)


ADAPTIVE_RULES: tuple[Rule, ...] = (
    rules.operands(1),
    rules.per_tensor,
    image_ranks,
    _output_shape,
    sound_scales,
    one_scale,
    activation_in_32_bits,
)


def adaptive_workload(call: Call[Adaptive]) -> Workload:
    """Return one elementwise step per element read, counted once for each bin that has it.

    n bins over `size` elements read size + n - gcd(size, n): gcd(size, n) borders of bins fall between elements.
    """
    images, *sizes, channels = input_type(call).shape
    counts = zip(sizes, call.parameters.size, strict=True)
    height, width = (size + bins - gcd(size, bins) for size, bins in counts)
    return elementwise(call, images * channels * height * width)


# On the NPU


def _runs(call: Call[Adaptive]) -> tuple[Runs, Runs]:
    rows, columns = (runs(*adaptive_seen(call, axis)) for axis in (1, 2))
    return rows, columns


def _few_parts(call: Call[Adaptive]) -> bool:
    """on the NPU an image splits into at most 1024 parts of evenly spaced bins of one size"""
    rows, columns = _runs(call)
    return len(rows) * len(columns) <= _MOST_PARTS


def _small_bins(call: Call[Adaptive]) -> bool:
    """on the NPU bins are at most 255 high and wide"""
    return all(int(adaptive_seen(call, axis)[1].max()) <= 255 for axis in (1, 2))


@need(ROOM)
def _rows_fit(call: Call[Adaptive], hardware: Hardware) -> bool:
    """room in the scratchpad for the input rows of one row of bins"""
    ifm = input_type(call)
    rows = int(adaptive_seen(call, 1)[1].max())
    return rows * ifm.shape[2] * ifm.shape[3] * ifm.numpy_dtype.itemsize <= hardware.scratchpad_bytes


_NPU_RULES: tuple[Rule, ...] = (maps_on_npu, _small_bins, _few_parts)


def lowerings(name: str) -> tuple[Lowering, ...]:
    """Return the ways of an "average" or "maximum" over bins."""
    lower: Callable[[Call, Hardware], Any] = lambda call, hardware: lower_adaptive_pool(  # noqa: E731
        call, name == "maximum", *_runs(call)
    )
    return (
        Lowering("vector", (rules.eight_bit, *_NPU_RULES), lower, (_rows_fit,)),
        on_float_lanes(
            lambda call: lower_float_adaptive_pool(call, name, *_runs(call)), *_NPU_RULES, needs=(_rows_fit,)
        ),
    )


AdaptiveAveragePool2dParameters = Adaptive


def _elements(call: Call[AdaptiveAveragePool2dParameters]) -> Any:
    rows, columns = (adaptive_seen(call, axis)[1].astype(np.int32) for axis in (1, 2))
    return rows[:, np.newaxis, np.newaxis] * columns[:, np.newaxis]


def _adaptive_average_codes(call: Call[AdaptiveAveragePool2dParameters], values: Values) -> list[Array]:
    """Average quantized values directly: input and output have one scale and zero point."""
    ofm = call.outputs[0]
    sums = combine_bins(input_value(values).astype(np.int32), call, np.add)
    means = rounding_divide(sums, _elements(call))
    return [clamp(means, *act_range(call.parameters.activation, ofm), ofm.numpy_dtype)]


def _adaptive_average_floats(call: Call[AdaptiveAveragePool2dParameters], values: Values) -> list[Array]:
    sums = combine_bins(input_value(values), call, np.add)
    return [limited(call.parameters.activation, sums / _elements(call).astype(np.float32))]


ADAPTIVE_AVERAGE_REFERENCES = with_halves(
    {"int8": _adaptive_average_codes, "uint8": _adaptive_average_codes, "float32": _adaptive_average_floats}
)

ADAPTIVE_AVERAGE_POOL_2D = Operator(
    name="adaptive_average_pool_2d",
    parameters=AdaptiveAveragePool2dParameters,
    types=alike(*ADAPTIVE_AVERAGE_REFERENCES),
    rules=ADAPTIVE_RULES,
    infer=adaptive_infer,
    reference=by_type(ADAPTIVE_AVERAGE_REFERENCES),
    workload=adaptive_workload,
    lowerings=lowerings("average"),
)
"""The mean of each bin of an image that is divided into as many bins as the output has pixels."""


AdaptiveMaxPool2dParameters = Adaptive


def _adaptive_max_codes(call: Call[AdaptiveMaxPool2dParameters], values: Values) -> list[Array]:
    ofm = call.outputs[0]
    largest = combine_bins(input_value(values), call, np.maximum)
    return [clamp(largest, *act_range(call.parameters.activation, ofm), ofm.numpy_dtype)]


def _adaptive_max_floats(call: Call[AdaptiveMaxPool2dParameters], values: Values) -> list[Array]:
    return [limited(call.parameters.activation, combine_bins(input_value(values), call, np.maximum))]


ADAPTIVE_MAX_REFERENCES = with_halves(
    {"int8": _adaptive_max_codes, "uint8": _adaptive_max_codes, "float32": _adaptive_max_floats}
)

ADAPTIVE_MAX_POOL_2D = Operator(
    name="adaptive_max_pool_2d",
    parameters=AdaptiveMaxPool2dParameters,
    types=alike(*ADAPTIVE_MAX_REFERENCES),
    rules=ADAPTIVE_RULES,
    infer=adaptive_infer,
    reference=by_type(ADAPTIVE_MAX_REFERENCES),
    workload=adaptive_workload,
    lowerings=lowerings("maximum"),
)
"""The largest value of each bin of an image that is divided into as many bins as the output has pixels."""


AdaptiveMaxPool2dWithPositionsParameters = Adaptive


def _adaptive_positions_reference(
    call: Call[AdaptiveMaxPool2dWithPositionsParameters], values: Values
) -> list[Array]:
    return largest(call, values, adaptive_seen(call, 1), adaptive_seen(call, 2))


ADAPTIVE_MAX_POOL_2D_WITH_POSITIONS = Operator(
    name="adaptive_max_pool_2d_with_positions",
    parameters=AdaptiveMaxPool2dWithPositionsParameters,
    types=TYPES,
    rules=rules_of(ADAPTIVE_RULES),
    infer=lambda call: adaptive_infer(call) * 2,
    reference=_adaptive_positions_reference,
    workload=adaptive_workload,
    on_host=ON_HOST,
)
"""The largest value of each bin of an image, and its position in the height x width plane."""


OPERATORS = (
    MAX_POOL_2D_WITH_POSITIONS,
    ADAPTIVE_AVERAGE_POOL_2D,
    ADAPTIVE_MAX_POOL_2D,
    ADAPTIVE_MAX_POOL_2D_WITH_POSITIONS,
)
