"""Moves in sizes that an instruction can encode."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from npusim.isa.instructions.dma import Copy
from npusim.isa.instructions.instruction import layout
from npusim.kernels.lowering.work import Move

MOST_COUNTS = tuple(
    spec.high + spec.name.startswith("count")  # counts are stored less one
    for spec in layout(Copy)
    if spec.name in ("count0", "count1", "count2", "size")
)
"""Most repetitions of the four dimensions of a copy, outermost first; the last is contiguous bytes."""


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
