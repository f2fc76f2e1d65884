"""The DMA instructions: strided copies and fills, and loads of packed weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from npusim.isa.errors import ProgramError
from npusim.isa.hardware import Hardware
from npusim.isa.instruction import Cost, FieldSpec, Instruction, Region, Regions, Space, Unit, bits, dense
from npusim.isa.memory import Memory, Write
from npusim.isa.packing import HEADER_BYTES, unpack
from npusim.isa.program import HostCall

SPACES = ("scratchpad", "dram")


def _region(space: int, address: int, counts: tuple[int, ...], strides: tuple[int, ...]) -> Region:
    """The region without its dimensions of one, inner dimensions merged where they are contiguous."""
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
    return Region(Space(space), address, (*outer_counts, inner), tuple(outer_strides))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Transfer(Instruction):
    """What all transfers share: each of them runs on the channel that it names."""

    home: ClassVar[Unit] = Unit.DMA0

    channel: int = bits(2, "DMA channel that executes the transfer")

    @property
    def unit(self) -> Unit:
        """The channel's unit."""
        return Unit(Unit.DMA0 + self.channel)

    def misfits(self, hardware: Hardware, host_calls: Sequence[HostCall] = ()) -> list[str]:
        """The channel must exist."""
        channels = hardware.dma.channels
        if self.channel < channels:
            return []
        return [f"channel {self.channel} does not exist; the hardware has 0..{channels - 1}"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy(_Transfer):
    """Copy up to four dimensions of bytes, or fill the destination with one byte value.

    The source is read when the transfer starts, the destination is complete when it ends. A source stride
    of zero repeats the source.
    """

    mnemonic: ClassVar[str] = "dma.copy"
    opcode: ClassVar[int] = 0x10
    specs: ClassVar[tuple[FieldSpec, ...]]

    fill: int = bits(1, "take bytes from the source, or fill with `value`", choices=("no", "yes"))
    value: int = bits(8, "byte that fills")
    source_space: int = bits(1, "memory of the source", choices=SPACES)
    source: int = bits(36, "byte address of the source")
    target_space: int = bits(1, "memory of the destination", choices=SPACES)
    target: int = bits(36, "byte address of the destination")
    count0: int = bits(16, "repetitions of the outermost dimension, less one")
    count1: int = bits(16, "repetitions of the second dimension, less one")
    count2: int = bits(20, "repetitions of the third dimension, less one")
    size: int = bits(30, "contiguous bytes of the innermost dimension")
    source_stride0: int = bits(32, "bytes between repetitions of the outermost dimension, source")
    source_stride1: int = bits(32, "of the second dimension, source")
    source_stride2: int = bits(32, "of the third dimension, source")
    target_stride0: int = bits(32, "bytes between repetitions of the outermost dimension, destination")
    target_stride1: int = bits(32, "of the second dimension, destination")
    target_stride2: int = bits(32, "of the third dimension, destination")

    def _counts(self) -> tuple[int, int, int, int]:
        return self.count0 + 1, self.count1 + 1, self.count2 + 1, self.size

    def _source(self) -> Region:
        strides = (self.source_stride0, self.source_stride1, self.source_stride2)
        return _region(self.source_space, self.source, self._counts(), strides)

    def _target(self) -> Region:
        strides = (self.target_stride0, self.target_stride1, self.target_stride2)
        return _region(self.target_space, self.target, self._counts(), strides)

    def regions(self, host_calls: Sequence[HostCall] = ()) -> Regions:
        """Source (unless filling) and destination."""
        return (() if self.fill else (self._source(),)), (self._target(),)

    def faults(self) -> list[str]:
        """A copy moves at least one byte."""
        return [] if self.size else ["size is 0; it may be 1 or more"]

    def execute(self, memory: Memory) -> list[Write]:
        """Read the source; the destination is written at the end."""
        shape = self._counts()
        strides = (self.target_stride0, self.target_stride1, self.target_stride2, 1)
        target = memory.view(Space(self.target_space), self.target, shape, strides, np.uint8)
        if self.fill:
            return [(target, np.full((1,) * 4, self.value, np.uint8))]
        strides = (self.source_stride0, self.source_stride1, self.source_stride2, 1)
        source = memory.view(Space(self.source_space), self.source, shape, strides, np.uint8)
        return [(target, source.copy())]

    def cost(self, hardware: Hardware, host_calls: Sequence[HostCall] = ()) -> Cost:
        """Setup, then beats of up to `port_bytes_per_cycle` bytes that are contiguous in source and destination.

        A run of n such bytes takes ceil(n / port bytes) beats. DRAM time is added by the machine, which
        streams the DRAM regions through the shared port while the scratchpad side runs; a copy within the DRAM
        has no such side.
        """
        port = hardware.dma.port_bytes_per_cycle
        actions: dict[str, int] = {}
        dram: list[tuple[Region, bool]] = []
        reads, writes = self.regions()
        for region, write in [(r, False) for r in reads] + [(w, True) for w in writes]:
            size = region.size_bytes
            if region.space == Space.DRAM:
                dram.append((region, write))
            else:
                name = "scratchpad_write_byte" if write else "scratchpad_read_byte"
                actions[name] = actions.get(name, 0) + size
        run = 0 if len(dram) == 2 else self._run_bytes()
        beats = writes[0].size_bytes // run * -(-run // port) if run else 0
        if dram:
            actions["noc_byte"] = sum(region.size_bytes for region, _ in dram)
        setup = hardware.dma.setup_cycles
        return Cost(setup + beats, actions, setup, tuple(dram), run_bytes=run if dram else 0)

    def _run_bytes(self) -> int:
        """Bytes that are contiguous in the source (unless filling) and in the destination."""
        run = self.size
        for count, source, target in (
            (self.count2 + 1, self.source_stride2, self.target_stride2),
            (self.count1 + 1, self.source_stride1, self.target_stride1),
            (self.count0 + 1, self.source_stride0, self.target_stride0),
        ):
            if count == 1:
                continue
            if target != run or not (self.fill or source == run):
                break
            run *= count
        return run


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpack(_Transfer):
    """Load a block from DRAM: some bytes as they are, then packed weights.

    Needs hardware with a decoder (`dma.decoder_bytes_per_cycle`).
    """

    mnemonic: ClassVar[str] = "dma.unpack"
    opcode: ClassVar[int] = 0x11
    specs: ClassVar[tuple[FieldSpec, ...]]

    source: int = bits(36, "DRAM address of the block")
    plain: int = bits(28, "bytes at its beginning that are copied as they are")
    packed: int = bits(28, "bytes of the packed weights behind them")
    target: int = bits(28, "scratchpad address of the destination")
    weights: int = bits(28, "number of weights, behind the plain bytes in the scratchpad")
    zero: int = bits(9, "zero point of the weights", signed=True)

    def regions(self, host_calls: Sequence[HostCall] = ()) -> Regions:
        """The block in DRAM, and all of it, unpacked, in the scratchpad."""
        source = dense(Space.DRAM, self.source, self.plain + self.packed)
        return (source,), (dense(Space.SCRATCHPAD, self.target, self.plain + self.weights),)

    def faults(self) -> list[str]:
        """There are weights, and a packed block has a header."""
        found = [] if self.weights else ["weights is 0; it may be 1 or more"]
        if self.packed < HEADER_BYTES:
            found.append(f"packed is {self.packed}; it may be {HEADER_BYTES} or more")
        return found

    def misfits(self, hardware: Hardware, host_calls: Sequence[HostCall] = ()) -> list[str]:
        """The channel must exist and have a decoder."""
        found = _Transfer.misfits(self, hardware)
        if not hardware.dma.decoder_bytes_per_cycle:
            found.append(f"{hardware.name} has no decoder; dma.decoder_bytes_per_cycle is 0")
        return found

    def execute(self, memory: Memory) -> list[Write]:
        """Copy the plain bytes, unpack the weights."""
        block = memory.bytes_at(Space.DRAM, self.source, self.plain + self.packed)
        target = memory.bytes_at(Space.SCRATCHPAD, self.target, self.plain + self.weights)
        weights = unpack(block[self.plain :], self.weights, self.zero)
        return [(target, np.concatenate([block[: self.plain], weights]))]

    def cost(self, hardware: Hardware, host_calls: Sequence[HostCall] = ()) -> Cost:
        """Setup, the plain bytes through the port, the weights through the slower of decoder and port.

        Raises ProgramError when the hardware has no decoder.
        """
        rate = hardware.dma.decoder_bytes_per_cycle
        if not rate:
            raise ProgramError(f"{self.mnemonic}: {self.misfits(hardware)[-1]}")
        port = hardware.dma.port_bytes_per_cycle
        beats = -(-self.plain // port) + -(-self.weights // min(rate, port))
        size = self.plain + self.packed
        actions = {
            "noc_byte": size,
            "scratchpad_write_byte": self.plain + self.weights,
            "weight_unpack": self.weights,
        }
        setup = hardware.dma.setup_cycles
        return Cost(setup + beats, actions, setup, ((dense(Space.DRAM, self.source, size), False),))
