"""Lower operators that choose by indices to gathers, or to plain copies where indices are known and regular."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from npusim.isa.hardware.hardware import Hardware
from npusim.isa.instructions.gather import MOST_NUMBERS, MOST_ROWS, list_bytes
from npusim.kernels.lowering.move import OUTPUT, Loop, strided_moves
from npusim.kernels.lowering.work import OperandRef, Parts, Pick
from npusim.kernels.operator.operands import input_type
from npusim.kernels.operator.operator import Call, Lowering, need

_MOST_COPIES = 8
"""Maximum number of copies in place of a gather, which has two setups, reads a list, and prefetches nothing."""


class Gathering(NamedTuple):
    """A gather, in elements: tables with sizes `limits` along the axes that an index counts, and rows of `row`
    elements.

    There are `batches` times `repeats` tables, and for each batch `rows` indices.
    """

    values: OperandRef
    indices: OperandRef
    batches: int
    repeats: int
    rows: int
    limits: tuple[int, ...]
    row: int


def _parts(call: Call, found: Gathering) -> Parts:
    """Return copies where constant indices make few of them, otherwise a gather."""
    values, indices = input_type(call, found.values[1]), input_type(call, found.indices[1])
    itemsize = values.numpy_dtype.itemsize
    runs = _runs(call, found)
    if runs is not None:
        return _copies(found, runs, itemsize)
    row_bytes = found.row * itemsize
    return (
        Pick(
            OUTPUT,
            found.values,
            found.indices,
            indices.dtype,
            found.batches,
            found.repeats,
            found.rows,
            found.limits,
            row_bytes,
            found.rows * row_bytes,
        ),
    )


class _Run(NamedTuple):
    """Consecutive constant indices that pick evenly spaced rows of a table, which one strided copy can gather.

    first, times: the number of the first index, and how many there are.
    row, step:    the table row of the first index, and the distance to the next one.
    """

    first: int
    times: int
    row: int
    step: int


def _runs(call: Call, found: Gathering) -> list[_Run] | None:
    """Return constant indices of one batch as a few runs; None if they are unknown or need too many."""
    data: Any = call.constants.get(found.indices[1])
    if not isinstance(data, np.ndarray) or found.batches != 1 or not found.rows:
        return None
    numbers = data.reshape(found.rows, len(found.limits)).astype(np.int64)
    rows: Any = np.ravel_multi_index(tuple(numbers.T), found.limits)
    steps = np.diff(rows)
    runs, first = [], 0
    while first < len(rows):
        step = int(steps[first]) if first < len(steps) else 0
        other = np.flatnonzero(steps[first:] != step)
        last = first + int(other[0]) if len(other) else len(rows) - 1
        runs.append(_Run(first, last - first + 1, int(rows[first]), step))
        first = last + 1
        if len(runs) > _MOST_COPIES:
            return None
    return runs


def _copies(found: Gathering, runs: Sequence[_Run], itemsize: int) -> Parts:
    moves: Parts = ()
    table = prod(found.limits) * found.row
    for run in runs:
        loops = (
            Loop(found.repeats, table, found.rows * found.row),
            Loop(run.times, run.step * found.row, found.row),
            Loop(found.row, 1, 1),
        )
        source, target = (found.values, run.row * found.row), (OUTPUT, run.first * found.row)
        moves += strided_moves(loops, itemsize, source, target)
    return moves


def lowering(describe: Callable[[Call], Gathering]) -> Lowering:
    """Return the lowering of an operator whose gather `describe` gives."""

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
    return Lowering("dma", (encodable,), lambda call, hardware: _parts(call, describe(call)), (list_fits,))
