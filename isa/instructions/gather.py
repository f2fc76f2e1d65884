"""dma.gather copies the rows of a table that a list of indices in memory selects.

The indices are data, but the time of an instruction must not depend on data. So the instruction is timed as two
transfers in sequence, each with its setup. The first copies the index list into the channel's burst buffer, like a copy
into the scratchpad. The second copies the table rows. If these come through a memory port, the worst case is assumed:
every table row pays a DRAM row miss, and starts as late within a burst as its alignment permits, so that it touches the
largest number of bursts. With table rows of n bytes and bursts of b bytes, let g be the greatest common divisor of b, n
and the address of the table. Then a row can start up to b - g bytes after the start of a burst.
"""

from __future__ import annotations

from collections import Counter
from math import gcd, prod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base.errors import OperandFault
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.memories import SPACE_BITS
from npusim.isa.instructions.beats import Beats, straight
from npusim.isa.instructions.dma import SPACES, Transfer
from npusim.isa.instructions.instruction import Context, Cost, zero_faults
from npusim.isa.instructions.memory import Memory, Write
from npusim.isa.instructions.region import Region, Regions, Space, dense
from npusim.isa.instructions.word import bits

INDEX_TYPES = ("int32", "int64")

MOST_NUMBERS = 4
"""Most numbers (coordinates) in an index."""

_LIMIT_BITS = 28
MOST_ROWS = 1 << _LIMIT_BITS
"""Most rows along a table axis that an index addresses."""

ANYWHERE = 1 << 35
"""Stand-in address, above all addresses that programs use, for table rows whose real addresses depend on data."""


