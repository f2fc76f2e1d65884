"""Chains: works whose intermediate feature maps do not fit, run band by band so that they never leave.

Consecutive works that hand a feature map to the next one only can be cut together: for each band of rows of the
last one, every stage computes just the rows that the next stage needs. Rows that two bands need are computed
twice; in return no intermediate goes to DRAM. All constants of the stages stay in the scratchpad meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import NamedTuple

from npusim.isa.hardware import Hardware
from npusim.kernels.work import OperandRef, Tile, Work
from npusim.scheduler.allocate import aligned
from npusim.scheduler.choices import Band
from npusim.scheduler.residency import Residents
from npusim.scheduler.storage import operand_tensor
from npusim.scheduler.tiling import PARTS, Depth, Residency, output_bytes

LONGEST = 8
"""Most stages of one chain; every stage adds rows that are computed twice."""


class Link(NamedTuple):
    """What one stage hands to the next: the storage (root tensor), and which input of the next stage it is."""

    root: int
    position: int


@dataclass(frozen=True, slots=True)
class Chain:
    """Works that run band by band, in so many cycles by estimate."""

    items: tuple[int, ...]
    row_step: int
    between: tuple[Link, ...]
    cycles: float = 0.0

    @property
    def links(self) -> tuple[int, ...]:
        """The storages (root tensors) between the stages."""
        return tuple(link.root for link in self.between)

    def bands(self, works: Sequence[Work]) -> list[list[Tile]]:
        """For each band, the tile of each stage: all channels of the rows that the later stages need."""
        last = works[-1].rows
        positions = [link.position for link in self.between]
        return [
            _tiles(works, positions, first, min(first + self.row_step, last))
            for first in range(0, last, self.row_step)
        ]


def _tiles(works: Sequence[Work], positions: Sequence[int], first: int, last: int) -> list[Tile]:
    """The tiles of all stages for rows [first, last) of the last one."""
    tiles = [Tile(first, last, 0, works[-1].channels)]
    for stage in range(len(works) - 2, -1, -1):
        _, needed = works[stage + 1].inputs[positions[stage]]
        first, last = needed(first, last)
        tiles.insert(0, Tile(first, last, 0, works[stage].channels))
    return tiles


def plan_chains(residents: Residents, hardware: Hardware) -> dict[int, Chain]:
    """The chains that the choices ask for or that are faster than their works one by one, by first item."""
    found: dict[int, Chain] = {}
    chosen = residents.choices.chains
    index = 0
    while index < len(residents.items):
        band = chosen.get(index)
        if band is None or residents.refused.intersection(range(index, index + band.length)):
            chain = _best_from(residents, index, hardware)
        else:
            chain = _chosen(residents, index, band, hardware)
        if chain is not None:
            found[index] = chain
        index += 1 if chain is None else len(chain.items)
    return found


def _chosen(residents: Residents, first: int, band: Band, hardware: Hardware) -> Chain | None:
    """The chain that the choices ask for, or None where there is none of this length that fits."""
    links = tuple(links_from(residents, first))[: band.length - 1]
    if band.length < 2 or len(links) < band.length - 1:
        return None
    items = tuple(range(first, first + band.length))
    return _fused(residents, items, links, hardware, band.row_step)


def _best_from(residents: Residents, first: int, hardware: Hardware) -> Chain | None:
    """The chain from an item that saves most per work, or None."""
    links = list(links_from(residents, first))[: LONGEST - 1]
    if not links:
        return None
    best: tuple[float, Chain] | None = None
    alone = [residents.cycles(index) for index in range(first, first + len(links) + 1)]
    for length in range(len(links), 0, -1):
        items = tuple(range(first, first + length + 1))
        fused = _fused(residents, items, tuple(links[:length]), hardware)
        if fused is None:
            continue
        gain = sum(alone[: length + 1]) - fused.cycles
        if gain > 0 and (best is None or gain > best[0]):
            best = gain, fused
    return None if best is None else best[1]


def links_from(residents: Residents, first: int) -> Iterator[Link]:
    """The links of the longest chain that may begin at an item, one by one."""
    read: set[int] = set()
    for index in range(first, len(residents.items) - 1):
        item, following = residents.items[index], residents.items[index + 1]
        if not isinstance(item.body, Work) or not isinstance(following.body, Work):
            return
        link = _link(residents, index, item.body, following.body)
        if link is None:
            return
        # A result may take the place of an input of its own stage, row by row. What an earlier stage reads it must
        # not touch: later bands read those rows again.
        read.update(_root(residents, index, rows.operand) for rows, _ in item.body.inputs)
        if _root(residents, index + 1, following.body.output.operand) in read:
            return
        yield link


def _link(residents: Residents, index: int, work: Work, following: Work) -> Link | None:
    """What an item hands to the next if nobody else touches it, it has no place in the scratchpad, and both see the
    same rows in it.
    """
    forest = residents.forest
    tensor = operand_tensor(residents.graph, residents.items[index].node, work.output.operand)
    root, offset = forest.root(tensor)
    storage = residents.storages[root]
    private = (storage.first, storage.last, storage.writes) == (index, index + 1, [index])
    if root in residents.roots or not private or storage.from_dram or storage.to_dram or offset:
        return None
    node = residents.items[index + 1].node
    positions = [
        position
        for position, (rows, _) in enumerate(following.inputs)
        if forest.root(operand_tensor(residents.graph, node, rows.operand)) == (root, 0)
    ]
    if len(positions) != 1 or work.output.offset_bytes:
        return None
    taken, made = following.inputs[positions[0]][0], work.output
    if (taken.count, taken.row_bytes, taken.offset_bytes) != (made.count, made.row_bytes, 0):
        return None
    return Link(root, positions[0])


def _root(residents: Residents, index: int, operand: OperandRef) -> int:
    """The root tensor of an operand of an item."""
    return residents.forest.root(operand_tensor(residents.graph, residents.items[index].node, operand))[0]


def _works(residents: Residents, items: Sequence[int]) -> list[Work]:
    bodies = [residents.items[index].body for index in items]
    return [body for body in bodies if isinstance(body, Work)]


def _fused(
    residents: Residents,
    items: tuple[int, ...],
    links: tuple[Link, ...],
    hardware: Hardware,
    row_step: int | None = None,
) -> Chain | None:
    """The chain with the best row step, or that given; None if no band fits."""
    works = _works(residents, items)
    budget = min(residents.budget(index) for index in items)
    where = tuple(
        residents.residency(residents.items[index], work) for index, work in zip(items, works, strict=True)
    )
    best: Chain | None = None
    worse = 0
    for step in [row_step] if row_step else row_steps(works[-1].rows):
        chain = Chain(items, step, links)
        # One attempt after another asks for the same chains.
        known, key = residents.network.chains, (chain, where, residents.choices.depth)
        if key not in known:
            known[key] = _measured(residents, chain, works, where, hardware)
        need, cycles = known[key]
        if need > budget:
            continue
        if best is None or cycles < best.cycles:
            best, worse = replace(chain, cycles=cycles), 0
        else:
            worse += 1
            if worse == 3:
                break
    return best


def row_steps(rows: int) -> list[int]:
    """The band heights worth a look, coarse ones first."""
    return list(dict.fromkeys(-(-rows // parts) for parts in PARTS if parts <= rows))


def _measured(
    residents: Residents, chain: Chain, works: Sequence[Work], where: Sequence[Residency], hardware: Hardware
) -> tuple[float, float]:
    """Scratchpad bytes of a chain (infinite if a band has no rows at some stage) and its estimated cycles.

    Computation of all bands stands against transfers, whichever is longer. Bands between the ends are alike.
    """
    bands = chain.bands(works)
    if any(tile.rows <= 0 for band in bands for tile in band):
        return inf, inf
    depth, last = residents.choices.depth, works[-1]
    counts = (1, len(bands) - 2, 1) if len(bands) > 1 else (0, 1, 0)
    compute, room = 0.0, 0
    traffic: float = sum(work.constant_bytes(0, work.channels) for work in works)
    if not where[-1].output:
        traffic += output_bytes(last, last.rows, last.channels)
    for band, count in zip((bands[0], bands[len(bands) // 2], bands[-1]), counts, strict=True):
        streamed = sum(_streamed(chain, works, where, band))
        room = max(room, _band_bytes(works, band, where[-1].output, depth) + depth.inputs * streamed)
        traffic += count * streamed
        compute += count * sum(
            residents.search(index).tile_cycles(tile.rows, tile.channels)
            for index, tile in zip(chain.items, band, strict=True)
        )
    constants = sum(aligned(work.constant_bytes(0, work.channels)) for work in works)
    overhead = len(bands) * len(works) * hardware.dma.setup_cycles
    return constants + room, max(compute, traffic / hardware.dram_bytes_per_cycle) + overhead


def _band_bytes(works: Sequence[Work], band: Sequence[Tile], resident_output: bool, depth: Depth) -> int:
    """Scratchpad bytes of the results of one band: the widest pair of neighbouring links, and the last ones."""
    sizes = [
        aligned(output_bytes(work, tile.rows, tile.channels)) for work, tile in zip(works, band, strict=True)
    ]
    inside = sizes[:-1]
    size = max(a + b for a, b in zip([0, *inside], [*inside, 0], strict=True))
    return size if resident_output else size + depth.results * sizes[-1]


def _streamed(
    chain: Chain, works: Sequence[Work], where: Sequence[Residency], band: Sequence[Tile]
) -> Iterator[int]:
    """Bytes of the inputs of one band that come from DRAM."""
    positions = [-1, *(link.position for link in chain.between)]
    for work, residency, tile, link in zip(works, where, band, positions, strict=True):
        for position, (rows, needed) in enumerate(work.inputs):
            if position != link and not residency.inputs[position]:
                first, last = needed(tile.first_row, tile.last_row)
                yield aligned((last - first) * rows.row_bytes)
