"""Moves and picks in sizes that an instruction can encode."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from npusim.isa.hardware.hardware import Hardware
from npusim.isa.instructions.dma import Copy
from npusim.isa.instructions.gather import Gather, list_bytes
from npusim.isa.instructions.instruction import layout
from npusim.kernels.lowering.work import Move, Pick

MOST_COUNTS = tuple(
    spec.high + spec.name.startswith("count")  # counts are stored less one
    for spec in layout(Copy)
    if spec.name in ("count0", "count1", "count2", "size")
)
"""Most repetitions of the four dimensions of a copy, outermost first; the last is contiguous bytes."""


_MOST_BATCHES, _MOST_REPEATS, _MOST_ROWS = (
    next(spec.high + 1 for spec in layout(Gather) if spec.name == name)
    for name in ("batches", "repeats", "rows")
)


def picks(pick: Pick, hardware: Hardware) -> Iterator[Pick]:
    """A pick, or several that do the same, each with a list of indices that a burst buffer holds."""
    room = list_bytes(hardware) // pick.index_bytes
    if pick.repeats > _MOST_REPEATS or pick.rows > min(room, _MOST_ROWS):
        for batch in range(pick.batches):
            for repeat in range(0, pick.repeats, _MOST_REPEATS):
                for row in range(0, pick.rows, min(room, _MOST_ROWS)):
                    yield _chosen(pick, (batch, 1), (repeat, _MOST_REPEATS), (row, min(room, _MOST_ROWS)))
        return
    at_once = min(room // pick.rows, _MOST_BATCHES) if pick.rows else pick.batches
    for batch in range(0, pick.batches, at_once):
        yield _chosen(pick, (batch, at_once), (0, pick.repeats), (0, pick.rows))


def _chosen(pick: Pick, batches: tuple[int, int], repeats: tuple[int, int], rows: tuple[int, int]) -> Pick:
    """From a batch, a repeat and a row on so many of them, or as many as are left."""
    batch, repeat, row = batches[0], repeats[0], rows[0]
    table = batch * pick.repeats + repeat
    return replace(
        pick,
        batches=min(batches[1], pick.batches - batch),
        repeats=min(repeats[1], pick.repeats - repeat),
        rows=min(rows[1], pick.rows - row),
        source_offset=pick.source_offset + table * prod(pick.limits) * pick.row_bytes,
        index_offset=pick.index_offset + (batch * pick.rows + row) * pick.index_bytes,
        target_offset=pick.target_offset + table * pick.target_stride + row * pick.row_bytes,
    )


def pieces(move: Move) -> Iterator[Move]:
    """A move, or several that do the same, each with counts that an instruction can encode; none for no bytes."""
    if 0 in move.counts:
        return
    for axis, most in enumerate(MOST_COUNTS[len(MOST_COUNTS) - len(move.counts) :]):
        count = move.counts[axis]
        if count > most:
            for first in range(0, count, most):
                yield from pieces(_part(move, axis, first, min(most, count - first)))
            return
    yield move


def _part(move: Move, axis: int, first: int, count: int) -> Move:
    """`count` repetitions along one axis from `first` on."""
    inner = axis == len(move.counts) - 1
    target_stride = 1 if inner else move.target_strides[axis]
    source_stride = 0 if move.source is None else 1 if inner else move.source_strides[axis]
    return replace(
        move,
        target_offset=move.target_offset + first * target_stride,
        source_offset=move.source_offset + first * source_stride,
        counts=(*move.counts[:axis], count, *move.counts[axis + 1 :]),
    )
