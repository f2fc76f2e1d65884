"""Lower resized images to instructions of the vector unit."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from npusim.isa.base.tensor import Int64Array
from npusim.isa.instructions.instruction import Instruction
from npusim.isa.instructions.resize import POSITION_BITS, Resize, behind, positions
from npusim.kernels.lowering.vector_work import signed
from npusim.kernels.lowering.work import (
    Parts,
    Rows,
    Tile,
    TileAddresses,
    Work,
    no_constant_bytes,
    no_constants,
)
from npusim.kernels.operator.operands import input_type
from npusim.kernels.operator.operator import Call

_ONE = 1 << POSITION_BITS


class Line(NamedTuple):
    """Input positions of the output's rows, or columns: number * scale + offset, in units of 2**-24."""

    scale: int
    offset: int

    @property
    def fits(self) -> bool:
        """Return True if the line fits the fields of an instruction."""
        return 0 <= self.scale < 1 << 40 and -(1 << 39) <= self.offset < 1 << 39


def line_through(places: Int64Array) -> Line | None:
    """Return the line through positions in units of 2**-24; None if they are on none."""
    scale = int(places[1] - places[0]) if len(places) > 1 else 0
    line = Line(scale, int(places[0]))
    straight = np.array_equal(np.arange(len(places)) * line.scale + line.offset, places)
    return line if straight and line.fits else None


def line_before(nearest: Int64Array, size: int) -> Line | None:
    """Return a line whose pixels are `nearest`, in an input of `size` pixels; None if there is none.

    The slope is that between the ends, or one step beside it. The offset must keep every position in its pixel; in the
    first and the last pixel it may leave the image.
    """
    numbers = np.arange(len(nearest), dtype=np.int64)
    slope = size * _ONE // len(nearest)
    corners = (size - 1) * _ONE // max(len(nearest) - 1, 1)
    for scale in (slope, slope + 1, corners, corners + 1, corners - 1):
        least = (nearest * _ONE - numbers * scale)[nearest > 0]
        most = ((nearest + 1) * _ONE - 1 - numbers * scale)[nearest < size - 1]
        low = int(least.max()) if least.size else int(most.min(initial=_ONE)) - _ONE
        high = int(most.min()) if most.size else low + _ONE
        line = Line(scale, low + (high - low) // 2)
        if low <= high and line.fits:
            return line
    return None


def resize_work(call: Call, bilinear: bool, rows: Line, columns: Line) -> Parts:
    """Cut a resize into tiles of rows, image by image."""
    images, ifm_height, ifm_width, depth = input_type(call).shape
    _, ofm_height, ofm_width, _ = call.outputs[0].shape
    places = positions(ofm_height, *rows, ifm_height)
    above = places >> POSITION_BITS
    below = behind(places) if bilinear else above

    def needed(first: int, last: int) -> tuple[int, int]:
        return int(above[first]), int(below[last - 1]) + 1

    def emit(tile: Tile, at: TileAddresses) -> Instruction:
        first, last = needed(tile.first_row, tile.last_row)
        return Resize(
            bilinear=int(bilinear),
            input=at.inputs[0],
            output=at.output,
            ifm_height=last - first,
            ifm_width=ifm_width,
            depth=depth,
            ofm_height=tile.rows,
            ofm_width=ofm_width,
            row_scale=rows.scale,
            row_offset=rows.offset + tile.first_row * rows.scale - first * _ONE,
            column_scale=columns.scale,
            column_offset=columns.offset,
            signed=signed(call.outputs[0].dtype),
        )

    ifm_row, ofm_row = ifm_width * depth, ofm_width * depth
    ifm = Rows(("in", 0), ifm_height, ifm_row, 0, ifm_height * ifm_row)
    ofm = Rows(("out", 0), ofm_height, ofm_row, 0, ofm_height * ofm_row)
    work = Work(ofm_height, depth, 0, ((ifm, needed),), (ofm,), no_constants, no_constant_bytes, emit)
    return (replace(work, entries=images),)
