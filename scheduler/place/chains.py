"""Chains: consecutive layers fused into stripes, so that feature maps between them need not go to DRAM.

Consecutive works can be fused if each hands its feature map to the next one only. For each stripe of rows of the
last work, every stage computes just the rows that the next stage needs. Rows that two stripes need are computed
twice; in return no intermediate goes to DRAM. The constants of all stages stay in the scratchpad meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from math import inf
from typing import NamedTuple

from npusim.isa.base.lazy_dataclass import dataclass
from npusim.kernels.lowering.work import Tile, Work
from npusim.scheduler.fit.allocate import aligned
from npusim.scheduler.fit.costs import Transfers
from npusim.scheduler.fit.cuts import PARTS, Band, Depth, band_bytes, output_bytes
from npusim.scheduler.fit.tiling import TileSearch
from npusim.scheduler.place.residency import Residents

LONGEST = 8
"""Most stages of one chain; every stage adds rows that are computed twice."""


class Link(NamedTuple):
    """The feature map between two stages: its storage (root tensor), and which input of the next stage it is."""

    root: int
    position: int


@dataclass(frozen=True, slots=True)
class Chain:
    """Layers that are fused into stripes, with the estimated cycles."""

    items: tuple[int, ...]
    row_step: int
    between: tuple[Link, ...]
    cycles: float = 0.0

    @property
    def links(self) -> tuple[int, ...]:
        """The storages (root tensors) between the stages."""
        return tuple(link.root for link in self.between)

    def bands(self, works: Sequence[Work]) -> list[list[Tile]]:
        """Return the tile of each stage for each stripe: all channels of the rows that later stages need."""
        positions = [link.position for link in self.between]
        return [
            [
                Tile(first, last, 0, work.channels)
                for work, (first, last) in zip(
                    works, _band(works, positions, begin, self.row_step), strict=True
                )
            ]
            for begin in range(0, works[-1].rows, self.row_step)
        ]


def _band(
    works: Sequence[Work], positions: Sequence[int], begin: int, row_step: int
) -> list[tuple[int, int]]:
    """Return the rows [first, last) of all stages for the stripe of the last stage that begins at a row."""
    spans = [(begin, min(begin + row_step, works[-1].rows))]
    for stage in range(len(works) - 1, 0, -1):
        _, needed = works[stage].inputs[positions[stage - 1]]
        spans.append(needed(*spans[-1]))
    return spans[::-1]


def plan_chains(residents: Residents) -> dict[int, Chain]:
    """Return the chains, by first item: those that the choices ask for, and those faster than their works alone."""
    chains: dict[int, Chain] = {}
    chosen = residents.choices.chains
    index = 0
    while index < len(residents.sharing.items):
        band = chosen.get(index)
        if band is None or any(residents.allowance(each).plain for each in range(index, index + band.length)):
            chain = _best_from(residents, index)
        else:
            chain = _chosen(residents, index, band)
        if chain is not None:
            chains[index] = chain
        index += 1 if chain is None else len(chain.items)
    return chains


def _chosen(residents: Residents, first: int, band: Band) -> Chain | None:
    """Return the chain that the choices ask for; None if none of this length fits."""
    links = tuple(links_from(residents, first))[: band.length - 1]
    if band.length < 2 or len(links) < band.length - 1:
        return None
    items = tuple(range(first, first + band.length))
    return _fused(residents, items, links, band.row_step)


def _best_from(residents: Residents, first: int) -> Chain | None:
    """Return the chain from an item that saves most cycles by estimate; None if none saves any."""
    links = list(links_from(residents, first))[: LONGEST - 1]
    if not links:
        return None
    best: tuple[float, Chain] | None = None
    alone = [residents.cycles(index) for index in range(first, first + len(links) + 1)]
    for length in range(len(links), 0, -1):
        items = tuple(range(first, first + length + 1))
        fused = _fused(residents, items, tuple(links[:length]))
        if fused is None:
            continue
        gain = sum(alone[: length + 1]) - fused.cycles
        if gain > 0 and (best is None or gain > best[0]):
            best = gain, fused
    return None if best is None else best[1]


def links_from(residents: Residents, first: int) -> Iterator[Link]:
    """Yield the links of the longest chain that may begin at an item."""
    sharing = residents.sharing
    read: set[int] = set()
    for index in range(first, len(residents.sharing.items) - 1):
        item, following = sharing.items[index], sharing.items[index + 1]
        if not isinstance(item.body, Work) or not isinstance(following.body, Work):
            return
        if not (item.body.by_rows and following.body.by_rows):
            return
        link = _link(residents, index, item.body, following.body)
        if link is None:
            return
        # A result may overwrite an input of its own stage, row by row. It must not overwrite what an earlier stage
        # reads, because later stripes read those rows again.
        read.update(root for root, _ in sharing.inputs[index])
        if sharing.outputs[index + 1][0][0] in read:
            return
        yield link


def _link(residents: Residents, index: int, work: Work, following: Work) -> Link | None:
    """Return the feature map that an item hands to the next one; None if the two cannot be fused.

    They can be if no other item touches the map, it is not resident in the scratchpad, and both divide it into the
    same rows.
    """
    root, offset = residents.sharing.outputs[index][0]
    storage = residents.sharing.storages[root]
    private = (storage.first, storage.last, storage.writes) == (index, index + 1, (index,))
    if root in residents.roots or not private or storage.from_dram or storage.to_dram or offset:
        return None
    positions = [
        position for position, part in enumerate(residents.sharing.inputs[index + 1]) if part == (root, 0)
    ]
    if len(positions) != 1 or work.output.offset_bytes:
        return None
    taken, made = following.inputs[positions[0]][0], work.output
    if (taken.count, taken.row_bytes, taken.offset_bytes) != (made.count, made.row_bytes, 0):
        return None
    return Link(root, positions[0])


def _fused(
    residents: Residents,
    items: tuple[int, ...],
    links: tuple[Link, ...],
    row_step: int | None = None,
) -> Chain | None:
    """Return the chain with the best stripe height, or the given one; None if no stripe fits."""
    searches = tuple([residents.searches[index] for index in items])
    budget = min([residents.budget(index) for index in items])
    positions, depth = tuple([link.position for link in links]), residents.choices.depth
    # Cached, because consecutive attempts to place a schedule ask for the same chains.
    known = residents.network.memo.of(Bands)
    best: Chain | None = None
    worse = 0
    for step in [row_step] if row_step else row_steps(searches[-1].work.rows):
        key = (searches, positions, depth, step)
        bands = known.get(key)
        if bands is None:
            bands = known[key] = Bands(searches, positions, step, depth)
        if bands.size_bytes > budget:
            continue
        if best is None or bands.cycles < best.cycles:
            best, worse = Chain(items, step, links, bands.cycles), 0
        else:
            worse += 1
            if worse == 3:
                break
    return best


class Bands:
    """Scratchpad bytes and estimated cycles of a chain in stripes of one height.

    Only the first, middle and last stripe are computed; the middle one stands for all between the ends.
    size_bytes: scratchpad bytes; infinite if a stripe has no rows at some stage.
    """

    def __init__(
        self,
        searches: Sequence[TileSearch],
        positions: Sequence[int],
        row_step: int,
        depth: Depth,
    ) -> None:
        self._searches = searches
        self._works = [search.work for search in searches]
        self._links = (-1, *positions)
        self._hardware = searches[0].hardware
        rows = self._works[-1].rows
        self._count = -(-rows // row_step)
        # The number of stripes that each computed stripe stands for. The needed rows never move back from stripe to
        # stripe: if both end stripes have rows at each stage, so have all between.
        stands_for = {self._count // 2: self._count - 2, 0: 1, self._count - 1: 1}
        self._samples = [
            (_band(self._works, positions, number * row_step, row_step), count)
            for number, count in stands_for.items()
        ]
        self.size_bytes: float = inf
        if all(first < last for band, _ in self._samples for first, last in band):
            constants = sum(aligned(work.constant_bytes(0, work.channels)) for work in self._works)
            self.size_bytes = constants + max(
                self._result_bytes(band, depth) + depth.inputs * self._streamed_bytes(band)
                for band, _ in self._samples
            )

    @cached_property
    def cycles(self) -> float:
        """The longer of the computing cycles of all stripes and of their transfers."""
        works, last = self._works, self._works[-1]
        compute = sum(
            count * search.tile_cycles(end - first, search.work.channels)
            for band, count in self._samples
            for search, (first, end) in zip(self._searches, band, strict=True)
        )
        transfers = Transfers(self._hardware)
        traffic = transfers.no_bytes()
        traffic[transfers.constants] += sum(work.constant_bytes(0, work.channels) for work in works)
        traffic[transfers.maps] += sum(count * self._streamed_bytes(band) for band, count in self._samples)
        if not self._searches[-1].residency.outputs[0]:
            traffic[transfers.maps] += output_bytes(last, last.rows, last.channels)
        overhead = self._count * len(works) * self._hardware.dma.setup_cycles
        return max(compute, transfers.together_cycles(traffic)) + overhead

    def _result_bytes(self, band: Sequence[tuple[int, int]], depth: Depth) -> int:
        """Return the scratchpad bytes of one stripe's results: the widest pair of neighbouring links, and the last."""
        sizes = [
            aligned(output_bytes(work, last - first, work.channels))
            for work, (first, last) in zip(self._works, band, strict=True)
        ]
        inside = sizes[:-1]
        size = max(a + b for a, b in zip([0, *inside], [*inside, 0], strict=True))
        return size if self._searches[-1].residency.outputs[0] else size + depth.results * sizes[-1]

    def _streamed_bytes(self, band: Sequence[tuple[int, int]]) -> int:
        """Return the bytes of one stripe's inputs that come from DRAM."""
        return sum(
            aligned(band_bytes(search.work, position, *stage))
            for search, stage, link in zip(self._searches, band, self._links, strict=True)
            for position, resident in enumerate(search.residency.inputs)
            if position != link and not resident
        )


def row_steps(rows: int) -> list[int]:
    """Return the stripe heights to try, large ones first."""
    return list(dict.fromkeys(-(-rows // parts) for parts in PARTS if parts <= rows))
