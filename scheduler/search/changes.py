"""The changes that a search may make to the choices of a schedule: to all of a network, or around one item."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType

from npusim.kernels.lowering.work import Work
from npusim.scheduler.compile import Schedule
from npusim.scheduler.fit.choices import Band, Choices
from npusim.scheduler.fit.cuts import SINGLE, Depth
from npusim.scheduler.network.storage import operands, share_in_place
from npusim.scheduler.place.chains import links_from, row_steps
from npusim.scheduler.place.residency import Residents
from npusim.scheduler.place.weaves import pair

Change = Callable[[Choices], Choices]
"""Other choices, from those of the best schedule so far."""

_DEPTHS = (
    Depth(results=1),
    Depth(inputs=1),
    Depth(constants=1),
    SINGLE,
    Depth(inputs=3),
    Depth(constants=3),
    Depth(results=3),
)
_ROOMS = (0.75, 0.5, 0.35, 1.0)
_LARGE = (1, 2, 4, 8)
"""Parts of the scratchpad; storages that are larger go to DRAM, which makes room for chains."""
_QUEUE_SHARES = (0.25, 0.35, 0.9, 0.5)
_LEADS = (2, 32, 128, 8)
_CUTS = 6
"""Cuts tried per item, the fastest by estimate."""
_WEAVES = (1, 2, 4, 8, 16)
"""Row tiles tried to run an item beside the next; 1 is not at all."""
_BYSTANDERS = 2
"""Storages tried for eviction per item beside those that it uses, the largest."""


def network_changes(best: Schedule) -> Iterator[Change]:
    """Changes to all items at once."""
    network, hardware = best.residents.network, best.residents.hardware
    shared = share_in_place(network.graph, network.aliases.copy(), network.items)
    everything = frozenset(range(len(network.items)))
    if shared:
        yield partial(replace, apart=frozenset(shared))
    for part in _LARGE:
        yield partial(_evict_all, best.residents.larger_than(best.residents.capacity_bytes // part))
    yield partial(replace, readmit=not best.choices.readmit)
    for depth in _DEPTHS:
        yield partial(replace, depth=depth)
    for room in _ROOMS:
        yield partial(replace, room=room)
    for share in _QUEUE_SHARES:
        yield partial(replace, queue_share=share)
    for lead in _LEADS:
        yield partial(replace, lead_slots=lead)
    if best.chains:
        yield partial(replace, chains=MappingProxyType(dict.fromkeys(everything, Band(1))))
    if best.weaves:
        yield partial(replace, weaves=MappingProxyType(dict.fromkeys(everything, 1)))
    if hardware.packs_weights:
        yield partial(replace, unpacked=everything)


def item_changes(best: Schedule, index: int) -> Iterator[Change]:
    """Changes around one item, those that help most often first."""
    residents, item = best.residents, best.residents.items[index]
    work = item.body if isinstance(item.body, Work) else None
    if work is not None and any(index in chain.items for chain in best.chains.values()):
        yield from _chain_changes(best, index)
    elif work is not None:
        yield from _cut_changes(residents, index)
        yield from _new_chains(residents, index)
        if pair(residents, index) is not None:
            for parts in _WEAVES:
                yield partial(_put, "weaves", index, parts)
    yield from _residency_changes(residents, index)
    if work is not None:
        yield partial(_toggle, "unhurried", index)
        if work.constant_bytes(0, work.channels) and residents.hardware.packs_weights:
            yield partial(_toggle, "unpacked", index)


def _cut_changes(residents: Residents, index: int) -> Iterator[Change]:
    """The best cuts by estimate, even if they leave room for one buffer per operand only."""
    now = residents.cut(index)
    room = residents.capacity_bytes - residents.live_bytes(index)
    ranked = residents.search(index, SINGLE).ranked(room)
    for cut in [cut for cut in ranked[: _CUTS + 1] if cut != now][:_CUTS]:
        yield partial(_put, "cuts", index, cut)


def _chain_changes(best: Schedule, index: int) -> Iterator[Change]:
    """Other heights of the bands of the chain around an item, no chain there, or a shorter one."""
    chain = next(chain for chain in best.chains.values() if index in chain.items)
    first, length = chain.items[0], len(chain.items)
    last = best.residents.items[chain.items[-1]].body
    assert isinstance(last, Work)
    steps = row_steps(last.rows)
    at = min(range(len(steps)), key=lambda number: abs(steps[number] - chain.row_step))
    for near in (at - 1, at + 1, at - 2, at + 2):
        if 0 <= near < len(steps):
            yield partial(_put, "chains", first, Band(length, steps[near]))
    yield partial(_put, "chains", first, Band(1))
    for shorter in (length - 1, length - 2):
        if shorter > 1:
            yield partial(_put, "chains", first, Band(shorter))
    yield partial(_put, "chains", first, Band(length + 1))


def _new_chains(residents: Residents, index: int) -> Iterator[Change]:
    """Chains that begin at an item, where the maps between are in DRAM."""
    for number, _ in enumerate(links_from(residents, index)):
        if number < 3:
            yield partial(_put, "chains", index, Band(number + 2))


def _residency_changes(residents: Residents, index: int) -> Iterator[Change]:
    """Operands of an item and the largest bystanders to DRAM, operands there into the scratchpad, results apart."""
    reads, writes = operands(residents.graph, residents.items[index])
    storages, forest = residents.storages, residents.forest
    used = list(dict.fromkeys(forest.root(tensor)[0] for tensor in (*reads, *writes)))
    for tensor in writes:
        if tensor in forest.parent and tensor not in residents.network.aliases.parent:
            yield partial(_toggle, "apart", tensor)
    others = sorted(
        set(residents.live(index)).difference(used), key=lambda root: (-storages[root].size_bytes, root)
    )
    for root in (*used, *others[:_BYSTANDERS]):
        if root in residents.roots:
            yield partial(_evict, root)
        elif root in storages and storages[root].may_be_resident:
            yield partial(_keep, root)


def _put(name: str, key: int, value: object, choices: Choices) -> Choices:
    """One entry of a mapping of the choices set."""
    mapping: Mapping[int, object] = getattr(choices, name)
    return replace(choices, **{name: MappingProxyType({**mapping, key: value})})  # type: ignore[arg-type]


def _toggle(name: str, key: int, choices: Choices) -> Choices:
    """One member of a set of the choices in or out."""
    members: frozenset[int] = getattr(choices, name)
    return replace(choices, **{name: members ^ {key}})  # type: ignore[arg-type]


def _evict(tensor: int, choices: Choices) -> Choices:
    return _evict_all(frozenset({tensor}), choices)


def _evict_all(tensors: frozenset[int], choices: Choices) -> Choices:
    return replace(choices, evicted=choices.evicted | tensors, kept=choices.kept - tensors)


def _keep(tensor: int, choices: Choices) -> Choices:
    return replace(choices, evicted=choices.evicted - {tensor}, kept=choices.kept | {tensor})
