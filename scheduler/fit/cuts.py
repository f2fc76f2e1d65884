"""The ways to divide a layer's work into tiles, and the bytes of the pieces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, fields
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from npusim.isa.base.lazy_dataclass import dataclass
from npusim.kernels.lowering.work import Tile, Work

PARTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 2048, 4096, 8192)


@dataclass(frozen=True, slots=True)
class Residency:
    """The operands of a layer that are resident in the scratchpad; `loaded` inputs arrive from DRAM in pieces.

    Inputs are `Work.reads`.
    """

    inputs: tuple[bool, ...]
    outputs: tuple[bool, ...]
    loaded: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Depth:
    """Buffers per operand that streams, so that one is filled or emptied while another is in use."""

    inputs: int = 2
    constants: int = 2
    results: int = 2


class End(NamedTuple):
    """The position of a work at an end of its network, where neighbours hide less.

    No work before the first one hides its loads; no work after the last one hides its computation.
    ahead: cycles that the work has for its prefetches, if only one item prefetches at a time; else None.
    """

    first: bool
    last: bool
    ahead: int | None = None


MIDDLE = End(first=False, last=False)

DOUBLE = Depth()
SINGLE = Depth(1, 1, 1)
"""No overlap of transfers and computation, for the smallest scratchpad."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A way to tile a work: tile size and loop order.

    channels_outside: if True, the outer loop goes over channel ranges, so constants are loaded once. Else it goes over
                      row ranges, so the feature map is loaded once. Entries of a batch are the outermost loop, except
                      that channel ranges of constant weights enclose them.
    keep_constants:   with rows outside, the constants of all channels stay in the scratchpad for the whole work.
    last_channels:    channels of a separate last tile; 0 if the step alone decides.
    """

    row_step: int
    channel_step: int
    channels_outside: bool
    keep_constants: bool
    last_channels: int = 0

    def channels(self, work: Work) -> list[tuple[int, int]]:
        """Return the ranges of channels, first to last."""
        ends = [*range(self.channel_step, work.channels, self.channel_step), work.channels]
        last = work.channels - self.last_channels
        if self.last_channels and last > 0 and last not in ends:
            ends = sorted([*ends, last])
        return list(zip([0, *ends], ends, strict=False))

    def tiles(self, work: Work) -> list[Tile]:
        """Return the tiles in order of execution."""
        rows = [(r, min(r + self.row_step, work.rows)) for r in range(0, work.rows, self.row_step)]
        channels, entries = self.channels(work), range(work.entries)
        if not self.channels_outside:
            return [Tile(*r, *c, entry) for entry in entries for r in rows for c in channels]
        if work.weights is None:
            return [Tile(*r, *c, entry) for c in channels for entry in entries for r in rows]
        return [Tile(*r, *c, entry) for entry in entries for c in channels for r in rows]


def band_bytes(work: Work, position: int, first_row: int, last_row: int) -> int:
    """Return the bytes of the input rows that output rows `first_row` to before `last_row` need."""
    rows, needed = work.inputs[position]
    first, last = needed(first_row, last_row)
    return rows.part_bytes(last - first)


def output_bytes(work: Work, rows: int, channels: int, position: int = 0) -> int:
    """Return the bytes of `rows` x `channels` of an output, stored densely."""
    return rows * (work.outputs[position].row_bytes // work.channels) * channels


def streams_rows(residency: Residency) -> bool:
    """Return True if an operand is transferred row by row."""
    return not all(residency.outputs) or not all(residency.inputs) or any(residency.loaded)


def finest_channels(work: Work, residency: Residency) -> int:
    """Return the smallest channel step of last-resort cuts; inputs in the scratchpad cannot be sliced."""
    if not work.last_resort or (work.sliced and any(residency.inputs)):
        return work.channel_step
    return work.last_resort


def slices(work: Work, cut: Cut) -> bool:
    """Return True if the tiles of a cut need slices of the inputs."""
    return work.sliced and cut.channel_step < work.channels


def cuts(work: Work, residency: Residency, last_resort: bool = False) -> Iterator[list[Cut]]:
    """Return the candidate cuts, one list per row step, coarse ones first.

    last_resort: include tiles with fewer channels than the hardware computes at once.
    """
    row_steps = [work.rows]
    if streams_rows(residency):
        row_steps = list(dict.fromkeys(-(-work.rows // parts) for parts in PARTS if parts <= work.rows))
        if row_steps[-1] != 1:
            row_steps.append(1)
    channel_steps = [work.channels]
    if work.channel_step:
        groups = -(-work.channels // work.channel_step)
        steps = (-(-groups // parts) * work.channel_step for parts in PARTS if parts <= groups)
        channel_steps = list(dict.fromkeys(min(step, work.channels) for step in steps))
        if channel_steps[-1] > work.channel_step:
            channel_steps.append(work.channel_step)
    finest = finest_channels(work, residency) if last_resort else 0
    while finest and channel_steps[-1] > finest:
        channel_steps.append(max(channel_steps[-1] // 2, finest))
    for row_step in row_steps:
        candidates = []
        for step in channel_steps:
            if row_step >= work.rows:
                candidates.append(Cut(row_step, step, True, False))
            elif step >= work.channels:
                candidates.append(Cut(row_step, step, False, True))
            else:
                candidates.append(Cut(row_step, step, True, False))
                candidates.append(Cut(row_step, step, False, True))
                candidates.append(Cut(row_step, step, False, False))
        yield candidates


_Value = TypeVar("_Value")


def _none() -> Mapping[int, _Value]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Band:
    """A prescribed chain of fused layers: its length, and the last layer's rows per stripe (None: by estimate)."""

    length: int
    row_step: int | None = None


