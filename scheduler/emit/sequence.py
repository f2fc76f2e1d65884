"""The program order of tiles and transfers, and the addresses of their buffers.

Compute slots keep the order of the graph. Loads are queued in the order in which they are needed. Each is issued as
soon as the DMA channel and the bytes of its buffer are free, so the weights of later tiles and layers arrive while
earlier ones compute. Times here are estimates and decide the order only; the simulated machine finds the real ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import NamedTuple

from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.units import Unit
from npusim.isa.instructions.dma import Copy, LoadWeights, Unpack
from npusim.isa.instructions.instruction import Instruction
from npusim.isa.instructions.region import Space
from npusim.scheduler.fit.allocate import Allocator
from npusim.scheduler.fit.costs import Transfers

LOAD_CHANNEL = 0


@dataclass(slots=True)
class Buffer:
    """A buffer of the scratchpad during a span of slots. It gets its address when it is first needed."""

    name: str
    size_bytes: int
    first_slot: int
    last_slot: int
    address: int = -1
    placed: bool = False
    instructions: list[int] = field(default_factory=list)


class Runs(NamedTuple):
    """The counts of a copy's dimensions, the last of contiguous bytes, and the strides of the others, in bytes."""

    counts: tuple[int, ...]
    source_strides: tuple[int, ...]
    target_strides: tuple[int, ...]


@dataclass(slots=True)
class Load:
    """A copy from another memory into a buffer, which must be complete before a slot.

    A load of 0 bytes only reserves its buffer, for results.
    needed_slot, earliest_slot: the slot that needs it, and the first slot beside which it may run.
    packed_bytes, weights: the last `packed_bytes` bytes of the copy unpack to so many weights; 0 for no packed ones.
    few_bits, plain_bytes: number of weights of few bits, which follow `plain_bytes` other bytes; 0 for none.
    runs:                  the dimensions of a strided copy; None for a dense one.
    """

    buffer: Buffer
    needed_slot: int
    earliest_slot: int
    layer: int
    space: Space = Space.DRAM
    address: int = 0
    offset_bytes: int = 0
    size_bytes: int = 0
    packed_bytes: int = 0
    weights: int = 0
    zero_point: int = 0
    few_bits: int = 0
    plain_bytes: int = 0
    runs: Runs | None = None


@dataclass(slots=True)
class Slot:
    """One computation of an item, such as a tile.

    cycles: estimated computing cycles.
    emit:   builds the instructions, once the buffers have addresses.
    after:  builds the copies that take the results to another memory; None if they stay in the scratchpad.
    beside: it runs in parallel with other items' slots, and waits for earlier slots of its own item only.
    """

    item: int
    layer: int
    cycles: int
    buffers: tuple[Buffer, ...]
    emit: Callable[[], tuple[Instruction, ...]]
    after: Callable[[], list[Instruction]] | None = None
    beside: bool = False


class DoesNotFit(Exception):
    """A buffer of an item found no room in the scratchpad."""

    def __init__(self, item: int) -> None:
        super().__init__(item)
        self.item = item


@dataclass(slots=True)
class Timeline:
    """Instructions in program order, with the layer that each works for.

    behind: for instructions that must wait for others without sharing data, by position, the positions of those.
    """

    instructions: list[Instruction] = field(default_factory=list)
    layers: list[int] = field(default_factory=list)
    behind: dict[int, tuple[int, ...]] = field(default_factory=dict)

    def add(
        self, instruction: Instruction, layer: int, buffers: Sequence[Buffer] = (), behind: Iterable[int] = ()
    ) -> None:
        """Append an instruction that uses some buffers."""
        for buffer in buffers:
            buffer.instructions.append(len(self.instructions))
        if behind:
            self.behind[len(self.instructions)] = tuple(behind)
        self.instructions.append(instruction)
        self.layers.append(layer)


def strided_copy(
    channel: int,
    spaces: tuple[Space, Space],
    addresses: tuple[int, int],
    counts: Sequence[int],
    strides: tuple[Sequence[int], Sequence[int]],
    block: int = 0,
) -> Copy:
    """Return a copy instruction of up to three strided dimensions around `counts[-1]` contiguous bytes.

    spaces, addresses, strides: of source and target; strides in bytes. Negative source strides read backwards.
    block: number of inner dimensions that pass the burst buffer as one block; 0 for a copy without it.
    """
    if len(counts) == 1:  # most copies are dense, and the fields of the other dimensions are 0
        return Copy(
            channel=channel,
            source_space=spaces[0],
            source=addresses[0],
            target_space=spaces[1],
            target=addresses[1],
            size=counts[0],
            block=block,
        )
    missing = 4 - len(counts)
    full_counts = (1,) * missing + tuple(counts)
    source_strides = (0,) * missing + tuple(strides[0])
    target_strides = (0,) * missing + tuple(strides[1])
    return Copy(
        channel=channel,
        source_space=spaces[0],
        source=addresses[0],
        target_space=spaces[1],
        target=addresses[1],
        count0=full_counts[0] - 1,
        count1=full_counts[1] - 1,
        count2=full_counts[2] - 1,
        size=full_counts[3],
        source_stride0=abs(source_strides[0]),
        source_stride1=abs(source_strides[1]),
        source_stride2=abs(source_strides[2]),
        target_stride0=target_strides[0],
        target_stride1=target_strides[1],
        target_stride2=target_strides[2],
        block=block,
        backward=sum([1 << place for place, stride in enumerate(source_strides) if stride < 0]),
    )


