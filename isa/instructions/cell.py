"""vec.lstm computes the next cell state and output of an LSTM from the weighted sums of its gates."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from npusim.isa.arithmetic.integer import multiply_by_quantized_multiplier
from npusim.isa.arithmetic.words import (
    high_product,
    logistic_of_words,
    of_word,
    saturated,
    shifted_down,
    tanh_of_words,
)
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.instructions.instruction import Context, zero_faults
from npusim.isa.instructions.lanes import VectorInstruction, Work, code_type
from npusim.isa.instructions.memory import Memory, Write
from npusim.isa.instructions.region import Region, Regions, Space, dense
from npusim.isa.instructions.word import ADDRESS_BITS, CODES, SIGNS, bits

Words = NDArray[np.int64]

WORD_BYTES, ADDEND_BYTES = 2, 4
SUM_INTEGER_BITS = 3
"""Integer bits of a gate's sum: an int16 with 3 integer and 12 fraction bits."""
MOST_STATE_INTEGER_BITS = 8
_STATE_BITS = 15
ARITHMETICS = ("halves_away", "halves_up")
_OUTPUT_SHIFT = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class LstmCell(VectorInstruction):
    """Compute one time step of LSTM cells in int16: c = f c + i g, h = o tanh(c), with i, f, o = logistic, g = tanh.

    A row has `cells` cells. Its sums are int16, the gates i, f, g, o one after the other. The gate i is missing if it
    is `coupled`, that is 1 - f. The addends are int32 values that are added to the sums with saturation. Outputs are
    8-bit values: requantized, or with `halves_up` the upper 8 bits.
    """

    mnemonic: ClassVar[str] = "vec.lstm"
    opcode: ClassVar[int] = 0x3E

    sums: int = bits(ADDRESS_BITS, "scratchpad address of the sums of the first row")
    sums_stride: int = bits(24, "bytes from row to row of the sums")
    addends: int = bits(ADDRESS_BITS, "scratchpad address of the addends, int32, row after row")
    added: int = bits(1, "whether the addends are added to the sums", choices=("no", "yes"))
    state: int = bits(ADDRESS_BITS, "scratchpad address of the cell states, int16, row after row")
    next_state: int = bits(ADDRESS_BITS, "scratchpad address of the next cell states")
    output: int = bits(ADDRESS_BITS, "scratchpad address of the 8-bit outputs, row after row")
    rows: int = bits(16, "rows")
    cells: int = bits(20, "cells of a row")
    coupled: int = bits(1, "the input gate is 1 - f", choices=("no", "yes"))
    arithmetic: int = bits(1, "rounding of products of gates", choices=ARITHMETICS)
    state_integer_bits: int = bits(4, "integer bits of a state")
    limit: int = bits(15, "largest magnitude of a state; 0: no limit but int16")
    multiplier: int = bits(31, "multiplier of the output's requantization")
    shift: int = bits(6, "shift of the output's requantization", signed=True)
    zero: int = bits(9, "zero point of the output", signed=True)
    signed: int = bits(1, "type of the output", choices=SIGNS)

    @property
    def tile(self) -> tuple[int, ...]:
        """Number of rows and of cells in each."""
        return self.rows, self.cells

    @property
    def _gates(self) -> int:
        return 3 if self.coupled else 4

    def regions(self, context: Context) -> Regions:
        """Return the regions of sums, addends and states, which are read, and of next states and outputs."""
        size, words = self.rows * self.cells, self._gates * self.cells * WORD_BYTES
        reads = [Region(Space.SCRATCHPAD, self.sums, (self.rows, words), (self.sums_stride,))]
        if self.rows == 1 or self.sums_stride == words:
            reads = [dense(Space.SCRATCHPAD, self.sums, self.rows * words)]
        if self.added:
            reads.append(
                dense(Space.SCRATCHPAD, self.addends, self.rows * self._gates * self.cells * ADDEND_BYTES)
            )
        reads.append(dense(Space.SCRATCHPAD, self.state, size * WORD_BYTES))
        writes = (
            dense(Space.SCRATCHPAD, self.next_state, size * WORD_BYTES),
            dense(Space.SCRATCHPAD, self.output, size),
        )
        return tuple(reads), writes

    def faults(self) -> list[str]:
        """There is at least one cell, rows of sums do not overlap, the zero point is a value of the output's type, and
        states have at most 8 integer bits.
        """
        messages = zero_faults(self, ("rows", "cells"))
        words = self._gates * self.cells * WORD_BYTES
        if self.rows > 1 and self.sums_stride < words:
            messages.append(f"sums_stride is {self.sums_stride}; it may be {words} or more")
        if self.state_integer_bits > MOST_STATE_INTEGER_BITS:
            messages.append(
                f"state_integer_bits is {self.state_integer_bits}; it may be 0..{MOST_STATE_INTEGER_BITS}"
            )
        low, high = CODES[self.signed]
        if not low <= self.zero <= high:
            messages.append(f"zero {self.zero} is not within {low}..{high}")
        return messages

    def _words(
        self, memory: Memory, address: int, columns: int, row_stride: int = 0, size_bytes: int = WORD_BYTES
    ) -> Words:
        """Read integers of `size_bytes` from the scratchpad as an array [rows, columns].

        row_stride: bytes from row to row; 0 if rows are dense.
        """
        shape = self.rows, columns * size_bytes
        raw = memory.view(Space.SCRATCHPAD, address, shape, (row_stride or shape[1], 1), np.uint8)
        return np.ascontiguousarray(raw).view(f"<i{size_bytes}").astype(np.int64)

    def execute(self, memory: Memory) -> list[Write]:
        """Compute the gates, then the next states, then the outputs."""
        columns = self._gates * self.cells
        sums = self._words(memory, self.sums, columns, self.sums_stride)
        if self.added:
            sums = saturated(sums + self._words(memory, self.addends, columns, size_bytes=ADDEND_BYTES))
        before = self._words(memory, self.state, self.cells)
        after, codes = self._step(np.split(sums, self._gates, axis=1), before)
        shape, wide = (self.rows, self.cells), (self.rows, self.cells * WORD_BYTES)
        strides, dtype = (self.cells, 1), code_type(self.signed)
        states = memory.view(Space.SCRATCHPAD, self.next_state, wide, (wide[1], 1), np.uint8)
        output = memory.view(Space.SCRATCHPAD, self.output, shape, strides, dtype)
        return [(states, after.astype("<i2").view(np.uint8)), (output, codes.astype(dtype))]

    def _step(self, sums: list[Words], before: Words) -> tuple[Words, Words]:
        """Return the next states and the 8-bit outputs.

        sums:   the sums of the gates i (unless coupled), f, g and o, each [rows, cells].
        before: the states before this time step, [rows, cells].
        """
        forget_sums, candidate_sums, output_sums = sums[-3:]
        logistic = logistic_of_words(SUM_INTEGER_BITS)
        forget, output_gate = of_word(logistic, forget_sums), of_word(logistic, output_sums)
        candidate = of_word(tanh_of_words(SUM_INTEGER_BITS), candidate_sums)
        one = (1 << _STATE_BITS) - 1
        input_gate = one - forget if self.coupled else of_word(logistic, sums[0])
        bits_of_state, low_high = self.state_integer_bits, CODES[self.signed]
        if ARITHMETICS[self.arithmetic] == "halves_up":
            change = shifted_down(high_product(input_gate, candidate), bits_of_state)
            remaining = high_product(forget, before)
        else:
            change = shifted_down(input_gate * candidate, _STATE_BITS + bits_of_state)
            remaining = shifted_down(forget * before, _STATE_BITS)
        limit = self.limit or 1 << _STATE_BITS
        after = np.clip(saturated(remaining + change), -limit, limit)
        squashed = of_word(tanh_of_words(bits_of_state), after)
        if ARITHMETICS[self.arithmetic] == "halves_up":
            codes = np.clip(shifted_down(high_product(output_gate, squashed), _OUTPUT_SHIFT), -128, 127)
        else:
            product = (output_gate * squashed).astype(np.int32)
            codes = multiply_by_quantized_multiplier(product, self.multiplier, self.shift).astype(np.int64)
        return after, np.clip(codes + self.zero, *low_high)

    def traffic(self) -> tuple[int, int]:
        """Return the bytes read (sums, addends and states) and written (states and outputs)."""
        read = self._gates * (WORD_BYTES + self.added * ADDEND_BYTES) + WORD_BYTES
        return read * self.rows * self.cells, (WORD_BYTES + 1) * self.rows * self.cells

    def work(self, context: Context) -> tuple[Work, ...]:
        """Per cell, a lane computes an exponential and a reciprocal for each gate and for the state, one after the
        other, then three products.
        """
        steps = {"vector_exp": 2 * (self._gates + 1), "vector_mul_q8": 3}
        return (self.part(context, steps, self.rows * self.cells),)
