"""The DMA instructions of moves: sized so that an instruction encodes them, and blocked where runs are short."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import product
from math import gcd, inf, prod
from typing import NamedTuple

from npusim.isa.hardware.hardware import Hardware
from npusim.isa.instructions.dma import Copy
from npusim.isa.instructions.instruction import Context
from npusim.isa.instructions.region import Region, Space
from npusim.isa.instructions.word import WORD_BYTES
from npusim.kernels.lowering.work import Move
from npusim.scheduler.emit.sequence import strided_copy
from npusim.scheduler.network.network import MOST_COUNTS


class Piece(NamedTuple):
    """One copy instruction of a move: offsets (source, target) into the move, counts, and strides (source, target).

    block: number of inner dimensions that pass the burst buffer as one block; 0 for a copy without the burst buffer.
    """

    offsets: tuple[int, int]
    counts: tuple[int, ...]
    strides: tuple[tuple[int, ...], tuple[int, ...]]
    block: int = 0

    def copy(self, channel: int, spaces: tuple[Space, Space], addresses: tuple[int, int]) -> Copy:
        """Return the instruction, for a move whose operands (source, target) begin at these addresses."""
        start, end = (address + offset for address, offset in zip(addresses, self.offsets, strict=True))
        return strided_copy(channel, spaces, (start, end), self.counts, self.strides, self.block)


class Plan(NamedTuple):
    """The copies of a move, and their estimated cycles."""

    pieces: tuple[Piece, ...]
    cycles: float


class _Loop(NamedTuple):
    """A dimension of a move: its repetitions, and the strides in bytes at source and target."""

    times: int
    source: int
    target: int


_LEAST_GAIN = 0.1
_LEAST_GAIN_CYCLES = 32
"""Least gain, as a share and in cycles, for which a copy is blocked; the estimates are not more accurate."""

_SMALLEST_BLOCK = 64
"""Least repetitions per block; with fewer, filling and draining the burst buffer cost more than they gain."""

_MOST_COPIES = 64
"""Most copies that one move may become, because each is fetched and takes a place in the channel's queue."""


def plan_move(move: Move, spaces: tuple[Space, Space], hardware: Hardware) -> Plan:
    """Return the copies of an encodable move between two memories (source, target) that are fastest by estimate."""
    fill = move.source is None
    sources = (0,) * (len(move.counts) - 1) if fill else move.source_strides
    return plan_copy(move.counts, (sources, move.target_strides), spaces, hardware, fill)


@lru_cache(maxsize=4096)
def plan_copy(
    counts: tuple[int, ...],
    strides: tuple[tuple[int, ...], tuple[int, ...]],
    spaces: tuple[Space, Space],
    hardware: Hardware,
    fill: bool = False,
) -> Plan:
    """Return the fastest copies, by estimate, that move what one copy with these counts and strides would.

    A copy without blocks takes a burst and a transfer cycle for each run that is contiguous on both sides. Where runs
    are short, the copy is cut into blocks for the burst buffer, so that both sides transfer long runs.
    strides: of source and target, in bytes.
    """
    direct = Piece((0, 0), counts, strides)
    best = Plan((direct,), _cycles(direct, fill, spaces, hardware))
    loops, size = _merged(counts, *strides)
    burst_bytes = _burst_bytes(spaces, hardware)
    long_runs = size >= max(hardware.dma.port_bytes_per_cycle, burst_bytes)
    if fill or long_runs or prod([loop.times for loop in loops]) < _SMALLEST_BLOCK:
        return best
    limit = min(best.cycles * (1 - _LEAST_GAIN), best.cycles - _LEAST_GAIN_CYCLES)
    for block in _blocks(loops, size, burst_bytes, hardware):
        pieces = _in_blocks(loops, size, block, spaces)
        if not pieces or len(pieces) > _MOST_COPIES:
            continue
        cycles = 0.0
        for piece in pieces:
            cycles += _cycles(piece, fill, spaces, hardware)
            if cycles >= limit:
                break
        else:
            best, limit = Plan(tuple(pieces), cycles), cycles
    return best


