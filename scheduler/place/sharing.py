"""How the tensors of a network share memory, and the tile searches of its works for a given residency.

A storage is one or several tensors that share memory. A work is a layer that is cut into tiles; an item is a work, a
move, or a step of the host, in the order of execution.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from npusim.isa.base.lazy_dataclass import dataclass
from npusim.kernels.lowering.work import Move, Work
from npusim.scheduler.fit.allocate import Spans, aligned
from npusim.scheduler.fit.costs import TileCosts, Transfers
from npusim.scheduler.fit.cuts import Depth, End, Residency
from npusim.scheduler.fit.tiling import TileSearch
from npusim.scheduler.network.network import Network
from npusim.scheduler.network.storage import Aliases, Item, Storage, find_storages, operands

Part = tuple[int, int]
"""A place in a storage: the root tensor of the storage, and the offset in bytes."""


@dataclass(frozen=True)
class Sharing:
    """The storages of a network, for one choice of the results that reuse the memory of an input.

    inputs, outputs: the place of each operand, by work; inputs are `Work.reads`.
    first_uses:      the first work that reads each storage.
    spans:           the items during which each storage is live.
    """

    network: Network
    forest: Aliases
    storages: Mapping[int, Storage]
    inputs: Mapping[int, tuple[Part, ...]]
    outputs: Mapping[int, tuple[Part, ...]]
    first_uses: Mapping[int, int]
    spans: Mapping[int, range]

    @property
    def items(self) -> Sequence[Item]:
        """The items of the network in the order of execution."""
        return self.network.items

    @cached_property
    def works(self) -> Sequence[int]:
        """The items that are works."""
        return tuple(self.inputs)

    @cached_property
    def size_bytes(self) -> Mapping[int, int]:
        """The bytes that each storage takes in the scratchpad."""
        return {root: aligned(each.size_bytes) for root, each in self.storages.items()}

    @cached_property
    def _passing(self) -> Spans[int, tuple[int, int]]:
        spans: Spans[int, tuple[int, int]] = Spans()
        for root, span in self.spans.items():
            if span:
                spans.add(span[0], span[-1], root, (span[0], span[-1]))
        return spans

    def live(self, index: int, roots: Collection[int]) -> frozenset[int]:
        """Return those of `roots` that are live at an item."""
        return frozenset(
            [
                root
                for block in self._passing.near(index, index)
                for root, (first, last) in block.items()
                if first <= index <= last and root in roots
            ]
        )

    def larger_than(self, size_bytes: int) -> frozenset[int]:
        """Return the storages that have more than `size_bytes`."""
        return frozenset(root for root, each in self.storages.items() if each.size_bytes > size_bytes)

    def residency(self, index: int, roots: Collection[int]) -> Residency:
        """Return which operands of a work are in the scratchpad, and which of them the work loads there itself."""
        inputs = self.inputs[index]
        inside = tuple([root in roots for root, _ in inputs])
        loaded = tuple(
            [
                resident and self.storages[root].from_dram and self.first_uses[root] == index
                for resident, (root, _) in zip(inside, inputs, strict=True)
            ]
        )
        return Residency(inside, tuple([root in roots for root, _ in self.outputs[index]]), loaded)


def share(network: Network, forest: Aliases, lead: int) -> Sharing:
    """Return the storages of a network. `forest` tells which tensors share memory.

    lead: the items before its first reader from which on a storage from another memory may be in the scratchpad. Inputs
        and constants exist from the start, but they are not loaded earlier, so works before may have their room.
    """
    storages = find_storages(
        network.graph, forest, network.items, network.hardware, brief=network.parts is not None
    )
    inputs: dict[int, tuple[Part, ...]] = {}
    outputs: dict[int, tuple[Part, ...]] = {}
    first_uses: dict[int, int] = {}
    for index, item in enumerate(network.items):
        if isinstance(item.body, Work):
            reads, writes = operands(network.graph, item)
            inputs[index] = tuple([forest.root(tensor) for tensor in reads])
            outputs[index] = tuple([forest.root(tensor) for tensor in writes])
            for root, _ in inputs[index]:
                first_uses.setdefault(root, index)
    count = len(network.items)

    def span(root: int, storage: Storage) -> range:
        loaded = storage.from_dram and root in first_uses
        first = max(storage.first, first_uses[root] - lead if loaded else 0, 0)
        return range(first, min(storage.last + 1, count))

    spans = {root: span(root, storage) for root, storage in storages.items()}
    return Sharing(network, forest, storages, inputs, outputs, first_uses, spans)


class Buffering(NamedTuple):
    """How the tiles of a work may be buffered.

    depth:  buffers per operand.
    packs:  weights are stored packed, if the hardware can unpack them and it saves bytes.
    finest: cuts may have fewer channels than the hardware computes at once.
    """

    depth: Depth
    packs: bool
    finest: bool = False


def tile_search(sharing: Sharing, index: int, roots: Collection[int], buffering: Buffering) -> TileSearch:
    """Return the tile search of a work if the storages `roots` are in the scratchpad. Searches are cached."""
    network, work = sharing.network, sharing.items[index].body
    assert isinstance(work, Work)
    depth, packs, finest = buffering
    residency = sharing.residency(index, roots)
    alone = loads_alone(network, index, packs)
    first, last = alone or index == sharing.works[0], alone or index == sharing.works[-1]
    end = End(first, last, _ahead(network, index, packs))
    costs = tile_costs(network, work)
    key = (costs.key(packs) or id(work), residency, depth, packs, finest, end)
    known = network.memo.of(TileSearch)
    search = known.get(key)
    if search is None:
        search = known[key] = TileSearch(work, residency, network.hardware, depth, packs, end, costs, finest)
    return search


def tile_costs(network: Network, work: Work) -> TileCosts:
    """Return the tile costs of a work. Equal works share them, unless packed sizes depend on the weights."""
    known = network.memo.of(TileCosts)
    like = id(work) if work.alike is None or network.hardware.packs_weights else work.alike
    costs = known.get(like)
    if costs is None:
        transfers = network.memo.of(Transfers)
        if not transfers:
            transfers[None] = Transfers(network.hardware)
        costs = known[like] = TileCosts(work, network.hardware, transfers[None])
    return costs


def loads_alone(network: Network, index: int, packs: bool) -> bool:
    """Return True if loads of an item start only after the items before it (`overlap` in the hardware file)."""
    work, overlap = network.items[index].body, network.hardware.overlap
    if overlap != "reloads" or not isinstance(work, Work):
        return overlap == "none"
    return tile_costs(network, work).streams_constants(packs)


def item_before(network: Network, index: int) -> int:
    """Return the nearest item before `index` that takes time; the first item if there is none."""
    nearest = index - 1
    while nearest > 0 and _takes_no_time(network, nearest):
        nearest -= 1
    return max(nearest, 0)


def _takes_no_time(network: Network, index: int) -> bool:
    """Return True if an item takes no cycles, because it is fused in the DMA or in another layer."""
    body = network.items[index].body
    if isinstance(body, Work):
        return not tile_costs(network, body).cycles(body.rows, body.channels)
    return isinstance(body, Move) and network.hardware.dma.views and bool(body.view)


def _ahead(network: Network, index: int, packs: bool) -> int | None:
    """Return the computing cycles that can hide an item's prefetches; 0 after a copy or a host call.

    An item prefetches during the nearest item before it that takes time, if the hardware has overlap "reloads". With
    another overlap the loads of several items compete, so no such number exists: None. Also None if the item does not
    prefetch.
    """
    if network.hardware.overlap != "reloads" or not index or loads_alone(network, index, packs):
        return None
    before = item_before(network, index)
    body = network.items[before].body
    if not isinstance(body, Work):
        return 0
    return tile_costs(network, body).cycles(body.rows, body.channels) * body.entries
