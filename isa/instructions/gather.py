"""dma.gather copies rows out of a table, or into it (a scatter). A list of indices in memory selects the table rows.

The indices are data, but the time of an instruction must not depend on data. So the instruction is timed as two
transfers in sequence, each with its setup. The first copies the index list into the channel's burst buffer, like a copy
into the scratchpad. The second copies the table rows. If these pass a memory port, the worst case is assumed:
every run of table rows pays a DRAM row miss, and starts as late within a burst as its alignment permits, so that it
touches the largest number of bursts. With table rows of n bytes and bursts of b bytes, let g be the greatest common
divisor of b, n and the address of the table. Then a row can start up to b - g bytes after the start of a burst.
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
from npusim.isa.instructions.word import LAST, bits

INDEX_TYPES = ("int32", "int64")

BOUNDS = ("checked", "from_end", "clamped")
"""What happens to an index outside its limit, in the order of the field `bounds`."""

MOST_NUMBERS = 4
"""Most numbers (coordinates) in an index."""

_LIMIT_BITS = 28
MOST_ROWS = 1 << _LIMIT_BITS
"""Most rows along a table axis that an index addresses."""

_SPAN_BITS = 20
MOST_SPAN = 1 << _SPAN_BITS
"""Most consecutive rows that an index selects."""

ANYWHERE = 1 << 35
"""Stand-in address, above all addresses that programs use, for table rows whose real addresses depend on data."""


def list_bytes(hardware: Hardware) -> int:
    """Return the bytes of the longest index list, which is the size of a channel's burst buffer."""
    return 2 * hardware.dma.block_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Gather(Transfer):
    """Copy the rows of a table that a list of indices selects to where they are dense, in the order of the list.

    With `scatter`, rows go the other way: from where they are dense to the places in the tables that the list selects.
    Of several rows for one place, the last one in the order of the list remains.

    There are `batches` times `repeats` tables. Each batch has one list of `rows` indices for all its repeats. An index
    consists of `entries` numbers, one per table axis, counted from 0. It selects `span` consecutive rows along the last
    of these axes. An index outside its limit ends the program with an error. With `bounds` from_end, a negative number
    counts from the end of its axis. With clamped, a number becomes the nearest at which all rows of the span exist.
    """

    mnemonic: ClassVar[str] = "dma.gather"
    opcode: ClassVar[int] = 0x12

    index_space: int = bits(SPACE_BITS, "memory of the list", choices=SPACES)
    index: int = bits(36, "byte address of the index list: `rows` times `entries` numbers per batch")
    index_type: int = bits(1, "type of the numbers", choices=INDEX_TYPES)
    source_space: int = bits(SPACE_BITS, "memory of the source", choices=SPACES)
    source: int = bits(36, "byte address of the source: of contiguous tables; of dense rows with `scatter`")
    target_space: int = bits(SPACE_BITS, "memory of the destination", choices=SPACES)
    target: int = bits(
        36, "byte address of the destination: of dense rows; of contiguous tables with `scatter`"
    )
    dense_stride: int = bits(32, "bytes from the dense rows of one repeat to those of the next")
    batches: int = bits(16, "batches, less one")
    repeats: int = bits(20, "tables of a batch, less one")
    rows: int = bits(20, "indices of a batch, less one")
    size: int = bits(30, "bytes of a row")
    entries: int = bits(2, "numbers of an index, less one")
    limit0: int = bits(_LIMIT_BITS, "size of a table along the axis of the first number, less one")
    limit1: int = bits(_LIMIT_BITS, "size of a table along the axis of the second number, less one")
    limit2: int = bits(_LIMIT_BITS, "size of a table along the axis of the third number, less one")
    limit3: int = bits(_LIMIT_BITS, "size of a table along the axis of the fourth number, less one")
    bounds: int = bits(2, "what happens to a number outside its limit", choices=BOUNDS, place=LAST)
    scatter: int = bits(1, "yes: rows are copied into the tables", choices=("no", "yes"), place=LAST)
    span: int = bits(_SPAN_BITS, "consecutive rows that an index selects, less one", place=LAST)

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
    def _run(self) -> int:
        """The contiguous bytes that an index selects."""
        return (self.span + 1) * self.size

    @property
    def _total(self) -> int:
        """Number of bytes that are copied."""
        return prod(self._counts) * self._run

    def _dense(self) -> Region:
        """Return the region where rows are dense: the destination, or the source of a scatter."""
        batches, repeats, rows = self._counts
        space, address = self._ends[not self.scatter]
        if self.dense_stride == rows * self._run or batches * repeats == 1:
            return dense(space, address, self._total)
        return Region(space, address, (batches * repeats, rows * self._run), (self.dense_stride,))

    @property
    def _ends(self) -> tuple[tuple[Space, int], tuple[Space, int]]:
        """Memory and address of the source and of the destination."""
        return (Space(self.source_space), self.source), (Space(self.target_space), self.target)

    def _tables(self) -> Region:
        """Return the region of whole tables."""
        batches, repeats, _ = self._counts
        return dense(*self._ends[self.scatter], batches * repeats * prod(self._limits) * self.size)

    def regions(self, context: Context) -> Regions:
        """Return the regions of the index list, of whole tables, and of the dense rows.

        A scatter counts as a reader of its tables, too, because the rows that it does not select keep their bytes.
        """
        indices = dense(Space(self.index_space), self.index, self._list_bytes)
        rows, tables = self._dense(), self._tables()
        return ((indices, rows, tables), (tables,)) if self.scatter else ((indices, tables), (rows,))

    def faults(self) -> list[str]:
        """A row has at least one byte, and a span is not longer than the table's axis."""
        long = self.span >= self._limits[-1]
        message = f"span {self.span + 1} is more than the {self._limits[-1]} rows of an axis"
        return zero_faults(self, ("size",)) + [message] * long

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
        limits, run = self._limits, self._run
        numbers = memory.bytes_at(Space(self.index_space), self.index, self._list_bytes).copy()
        indices = numbers.view(INDEX_TYPES[self.index_type]).reshape(batches, 1, rows, len(limits))
        places = self._placed(indices.astype(np.int64))
        first = np.ravel_multi_index(tuple(np.moveaxis(places, -1, 0)), limits)
        at = first[..., None] + np.arange(self.span + 1)
        ends = self._ends[not self.scatter], self._ends[self.scatter]
        strides = repeats * self.dense_stride, self.dense_stride, run, self.size, 1
        copies = memory.view(*ends[0], (*self._counts, self.span + 1, self.size), strides, np.uint8)
        shape = batches, repeats, prod(limits), self.size
        tables = memory.bytes_at(*ends[1], prod(shape)).reshape(shape)
        batch, repeat = np.arange(batches)[:, None, None, None], np.arange(repeats)[None, :, None, None]
        if not self.scatter:
            return [(copies, tables[batch, repeat, at])]
        written = tables.copy()
        written[batch, repeat, at] = copies
        return [(tables, written)]

    def _placed(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return indices by which rows are found. Raises OperandFault for a number outside its limit."""
        bounds, limits = BOUNDS[self.bounds], np.array(self._limits)
        last = limits - 1
        last[-1] -= self.span
        if bounds == "clamped":
            return np.clip(numbers, 0, last)
        from_end = bounds == "from_end"
        places = np.where(numbers < 0, numbers + limits, numbers) if from_end else numbers
        wrong = np.argwhere((places < 0) | (places > last))
        if len(wrong):
            batch, _, row, entry = wrong[0].tolist()
            where = f"index {row}" + (f" of batch {batch}" if len(numbers) > 1 else "")
            most, size = last[entry], limits[entry]
            allowed = f"{-size}..{most - size} or 0..{most}" if from_end else f"0..{most}"
            raise OperandFault(f"{where} of the list is {numbers[batch, 0, row, entry]}; it may be {allowed}")
        return places

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
        run = straight(self._run, hardware.dma.port_bytes_per_cycle)
        cycles = setup + run.beats * prod(self._counts)
        actions: Counter[str] = Counter()
        dram = []
        for space, write in ((self.source_space, False), (self.target_space, True)):
            if space == Space.SCRATCHPAD:
                actions["scratchpad_write_byte" if write else "scratchpad_read_byte"] += total
            else:
                actions["noc_byte"] += total
                dram.append((self._dense() if write != self.scatter else self._anywhere(hardware), write))
        if len(dram) == 2:
            return Cost(setup, dict(actions), setup, tuple(dram))
        if not dram:
            return Cost(cycles, dict(actions), setup)
        reads = not dram[0][1]
        beats = Beats(run, prod(self._counts), run.beats * reads, run.beats * (not reads))
        return Cost(cycles, dict(actions), setup, tuple(dram), beats=beats)

    def _anywhere(self, hardware: Hardware) -> Region:
        """Return the worst-case region of the table rows at the memory port.

        Each run of table rows is in another memory row of the same bank and starts as late within a burst as possible.
        """
        space, address = self._ends[self.scatter]
        timing = hardware.port_timing(space)
        late = timing.burst_bytes - gcd(timing.burst_bytes, self.size, address)
        pitch = -(-(late + self._run) // timing.stripe_bytes) * timing.stripe_bytes
        return Region(space, ANYWHERE + late, (prod(self._counts), self._run), (pitch,))
