"""Residency: which feature maps stay in the scratchpad from the layer that writes them to the last that reads them.

A storage is one or several tensors that share memory. A work is a layer that is cut into tiles; an item is a work, a
move, or a step of the host, in the order of execution.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from npusim.isa.base.errors import CompileError
from npusim.isa.hardware.memories import Space
from npusim.kernels.lowering.work import Move, Work
from npusim.scheduler.fit.allocate import Spans, Sums, aligned
from npusim.scheduler.fit.costs import TileCosts
from npusim.scheduler.fit.cuts import SINGLE, Choices, Cut, Depth, End, Residency, slices
from npusim.scheduler.fit.tiling import TileSearch
from npusim.scheduler.network.network import Network
from npusim.scheduler.network.storage import Aliases, Storage, find_storages, operands, share_in_place

Part = tuple[int, int]
"""A place in a storage: the root tensor of the storage, and the offset in bytes."""


class Residents:
    """The storages that are resident in the scratchpad, and the bytes that each item has beside them.

    roots:     root tensors of the resident storages. They change one by one; only the sums of the items that use the
               changed one are updated.
    unhurried: items that may not prefetch, because prefetched data would fragment the space of a larger buffer.
    refused:   items that are no longer fused or cut as the choices ask, because that did not fit.
    woven:     items that are part of a fused pair in the current schedule.
    """

    def __init__(
        self, network: Network, forest: Aliases, storages: Mapping[int, Storage], choices: Choices
    ) -> None:
        self.network = network
        self.graph = network.graph
        self.items = network.items
        self.hardware = network.hardware
        self.storages = storages
        self.forest = forest
        self.choices = choices
        self.capacity_bytes = network.hardware.scratchpad.size_kib * 1024
        evicted = {forest.root(tensor)[0] for tensor in choices.evicted}
        self._kept = {forest.root(tensor)[0] for tensor in choices.kept}
        pinned = {root for root, storage in storages.items() if storage.pinned}
        self.roots = {
            root for root, storage in storages.items() if storage.may_be_resident
        } - evicted | pinned
        self.unhurried: set[int] = set(choices.unhurried)
        self.refused: set[int] = set()
        self.woven: set[int] = set()
        self._limits: list[int | None] = [None] * len(self.items)
        self._narrow: set[int] = set()
        self._last_resort: set[int] = set()
        self._works = [index for index, item in enumerate(self.items) if isinstance(item.body, Work)]
        self._inputs, self._outputs = self._find_operands()
        self._first_uses: dict[int, int] = {}
        self._users: dict[int, list[int]] = {}
        for index in self._works:
            for root, _ in self._inputs[index]:
                self._first_uses.setdefault(root, index)
            for root, _ in (*self._inputs[index], *self._outputs[index]):
                self._users.setdefault(root, []).append(index)
        self._searches: dict[int, TileSearch] = {}
        self._known_searches, self._known_costs = network.memo.of(TileSearch), network.memo.of(TileCosts)
        self._spans = {root: self._span(root) for root in storages}
        self._passing: Spans[int, tuple[int, int]] | None = None
        self._live_bytes = Sums(len(self.items))
        self._arriving_bytes = [0] * len(self.items)
        for root in self.roots:
            self._place(root, there=True)

    def inputs(self, index: int) -> tuple[Part, ...]:
        """Return the storage and the offset of each input of a work."""
        return self._inputs[index]

    def outputs(self, index: int) -> tuple[Part, ...]:
        """Return the storage and the offset of each output of a work."""
        return self._outputs[index]

    def first_use(self, root: int) -> int | None:
        """Return the first work that reads a storage; None if none does."""
        return self._first_uses.get(root)

    def residency(self, index: int) -> Residency:
        """Return which operands of a work are in the scratchpad, and which of them the work loads there itself."""
        inside = tuple([root in self.roots for root, _ in self._inputs[index]])
        loaded = tuple(
            [
                there and self.storages[root].from_dram and self._first_uses[root] == index
                for there, (root, _) in zip(inside, self._inputs[index], strict=True)
            ]
        )
        outputs = tuple([root in self.roots for root, _ in self._outputs[index]])
        return Residency(inside, outputs, loaded)

    @property
    def evicted(self) -> set[int]:
        """Return the storages that could be resident but were evicted to DRAM."""
        return {root for root, each in self.storages.items() if each.may_be_resident} - self.roots

    def larger_than(self, size_bytes: int) -> frozenset[int]:
        """Return the storages that have more than `size_bytes`."""
        return frozenset(root for root, each in self.storages.items() if each.size_bytes > size_bytes)

    def _find_operands(self) -> tuple[dict[int, tuple[Part, ...]], dict[int, tuple[Part, ...]]]:
        """Return the places of inputs and of outputs, by work."""
        inputs: dict[int, tuple[Part, ...]] = {}
        outputs: dict[int, tuple[Part, ...]] = {}
        for index in self._works:
            reads, writes = operands(self.graph, self.items[index])
            inputs[index] = tuple([self.forest.root(tensor) for tensor in reads])
            outputs[index] = tuple([self.forest.root(tensor) for tensor in writes])
        return inputs, outputs

    def _admit(self, root: int) -> None:
        """Take a storage into the scratchpad."""
        self.roots.add(root)
        self._place(root, there=True)

    def _dismiss(self, root: int) -> None:
        """Send a storage to DRAM."""
        self.roots.discard(root)
        self._place(root, there=False)

    def _place(self, root: int, *, there: bool) -> None:
        """Update the bytes in use during the life of a storage, and forget the tile searches of works that use it."""
        size_bytes = self.bytes_of((root,))
        span = self._spans[root]
        if span:
            self._live_bytes.add(span, size_bytes if there else -size_bytes)
            self._arriving_bytes[span[0]] += size_bytes if there else -size_bytes
        for index in self._users.get(root, ()):
            self._searches.pop(index, None)

    def _span(self, root: int) -> range:
        """Return the items during which a storage is live."""
        storage = self.storages[root]
        return range(max(storage.first, 0), min(storage.last + 1, len(self.items)))

    def search(self, index: int, depth: Depth | None = None) -> TileSearch:
        """Return the tile search of a work for the current placement of its operands. Searches are cached.

        depth: buffers per operand; those that the item may have if None.
        """
        if depth is not None:
            return self._search(index, depth)
        if index not in self._searches:
            self._searches[index] = self._search(index, self.depth(index))
        return self._searches[index]

    def _search(self, index: int, depth: Depth) -> TileSearch:
        work = self.items[index].body
        if not isinstance(work, Work):
            raise ValueError(f"item {index} is no work")
        packs, residency = self.packs(index), self.residency(index)
        like = index if work.alike is None else work.alike
        alone = self.loads_alone(index)
        end = End(alone or index == self._works[0], alone or index == self._works[-1], self._ahead(index))
        key = (like, residency, depth, packs, index in self._last_resort, end)
        search = self._known_searches.get(key)
        if search is None:
            costs = self._costs(index, work)
            search = self._known_searches[key] = TileSearch(
                work, residency, self.hardware, depth, packs, end, costs, index in self._last_resort
            )
        return search

    def _costs(self, index: int, work: Work) -> TileCosts:
        """Return the tile costs of a work. Equal works share them."""
        like = index if work.alike is None else work.alike
        costs = self._known_costs.get(like)
        if costs is None:
            costs = self._known_costs[like] = TileCosts(work, self.hardware)
        return costs

    def loads_alone(self, index: int) -> bool:
        """Return whether the loads of an item wait for the items before it, as `overlap` of the hardware has it."""
        work = self.items[index].body
        if self.hardware.overlap != "reloads" or not isinstance(work, Work):
            return self.hardware.overlap == "none"
        return self._costs(index, work).streams_constants(self.packs(index))

    def before(self, index: int) -> int:
        """Return the nearest item before `index` that takes time; the first item if there is none."""
        nearest = index - 1
        while nearest > 0 and self._takes_no_time(nearest):
            nearest -= 1
        return max(nearest, 0)

    def _takes_no_time(self, index: int) -> bool:
        """Return whether an item is fused in the DMA or in another layer, so that it takes no cycles."""
        body = self.items[index].body
        if isinstance(body, Work):
            return not self._costs(index, body).cycles(body.rows, body.channels)
        return isinstance(body, Move) and self.hardware.dma.views and bool(body.view)

    def _ahead(self, index: int) -> int | None:
        """Return the cycles of the item before, during which only loads for this item run; None if others run, too."""
        if self.hardware.overlap != "reloads" or self.loads_alone(index) or not index:
            return None
        before = self.before(index)
        body = self.items[before].body
        if not isinstance(body, Work):
            return 0
        return self._costs(before, body).cycles(body.rows, body.channels) * body.entries

    def depth(self, index: int) -> Depth:
        """Return how many buffers per operand the tiles of an item are sized for."""
        return SINGLE if index in self._narrow else self.choices.depth

    def packs(self, index: int) -> bool:
        """Return whether the weights of an item are packed, if the hardware can unpack them and it saves bytes."""
        return index not in self.choices.unpacked

    def cut(self, index: int) -> Cut | None:
        """Return how a work is cut: as the choices ask, else the fastest cut by estimate. None if no cut fits."""
        chosen = self.choices.cuts.get(index)
        if chosen is not None and index not in self.refused and self._can_cut(index, chosen):
            return chosen
        best = self.search(index).best(self.budget(index))
        return None if best is None else best[1]

    def _can_cut(self, index: int, cut: Cut) -> bool:
        """Return whether a cut is possible: cuts into slices load their inputs, which must then be in DRAM."""
        work = self.items[index].body
        return isinstance(work, Work) and not (slices(work, cut) and any(self.residency(index).inputs))

    def live(self, index: int) -> frozenset[int]:
        """Return the resident storages that are live at an item."""
        if self._passing is None:
            self._passing = Spans()
            for root, span in self._spans.items():
                if span:
                    self._passing.add(span[0], span[-1], root, (span[0], span[-1]))
        return frozenset(
            [
                root
                for block in self._passing.near(index, index)
                for root, (first, last) in block.items()
                if first <= index <= last and root in self.roots
            ]
        )

    def live_bytes(self, index: int) -> int:
        """Return the bytes of the resident storages that are live at an item."""
        return self._live_bytes[index]

    def live_bytes_of_pair(self, first: int) -> int:
        """Return the bytes of the resident storages that are live at an item or at the next one."""
        return self._live_bytes[first] + self._arriving_bytes[first + 1]

    def bytes_of(self, roots: Iterable[int]) -> int:
        """Return the bytes that storages take in the scratchpad."""
        return sum(aligned(self.storages[root].size_bytes) for root in roots)

    def budget(self, index: int) -> int:
        """Return the bytes that the tile buffers of an item may take."""
        room, limit = self.capacity_bytes - self.live_bytes(index), self._limits[index]
        if self.choices.room < 1:
            room = min(room, max(int(room * self.choices.room), self._smallest(index)))
        return room if limit is None else min(room, limit)

    def fit(self) -> None:
        """Evict storages until every item has room for its smallest buffers.

        An item that still has no room when nothing is left to evict gets one buffer per operand. Raises CompileError
        if that does not help either. With `Choices.readmit`, a storage comes back if the one that it made room for
        was evicted later.
        """
        before = set(self.roots)
        for index in range(len(self.items)):
            if not self._has_room(index):
                self._make_room(index)
        if self.choices.readmit:
            for root in sorted(before - self.roots, key=lambda root: (self.storages[root].size_bytes, root)):
                self._readmit(root)

    def _has_room(self, index: int) -> bool:
        """Return whether the smallest buffers of an item fit beside the resident storages."""
        return self._smallest(index) <= self.capacity_bytes - self.live_bytes(index)

    def _make_room(self, index: int) -> None:
        """Evict storages until the smallest buffers of an item fit; if that is not enough, cut the item finer."""
        for root in self._order_of_eviction(index):
            self._dismiss(root)
            if self._has_room(index):
                return
        while not self._has_room(index):
            self._give_way(index)

    def _readmit(self, root: int) -> None:
        """Take a storage back into the scratchpad if all items of its life still fit and are faster by estimate."""
        span = self._spans[root]
        self._admit(root)
        if all(self._has_room(index) for index in reversed(span)):
            faster = sum(self.cycles(index) for index in span)
            self._dismiss(root)
            if faster >= sum(self.cycles(index) for index in span):
                return
            self._admit(root)
        else:
            self._dismiss(root)

    def cycles(self, index: int) -> float:
        """Return the estimated cycles of a work by itself: infinite if no cut fits, 0 for moves and host calls."""
        if not isinstance(self.items[index].body, Work):
            return 0.0
        best = self.search(index).best(self.budget(index))
        return float("inf") if best is None else best[0]

    def computing_cycles(self, index: int) -> int:
        """Return the computing cycles of a work by itself, without transfers; 0 for moves and host calls."""
        cut = self.cut(index) if isinstance(self.items[index].body, Work) else None
        return 0 if cut is None else self.search(index).computing_cycles(cut)

    def _give_way(self, index: int) -> None:
        """Evict a storage for an item; if none is left, give the item one buffer per operand, then the finest cuts.

        Raises CompileError if the item has the finest cuts already.
        """
        if self._order_of_eviction(index) or index in self._last_resort:
            self.evict(index)
            return
        (self._last_resort if index in self._narrow else self._narrow).add(index)
        self._searches.pop(index, None)

    def _smallest(self, index: int) -> int:
        """Return the least bytes that the tile buffers of an item need; 0 for moves and host calls."""
        return self.search(index).smallest_buffers() if isinstance(self.items[index].body, Work) else 0

    def shrink(self, index: int) -> None:
        """Take the next step for an item whose buffers found no place.

        The steps, in order: run it alone with the cut of the estimates, give its buffers less room, forbid its
        prefetches, evict storages, use one buffer per operand, use the finest cuts. Raises CompileError after the last.
        """
        item = self.items[index]
        if index not in self.refused and (self.choices.shapes(index) or index in self.woven):
            self.refused.add(index)
            return
        smallest, budget = self._smallest(index), self.budget(index)
        if isinstance(item.body, Work) and budget > smallest:
            # Three fifths: free space in pieces rarely holds more, and few steps lead to the smallest buffers.
            self._limits[index] = max(budget * 3 // 5, smallest)
        elif index not in self.unhurried and not self._order_of_eviction(index):
            self.unhurried.add(index)
        else:
            self._limits[index] = None
            self._give_way(index)

    def evict(self, index: int) -> None:
        """Send one storage that is live at an item to DRAM: the first of `_order_of_eviction`. Raises CompileError."""
        order = self._order_of_eviction(index)
        if not order:
            raise CompileError(self._message(index))
        self._dismiss(order[0])

    def _order_of_eviction(self, index: int) -> list[int]:
        """Return the live storages of an item in the order in which they are evicted.

        Storages that the item does not use come first, because they need no tile buffers here when they are gone; then
        the largest.
        """
        used = set()
        if isinstance(self.items[index].body, Work):
            used = {root for root, _ in (*self._inputs[index], *self._outputs[index])}
        return sorted(
            [root for root in self.live(index) if not self.storages[root].pinned],
            key=lambda root: (root in self._kept, root in used, -self.storages[root].size_bytes, root),
        )

    def _message(self, index: int) -> str:
        item = self.items[index]
        node = self.graph.nodes[item.node]
        pinned = sum(aligned(each.size_bytes) for each in self.storages.values() if each.pinned)
        beside = f" beside {pinned} of inputs and outputs" if pinned else ""
        return (
            f'{self.graph.name}: {node.op} "{node.name}" needs {self._smallest(index)} bytes of scratchpad for its '
            f"smallest tile{beside}, {self.hardware.name} has {self.capacity_bytes}; enlarge scratchpad.size_kib"
        )


def fit(network: Network, choices: Choices) -> Residents:
    """Choose the storages that stay in the scratchpad. Raises CompileError for a network that does not fit.

    Results reuse an input's buffer in the scratchpad only: in DRAM space is cheap, and reuse would add dependencies
    between layers.
    """
    forest = network.aliases.copy()
    shared = share_in_place(network.graph, forest, network.items, choices.apart)
    residents = _residents(network, forest, choices)
    evicted = [output for output in shared if forest.root(output)[0] not in residents.roots]
    if evicted:
        for output in evicted:
            del forest.parent[output]
        residents = _residents(network, forest, choices)
    return residents


def _pin(network: Network, forest: Aliases, storages: Mapping[int, Storage]) -> None:
    """Pin the inputs and outputs of the network to the scratchpad, where the host reads and writes them itself."""
    states = {state.before for state in network.graph.states}
    for tensor in (*network.graph.inputs, *network.graph.outputs):
        root, _ = forest.root(tensor)
        storage = storages[root]
        if not network.graph.tensors[root].constant and root not in states:
            storage.pinned, storage.from_dram, storage.to_dram = True, False, False
            storage.first, storage.last = -1, len(network.items)


def _residents(network: Network, forest: Aliases, choices: Choices) -> Residents:
    storages = find_storages(network.graph, forest, network.items, network.hardware.dma.views)
    if network.hardware.holder("io") == Space.SCRATCHPAD:
        _pin(network, forest, storages)
    residents = Residents(network, forest, storages, choices)
    residents.fit()
    return residents
