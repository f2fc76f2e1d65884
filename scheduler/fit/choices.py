"""The decisions of the compiler that are open to search, in one value; the defaults leave all to the passes.

Passes read a `Choices` and never change it. What it does not mention they decide by their own estimates, and what
it asks for but does not fit they decide again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import TypeVar

from npusim.scheduler.fit.cuts import DOUBLE, Cut, Depth

_Value = TypeVar("_Value")


def _none() -> Mapping[int, _Value]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Band:
    """How a chain is to be made: of so many works, with so many rows of the last one per band (None: estimated)."""

    length: int
    row_step: int | None = None


@dataclass(frozen=True, slots=True)
class Choices:
    """Decisions about one network on one machine. Items and tensors are numbered as in `Network`.

    cuts:       tiles of a work: shape, loop order, and whether constants stay.
    chains:     the chain that begins at an item; a length of 1 is none.
    weaves:     into how many row tiles an item is cut to run beside the next one on another unit; 1: not at all.
    evicted:    storages (root tensors) that live in DRAM.
    kept:       storages that go to DRAM only when nothing else is left to go.
    readmit:    whether storages in DRAM come back where they fit after all and the estimates say that it helps.
    apart:      results that do not take the place of an input.
    unpacked:   items whose weights are stored as they are.
    unhurried:  items that load nothing ahead of the tile that needs it.
    depth:      buffers that tiles are sized for.
    room:       share of the free scratchpad that the tiles of a work may fill; the rest is for what comes after it.
    queue_share: how much of a queue loads that wait may fill, by estimate.
    lead_slots: how many slots before its first use a storage that comes from DRAM may claim its bytes.
    """

    cuts: Mapping[int, Cut] = field(default_factory=_none)
    chains: Mapping[int, Band] = field(default_factory=_none)
    weaves: Mapping[int, int] = field(default_factory=_none)
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
        """The same for equal choices, and hashable."""
        values = (getattr(self, each.name) for each in fields(self))
        return tuple(
            tuple(sorted(value.items())) if isinstance(value, Mapping) else value for value in values
        )

    def shapes(self, index: int) -> bool:
        """Whether the tiles of an item are prescribed, by itself or as part of a chain or weave."""
        chained = any(
            band.length > 1 and first <= index < first + band.length for first, band in self.chains.items()
        )
        return index in self.cuts or chained or index in self.weaves or index - 1 in self.weaves


FAST = Choices()
"""Nothing chosen: all by estimate, item by item."""
