"""Moves and choices in sizes that an instruction can encode."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from npusim.isa.hardware.hardware import Hardware
from npusim.isa.instructions.dma import Copy
from npusim.isa.instructions.gather import Gather, list_bytes
from npusim.isa.instructions.instruction import layout
from npusim.kernels.lowering.work import Choice, Move

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


def choices(choice: Choice, hardware: Hardware) -> Iterator[Choice]:
    """A choice, or several that do the same, each with a list of indices that a burst buffer holds."""
    room = list_bytes(hardware) // choice.index_bytes
    if choice.repeats > _MOST_REPEATS or choice.rows > min(room, _MOST_ROWS):
        for batch in range(choice.batches):
            for repeat in range(0, choice.repeats, _MOST_REPEATS):
                for row in range(0, choice.rows, min(room, _MOST_ROWS)):
                    yield _chosen(choice, (batch, 1), (repeat, _MOST_REPEATS), (row, min(room, _MOST_ROWS)))
        return
    at_once = min(room // choice.rows, _MOST_BATCHES) if choice.rows else choice.batches
    for batch in range(0, choice.batches, at_once):
        yield _chosen(choice, (batch, at_once), (0, choice.repeats), (0, choice.rows))


def _chosen(
    choice: Choice, batches: tuple[int, int], repeats: tuple[int, int], rows: tuple[int, int]
) -> Choice:
    """From a batch, a repeat and a row on so many of them, or as many as are left."""
    batch, repeat, row = batches[0], repeats[0], rows[0]
    table = batch * choice.repeats + repeat
    return replace(
        choice,
        batches=min(batches[1], choice.batches - batch),
        repeats=min(repeats[1], choice.repeats - repeat),
        rows=min(rows[1], choice.rows - row),
        source_offset=choice.source_offset + table * prod(choice.limits) * choice.row_bytes,
        index_offset=choice.index_offset + (batch * choice.rows + row) * choice.index_bytes,
        target_offset=choice.target_offset + table * choice.target_stride + row * choice.row_bytes,
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
