"""DMA instructions: strided copies and fills between any two memories, and loads of compressed weights."""

from __future__ import annotations

from math import ceil, prod
from typing import ClassVar

import numpy as np

from npusim.isa.arithmetic.packing import HEADER_BYTES
from npusim.isa.arithmetic.packing_memo import unpack
from npusim.isa.base.errors import ProgramError
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.hardware.memories import SPACE_BITS
from npusim.isa.hardware.units import Unit, units_of
from npusim.isa.instructions.beats import Beats, straight, walk
from npusim.isa.instructions.instruction import Context, Cost, Instruction, zero_faults
from npusim.isa.instructions.memory import Memory, Write
from npusim.isa.instructions.region import Region, Regions, Space, dense
from npusim.isa.instructions.word import LAST, bits

# A field holds the number of a memory, which is its place here. A look-up is faster than a call of `Space`.
_SPACES = tuple(Space)
SPACES = tuple(space.name.lower() for space in Space)
"""The names of all memories that a field of an instruction can select; hardware has some of them."""

_CHANNELS = units_of(Unit.DMA0.kind)


def _region(space: int, address: int, counts: tuple[int, ...], strides: tuple[int, ...]) -> Region:
    """Return a region in its simplest form: without dimensions of size 1, contiguous inner dimensions merged."""
    inner = counts[-1]
    outer_counts: list[int] = []
    outer_strides: list[int] = []
    for count, stride in zip(reversed(counts[:-1]), reversed(strides), strict=True):
        if count == 1:
            continue
        if not outer_counts and stride == inner:
            inner *= count
        else:
            outer_counts.insert(0, count)
            outer_strides.insert(0, stride)
    return Region(_SPACES[space], address, (*outer_counts, inner), tuple(outer_strides))


_Loops = list[tuple[int, int, int]]
"""Count, source stride and destination stride (bytes) of each outer dimension of a copy, outermost first."""