def _merged(counts: Sequence[int], sources: Sequence[int], targets: Sequence[int]) -> tuple[list[_Loop], int]:
    """Merge contiguous dimensions. Return the other ones, outermost first, and the number of contiguous bytes."""
    *outer, size = counts
    loops: list[_Loop] = []
    for loop in map(_Loop, reversed(outer), reversed(sources), reversed(targets)):
        inner = loops[0] if loops else _Loop(size, 1, 1)
        if loop.times == 1:
            continue
        if loop[1:] != (inner.times * inner.source, inner.times * inner.target):
            loops.insert(0, loop)
        elif loops:
            loops[0] = inner._replace(times=inner.times * loop.times)
        else:
            size *= loop.times
    return loops, size


def _burst_bytes(spaces: tuple[Space, Space], hardware: Hardware) -> int:
    """Return the longest burst of the memories that a copy accesses through ports.

    A copy within the scratchpad uses the DRAM's burst, so that it is blocked like the others.
    """
    ports = [space for space in spaces if space != Space.SCRATCHPAD] or [Space.DRAM]
    return max(hardware.port(space).burst_bytes for space in ports)


def _blocks(
    loops: Sequence[_Loop], size: int, burst_bytes: int, hardware: Hardware
) -> Iterator[tuple[int, ...]]:
    """Yield candidate block shapes, as counts per dimension, that fit half of the burst buffer.

    One side, source or target, gets runs of a chosen length, the other one the longest runs that still fit. Smaller
    shapes, each half the size of the last, are tried too, so that a larger buffer is never slower.
    """
    places = range(len(loops))
    by_source, by_target = (sorted(places, key=lambda place: abs(loops[place][side])) for side in (1, 2))
    words = {-(-width // size) for width in (burst_bytes, hardware.dma.port_bytes_per_cycle)}
    seen = set()
    most = hardware.dma.block_bytes // size
    while most >= _SMALLEST_BLOCK:
        for given, other in ((by_source, by_target), (by_target, by_source)):
            for length in _lengths(loops, given, most):
                first = _run(loops, given, length)
                rest = most // prod(first)
                for step in {1, *words}:
                    second = _run(loops, other, rest // step * step)
                    block = tuple(map(max, first, second))
                    if block not in seen and 1 < prod(block) <= most:
                        seen.add(block)
                        yield block
        most //= 2


def _lengths(loops: Sequence[_Loop], order: Sequence[int], most: int) -> set[int]:
    """Return the run lengths to try, at most `most`: powers of two, and whole dimensions."""
    lengths = {1 << bit for bit in range(most.bit_length())}
    whole = 1
    for place in order:
        whole *= loops[place].times
        lengths.add(whole)
    return {length for length in lengths if length <= most}


def _run(loops: Sequence[_Loop], order: Sequence[int], length: int) -> list[int]:
    """Return the counts of a box that takes at most `length` repetitions along dimensions in the given order."""
    box = [1] * len(loops)
    for place in order:
        box[place] = max(min(loops[place].times, length), 1)
        length //= loops[place].times
    return box


def _in_blocks(
    loops: Sequence[_Loop], size: int, block: Sequence[int], spaces: tuple[Space, Space]
) -> list[Piece]:
    """Return a move cut into blocks of one shape, with smaller blocks at the far ends of the dimensions.

    The list is empty if instructions cannot encode the counts, or if it takes more than `_MOST_COPIES` copies.
    """
    side = 1 if spaces[1] == Space.SCRATCHPAD else 2
    ends = []
    for loop, count in zip(loops, block, strict=True):
        whole, rest = divmod(loop.times, count)
        ends.append([(0, whole, count), (whole * count, 1, rest)][: 1 + (rest > 0)])
    copies: list[Piece] = []
    for corner in product(*ends):
        starts = [first for first, _, _ in corner]
        outer = [
            _Loop(times, loop.source * count, loop.target * count)
            for loop, (_, times, count) in zip(loops, corner, strict=True)
            if times > 1
        ]
        inner = [
            loop._replace(times=count) for loop, (_, _, count) in zip(loops, corner, strict=True) if count > 1
        ]
        outer.sort(key=lambda loop: (loop.times, abs(loop[side])))
        unrolled = outer[: max(len(outer) + len(inner) - 3, 0)]
        nest = sorted(outer[len(unrolled) :], key=lambda loop: -abs(loop[side]))
        nest += sorted(inner, key=lambda loop: -abs(loop.source))
        counts = (*[loop.times for loop in nest], size)
        if any(count > most for count, most in zip(counts, MOST_COUNTS[4 - len(counts) :], strict=True)):
            return []
        if prod([loop.times for loop in unrolled]) > _MOST_COPIES:
            return []
        for steps in product(*[range(loop.times) for loop in unrolled]):
            at = [*zip(starts, loops, strict=True), *zip(steps, unrolled, strict=True)]
            offsets = sum([n * loop.source for n, loop in at]), sum([n * loop.target for n, loop in at])
            strides = tuple([loop.source for loop in nest]), tuple([loop.target for loop in nest])
            copies.append(Piece(offsets, counts, strides, len(inner)))
    return copies


def _cycles(piece: Piece, fill: bool, spaces: tuple[Space, Space], hardware: Hardware) -> float:
    """Estimate the cycles of a copy: its own occupancy, or that of the memories' ports if longer.

    Traffic to a memory starts after the first block is read; traffic from a memory ends before the last block is
    written. These cycles of one block add to the port's.
    """
    copy = piece.copy(0, spaces, (0, 0))
    cost = (replace(copy, fill=1) if fill else copy).cost(Context(hardware))
    code = hardware.holder("code")
    fetch = WORD_BYTES / hardware.peak_bytes_per_cycle(code) + hardware.front_end.decode_cycles
    traffic = sum([_port_cycles(region, hardware) for region, _ in cost.dram])
    if cost.dram and not cost.dram[0][1]:
        traffic += hardware.port_timing(cost.dram[0][0].space).latency_cycles + (
            cost.beats.drain if cost.beats else 0
        )
    elif cost.beats:
        traffic += cost.beats.fill
    return fetch + max(cost.cycles, cost.setup_cycles + traffic)


def _port_cycles(region: Region, hardware: Hardware) -> float:
    """Return the cycles of a region's traffic at a memory's port: whole bursts, and exposed row misses."""
    timing = hardware.port_timing(region.space)
    bursts, rows = _visits(region, timing.burst_bytes), _visits(region, timing.row_bytes)
    cycles = bursts * timing.burst_cycles
    return cycles + rows * timing.exposed_miss_cycles(cycles / rows)


def _visits(region: Region, unit_bytes: int) -> float:
    """Return the average number of bursts (or rows) that a strided access touches, over all alignments.

    A run of n bytes that begins at a multiple of g = gcd(strides, unit) touches (n + unit - g) / unit units. Runs in
    ascending order share the units at their ends. Nested loops share a unit if both iterations fall into it; at a unit
    border, each iteration touches both units.
    """
    span, step = region.counts[-1], gcd(*region.strides, unit_bytes)
    visits, rises = (span + unit_bytes - step) / unit_bytes, True
    for count, signed in zip(reversed(region.counts[:-1]), reversed(region.strides), strict=True):
        stride = abs(signed)
        wider = span + (count - 1) * stride
        if stride >= span:
            together = (wider + unit_bytes - step) / unit_bytes if rises else inf
            visits = min(count * visits, together)
        else:
            crosses = min(max(wider - step, 0) / unit_bytes, 1.0)
            visits = 1 - crosses + crosses * count * max(visits, 2.0)
            rises = False
        span = wider
    return visits
