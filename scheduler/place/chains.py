"""Chains: consecutive layers fused into stripes, so that feature maps between them need not go to DRAM.

Consecutive works can be fused if each hands its feature map to the next one only. For each stripe of rows of the
last work, every stage computes just the rows that the next stage needs. Rows that two stripes need are computed
twice; in return no intermediate goes to DRAM. The constants of all stages stay in the scratchpad meanwhile.

A chain that begins with a batch of products, such as the scores of attention heads, has stripes within each entry of
the batch. All its stages need the same rows. The units work on different stripes at the same time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from math import inf
from typing import NamedTuple

from npusim.isa.base.lazy_dataclass import dataclass
from npusim.kernels.lowering.work import Rows, Tile, Work, same_rows
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
        entries, rows = batch_of(works)
        if entries > 1:
            return [
                [_tile(work, entry, rows, begin, min(begin + self.row_step, rows)) for work in works]
                for entry in range(entries)
                for begin in range(0, rows, self.row_step)
            ]
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


def batch_of(works: Sequence[Work]) -> tuple[int, int]:
    """Return the most batch entries of a chain's works, and the rows of the last work's output in each of them."""
    entries = max([work.entries for work in works])
    return entries, works[-1].rows * works[-1].entries // entries


def _tile(work: Work, entry: int, rows: int, begin: int, end: int) -> Tile:
    """Return the tile of rows `begin` to `end` of a batch entry, for a work with or without entries."""
    if work.entries > 1:
        return Tile(begin, end, 0, work.channels, entry)
    return Tile(entry * rows + begin, entry * rows + end, 0, work.channels)


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
        if band is None or any(
            residents.allowance(place).plain for place in range(index, index + band.length)
        ):
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
    body = sharing.items[first].body
    of_products = isinstance(body, Work) and body.is_batch_of_products
    for index in range(first, len(residents.sharing.items) - 1):
        item, following = sharing.items[index], sharing.items[index + 1]
        if not isinstance(item.body, Work) or not isinstance(following.body, Work):
            return
        if not all(_goes_in_stripes(work, of_products) for work in (item.body, following.body)):
            return
        link = _link(residents, index, item.body, following.body, of_products)
        if link is None:
            return
        # A result may overwrite an input of its own stage, row by row. It must not overwrite what an earlier stage
        # reads, because later stripes read those rows again.
        read.update(root for root, _ in sharing.inputs[index])
        if sharing.outputs[index + 1][0][0] in read:
            return
        yield link


def _goes_in_stripes(work: Work, of_products: bool) -> bool:
    """Return True if a work can be a stage of a chain; of_products: one whose stages all need the same rows."""
    if not of_products:
        return work.by_rows
    return not work.fetched and len(work.outputs) == 1


def _link(residents: Residents, index: int, work: Work, following: Work, of_products: bool) -> Link | None:
    """Return the feature map that an item hands to the next one; None if the two cannot be fused.

    They can be if no other item touches the map and both divide it into the same rows. Without batch entries it must
    not be resident in the scratchpad; with them stripes pay there too, because two units work at a time.
    """
    root, offset = residents.sharing.outputs[index][0]
    storage = residents.sharing.storages[root]
    private = (storage.first, storage.last, storage.writes) == (index, index + 1, (index,))
    stays = root in residents.roots and not of_products
    if stays or not private or storage.from_dram or storage.to_dram or offset:
        return None
    positions = [
        position for position, part in enumerate(residents.sharing.inputs[index + 1]) if part == (root, 0)
    ]
    if len(positions) != 1 or work.output.offset_bytes:
        return None
    if positions[0] >= len(following.inputs):
        return None  # it is the second factor of products
    (taken, needed), written = following.inputs[positions[0]], work.output
    if max(work.entries, following.entries) > 1 and (needed is not same_rows or taken.by_columns):
        return None
    if _rows_of_all(taken, following.entries) != _rows_of_all(written, work.entries):
        return None
    return Link(root, positions[0])


def _rows_of_all(rows: Rows, entries: int) -> tuple[int, int, int]:
    """Return number, bytes and offset of the rows of all batch entries; -1 rows if entries are not side by side."""
    dense = entries == 1 or rows.entry_bytes == rows.count * rows.row_bytes
    return rows.count * entries if dense else -1, rows.row_bytes, rows.offset_bytes


def _fused(
    residents: Residents,
    items: tuple[int, ...],
    links: tuple[Link, ...],
    row_step: int | None = None,
) -> Chain | None:
    """Return the chain with the best stripe height, or the given one; None if no stripe fits."""
    searches = tuple([residents.searches[index] for index in items])
    budget = min([residents.budget(index) for index in items])
    works = [search.work for search in searches]
    entries, rows = batch_of(works)
    if any(work.entries not in (1, entries) for work in works):
        return None
    if entries > 1:
        budget = min(budget, _room_beside(residents, items, links))
    positions, depth = tuple([link.position for link in links]), residents.choices.depth
    # Cached, because consecutive attempts to place a schedule ask for the same chains.
    known = residents.network.memo.of(Bands)
    best: Chain | None = None
    worse = 0
    for step in [row_step] if row_step else row_steps(rows):
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


def _room_beside(residents: Residents, items: tuple[int, ...], links: tuple[Link, ...]) -> int:
    """Return the scratchpad bytes that the stripes of a chain can take.

    All storages that are resident at some item of the chain take room from its first stripe to its last, because each
    stripe passes all stages. The links do not, because stripes replace them. With less room a link would get one buffer
    instead of two, and the units would wait for each other.
    """
    sizes = residents.sharing.size_bytes
    replaced = residents.roots.intersection([link.root for link in links])
    taken = residents.live_bytes_during(items[0], items[-1]) - sum([sizes[root] for root in replaced])
    return residents.capacity_bytes - taken


class Bands:
    """Scratchpad bytes and estimated cycles of a chain in stripes of one height.

    Only a few stripes are computed; each stands for others like it (`_samples`).
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
        self._entries, rows = batch_of(self._works)
        self._count = -(-rows // row_step) * self._entries
        self._samples = self._computed_stripes(positions, rows, row_step)
        self.size_bytes: float = inf
        if all(first < last for band, _ in self._samples for first, last in band):
            constants = sum(aligned(work.constant_bytes(0, work.channels)) for work in self._works)
            stripes = max(
                self._result_bytes(band, depth) + depth.inputs * self._streamed_bytes(band)
                for band, _ in self._samples
            )
            # The second factors of the next batch entry arrive while one is computed.
            self.size_bytes = constants + 2 * self._factor_bytes + stripes

    def _computed_stripes(
        self, positions: Sequence[int], rows: int, row_step: int
    ) -> list[tuple[list[tuple[int, int]], int]]:
        """Return the rows of each stage in the stripes that are computed, and the number of stripes each stands for.

        With batch entries these are a full stripe and the last one of an entry, without entries the first, the middle
        and the last one: the needed rows never move back from stripe to stripe, so if both end stripes have rows at
        each stage, all between have some.
        """
        if self._entries > 1:
            whole, rest = divmod(rows, row_step)
            sizes = (row_step, whole * self._entries), (rest, self._entries)
            return [([(0, size)] * len(self._works), count) for size, count in sizes if size * count]
        stands_for = {self._count // 2: self._count - 2, 0: 1, self._count - 1: 1}
        return [
            (_band(self._works, positions, number * row_step, row_step), count)
            for number, count in stands_for.items()
        ]

    @property
    def _factor_bytes(self) -> int:
        """The bytes of one batch entry's second factors that come from DRAM."""
        return sum(
            aligned(search.work.weights.part_bytes(search.work.channels))
            for search in self._searches
            if search.work.weights is not None and not search.residency.inputs[-1]
        )

    def _computing_cycles(self) -> float:
        """Return the computing cycles: of all stages or, with batch entries, of the busiest unit and a first stripe."""
        units: dict[object, float] = {}
        for band, count in self._samples:
            for search, (first, end) in zip(self._searches, band, strict=True):
                cycles = search.tile_cycles(end - first, search.work.channels)
                units[search.unit] = units.get(search.unit, 0) + count * cycles
        if self._entries == 1:
            return sum(units.values())
        return max(units.values()) + sum(units.values()) / self._count

    @cached_property
    def cycles(self) -> float:
        """The longer of the computing cycles of all stripes and of their transfers."""
        works, last = self._works, self._works[-1]
        compute = self._computing_cycles()
        transfers = Transfers(self._hardware)
        traffic = transfers.no_bytes()
        traffic[transfers.constants] += sum(work.constant_bytes(0, work.channels) for work in works)
        traffic[transfers.maps] += sum(count * self._streamed_bytes(band) for band, count in self._samples)
        traffic[transfers.maps] += self._entries * self._factor_bytes
        if not self._searches[-1].residency.outputs[0]:
            traffic[transfers.maps] += output_bytes(last, last.rows, last.channels) * last.entries
        overhead = self._count * len(works) * self._hardware.dma.setup_cycles
        return max(compute, transfers.together_cycles(traffic)) + overhead

    def _result_bytes(self, band: Sequence[tuple[int, int]], depth: Depth) -> int:
        """Return the scratchpad bytes of the links and of the last results.

        Without batch entries only two neighbouring links are alive at a time. With them two stripes of each link are,
        because the units work on different stripes.
        """
        sizes = [
            aligned(output_bytes(work, last - first, work.channels))
            for work, (first, last) in zip(self._works, band, strict=True)
        ]
        inside = sizes[:-1]
        pairs = zip([0, *inside], [*inside, 0], strict=True)
        size = 2 * sum(inside) if self._entries > 1 else max(a + b for a, b in pairs)
        return size if self._searches[-1].residency.outputs[0] else size + depth.results * sizes[-1]

    def _streamed_bytes(self, band: Sequence[tuple[int, int]]) -> int:
        """Return the bytes of one stripe's inputs that come from DRAM."""
        return sum(
            aligned(band_bytes(search.work, position, *stage))
            for search, stage, link in zip(self._searches, band, self._links, strict=True)
            for position, resident in enumerate(search.residency.inputs[: len(search.work.inputs)])
            if position != link and not resident
        )


def row_steps(rows: int) -> list[int]:
    """Return the stripe heights to try, large ones first."""
    return list(dict.fromkeys(-(-rows // parts) for parts in PARTS if parts <= rows))
