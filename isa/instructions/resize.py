"""vec.resize scales feature maps by nearest-neighbour or bilinear interpolation."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from npusim.isa.arithmetic.integer import rounding_divide_by_power
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.instructions.instruction import Context, zero_faults
from npusim.isa.instructions.lanes import VectorInstruction, Work, code_type
from npusim.isa.instructions.memory import Memory, Write
from npusim.isa.instructions.region import Regions, Space, dense
from npusim.isa.instructions.word import ADDRESS_BITS, SIGNS, bits

POSITION_BITS = 24
"""Fraction bits of positions in the input."""
WEIGHT_BITS = 22
"""Fraction bits of a pixel's weight in a bilinear sum, which is the product of its row weight and its column weight."""

Positions = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resize(VectorInstruction):
    """Resize a feature map. Output row r is at input position r * row_scale + row_offset; columns likewise.

    "nearest" takes the pixel at the position rounded down. "bilinear" takes the weighted sum of the four pixels around
    the position, rounded half away from zero. Positions outside the input are moved to its border.
    """

    mnemonic: ClassVar[str] = "vec.resize"
    opcode: ClassVar[int] = 0x39

    bilinear: int = bits(1, "interpolation", choices=("nearest", "bilinear"))
    input: int = bits(ADDRESS_BITS, "scratchpad address of the first feature-map row")
    output: int = bits(ADDRESS_BITS, "scratchpad address of the output")
    ifm_height: int = bits(16, "feature-map rows present")
    ifm_width: int = bits(16, "feature-map columns")
    depth: int = bits(20, "channels")
    ofm_height: int = bits(16, "output rows")
    ofm_width: int = bits(16, "output columns")
    row_scale: int = bits(40, f"input rows from one output row to the next, in 1/2^{POSITION_BITS}")
    row_offset: int = bits(40, "input row of the first output row, in the same unit", signed=True)
    column_scale: int = bits(40, "input columns from one output column to the next, in the same unit")
    column_offset: int = bits(40, "input column of the first output column, in the same unit", signed=True)
    signed: int = bits(1, "type of input and output", choices=SIGNS)

    @property
    def tile(self) -> tuple[int, ...]:
        """Rows, columns and channels of the output."""
        return self.ofm_height, self.ofm_width, self.depth

    @property
    def _elements(self) -> int:
        return self.ofm_height * self.ofm_width * self.depth

    @property
    def _taps(self) -> int:
        return 4 if self.bilinear else 1

    def regions(self, context: Context) -> Regions:
        """Return the regions of the dense input and of the dense output."""
        source = dense(Space.SCRATCHPAD, self.input, self.ifm_height * self.ifm_width * self.depth)
        return (source,), (dense(Space.SCRATCHPAD, self.output, self._elements),)

    def faults(self) -> list[str]:
        """Sizes are at least 1."""
        names = ("ifm_height", "ifm_width", "depth", "ofm_height", "ofm_width")
        return zero_faults(self, names)

    def execute(self, memory: Memory) -> list[Write]:
        """Select or interpolate the pixels of each output pixel."""
        size = self.ifm_height * self.ifm_width * self.depth
        ifm = memory.bytes_at(Space.SCRATCHPAD, self.input, size).view(code_type(self.signed))
        image = ifm.reshape(self.ifm_height, self.ifm_width, self.depth)
        rows = positions(self.ofm_height, self.row_scale, self.row_offset, self.ifm_height)
        columns = positions(self.ofm_width, self.column_scale, self.column_offset, self.ifm_width)
        values = _between(image, rows, columns) if self.bilinear else _nearest(image, rows, columns)
        target = memory.bytes_at(Space.SCRATCHPAD, self.output, self._elements)
        return [(target.view(image.dtype), values.reshape(-1))]

    def traffic(self) -> tuple[int, int]:
        """Return the bytes read and written. All one or four input pixels are read for every output element."""
        return self._elements * self._taps, self._elements

    def work(self, context: Context) -> tuple[Work, ...]:
        """Four products per element for bilinear, or `vector.resize_cycles` if it is not 0. One fetch for nearest."""
        action = "vector_mul_q8" if self.bilinear else "vector_lut"
        part, cycles = (
            self.part(context, {action: self._taps}, self._elements),
            context.hardware.vector.resize_cycles,
        )
        return (part._replace(cycles=cycles) if self.bilinear and cycles else part,)


def positions(count: int, scale: int, offset: int, size: int) -> Positions:
    """Return the input positions of `count` output rows or columns, in 1/2**POSITION_BITS, for an input of `size`."""
    return np.clip(np.arange(count, dtype=np.int64) * scale + offset, 0, (size - 1) << POSITION_BITS)


def behind(places: Positions) -> Positions:
    """Return the row or column after each position: the position rounded up."""
    return -(-places >> POSITION_BITS)


def _nearest(image: NDArray[Any], rows: Positions, columns: Positions) -> NDArray[Any]:
    chosen: NDArray[Any] = image[(rows >> POSITION_BITS)[:, np.newaxis], columns >> POSITION_BITS]
    return chosen


def _between(image: NDArray[Any], rows: Positions, columns: Positions) -> NDArray[Any]:
    """Return the bilinear interpolation of an image [height, width, channels] at all pairs of row and column."""
    total = np.zeros((len(rows), len(columns), image.shape[2]), np.int32)
    surplus = 2 * POSITION_BITS - WEIGHT_BITS
    for row, row_share in _taps(rows):
        for column, column_share in _taps(columns):
            product = row_share[:, np.newaxis] * column_share
            share = (product + (1 << surplus - 1)) >> surplus
            total += image[row[:, np.newaxis], column] * share[..., np.newaxis].astype(np.int32)
    pixels: NDArray[Any] = rounding_divide_by_power(total, WEIGHT_BITS).astype(image.dtype)
    return pixels


def _taps(places: Positions) -> list[tuple[Positions, Positions]]:
    """Return the rows (or columns) before and after each position, each with its weights in 1/2**POSITION_BITS."""
    share = places & (1 << POSITION_BITS) - 1
    return [(places >> POSITION_BITS, (1 << POSITION_BITS) - share), (behind(places), share)]
