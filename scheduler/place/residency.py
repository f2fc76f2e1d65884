"""Residency: which feature maps stay in the scratchpad from the layer that writes them to the last that reads them.

`fit` lists the passes. Each takes values and returns a new one: the storages, those of them that are resident, and what
is left to works for which the scratchpad is short of room. If the buffers of an item find no place afterwards, `shrink`
returns the residents for the next attempt.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import field, replace
from functools import cached_property
from itertools import accumulate

from npusim.isa.base.errors import CompileError
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.scheduler.fit.allocate import Sums
from npusim.scheduler.fit.cuts import SINGLE, Choices, Cut, slices
from npusim.scheduler.fit.tiling import TileSearch
from npusim.scheduler.network.network import Network
from npusim.scheduler.network.storage import Aliases, share_in_place
from npusim.scheduler.place.sharing import Buffering, Sharing, share, tile_search


@dataclass(frozen=True, slots=True)
class Allowance:
    """What an item may still do after its buffers found no place.

    plain:       it is neither fused nor cut as the choices ask, because that did not fit.
    limit_bytes: most bytes of its tile buffers; None for all that is free.
    prefetches:  it may prefetch. Prefetched data would fragment the space of a larger buffer.
    single:      it has one buffer per operand.
    finest:      its cuts may have fewer channels than the hardware computes at once.
    """

    plain: bool = False
    limit_bytes: int | None = None
    prefetches: bool = True
    single: bool = False
    finest: bool = False


_EVERYTHING = Allowance()

_AS_FAST = 1.005
"""Most estimated cycles of a layer whose tiles take half of the room, relative to one whose tiles take all of it."""


@dataclass(frozen=True)
class Residents:
    """The storages that are resident in the scratchpad, and the room that each item has beside them.

    roots:      root tensors of the resident storages.
    allowances: of the items whose buffers found no place in an attempt; all others may do everything.
    """

    sharing: Sharing
    choices: Choices
    roots: frozenset[int]
    allowances: Mapping[int, Allowance] = field(default_factory=dict)

    @property
    def network(self) -> Network:
        """The network whose storages these are."""
        return self.sharing.network

    @property
    def capacity_bytes(self) -> int:
        """The bytes of the scratchpad."""
        return self.network.hardware.scratchpad_bytes

    @property
    def evicted(self) -> set[int]:
        """The storages that could be resident but were evicted to DRAM."""
        return {root for root, each in self.sharing.storages.items() if each.may_be_resident} - self.roots

    @cached_property
    def arriving_bytes(self) -> list[int]:
        """The bytes of the resident storages whose life begins at each item."""
        arriving = [0] * (len(self.network.items) + 1)
        for root in self.roots:
            if span := self.sharing.spans[root]:
                arriving[span.start] += self.sharing.size_bytes[root]
        return arriving

    @cached_property
    def live_bytes(self) -> list[int]:
        """The bytes of the resident storages that are live at each item."""
        changes = list(self.arriving_bytes)
        for root in self.roots:
            if span := self.sharing.spans[root]:
                changes[span.stop] -= self.sharing.size_bytes[root]
        return list(accumulate(changes))

    @cached_property
    def searches(self) -> Mapping[int, TileSearch]:
        """The tile search of each work."""
        return {
            index: tile_search(
                self.sharing, index, self.roots, buffering(self.choices, index, self.allowance(index))
            )
            for index in self.sharing.works
        }

    def allowance(self, index: int) -> Allowance:
        """Return what an item may do."""
        return self.allowances.get(index, _EVERYTHING)

    def allowing(self, index: int, allowance: Allowance, roots: frozenset[int] | None = None) -> Residents:
        """Return the residents with another allowance of one item, and other resident storages if any are given."""
        allowances = {**self.allowances, index: allowance}
        return replace(self, allowances=allowances, roots=self.roots if roots is None else roots)

    def prefetches(self, index: int) -> bool:
        """Return True if an item may prefetch."""
        return index not in self.choices.unhurried and self.allowance(index).prefetches

    def packs(self, index: int) -> bool:
        """Return True if an item's weights may be packed: they are if the hardware unpacks them and it saves bytes."""
        return index not in self.choices.unpacked

    def live_bytes_during(self, first: int, last: int) -> int:
        """Return the bytes of the resident storages that are live at any item from `first` to `last`, both included."""
        return self.live_bytes[first] + sum(self.arriving_bytes[first + 1 : last + 1])

    def budget(self, index: int) -> int:
        """Return the bytes that the tile buffers of a work may take."""
        free, limit = self.capacity_bytes - self.live_bytes[index], self.allowance(index).limit_bytes
        search = self.searches[index]
        room = _share_of_room(search, free, self.choices)
        # An operand that was evicted after the limit was set needs buffers, too.
        return room if limit is None else min(room, max(limit, search.smallest_buffers()))

    def cut(self, index: int) -> Cut | None:
        """Return how a work is cut: as the choices ask, else the fastest cut by estimate. None if no cut fits."""
        search = self.searches[index]
        chosen = None if self.allowance(index).plain else self.choices.cuts.get(index)
        # Cuts into slices load their inputs, which must then be in DRAM.
        if chosen is not None and not (slices(search.work, chosen) and any(search.residency.inputs)):
            return chosen
        room = self.budget(index)
        best = search.best(room)
        if best is not None and self.network.parts is not None:
            # Free bytes are scattered among residents, which estimates do not see. If tiles fill them, the next one
            # finds no place until the one before is computed, and loads wait.
            half = search.best(max(room // 2, search.smallest_buffers()))
            best = half if half is not None and half[0] <= _AS_FAST * best[0] else best
        return None if best is None else best[1]

    def cycles(self, index: int) -> float:
        """Return the estimated cycles of a work by itself: infinite if no cut fits, 0 for moves and host calls."""
        if index not in self.searches:
            return 0.0
        best = self.searches[index].best(self.budget(index))
        return float("inf") if best is None else best[0]

    def computing_cycles(self, index: int) -> int:
        """Return the computing cycles of a work by itself, without transfers; 0 for moves and host calls."""
        cut = self.cut(index) if index in self.searches else None
        return 0 if cut is None else self.searches[index].computing_cycles(cut)


def buffering(choices: Choices, index: int, allowance: Allowance) -> Buffering:
    """Return how the tiles of a work may be buffered."""
    depth = SINGLE if allowance.single else choices.depth
    return Buffering(depth, index not in choices.unpacked, allowance.finest)


def _share_of_room(search: TileSearch, free_bytes: int, choices: Choices) -> int:
    """Return the free bytes that tile buffers may take: the smallest ones always fit."""
    if choices.room == 1:
        return free_bytes
    return min(free_bytes, max(int(free_bytes * choices.room), search.smallest_buffers()))


def fit(network: Network, choices: Choices) -> Residents:
    """Choose the storages that stay in the scratchpad. Raises CompileError for a network that does not fit.

    Results reuse an input's buffer in the scratchpad only: in DRAM space is cheap, and reuse would add dependencies
    between layers. So if a storage with such a result was evicted, the choice is made again without it.
    """
    forest = share_in_place(network.graph, network.aliases, network.items, choices.apart)
    residents = _fit(share(network, forest, choices.lead_slots), choices)
    shared = forest.parent.keys() - network.aliases.parent.keys()
    evicted = {output for output in shared if forest.root(output)[0] not in residents.roots}
    if not evicted:
        return residents
    kept = {tensor: parent for tensor, parent in forest.parent.items() if tensor not in evicted}
    return _fit(share(network, Aliases(kept), choices.lead_slots), choices)


def _fit(sharing: Sharing, choices: Choices) -> Residents:
    everything = prescribed(sharing, choices)
    residents = _evict(everything)
    return _readmit(residents, everything.roots - residents.roots) if choices.readmit else residents


def prescribed(sharing: Sharing, choices: Choices) -> Residents:
    """Return all storages that may be resident, except those that the choices evict, whether or not they fit together.

    One that is larger than the scratchpad never fits. Left in, it would be evicted after all smaller ones that the
    first item of its life does not use.
    """
    pinned = {root for root, storage in sharing.storages.items() if storage.pinned}
    able = {root for root, storage in sharing.storages.items() if storage.may_be_resident}
    evicted = {sharing.forest.root(tensor)[0] for tensor in choices.evicted}
    evicted |= sharing.larger_than(sharing.network.hardware.scratchpad_bytes)
    return Residents(sharing, choices, frozenset(able - evicted | pinned))


def smallest(search: TileSearch | None) -> int:
    """Return the least bytes that the tile buffers of an item need; 0 for moves and host calls, which have none."""
    return 0 if search is None else search.smallest_buffers()


def _evict(residents: Residents) -> Residents:
    """Evict storages, item by item, until every item has room for its smallest buffers.

    An item that still has no room when nothing is left to evict gets one buffer per operand, then the finest cuts.
    Raises CompileError if that does not help either.
    """
    sharing, choices, capacity = residents.sharing, residents.choices, residents.capacity_bytes
    short = [
        index
        for index, live in enumerate(residents.live_bytes[:-1])
        if smallest(residents.searches.get(index)) > capacity - live
    ]
    if not short:
        return residents
    roots = set(residents.roots)
    live_bytes = Sums(residents.live_bytes)
    allowances: dict[int, Allowance] = {}
    for index in range(short[0], len(sharing.items)):
        allowance = _EVERYTHING
        evictions: Iterator[int] | None = None
        while (need := _smallest(sharing, choices, roots, index, allowance)) > capacity - live_bytes[index]:
            evictions = evictions or iter(_order_of_eviction(sharing, choices, roots, index))
            root = next(evictions, None)
            if root is not None:
                roots.discard(root)
                live_bytes.add(sharing.spans[root], -sharing.size_bytes[root])
            else:
                allowance = allowances[index] = _finer(sharing, index, allowance, need)
    return replace(residents, roots=frozenset(roots), allowances=allowances)


def _smallest(
    sharing: Sharing, choices: Choices, roots: Collection[int], index: int, allowance: Allowance
) -> int:
    """Return the least bytes that the tile buffers of an item need beside these residents."""
    if index not in sharing.inputs:
        return 0
    return tile_search(sharing, index, roots, buffering(choices, index, allowance)).smallest_buffers()


def _order_of_eviction(sharing: Sharing, choices: Choices, roots: Collection[int], index: int) -> list[int]:
    """Return the resident storages that are live at an item, in the order in which they are evicted.

    Storages that the item does not use come first, because they need no tile buffers here when they are gone; then
    the largest. The choices may ask to keep some until all others are evicted.
    """
    used = {root for root, _ in (*sharing.inputs.get(index, ()), *sharing.outputs.get(index, ()))}
    kept = {sharing.forest.root(tensor)[0] for tensor in choices.kept}
    storages = sharing.storages
    return sorted(
        [root for root in sharing.live(index, roots) if not storages[root].pinned],
        key=lambda root: (root in kept, root in used, -storages[root].size_bytes, root),
    )


def _finer(sharing: Sharing, index: int, allowance: Allowance, need_bytes: int) -> Allowance:
    """Return the allowance with one buffer per operand, then with the finest cuts. Raises CompileError after that."""
    if not allowance.single:
        return replace(allowance, single=True)
    if not allowance.finest:
        return replace(allowance, finest=True)
    graph, hardware = sharing.network.graph, sharing.network.hardware
    node = graph.nodes[sharing.items[index].node]
    pinned = sum(sharing.size_bytes[root] for root, each in sharing.storages.items() if each.pinned)
    beside = f" beside {pinned} of inputs and outputs" if pinned else ""
    raise CompileError(
        f'{graph.name}: {node.op} "{node.name}" needs {need_bytes} bytes of scratchpad for its '
        f"smallest tile{beside}, {hardware.name} has {hardware.scratchpad_bytes}; enlarge scratchpad.size_kib"
    )


def _readmit(residents: Residents, evicted: Collection[int]) -> Residents:
    """Take evicted storages back, small ones first, if all items of their life have room and are faster by estimate.

    They may fit, because later evictions can make earlier ones unnecessary.
    """
    sharing, choices, capacity = residents.sharing, residents.choices, residents.capacity_bytes
    roots, live_bytes = set(residents.roots), Sums(residents.live_bytes)

    def search(index: int) -> TileSearch:
        return tile_search(sharing, index, roots, buffering(choices, index, residents.allowance(index)))

    def has_room(index: int) -> bool:
        need = _smallest(sharing, choices, roots, index, residents.allowance(index))
        return need <= capacity - live_bytes[index]

    def cycles(span: range) -> float:
        total = 0.0
        for index in span:
            if index in sharing.inputs:
                found = search(index)
                best = found.best(_share_of_room(found, capacity - live_bytes[index], choices))
                total += float("inf") if best is None else best[0]
        return total

    for root in sorted(evicted, key=lambda root: (sharing.storages[root].size_bytes, root)):
        span, size_bytes = sharing.spans[root], sharing.size_bytes[root]
        without = cycles(span)
        roots.add(root)
        live_bytes.add(span, size_bytes)
        if not all(has_room(index) for index in reversed(span)) or cycles(span) >= without:
            roots.discard(root)
            live_bytes.add(span, -size_bytes)
    return replace(residents, roots=frozenset(roots))


def _less(room_bytes: int) -> int:
    """Return three fifths of a room: free space in pieces rarely holds more, and few steps lead to nothing."""
    return room_bytes * 3 // 5


def shrink(residents: Residents, index: int, fused: bool) -> Residents:
    """Return the residents after the next step for an item whose buffers found no place.

    The steps, in order: run it alone with the cut of the estimates, give its buffers less room, forbid its
    prefetches, evict storages, use one buffer per operand, use the finest cuts. Raises CompileError after the last.
    fused: it was part of a fused pair.
    """
    sharing, choices, roots = residents.sharing, residents.choices, residents.roots
    allowance, search = residents.allowance(index), residents.searches.get(index)
    if not allowance.plain and (choices.shapes(index) or fused):
        return residents.allowing(index, replace(allowance, plain=True))
    if search is not None and (budget := residents.budget(index)) > search.smallest_buffers():
        limit = max(_less(budget), search.smallest_buffers())
        return residents.allowing(index, replace(allowance, limit_bytes=limit))
    evictions = _order_of_eviction(sharing, choices, roots, index)
    if residents.prefetches(index) and not evictions:
        return residents.allowing(index, replace(allowance, prefetches=False))
    allowance = replace(allowance, limit_bytes=None)
    if evictions:
        return residents.allowing(index, allowance, roots - {evictions[0]})
    return residents.allowing(index, _finer(sharing, index, allowance, smallest(search)))


def most_attempts(residents: Residents) -> int:
    """Return an upper bound for the attempts to place a schedule. Each but the last ends with a step of `shrink`.

    Each storage is evicted at most once. Each item loses its prescribed shape, its prefetches, its second buffers and
    its coarse cuts at most once. The other steps shrink the room of an item's buffers to `_less` of it, at most until
    no byte is left. They begin anew for an item after an eviction for it, single buffers and finer cuts.
    """
    items, roots = len(residents.sharing.items), len(residents.roots)
    shrinkings, room = 0, residents.capacity_bytes
    while room:
        shrinkings, room = shrinkings + 1, _less(room)
    return 1 + 4 * items + roots + (items + 2 * items + roots) * shrinkings
