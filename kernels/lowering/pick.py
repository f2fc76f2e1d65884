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
"""Maximum number of copies that replace a pick. A pick costs two setups and the fetch of its indices, and it cannot be
issued ahead of time."""


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


def _parts(call: Call, picking: Picking) -> Parts:
    """Return copies where constant indices make few of them, otherwise a pick."""
    output, indices = call.outputs[0], input_type(call, picking.indices[1])
    itemsize = output.numpy_dtype.itemsize
    runs = _runs(call, picking)
    before: Parts = ()
    if picking.updated is not None:
        before = (Move(OUTPUT, 0, (output.size_bytes,), (), picking.updated),)
    if runs is not None:
        return (*before, *_copies(picking, runs, itemsize))
    row_bytes = picking.row * itemsize
    pick = Pick(
        picking.tables,
        picking.dense,
        picking.indices,
        indices.dtype,
        picking.batches,
        picking.repeats,
        picking.rows,
        picking.limits,
        row_bytes,
        picking.rows * picking.span * row_bytes,
        index_offset=picking.first * indices.numpy_dtype.itemsize,
        span=picking.span,
        bounds=picking.bounds,
        scatter=picking.updated is not None,
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


def _runs(call: Call, picking: Picking) -> list[_Run] | None:
    """Return runs of evenly spaced rows that together gather what constant indices pick.

    None if the indices are not constant, if there are several batches, or if it would take more than a few copies.
    """
    data: Any = call.constants.get(picking.indices[1])
    if not isinstance(data, np.ndarray) or picking.batches != 1 or not picking.rows:
        return None
    entries = picking.rows * len(picking.limits)
    numbers = data.ravel()[picking.first : picking.first + entries].reshape(picking.rows, -1).astype(np.int64)
    limits = np.array(picking.limits)
    if picking.bounds == "clamped":
        limits[-1] -= picking.span - 1
        numbers = np.clip(numbers, 0, limits - 1)
    numbers = np.where(numbers < 0, numbers + limits, numbers)
    rows: Any = np.ravel_multi_index(tuple(numbers.T), picking.limits)
    steps = np.diff(rows)
    runs, first = [], 0
    while first < len(rows):
        step = int(steps[first]) if first < len(steps) else 0
        other = np.flatnonzero(steps[first:] != step)
        last = first + int(other[0]) if len(other) else len(rows) - 1
        if picking.updated is not None and last > first and step <= 0:
            return None  # a copy writes upwards, and every place once
        runs.append(_Run(first, last - first + 1, int(rows[first]), step))
        first = last + 1
        if len(runs) > _MOST_COPIES:
            return None
    return runs


def _copies(picking: Picking, runs: Sequence[_Run], itemsize: int) -> Parts:
    moves: Parts = ()
    table, run_size = prod(picking.limits) * picking.row, picking.span * picking.row
    for run in runs:
        loops = [
            Loop(picking.repeats, table, picking.rows * run_size),
            Loop(run.times, run.step * picking.row, run_size),
            Loop(run_size, 1, 1),
        ]
        ends = (picking.tables, run.row * picking.row), (picking.dense, run.first * run_size)
        if picking.updated is not None:
            loops = [Loop(loop.times, loop.target, loop.source) for loop in loops]
            ends = ends[::-1]
        moves += strided_moves(loops, itemsize, *ends)
    return moves


def lowering(describe: Callable[[Call], Picking], *rules: Rule) -> Lowering:
    """Return the lowering of an operator whose pick `describe` gives."""

    def encodable(call: Call) -> bool:
        picking = describe(call)
        return 1 <= len(picking.limits) <= MOST_NUMBERS and all(
            1 <= limit <= MOST_ROWS for limit in picking.limits
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
