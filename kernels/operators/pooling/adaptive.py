"""What adaptive pools share: bins that cover an image of any size, rules, and combining the elements of each bin.

ifm [n, h, w, c] -> ofm [n, rows, columns, c]; bin i of n along an axis begins at floor(i * size / n) and ends before
ceil((i + 1) * size / n), so neighbours may share elements.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npusim.isa.arithmetic.integer import IntArray
from npusim.isa.base.workload import Workload
from npusim.isa.hardware.hardware import Hardware
from npusim.kernels.lowering.adaptive import Runs, lower_adaptive_pool, lower_real_adaptive_pool, runs
from npusim.kernels.lowering.real import on_real_lanes
from npusim.kernels.operator import rules
from npusim.kernels.operator.activation import activation_in_32_bits
from npusim.kernels.operator.geometry import image_ranks, maps_on_npu
from npusim.kernels.operator.operands import elementwise, input_type
from npusim.kernels.operator.operator import ROOM, Call, Lowering, Rule, Shapes, need
from npusim.kernels.operator.parameters import Activated, Pair
from npusim.kernels.operator.rescale import sound_scales
from npusim.kernels.operators.pooling import pooling

_MOST_PARTS = 1024


class Adaptive(Activated):
    """size: height and width of the output, as many bins."""

    size: Pair


def bins(size: int, count: int) -> tuple[IntArray, IntArray]:
    """The first element of each of `count` bins over an axis, and how many each has."""
    numbers = np.arange(count, dtype=np.int64)
    first = numbers * size // count
    return first, -(-(numbers + 1) * size // count) - first


def seen(call: Call[Adaptive], axis: int) -> tuple[IntArray, IntArray]:
    """The bins along axis 1 (height) or 2 (width)."""
    return bins(input_type(call).shape[axis], call.outputs[0].shape[axis])


def combine_bins(values: NDArray[Any], call: Call[Adaptive], combine: np.ufunc) -> NDArray[Any]:
    """Combine the elements of each bin, [n, h, w, c] -> [n, rows, columns, c], same dtype."""
    result = values
    for axis in (1, 2):
        result = pooling.combine_runs(result, axis, *seen(call, axis), combine)
    return result


def infer(call: Call[Adaptive]) -> Shapes:
    """The size, for as many images and channels as before."""
    images, _, _, channels = input_type(call).shape
    return ((images, *call.parameters.size, channels),)


def _output_shape(call: Call) -> bool:
    """the output has the height and width that size says"""
    return infer(call) == (call.outputs[0].shape,)


RULES: tuple[Rule, ...] = (
    rules.operands(1),
    rules.per_tensor,
    image_ranks,
    _output_shape,
    sound_scales,
    pooling.one_scale,
    activation_in_32_bits,
)


def workload(call: Call[Adaptive]) -> Workload:
    """One elementwise step per element read, those that bins share counted for each: of `size` elements in n bins
    size + n - gcd(size, n), as many borders fall on an end of an element as the greatest common divisor says.
    """
    images, *sizes, channels = input_type(call).shape
    counts = zip(sizes, call.parameters.size, strict=True)
    height, width = (size + bins - gcd(size, bins) for size, bins in counts)
    return elementwise(call, images * channels * height * width)


# On the NPU


def _runs(call: Call[Adaptive]) -> tuple[Runs, Runs]:
    rows, columns = (runs(*seen(call, axis)) for axis in (1, 2))
    return rows, columns


def _few_parts(call: Call[Adaptive]) -> bool:
    """on the NPU an image falls into at most 1024 parts of evenly spaced bins of one size"""
    rows, columns = _runs(call)
    return len(rows) * len(columns) <= _MOST_PARTS


def _small_bins(call: Call[Adaptive]) -> bool:
    """on the NPU bins are at most 255 high and wide"""
    return all(int(seen(call, axis)[1].max()) <= 255 for axis in (1, 2))


@need(ROOM)
def _rows_fit(call: Call[Adaptive], hardware: Hardware) -> bool:
    """room in the scratchpad for the rows that one row of bins sees"""
    ifm = input_type(call)
    rows = int(seen(call, 1)[1].max())
    return rows * ifm.shape[2] * ifm.shape[3] * ifm.numpy_dtype.itemsize <= hardware.scratchpad_bytes


_NPU_RULES: tuple[Rule, ...] = (maps_on_npu, _small_bins, _few_parts)


def lowerings(name: str) -> tuple[Lowering, ...]:
    """The ways of an "average" or "maximum" over bins."""
    lower: Callable[[Call, Hardware], Any] = lambda call, hardware: lower_adaptive_pool(  # noqa: E731
        call, name == "maximum", *_runs(call)
    )
    return (
        Lowering("vector", (rules.eight_bit, *_NPU_RULES), lower, (_rows_fit,)),
        on_real_lanes(
            lambda call: lower_real_adaptive_pool(call, name, *_runs(call)), *_NPU_RULES, needs=(_rows_fit,)
        ),
    )
