"""Random legal copies and gathers, and hardware to run them on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from npusim.isa.hardware.hardware import Dma, FrontEnd, Hardware, MacArray
from npusim.isa.hardware.memories import Dram, Scratchpad
from npusim.isa.hardware.units import PRODUCERS
from npusim.isa.instructions.control import Barrier
from npusim.isa.instructions.dma import Copy
from npusim.isa.instructions.gather import Gather
from npusim.isa.instructions.instruction import Instruction
from npusim.isa.instructions.region import Space
from npusim.isa.instructions.word import WAITS, Waits

from ..isa.samples import good_indices
from .system_referee import DMA_PORT

CODE_ADDRESS = 192 * 1024
"""Above the data in DRAM."""

BUFFER_KIB = 4
"""Of each channel; `dma_engine` has as much."""

_MOST_BYTES = 3000
_SPACE_BYTES = {Space.SCRATCHPAD: 1 << 16, Space.DRAM: CODE_ADDRESS}


def draw_hardware(rng: np.random.Generator, array: MacArray) -> Hardware:
    """A gigahertz machine with random memory timing; a burst takes at least a cycle."""

    def one_of(*values: float) -> float:
        return float(rng.choice(values))

    burst_bytes = int(rng.choice([16, 32, 64]))
    row_bytes = int(rng.choice([256, 1024, 2048]))
    grant_bytes = int(rng.choice([64, 256, 512, 4096]))
    return Hardware(
        name="rtl",
        clock_mhz=1000.0,
        mac_array=array,
        scratchpad=Scratchpad(
            size_kib=64, banks=int(rng.choice([1, 2, 4, 16, 64])), bank_ports=int(rng.choice([1, 1, 2, 3]))
        ),
        front_end=FrontEnd(
            queue_depth=int(rng.integers(1, 17)),
            fetch_instructions=int(rng.integers(1, 9)),
            decode_cycles=int(rng.integers(1, 4)),
        ),
        dma=Dma(
            channels=4,
            setup_cycles=int(rng.integers(1, 40)),
            port_bytes_per_cycle=int(rng.choice([1, 4, 8, 16, DMA_PORT])),
            burst_buffer_kib=BUFFER_KIB,
        ),
        dram=Dram(
            bandwidth_gb_per_s=one_of(0.5, 1.0, 3.75, 8.0, 15.0),
            latency_ns=float(rng.integers(1, 150)),
            row_miss_ns=float(rng.integers(0, 30)),
            row_bytes=row_bytes,
            burst_bytes=burst_bytes,
            grant_bytes=max(grant_bytes, burst_bytes),
            outstanding_requests=int(rng.choice([4, 16, 64])),
            banks=int(rng.choice([1, 2, 4, 8, 64])),
            reorder_grants=int(rng.choice([0, 0, 1, 4, 16])),
            size_mib=1024,
        ),
    )


def _strides(
    rng: np.random.Generator, counts: list[int], size: int, repeats: bool, order: list[int]
) -> list[int]:
    """Distances of the three outer dimensions: nested in an order, innermost first, with gaps, often without."""
    strides = [0] * len(counts)
    span = size
    for place in order:
        gap = 0 if rng.random() < 0.5 else int(rng.integers(0, 70))
        stride = span + gap
        # The engine passes over as many runs in one burst as it has bytes; so many may repeat.
        if repeats and prod(counts) <= 64 and rng.random() < 0.2:
            stride = 0
        strides[place] = stride
        span = max(span, (counts[place] - 1) * stride + span)
    return strides


def draw_copies(rng: np.random.Generator, number: int) -> list[Copy | Gather]:
    """Copies between the memories or inside the scratchpad, fills, gathers; none touches what another one writes."""
    found: list[Copy | Gather] = []
    while len(found) < number:
        draw = _gather if rng.random() < 0.25 else _attempt
        copy = draw(rng, (len(found), number))
        if copy is not None:
            found.append(copy)
    return found


def write_lists(
    rng: np.random.Generator, instructions: Sequence[Instruction], memories: dict[int, NDArray[np.uint8]]
) -> None:
    """Put indices that are in range where the gathers among some instructions read them."""
    for each in instructions:
        if isinstance(each, Gather):
            numbers = good_indices(each, rng).view(np.uint8).ravel()
            memories[each.index_space][each.index : each.index + len(numbers)] = numbers


def _spaces(rng: np.random.Generator) -> tuple[Space, Space]:
    """Of source and destination; both are never the DRAM."""
    return (
        (Space.SCRATCHPAD, Space.SCRATCHPAD),
        (Space.DRAM, Space.SCRATCHPAD),
        (Space.SCRATCHPAD, Space.DRAM),
    )[int(rng.choice([0, 1, 1, 2, 2]))]


def _gather(rng: np.random.Generator, slot: tuple[int, int]) -> Gather | None:
    """A gather whose tables lie in one part of the lower half of a memory, its list behind them or in the other one."""

    def count(most: int) -> int:
        return 1 if rng.random() < 0.4 else int(rng.integers(1, most))

    (part, parts), entries = slot, int(rng.integers(1, 5))
    batches, repeats, rows = count(4), count(4), int(rng.integers(1, 20))
    limits = [count(6) for _ in range(entries)] + [1] * (4 - entries)
    size = int(rng.integers(1, 40)) if rng.random() < 0.7 else 16 * int(rng.integers(1, 20))
    gap = 0 if rng.random() < 0.5 else int(rng.integers(0, 40))
    span = int(rng.integers(1, limits[entries - 1] + 1)) if rng.random() < 0.4 else 1
    bounds, scatter = int(rng.integers(0, 3)), int(rng.integers(0, 2))
    tables, index_type = batches * repeats * prod(limits) * size, int(rng.integers(0, 2))
    listed = batches * rows * entries * (8 if index_type else 4)
    dense = batches * repeats * (rows * span * size + gap)
    read, written = (dense, tables) if scatter else (tables, dense)
    source_space, target_space = _spaces(rng)
    index_space = Space(int(rng.integers(0, 2)))
    rooms = [_SPACE_BYTES[space] // 2 // parts for space in (source_space, index_space, target_space)]
    if max(dense, written) > 2 * _MOST_BYTES or read + listed > min(rooms[:2]) or written > rooms[2]:
        return None
    if listed > BUFFER_KIB * 1024:
        return None
    source = part * rooms[0] + int(rng.integers(0, rooms[0] - read - listed + 1))
    if rng.random() < 0.5:
        source = max(source // 64 * 64, part * rooms[0])
    return Gather(
        channel=int(rng.integers(0, 4)),
        index_space=index_space,
        index=source + read if index_space == source_space else part * rooms[1],
        index_type=index_type,
        source_space=source_space,
        source=source,
        target_space=target_space,
        target=_SPACE_BYTES[target_space] // 2
        + part * rooms[2]
        + int(rng.integers(0, rooms[2] - written + 1)),
        dense_stride=rows * span * size + gap,
        batches=batches - 1,
        repeats=repeats - 1,
        rows=rows - 1,
        size=size,
        entries=entries - 1,
        limit0=limits[0] - 1,
        limit1=limits[1] - 1,
        limit2=limits[2] - 1,
        limit3=limits[3] - 1,
        bounds=bounds,
        scatter=scatter,
        span=span - 1,
    )


def _attempt(rng: np.random.Generator, slot: tuple[int, int]) -> Copy | None:
    """A copy between the n-th of m equal parts of the lower and of the upper halves of the memories."""
    block, size = int(rng.choice([0, 0, 1, 2, 3])), int(rng.integers(1, 40))
    if not block and rng.random() < 0.5:
        size = int(rng.integers(1, 900))
    elif block and rng.random() < 0.7:
        size = int(rng.integers(1, 4))
    counts = [
        1 if rng.random() < 0.4 else int(rng.integers(1, 40 if block and size < 4 else 9)) for _ in range(3)
    ]
    fill = not block and rng.random() < 0.15
    source_space, target_space = _spaces(rng)
    if fill:
        source_space = Space.SCRATCHPAD
    inner_first = [2, 1, 0]
    sources, targets = (
        _strides(rng, counts, size, repeats, rng.permutation(3).tolist() if block else inner_first)
        for repeats in (not fill, False)
    )
    if size * int(np.prod(counts[3 - block :])) > BUFFER_KIB * 1024 // 2:
        return None
    part, parts = slot
    addresses = []
    for space, strides in ((source_space, sources), (target_space, targets)):
        span = size + sum((count - 1) * stride for count, stride in zip(counts, strides, strict=True))
        half = _SPACE_BYTES[space] // 2
        room = half // parts
        if size * int(np.prod(counts)) > _MOST_BYTES or span > room:
            return None
        address = part * room + int(rng.integers(0, room - span + 1))
        addresses.append(address + (half if addresses else 0))
    backward = 0 if fill or rng.random() < 0.6 else int(rng.integers(1, 8))
    for place in range(3):
        if backward >> place & 1:
            addresses[0] += (counts[place] - 1) * sources[place]
    return Copy(
        channel=int(rng.integers(0, 4)),
        fill=int(fill),
        value=int(rng.integers(0, 256)),
        source_space=source_space,
        source=addresses[0],
        target_space=target_space,
        target=addresses[1],
        count0=counts[0] - 1,
        count1=counts[1] - 1,
        count2=counts[2] - 1,
        size=size,
        source_stride0=sources[0],
        source_stride1=sources[1],
        source_stride2=sources[2],
        target_stride0=targets[0],
        target_stride1=targets[1],
        target_stride2=targets[2],
        block=block,
        backward=backward,
    )


def add_waits(rng: np.random.Generator, instructions: list[Instruction]) -> list[Instruction]:
    """The instructions with random waits for instructions before them, and barriers in between, most with cycles."""
    issued = [0] * len(PRODUCERS)
    found: list[Instruction] = []
    for instruction in instructions:
        if rng.random() < 0.1:
            cycles = 0 if rng.random() < 0.4 else int(rng.integers(1, 4 if rng.random() < 0.3 else 400))
            found.append(Barrier(waits=_waits(rng, issued), cycles=cycles))
        waits = _waits(rng, issued) if rng.random() < 0.6 else ()
        found.append(replace(instruction, waits=waits))
        issued[instruction.unit] += 1
    return found


def _waits(rng: np.random.Generator, issued: list[int]) -> Waits:
    """For some units, as many as an instruction can wait for, some of what each has been given, often all."""
    wanted = [
        0 if rng.random() < 0.5 else count - int(rng.integers(0, 2)) * int(rng.integers(0, count + 1))
        for count in issued
    ]
    found = [(unit, count) for unit, count in enumerate(wanted) if count]
    kept = sorted(rng.permutation(len(found))[:WAITS].tolist())
    return tuple(found[position] for position in kept)