def _drained(block: _Loops) -> _Loops:
    """Return the dimensions of a block in the order in which the burst buffer is drained: by falling stride."""
    return sorted(block, key=lambda loop: -loop[2])


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer(Instruction):
    """The base of all DMA transfers, which run on the channel that they name."""

    home: ClassVar[Unit] = Unit.DMA0

    channel: int = bits(2, "DMA channel that executes the transfer")

    @property
    def unit(self) -> Unit:
        """The channel's unit."""
        return _CHANNELS[self.channel]

    def misfits(self, context: Context) -> list[str]:
        """The channel must exist."""
        channels = context.hardware.dma.channels
        if self.channel < channels:
            return []
        return [f"channel {self.channel} does not exist; the hardware has 0..{channels - 1}"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy(Transfer):
    """Copy up to four dimensions of bytes, or fill the destination with one byte value.

    The source is read when the transfer starts, and the destination is complete when it ends. A source stride of zero
    repeats the source. A `backward` dimension reads the source towards lower addresses, starting at `source`. With
    `block`, the bytes pass the burst buffer block by block. The source is then read in the order of the dimensions, and
    the destination of a block is written in the order of falling strides.
    """

    mnemonic: ClassVar[str] = "dma.copy"
    opcode: ClassVar[int] = 0x10

    fill: int = bits(1, "yes: fill the destination with `value`; no: copy the source", choices=("no", "yes"))
    value: int = bits(8, "byte to fill with")
    source_space: int = bits(SPACE_BITS, "memory of the source", choices=SPACES)
    source: int = bits(36, "byte address of the source")
    target_space: int = bits(SPACE_BITS, "memory of the destination", choices=SPACES)
    target: int = bits(36, "byte address of the destination")
    count0: int = bits(16, "repetitions of the outermost dimension, less one")
    count1: int = bits(16, "repetitions of the second dimension, less one")
    count2: int = bits(20, "repetitions of the third dimension, less one")
    size: int = bits(30, "contiguous bytes of the innermost dimension")
    source_stride0: int = bits(32, "bytes between repetitions of the outermost dimension, source")
    source_stride1: int = bits(32, "bytes between repetitions of the second dimension, source")
    source_stride2: int = bits(32, "bytes between repetitions of the third dimension, source")
    target_stride0: int = bits(32, "bytes between repetitions of the outermost dimension, destination")
    target_stride1: int = bits(32, "bytes between repetitions of the second dimension, destination")
    target_stride2: int = bits(32, "bytes between repetitions of the third dimension, destination")
    block: int = bits(
        2, "outer dimensions that form a block with the innermost; 0: the burst buffer is not used"
    )
    backward: int = bits(3, "bit mask of dimensions that read the source backwards; bit 0 is the outermost")
    view: int = bits(
        1,
        "yes: takes no time, because a unit reads or writes the other tensor in place (`dma.views`)",
        choices=("no", "yes"),
        place=LAST,
    )

    def _loops(self) -> _Loops:
        signs = [-1 if self.backward >> place & 1 else 1 for place in range(3)]
        return [
            (self.count0 + 1, signs[0] * self.source_stride0, self.target_stride0),
            (self.count1 + 1, signs[1] * self.source_stride1, self.target_stride1),
            (self.count2 + 1, signs[2] * self.source_stride2, self.target_stride2),
        ]

    def _block(self) -> _Loops:
        return self._loops()[3 - self.block :]

    def _sides(self, loops: _Loops) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Return the counts of all dimensions, the innermost in bytes, and the strides of source and destination."""
        counts, sources, targets = zip(*loops, strict=True)
        return (*counts, self.size), sources, targets

    def regions(self, context: Context) -> Regions:
        """Return the regions of the source, unless the destination is filled, and of the destination."""
        reads, writes = self._passed()
        if not self.backward:
            return reads, writes
        return tuple([region.rising for region in reads]), writes

    def _passed(self) -> Regions:
        """Return the regions of source and destination, with dimensions in the order of access."""
        if not (self.count0 or self.count1 or self.count2 or self.block):  # as most copies are
            target = dense(_SPACES[self.target_space], self.target, self.size)
            source = dense(_SPACES[self.source_space], self.source, self.size)
            return (() if self.fill else (source,)), (target,)
        loops = self._loops()
        counts, strides, _ = self._sides(loops)
        source = _region(self.source_space, self.source, counts, strides)
        if self.block:
            loops[3 - self.block :] = _drained(self._block())
        counts, _, strides = self._sides(loops)
        target = _region(self.target_space, self.target, counts, strides)
        return (() if self.fill else (source,)), (target,)

    def faults(self) -> list[str]:
        """A copy moves at least one byte, a fill has no block, and no source address is below 0."""
        messages = zero_faults(self, ("size",))
        if self.fill and self.block:
            messages.append(f"block is {self.block}; a fill has no blocks, it may be 0")
        reach = sum([(count - 1) * stride for count, stride, _ in self._loops() if stride < 0])
        if self.source + reach < 0 and not self.fill:
            messages.append(f"source is {self.source}; backwards it reaches {-reach} bytes further down")
        return messages

    def misfits(self, context: Context) -> list[str]:
        """The channel must exist. A block must fit into half of its burst buffer (`dma.burst_buffer_kib`), and a view
        needs `dma.views`.
        """
        hardware, messages = context.hardware, Transfer.misfits(self, context)
        if self.view > hardware.dma.views:
            messages.append(
                f"units of {hardware.name} reach no parts of tensors in place; dma.views is false"
            )
        if self.block:
            size, half = prod([count for count, _, _ in self._block()]) * self.size, hardware.dma.block_bytes
            if size > half:
                kib = hardware.dma.burst_buffer_kib
                messages.append(
                    f"a block has {size} bytes; half of the burst buffer of {hardware.name} holds {half}, "
                    f"dma.burst_buffer_kib is {kib}"
                )
        return messages

    def execute(self, memory: Memory) -> list[Write]:
        """Read the source at the start; write the destination at the end."""
        shape, sources, targets = self._sides(self._loops())
        target = memory.view(Space(self.target_space), self.target, shape, (*targets, 1), np.uint8)
        if self.fill:
            return [(target, np.full((1,) * 4, self.value, np.uint8))]
        source = memory.view(Space(self.source_space), self.source, shape, (*sources, 1), np.uint8)
        return [(target, source.copy())]

    def cost(self, context: Context) -> Cost:
        """Setup, then the transfer cycles (beats), with or without the burst buffer; their chapter has the formulas.

        The machine adds the time at the ports of the other memories. It streams their regions while the scratchpad
        side runs. A copy between two memories behind ports has no scratchpad side: it reads everything before it
        writes. A copy of runs within the scratchpad uses the rate `dma.local_bytes_per_cycle`, if the hardware has
        one. A view takes no time.

        Raises ProgramError if a block does not fit into the burst buffer.
        """
        hardware = context.hardware
        if self.view:
            return Cost(0, {})
        actions: dict[str, int] = {}
        dram: list[tuple[Region, bool]] = []
        reads, writes = self._passed()
        for region, write in [(r, False) for r in reads] + [(w, True) for w in writes]:
            size = region.size_bytes
            if region.space != Space.SCRATCHPAD:
                dram.append((region, write))
            else:
                name = "scratchpad_write_byte" if write else "scratchpad_read_byte"
                actions[name] = actions.get(name, 0) + size
        if dram:
            actions["noc_byte"] = sum(region.size_bytes for region, _ in dram)
        if self.block:
            actions["burst_buffer_byte"] = writes[0].size_bytes
        setup, beats = (
            hardware.dma.setup_cycles,
            self._beats(context, reads_dram=bool(dram) and not dram[0][1]),
        )
        if len(dram) == 2:
            return Cost(setup, actions, setup, tuple(dram))
        rate = hardware.dma.local_bytes_per_cycle
        if rate and not dram and not self.fill and self._run_bytes() > 1:
            return Cost(setup + ceil(writes[0].size_bytes / rate), actions, setup)
        return Cost(setup + beats.cycles, actions, setup, tuple(dram), beats=beats if dram else None)

    def _beats(self, context: Context, *, reads_dram: bool) -> Beats:
        """Return the transfer cycles of the scratchpad side.

        Their access pattern is that of the memory behind a port, if there is one, because it paces the transfer.
        """
        port, total = (
            context.hardware.dma.port_bytes_per_cycle,
            prod([count for count, _, _ in self._loops()]) * self.size,
        )
        if not self.block:
            run = straight(self._run_bytes(), port)
            fill, drain = (run.beats, 0) if reads_dram else (0, run.beats)
            return Beats(run, total // run.size_bytes, fill, drain)
        misfits = self.misfits(context)
        if misfits:
            raise ProgramError(f"{self.mnemonic}: {misfits[-1]}")
        counts, strides, _ = self._sides(self._block())
        source = walk(counts, strides, port)
        counts, _, strides = self._sides(_drained(self._block()))
        target = walk(counts, strides, port)
        return Beats(source if reads_dram else target, total // source.size_bytes, source.beats, target.beats)

    def _run_bytes(self) -> int:
        """Return the length of a run that is contiguous in the source (unless filling) and in the destination."""
        run = self.size
        for count, source, target in reversed(self._loops()):
            if count == 1:
                continue
            if target != run or not (self.fill or source == run):
                break
            run *= count
        return run


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpack(Transfer):
    """Load a block into the scratchpad: first plain bytes, then compressed weights, which are decoded.

    The hardware needs a decoder (`dma.decoder_bytes_per_cycle`).
    """

    mnemonic: ClassVar[str] = "dma.unpack"
    opcode: ClassVar[int] = 0x11

    source_space: int = bits(SPACE_BITS, "memory of the block", choices=SPACES)
    source: int = bits(36, "byte address of the block")
    plain: int = bits(28, "bytes at the start of the block that are copied unchanged")
    packed: int = bits(28, "bytes of the compressed weights after the plain bytes")
    target: int = bits(28, "scratchpad address of the destination")
    weights: int = bits(28, "number of decoded weights, written after the plain bytes")
    zero: int = bits(9, "zero point of the weights", signed=True)

    def regions(self, context: Context) -> Regions:
        """Return the region of the stored block and that of the decoded block in the scratchpad."""
        source = dense(_SPACES[self.source_space], self.source, self.plain + self.packed)
        return (source,), (dense(Space.SCRATCHPAD, self.target, self.plain + self.weights),)

    def faults(self) -> list[str]:
        """There is at least one weight, compressed weights have a header, and the source is a memory behind a port."""
        messages = zero_faults(self, ("weights",))
        if self.source_space == Space.SCRATCHPAD:
            messages.append("source_space is scratchpad; it may be a memory behind a port")
        if self.packed < HEADER_BYTES:
            messages.append(f"packed is {self.packed}; it may be {HEADER_BYTES} or more")
        return messages

    def misfits(self, context: Context) -> list[str]:
        """The channel must exist and have a decoder."""
        hardware, messages = context.hardware, Transfer.misfits(self, context)
        if not hardware.dma.decoder_bytes_per_cycle:
            messages.append(f"{hardware.name} has no decoder; dma.decoder_bytes_per_cycle is 0")
        return messages

    def execute(self, memory: Memory) -> list[Write]:
        """Copy the plain bytes and decode the weights."""
        block = memory.bytes_at(Space(self.source_space), self.source, self.plain + self.packed)
        target = memory.bytes_at(Space.SCRATCHPAD, self.target, self.plain + self.weights)
        weights = unpack(block[self.plain :], self.weights, self.zero)
        return [(target, np.concatenate([block[: self.plain], weights]))]

    def cost(self, context: Context) -> Cost:
        """Setup, then the plain bytes at the rate of the port, then the weights at the lower rate of decoder and port.

        Raises ProgramError if the hardware has no decoder.
        """
        hardware = context.hardware
        rate = hardware.dma.decoder_bytes_per_cycle
        if not rate:
            raise ProgramError(f"{self.mnemonic}: {self.misfits(context)[-1]}")
        port = hardware.dma.port_bytes_per_cycle
        beats = -(-self.plain // port) + -(-self.weights // min(rate, port))
        size = self.plain + self.packed
        actions = {
            "noc_byte": size,
            "scratchpad_write_byte": self.plain + self.weights,
            "weight_unpack": self.weights,
        }
        setup = hardware.dma.setup_cycles
        return Cost(
            setup + beats, actions, setup, ((dense(_SPACES[self.source_space], self.source, size), False),)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadWeights(Transfer):
    """Load a block into the scratchpad: first plain bytes, then weights of which only some bits count as traffic.

    A weight is one byte, but only `mac_array.weight_bits` of it are charged. Time, traffic and energy are those of a
    copy of the plain bytes plus ceil(weights x weight_bits / 8) bytes. The remaining bits are copied without cost, so
    that results equal those of the model.
    """

    mnemonic: ClassVar[str] = "dma.weights"
    opcode: ClassVar[int] = 0x13

    source_space: int = bits(SPACE_BITS, "memory of the block", choices=SPACES)
    source: int = bits(36, "byte address of the block")
    plain: int = bits(28, "bytes at the start of the block that are charged in full")
    weights: int = bits(28, "number of weights after the plain bytes")
    target: int = bits(28, "scratchpad address of the destination")

    def regions(self, context: Context) -> Regions:
        """Return the region of the block in its memory and that in the scratchpad."""
        size = self.plain + self.weights
        source = dense(_SPACES[self.source_space], self.source, size)
        return (source,), (dense(Space.SCRATCHPAD, self.target, size),)

    def faults(self) -> list[str]:
        """There is at least one weight, and the source is a memory behind a port."""
        messages = zero_faults(self, ("weights",))
        if self.source_space == Space.SCRATCHPAD:
            messages.append("source_space is scratchpad; it may be a memory behind a port")
        return messages

    def execute(self, memory: Memory) -> list[Write]:
        """Copy the whole block."""
        size = self.plain + self.weights
        source = memory.bytes_at(Space(self.source_space), self.source, size)
        return [(memory.bytes_at(Space.SCRATCHPAD, self.target, size), source.copy())]

    def cost(self, context: Context) -> Cost:
        """The time of a `dma.copy` of the charged bytes."""
        passing = Copy(
            channel=self.channel,
            source_space=self.source_space,
            source=self.source,
            target_space=Space.SCRATCHPAD,
            target=self.target,
            size=self.plain + context.hardware.mac_array.stored_bytes(self.weights),
        )
        return passing.cost(context)
