"""Lookup tables of 513 entries for functions of int16 values, interpolated linearly as in LiteRT's kernels.

One entry stands for every 128th value. Each entry is moved by half of the interpolation error in the middle between
it and the next entry, so that the errors at both places are alike. The logistic function and the hyperbolic tangent
share one table of 256 entries of the logistic function instead.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npusim.isa.arithmetic.integer import multiply_by_quantized_multiplier, round_half_away
from npusim.isa.base.tensor import Int64Array

Function = Callable[[NDArray[Any]], NDArray[Any]]

Real = float | np.floating[Any]

ENTRIES = 513
LOW, HIGH = -(1 << 15), (1 << 15) - 1


def table_of(
    function: Function, first: Real, last: Real, factor: Real, dtype: type[Any] = np.float64
) -> Int64Array:
    """Return the table entries for arguments from `first` to `last`, times `factor`, computed in `dtype`."""
    begin, end, scale = (dtype(bound) for bound in (first, last, factor))
    step = (end - begin) / dtype(ENTRIES - 1)
    numbers: NDArray[Any] = np.arange(ENTRIES - 1).astype(dtype)
    with np.errstate(all="ignore"):
        values, middles, following = (
            function(begin + at * step + offset) * scale
            for at, offset in (
                (numbers, dtype(0)),
                (numbers, step / dtype(2)),
                (numbers + dtype(1), dtype(0)),
            )
        )
        entries = round_half_away(values)
        between = round_half_away((following + entries.astype(dtype)) / dtype(2))
        entries -= round_half_away((between - round_half_away(middles)) / 2)
        last_entry = round_half_away(np.asarray(function(np.asarray([end])) * scale))
    table = np.concatenate([entries, last_entry])
    table[np.isnan(table)] = 0  # the processor converts NaN to 0
    clipped: Int64Array = np.clip(table, LOW, HIGH).astype(np.int64)
    return clipped


def look_up(table: Int64Array, values: Int64Array) -> Int64Array:
    """Interpolate a table at int16 values, between the entry below and the next one; halves round up.

    Slope and result wrap to 16 bits.
    """
    position, rest = (values >> 7) + 256, values & 127
    base = table[position]
    slope = (table[position + 1] - base).astype(np.int16).astype(np.int64)
    result: Int64Array = (base + ((slope * rest + 64) >> 7)).astype(np.int16).astype(np.int64)
    return result


def softmax_of_int16(
    values: Int64Array, multiplier: int, shift: int, exponential: Int64Array, reciprocal: Int64Array
) -> Int64Array:
    """Compute softmax along the last axis; results are in units of 1/32768.

    multiplier, shift: scale differences to the largest value of a row so that -65535 stands for -10.
    exponential, reciprocal: the tables of `softmax_tables`.
    """
    differences = values - values.max(axis=-1, keepdims=True)
    scaled = multiply_by_quantized_multiplier(differences, multiplier, shift).astype(np.int64)
    exponentials = look_up(exponential, np.clip(scaled + HIGH, LOW, HIGH))
    # With the tables of `softmax_tables` the sum is at least 32767.
    total = np.maximum(exponentials.sum(axis=-1, keepdims=True), 2)
    length = np.frexp(total.astype(np.float64))[1].astype(np.int64)
    fraction = (
        (total << (31 - length)) + (1 << 13)
    ) >> 14  # total / 2**(length - 1), with 16 fractional bits
    factor = look_up(reciprocal, np.clip(fraction - (1 << 15) - (1 << 16), LOW, HIGH))
    shares = (exponentials * factor + (np.int64(1) << (length - 2))) >> (length - 1)
    clipped: Int64Array = np.clip(shares, 0, HIGH)
    return clipped


@cache
def softmax_tables() -> tuple[Int64Array, Int64Array]:
    """Return the two lookup tables of the int16 softmax, with 15 fractional bits.

    The first holds exp(x) for x in [-10, 0], the second 1 / (1 + x) for x in [0, 1].
    """
    return table_of(np.exp, -10.0, 0.0, 32768.0), table_of(lambda x: 1 / (1 + x), 0.0, 1.0, 32768.0)


LOGISTIC_ENTRIES = 256


@cache
def logistic_table() -> Int64Array:
    """Return 65536 / (1 + exp(-k / 24)) for k = 0..255, each corrected by half of the interpolation error behind it."""
    halves = 65536 / (1 + np.exp(-np.arange(513) / 48))
    here, middle, behind = halves[:-1:2], halves[1::2], halves[2::2]
    entries: Int64Array = np.floor(here + (middle - (here + behind) / 2) / 2 + 0.5).astype(np.int64)
    entries[-1] = 65535  # results saturate here
    return entries


def logistic_words(steps: Int64Array, table: Int64Array) -> Int64Array:
    """Return 1 / (1 + exp(-x)) with 15 fractional bits, by `logistic_table`; `steps` are x in units of 1/12288."""
    magnitude = np.abs(steps)
    position, rest = np.minimum(magnitude >> 9, 254), magnitude & 511
    inside = (table[position] << 9) + rest * (table[position + 1] - table[position])
    result = np.where(magnitude >> 9 >= 255, 0x7FFF << 10, inside)
    return np.where(steps >= 0, result + (1 << 9), (1 << 25) - result + (1 << 9) - 1) >> 10


def tanh_words(steps: Int64Array, table: Int64Array) -> Int64Array:
    """Return tanh(x) = 2 / (1 + exp(-2x)) - 1 with 15 fractional bits, by `logistic_table`.

    `steps` are x in units of 1/12288.
    """
    magnitude = np.abs(steps)
    position, rest = np.minimum(magnitude >> 8, 254), magnitude & 255
    inside = (table[position] << 8) + rest * (table[position + 1] - table[position])
    result = np.where(magnitude >> 8 >= 255, 0xFFFF << 8, inside)
    return np.where(steps >= 0, result - (1 << 23) + (1 << 7), -result + (1 << 23) + (1 << 7) - 1) >> 8
