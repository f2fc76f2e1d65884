"""The instructions of picks, which are split where their index lists exceed the burst buffer.

Few networks pick rows by indices, so this module is imported with the first pick.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from npusim.isa.hardware.hardware import Hardware
from npusim.isa.instructions.gather import BOUNDS, INDEX_TYPES, Gather, list_bytes
from npusim.isa.instructions.instruction import layout
from npusim.isa.instructions.region import Space
from npusim.kernels.lowering.work import Pick

_MOST_BATCHES, _MOST_REPEATS, _MOST_ROWS = (
    next(spec.high + 1 for spec in layout(Gather) if spec.name == name)
    for name in ("batches", "repeats", "rows")
)


def picks(pick: Pick, hardware: Hardware) -> Iterator[Pick]:
    """Split a pick into picks whose index lists fit the burst buffer."""
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
    """Return a part of a pick: batches, repeats and rows as (first, most)."""
    batch, repeat, row = batches[0], repeats[0], rows[0]
    table = batch * pick.repeats + repeat
    return replace(
        pick,
        batches=min(batches[1], pick.batches - batch),
        repeats=min(repeats[1], pick.repeats - repeat),
        rows=min(rows[1], pick.rows - row),
        table_offset=pick.table_offset + table * prod(pick.limits) * pick.row_bytes,
        index_offset=pick.index_offset + (batch * pick.rows + row) * pick.index_bytes,
        dense_offset=pick.dense_offset + table * pick.dense_stride + row * pick.run_bytes,
    )


def gather(
    pick: Pick, channel: int, spaces: tuple[Space, Space, Space], addresses: tuple[int, int, int]
) -> Gather:
    """Return the instruction of a pick. spaces, addresses: of source, indices and target."""
    source, indices, target = addresses
    offsets = (pick.table_offset, pick.dense_offset)[:: -1 if pick.scatter else 1]
    limits = [limit - 1 for limit in pick.limits] + [0] * (4 - len(pick.limits))
    return Gather(
        channel=channel,
        source_space=spaces[0],
        source=source + offsets[0],
        index_space=spaces[1],
        index=indices + pick.index_offset,
        index_type=INDEX_TYPES.index(pick.index_type),
        target_space=spaces[2],
        target=target + offsets[1],
        dense_stride=pick.dense_stride,
        batches=pick.batches - 1,
        repeats=pick.repeats - 1,
        rows=pick.rows - 1,
        size=pick.row_bytes,
        entries=len(pick.limits) - 1,
        limit0=limits[0],
        limit1=limits[1],
        limit2=limits[2],
        limit3=limits[3],
        bounds=BOUNDS.index(pick.bounds),
        scatter=int(pick.scatter),
        span=pick.span - 1,
    )