def list_bytes(hardware: Hardware) -> int:
    """Return the bytes of the longest index list, which is the size of a channel's burst buffer."""
    return 2 * hardware.dma.block_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Gather(Transfer):
    """Copy the rows of a table that a list of indices selects. The destination holds them in the order of the list.

    The source is `batches` times `repeats` tables. Each batch has one list of `rows` indices for all its repeats. An
    index consists of `entries` numbers, one per table axis, counted from 0. An index outside its limit ends the program
    with an error.
    """

    mnemonic: ClassVar[str] = "dma.gather"
    opcode: ClassVar[int] = 0x12

    index_space: int = bits(SPACE_BITS, "memory of the list", choices=SPACES)
    index: int = bits(36, "byte address of the index list: `rows` times `entries` numbers per batch")
    index_type: int = bits(1, "type of the numbers", choices=INDEX_TYPES)
    source_space: int = bits(SPACE_BITS, "memory of the tables", choices=SPACES)
    source: int = bits(36, "byte address of the tables, which are contiguous")
    target_space: int = bits(SPACE_BITS, "memory of the destination", choices=SPACES)
    target: int = bits(36, "byte address of the destination")
    target_stride: int = bits(32, "bytes in the destination from the rows of one repeat to those of the next")
    batches: int = bits(16, "batches, less one")
    repeats: int = bits(20, "tables of a batch, less one")
    rows: int = bits(20, "indices of a batch, less one")
    size: int = bits(30, "bytes of a row")
    entries: int = bits(2, "numbers of an index, less one")
    limit0: int = bits(_LIMIT_BITS, "size of a table along the axis of the first number, less one")
    limit1: int = bits(_LIMIT_BITS, "size of a table along the axis of the second number, less one")
    limit2: int = bits(_LIMIT_BITS, "size of a table along the axis of the third number, less one")
    limit3: int = bits(_LIMIT_BITS, "size of a table along the axis of the fourth number, less one")

    @property
    def _counts(self) -> tuple[int, int, int]:
        return self.batches + 1, self.repeats + 1, self.rows + 1

    @property
    def _limits(self) -> tuple[int, ...]:
        """The size of a table along each axis that an index addresses."""
        limits = (self.limit0 + 1, self.limit1 + 1, self.limit2 + 1, self.limit3 + 1)
        return limits[: self.entries + 1]

    @property
    def _list_bytes(self) -> int:
        return (self.batches + 1) * (self.rows + 1) * (self.entries + 1) * (8 if self.index_type else 4)

    @property
    def _total(self) -> int:
        """Number of bytes that are copied."""
        return prod(self._counts) * self.size

    def _target(self) -> Region:
        batches, repeats, rows = self._counts
        if self.target_stride == rows * self.size or batches * repeats == 1:
            return dense(Space(self.target_space), self.target, self._total)
        counts, strides = (batches * repeats, rows * self.size), (self.target_stride,)
        return Region(Space(self.target_space), self.target, counts, strides)

    def regions(self, context: Context) -> Regions:
        """Return the regions of the index list, of whole tables, and of the destination."""
        batches, repeats, _ = self._counts
        tables = batches * repeats * prod(self._limits) * self.size
        indices = dense(Space(self.index_space), self.index, self._list_bytes)
        return (indices, dense(Space(self.source_space), self.source, tables)), (self._target(),)

    def faults(self) -> list[str]:
        """A row has at least one byte."""
        return zero_faults(self, ("size",))

    def misfits(self, context: Context) -> list[str]:
        """The channel must exist, and the index list must fit into its burst buffer (`dma.burst_buffer_kib`)."""
        hardware, messages = context.hardware, Transfer.misfits(self, context)
        if self._list_bytes > list_bytes(hardware):
            messages.append(
                f"the list has {self._list_bytes} bytes; the burst buffer of {hardware.name} holds "
                f"{list_bytes(hardware)}, dma.burst_buffer_kib is {hardware.dma.burst_buffer_kib}"
            )
        return messages

    def execute(self, memory: Memory) -> list[Write]:
        """Read indices and rows at the start; write the destination at the end. Raises OperandFault for a bad index."""
        batches, repeats, rows = self._counts
        space, limits = Space(self.source_space), self._limits
        numbers = memory.bytes_at(Space(self.index_space), self.index, self._list_bytes).copy()
        indices = numbers.view(INDEX_TYPES[self.index_type]).reshape(batches, 1, rows, len(limits))
        chosen = np.ravel_multi_index(tuple(np.moveaxis(_checked(indices, limits), -1, 0)), limits)
        shape = (batches, repeats, prod(limits), self.size)
        tables = memory.bytes_at(space, self.source, prod(shape)).reshape(shape)
        copied = tables[np.arange(batches)[:, None, None], np.arange(repeats)[None, :, None], chosen]
        strides = repeats * self.target_stride, self.target_stride, self.size, 1
        target = memory.view(
            Space(self.target_space), self.target, (*self._counts, self.size), strides, np.uint8
        )
        return [(target, copied)]

    def cost(self, context: Context) -> Cost:
        """Two transfers in sequence: the index list into the burst buffer, then the rows at worst-case addresses."""
        legs = self._list_cost(context.hardware), self._rows_cost(context.hardware)
        actions: Counter[str] = Counter()
        for leg in legs:
            actions.update(leg.actions)
        return Cost(
            sum([leg.cycles for leg in legs]),
            dict(actions),
            legs[0].setup_cycles,
            legs[0].dram + legs[1].dram,
            legs=legs,
        )

    def _list_cost(self, hardware: Hardware) -> Cost:
        size, setup = self._list_bytes, hardware.dma.setup_cycles
        run = straight(size, hardware.dma.port_bytes_per_cycle)
        actions = {"burst_buffer_byte": size}
        if self.index_space == Space.SCRATCHPAD:
            return Cost(setup + run.beats, actions | {"scratchpad_read_byte": size}, setup)
        read = dense(Space(self.index_space), self.index, size)
        beats = Beats(run, 1, run.beats, 0)
        return Cost(setup + run.beats, actions | {"noc_byte": size}, setup, ((read, False),), beats=beats)

    def _rows_cost(self, hardware: Hardware) -> Cost:
        setup, total = hardware.dma.setup_cycles, self._total
        run = straight(self.size, hardware.dma.port_bytes_per_cycle)
        cycles = setup + run.beats * prod(self._counts)
        actions: Counter[str] = Counter()
        dram = []
        for space, write in ((self.source_space, False), (self.target_space, True)):
            if space == Space.SCRATCHPAD:
                actions["scratchpad_write_byte" if write else "scratchpad_read_byte"] += total
            else:
                actions["noc_byte"] += total
                dram.append((self._target() if write else self._anywhere(hardware), write))
        if len(dram) == 2:
            return Cost(setup, dict(actions), setup, tuple(dram))
        if not dram:
            return Cost(cycles, dict(actions), setup)
        reads = not dram[0][1]
        beats = Beats(run, prod(self._counts), run.beats * reads, run.beats * (not reads))
        return Cost(cycles, dict(actions), setup, tuple(dram), beats=beats)

    def _anywhere(self, hardware: Hardware) -> Region:
        """Return the worst-case region of the table rows at the memory port.

        Each table row is in another memory row of the same bank and starts as late within a burst as possible.
        """
        timing = hardware.port_timing(Space(self.source_space))
        late = timing.burst_bytes - gcd(timing.burst_bytes, self.size, self.source)
        pitch = -(-(late + self.size) // timing.stripe_bytes) * timing.stripe_bytes
        return Region(Space(self.source_space), ANYWHERE + late, (prod(self._counts), self.size), (pitch,))


def _checked(indices: NDArray[np.integer], limits: tuple[int, ...]) -> NDArray[np.int64]:
    """Return the indices as int64. Raises OperandFault if a number is not below its limit."""
    wide: NDArray[np.int64] = indices.astype(np.int64)
    wrong = np.argwhere((wide < 0) | (wide >= np.array(limits)))
    if len(wrong):
        batch, _, row, entry = wrong[0].tolist()
        where = f"index {row}" + (f" of batch {batch}" if len(indices) > 1 else "")
        raise OperandFault(
            f"{where} of the list is {wide[batch, 0, row].tolist()[entry]}; it may be 0..{limits[entry] - 1}"
        )
    return wide
