"""Lower operators that read or write by indices to picks, or to plain copies if the indices are known and regular."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from npusim.isa.hardware.hardware import Hardware
from npusim.isa.instructions.gather import MOST_NUMBERS, MOST_ROWS, list_bytes
from npusim.kernels.lowering.move import OUTPUT, Loop, strided_moves
from npusim.kernels.lowering.work import Move, OperandRef, Parts, Pick
from npusim.kernels.operator.operands import input_type
from npusim.kernels.operator.operator import Call, Lowering, Rule, need

_MOST_COPIES = 8
"""Maximum number of copies in place of a pick, which has two setups, reads a list, and prefetches nothing."""


class Picking(NamedTuple):
    """A pick, in elements: tables with sizes `limits` along the axes that an index counts, and rows of `row` elements.

    There are `batches` times `repeats` tables, and for each batch `rows` indices, from number `first` of their tensor
    on. Each picks `span` rows. A scatter copies from `dense` into the tables. Its tables are the output, which first
    becomes a copy of the `updated` input.
    """

    tables: OperandRef
    indices: OperandRef
    batches: int
    repeats: int
    rows: int
    limits: tuple[int, ...]
    row: int
    bounds: str = "checked"
    dense: OperandRef = OUTPUT
    span: int = 1
    first: int = 0
    updated: OperandRef | None = None


def _parts(call: Call, found: Picking) -> Parts:
    """Return copies where constant indices make few of them, otherwise a pick."""
    output, indices = call.outputs[0], input_type(call, found.indices[1])
    itemsize = output.numpy_dtype.itemsize
    runs = _runs(call, found)
    before: Parts = ()
    if found.updated is not None:
        before = (Move(OUTPUT, 0, (output.size_bytes,), (), found.updated),)
    if runs is not None:
        return (*before, *_copies(found, runs, itemsize))
    row_bytes = found.row * itemsize
    pick = Pick(
        found.tables,
        found.dense,
        found.indices,
        indices.dtype,
        found.batches,
        found.repeats,
        found.rows,
        found.limits,
        row_bytes,
        found.rows * found.span * row_bytes,
        index_offset=found.first * indices.numpy_dtype.itemsize,
        span=found.span,
        bounds=found.bounds,
        scatter=found.updated is not None,
    )
    return (*before, pick)


class _Run(NamedTuple):
    """Consecutive constant indices that pick evenly spaced rows of a table, which one strided copy can gather.

    first, times: the number of the first index, and how many there are.
    row, step:    the table row of the first index, and the distance to the next one.
    """

    first: int
    times: int
    row: int
    step: int


def _runs(call: Call, found: Picking) -> list[_Run] | None:
    """Return constant indices of one batch as a few runs; None if they are unknown or no few copies do the same."""
    data: Any = call.constants.get(found.indices[1])
    if not isinstance(data, np.ndarray) or found.batches != 1 or not found.rows:
        return None
    entries = found.rows * len(found.limits)
    numbers = data.ravel()[found.first : found.first + entries].reshape(found.rows, -1).astype(np.int64)
    limits = np.array(found.limits)
    if found.bounds == "clamped":
        limits[-1] -= found.span - 1
        numbers = np.clip(numbers, 0, limits - 1)
    numbers = np.where(numbers < 0, numbers + limits, numbers)
    rows: Any = np.ravel_multi_index(tuple(numbers.T), found.limits)
    steps = np.diff(rows)
    runs, first = [], 0
    while first < len(rows):
        step = int(steps[first]) if first < len(steps) else 0
        other = np.flatnonzero(steps[first:] != step)
        last = first + int(other[0]) if len(other) else len(rows) - 1
        if found.updated is not None and last > first and step <= 0:
            return None  # a copy writes upwards, and every place once
        runs.append(_Run(first, last - first + 1, int(rows[first]), step))
        first = last + 1
        if len(runs) > _MOST_COPIES:
            return None
    return runs


def _copies(found: Picking, runs: Sequence[_Run], itemsize: int) -> Parts:
    moves: Parts = ()
    table, run_size = prod(found.limits) * found.row, found.span * found.row
    for run in runs:
        loops = [
            Loop(found.repeats, table, found.rows * run_size),
            Loop(run.times, run.step * found.row, run_size),
            Loop(run_size, 1, 1),
        ]
        ends = (found.tables, run.row * found.row), (found.dense, run.first * run_size)
        if found.updated is not None:
            loops = [Loop(loop.times, loop.target, loop.source) for loop in loops]
            ends = ends[::-1]
        moves += strided_moves(loops, itemsize, *ends)
    return moves


def lowering(describe: Callable[[Call], Picking], *rules: Rule) -> Lowering:
    """Return the lowering of an operator whose pick `describe` gives."""

    def encodable(call: Call) -> bool:
        found = describe(call)
        return 1 <= len(found.limits) <= MOST_NUMBERS and all(
            1 <= limit <= MOST_ROWS for limit in found.limits
        )

    @need("dma.burst_buffer_kib")
    def list_fits(call: Call, hardware: Hardware) -> bool:
        """a burst buffer (dma.burst_buffer_kib) that holds the indices, unless these are constant and regular"""
        return list_bytes(hardware) > 0 or _runs(call, describe(call)) is not None

    encodable.__doc__ = (
        f"on the NPU an index has 1 to {MOST_NUMBERS} numbers, along axes of 1 to {MOST_ROWS} elements"
    )
    return Lowering(
        "dma", (*rules, encodable), lambda call, hardware: _parts(call, describe(call)), (list_fits,)
    )