def arrange(
    slots: Sequence[Slot],
    loads: list[Load],
    resident: Allocator,
    hardware: Hardware,
    spare_results: bool = True,
    queue_share: float = 0.5,
) -> Timeline:
    """Put slots and loads into program order and give streaming buffers their addresses.

    resident:      allocator that already holds the buffers that stay in the scratchpad over many slots.
    spare_results: results that leave the scratchpad avoid the bytes of the results before them, which are still being
                   stored, while there is room elsewhere.
    queue_share:   estimated share of the DMA queue that waiting loads may fill.
    Raises DoesNotFit for a buffer that finds no room.
    """
    steps: list[Load | Slot] = []
    transfers = Transfers(hardware)
    # Waiting loads must not fill the queue of their channel, or they stall the front end and with it the computations
    # that follow.
    most_waiting = max(1, int(hardware.front_end.queue_depth * queue_share))
    loads = sorted(loads, key=lambda load: load.needed_slot)
    ready: dict[int, float] = {}
    begins: list[float] = []
    # The front end dispatches in order, so a load after a slot is dispatched by the time that slot starts.
    now = dma_free = dispatched = 0.0
    ended: dict[int, float] = {}
    position = 0
    for index, slot in enumerate(slots):
        behind = ended.get(slot.item, 0.0) if slot.beside else now
        while position < len(loads):
            load = loads[position]
            forced = load.needed_slot <= index
            if not forced:
                until = max([behind, *[ready.get(id(buffer), 0.0) for buffer in slot.buffers]]) + slot.cycles
                if dma_free >= until or load.earliest_slot > index:
                    break
                if sum([begin > behind for begin in begins[-most_waiting:]]) >= most_waiting:
                    break
            if not _place(load, index, resident, spare_results):
                if forced:
                    raise DoesNotFit(slot.item)
                break
            position += 1
            if load.size_bytes:
                steps.append(load)
                begins.append(max(dma_free, dispatched))
                dma_free = begins[-1] + transfers.load_cycles(
                    load.space, load.size_bytes, load.packed_bytes, load.weights
                )
                ready[id(load.buffer)] = dma_free
        dispatched = max([behind, *[ready.get(id(buffer), 0.0) for buffer in slot.buffers]])
        ended[slot.item] = dispatched + slot.cycles
        now = max(now, ended[slot.item])
        steps.append(slot)
    return _written(steps, hardware.overlap == "all")


def _written(steps: Sequence[Load | Slot], overlap: bool) -> Timeline:
    """Build the instructions of loads and slots in order, after all buffers have been placed.

    Without `overlap` (the hardware runs layers one by one), each instruction of a slot waits for those of the slots
    before it, and each load for those of the slots before its `earliest_slot`.
    """
    timeline = Timeline()
    ends: dict[Unit, int] = {}
    before: list[Mapping[Unit, int]] = []
    for step in steps:
        if isinstance(step, Load):
            at = before[step.earliest_slot] if step.earliest_slot < len(before) else ends
            _issue(timeline, step, () if overlap else at.values())
            continue
        before.append({} if overlap else dict(ends))
        for instruction in step.emit():
            waits = () if overlap else [end for unit, end in ends.items() if unit != instruction.unit]
            ends[instruction.unit] = len(timeline.instructions)
            timeline.add(instruction, step.layer, step.buffers, waits)
        if step.after is not None:
            for copy in step.after():
                timeline.add(copy, step.layer, step.buffers)
    return timeline


def _place(load: Load, slot: int, memory: Allocator, spare_results: bool) -> bool:
    buffer = load.buffer
    if buffer.placed:
        return True
    address = None
    if spare_results and not load.size_bytes and buffer.last_slot == load.needed_slot:
        # This buffer takes results that go to another memory. The results of the slot before are still being stored,
        # so avoid their bytes if there is room elsewhere.
        address = memory.find(buffer.size_bytes, slot - 1, buffer.last_slot, from_top=True)
    if address is None:
        address = memory.find(buffer.size_bytes, slot, buffer.last_slot, from_top=True)
    if address is None:
        return False
    memory.take(address, buffer.size_bytes, slot, buffer.last_slot)
    buffer.address, buffer.first_slot, buffer.placed = address, slot, True
    return True


def _issue(timeline: Timeline, load: Load, behind: Iterable[int]) -> None:
    if load.weights:
        unpack = Unpack(
            channel=LOAD_CHANNEL,
            source_space=load.space,
            source=load.address,
            plain=load.size_bytes - load.packed_bytes,
            packed=load.packed_bytes,
            target=load.buffer.address + load.offset_bytes,
            weights=load.weights,
            zero=load.zero_point,
        )
        timeline.add(unpack, load.layer, (load.buffer,), behind)
        return
    if load.few_bits:
        weights = LoadWeights(
            channel=LOAD_CHANNEL,
            source_space=load.space,
            source=load.address,
            plain=load.plain_bytes,
            weights=load.few_bits,
            target=load.buffer.address + load.offset_bytes,
        )
        timeline.add(weights, load.layer, (load.buffer,), behind)
        return
    counts, *strides = load.runs or Runs((load.size_bytes,), (), ())
    copy = strided_copy(
        LOAD_CHANNEL,
        (load.space, Space.SCRATCHPAD),
        (load.address, load.buffer.address + load.offset_bytes),
        counts,
        (strides[0], strides[1]),
    )
    timeline.add(copy, load.layer, (load.buffer,), behind)