@dataclass(frozen=True, slots=True)
class Choices:
    """The decisions of the compiler that a search may prescribe, for one network on one machine.

    Passes read the choices and never change them. A pass decides by its own estimates whatever is not prescribed, or
    does not fit as prescribed. Items and tensors are numbered as in `Network`.

    cuts:       tiles of a work: shape, loop order, and whether constants stay in the scratchpad.
    chains:     the chain of fused layers that begins at an item; a length of 1 prescribes no chain.
    fused_pairs: number of row tiles of an item that is fused with the next one on another unit; 1: it is not fused.
    evicted:    storages (root tensors) that live in DRAM.
    kept:       storages that are evicted to DRAM last.
    readmit:    whether storages in DRAM return to the scratchpad if they fit in the end and estimates say it is faster.
    apart:      results that do not reuse the buffer of an input.
    unpacked:   items whose weights are stored uncompressed.
    unhurried:  items that prefetch nothing: each load is issued with the tile that needs it.
    depth:      buffers per operand that tiles are sized for.
    room:       share of the free scratchpad that the tiles of a work may fill; the rest is left for later items.
    queue_share: estimated share of a DMA queue that waiting loads may fill.
    lead_slots: number of slots before its first use at which a storage that comes from DRAM may claim its bytes.
    """

    cuts: Mapping[int, Cut] = field(default_factory=_none)
    chains: Mapping[int, Band] = field(default_factory=_none)
    fused_pairs: Mapping[int, int] = field(default_factory=_none)
    evicted: frozenset[int] = frozenset()
    kept: frozenset[int] = frozenset()
    readmit: bool = False
    apart: frozenset[int] = frozenset()
    unpacked: frozenset[int] = frozenset()
    unhurried: frozenset[int] = frozenset()
    depth: Depth = DOUBLE
    room: float = 1.0
    queue_share: float = 0.5
    lead_slots: int = 8

    def key(self) -> tuple[object, ...]:
        """Return a hashable key that is the same for equal choices."""
        values = (getattr(self, member.name) for member in fields(self))
        return tuple(
            tuple(sorted(value.items())) if isinstance(value, Mapping) else value for value in values
        )

    def shapes(self, index: int) -> bool:
        """Return whether the tiles of an item are prescribed, alone or as part of a chain or fused pair."""
        chained = any(
            band.length > 1 and first <= index < first + band.length for first, band in self.chains.items()
        )
        return index in self.cuts or chained or index in self.fused_pairs or index - 1 in self.fused_pairs


FAST = Choices()
"""Nothing prescribed: every item is decided by estimate."""
