"""Interpolation in reals that whole numbers give as well: where no result lies near a tie of its rounding.

With positions in multiples of 1/q rows and 1/p columns, interpolated codes are multiples of 1/(qp). If qp is odd none
of them is a half and the nearest half is 1/(2qp) away: whoever is off by less rounds to the same code.
"""

from __future__ import annotations

from math import gcd
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from npusim.isa.instructions.resize import POSITION_BITS, positions
from npusim.kernels.lowering.resize import Line

_MOST_STEP = 255
"""What neighbouring codes can differ by: an interpolated code is off by no more times the error of its position."""
_ROUNDING = 1e-3
"""More than all roundings of products and sums, of float32 and of the instruction, add up to: 255 x 12 x 2**-24."""


class RealAxis(NamedTuple):
    """Positions along one axis: the line nearest to them, q, and by how many pixels line and float32 are off."""

    line: Line
    denominator: int
    off: float


def real_axis(
    size: int, count: int, corners: bool, centers: bool, in_float32: NDArray[np.float64]
) -> RealAxis:
    """Of `count` pixels from `size`; `in_float32` are the positions as the kernel computes them."""
    numbers, divisor = np.arange(count, dtype=np.int64), count
    places = numbers * size
    if corners and count > 1:
        places, divisor = numbers * (size - 1), count - 1
    elif centers:
        places, divisor = (2 * numbers + 1) * size - count, 2 * count
    step = int(places[1] - places[0]) if count > 1 else 0
    line = Line(_rounded(step, divisor), _rounded(int(places[0]), divisor))
    inside = np.clip(places, 0, (size - 1) * divisor)
    exact = inside / divisor
    on_line = positions(count, *line, size) / float(1 << POSITION_BITS)
    off = max(np.abs(on_line - exact).max(), np.abs(np.clip(in_float32, 0, size - 1) - exact).max())
    return RealAxis(line, divisor // gcd(divisor, int(np.gcd.reduce(inside))), float(off))


def _rounded(numerator: int, divisor: int) -> int:
    """A quotient to the nearest multiple of 1/2**POSITION_BITS, in those."""
    return ((numerator << POSITION_BITS) + divisor // 2) // divisor


def tie_free(rows: RealAxis, columns: RealAxis) -> bool:
    """Whether line and float32 surely give the same codes."""
    together = rows.denominator * columns.denominator
    off = _MOST_STEP * (rows.off + columns.off) + _ROUNDING
    return together % 2 == 1 and 2 * together * off < 1
