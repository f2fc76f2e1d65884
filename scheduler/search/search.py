"""The search for a faster schedule: coordinate descent over `Choices`, each candidate timed by the machine.

The scheduler does not know the machine; the caller passes a function that times a program. The first candidate is the
schedule of the estimates, so the result is never slower. The search is limited by schedules, not by seconds, and draws
from a seeded generator. So the same model, machine and limit give the same program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from random import Random
from types import MappingProxyType

from npusim.isa.base.errors import CompileError
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.program.program import Program
from npusim.kernels.lowering.work import Work
from npusim.scheduler.compile import Schedule, estimated_schedule, schedule
from npusim.scheduler.fit.cuts import SINGLE, Band, Choices, Depth
from npusim.scheduler.network.network import Network
from npusim.scheduler.network.storage import operands, share_in_place
from npusim.scheduler.place.chains import links_from, row_steps
from npusim.scheduler.place.fused_pairs import pair
from npusim.scheduler.place.residency import Residents, buffering
from npusim.scheduler.place.sharing import tile_search

Change = Callable[[Choices], Choices]
"""A function that changes the choices of the best schedule so far."""

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
"""Divisors of the scratchpad size. Storages that are larger than the quotient go to DRAM, to make room for chains."""
_QUEUE_SHARES = (0.25, 0.35, 0.9, 0.5)
_LEADS = (2, 32, 128, 8)
_CUTS = 6
"""Number of cuts to try per item, the fastest by estimate."""
_WEAVES = (1, 2, 4, 8, 16)
"""Numbers of row tiles to try for a fused pair of an item and the next one; 1 tries them unfused."""
_BYSTANDERS = 2
"""Number of live storages per item that it does not use and whose eviction is tried, the largest ones."""


def network_changes(best: Schedule) -> Iterator[Change]:
    """Yield changes that apply to all items at once."""
    residents, network = best.residents, best.residents.network
    aliases = share_in_place(network.graph, network.aliases, network.items)
    shared = frozenset(aliases.parent.keys() - network.aliases.parent.keys())
    everything = frozenset(range(len(network.items)))
    if shared:
        yield partial(replace, apart=shared)
    for part in _LARGE:
        yield partial(_evict_all, residents.sharing.larger_than(residents.capacity_bytes // part))
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
    if best.fused_pairs:
        yield partial(replace, fused_pairs=MappingProxyType(dict.fromkeys(everything, 1)))
    if network.hardware.packs_weights:
        yield partial(replace, unpacked=everything)


def item_changes(best: Schedule, index: int) -> Iterator[Change]:
    """Yield changes around one item, those first that help most often."""
    residents, item = best.residents, best.residents.sharing.items[index]
    work = item.body if isinstance(item.body, Work) else None
    if work is not None and any(index in chain.items for chain in best.chains.values()):
        yield from _chain_changes(best, index)
    elif work is not None:
        yield from _cut_changes(residents, index)
        yield from _new_chains(residents, index)
        if pair(residents, index) is not None:
            for parts in _WEAVES:
                yield partial(_put, "fused_pairs", index, parts)
    yield from _residency_changes(residents, index)
    if work is not None:
        yield partial(_toggle, "unhurried", index)
        if work.constant_bytes(0, work.channels) and residents.network.hardware.packs_weights:
            yield partial(_toggle, "unpacked", index)


def _cut_changes(residents: Residents, index: int) -> Iterator[Change]:
    """Yield the best cuts by estimate, also those that leave room for one buffer per operand only."""
    now = residents.cut(index)
    room = residents.capacity_bytes - residents.live_bytes[index]
    single = buffering(residents.choices, index, residents.allowance(index))._replace(depth=SINGLE)
    ranked = tile_search(residents.sharing, index, residents.roots, single).ranked(room)
    for cut in [cut for cut in ranked[: _CUTS + 1] if cut != now][:_CUTS]:
        yield partial(_put, "cuts", index, cut)


def _chain_changes(best: Schedule, index: int) -> Iterator[Change]:
    """Yield other stripe heights of the chain around an item, no chain, and a shorter one."""
    chain = next(chain for chain in best.chains.values() if index in chain.items)
    first, length = chain.items[0], len(chain.items)
    last = best.residents.sharing.items[chain.items[-1]].body
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
    """Yield chains that begin at an item, where the feature maps between the layers are in DRAM."""
    for number, _ in enumerate(links_from(residents, index)):
        if number < 3:
            yield partial(_put, "chains", index, Band(number + 2))


def _residency_changes(residents: Residents, index: int) -> Iterator[Change]:
    """Yield changes of placement around an item.

    They evict an operand or a large bystander to DRAM, bring an operand back, or give a result a buffer of its own.
    """
    sharing, forest = residents.sharing, residents.sharing.forest
    storages = sharing.storages
    reads, writes = operands(residents.network.graph, sharing.items[index])
    used = list(dict.fromkeys(forest.root(tensor)[0] for tensor in (*reads, *writes)))
    for tensor in writes:
        if tensor in forest.parent and tensor not in residents.network.aliases.parent:
            yield partial(_toggle, "apart", tensor)
    others = sorted(
        sharing.live(index, residents.roots).difference(used),
        key=lambda root: (-storages[root].size_bytes, root),
    )
    for root in (*used, *others[:_BYSTANDERS]):
        if root in residents.roots:
            yield partial(_evict, root)
        elif root in storages and storages[root].may_be_resident:
            yield partial(_keep, root)


def _put(name: str, key: int, value: object, choices: Choices) -> Choices:
    """Return the choices with one entry of a mapping set."""
    mapping: Mapping[int, object] = getattr(choices, name)
    return replace(choices, **{name: MappingProxyType({**mapping, key: value})})  # type: ignore[arg-type]


def _toggle(name: str, key: int, choices: Choices) -> Choices:
    """Return the choices with one member of a set added or removed."""
    members: frozenset[int] = getattr(choices, name)
    return replace(choices, **{name: members ^ {key}})  # type: ignore[arg-type]


def _evict(tensor: int, choices: Choices) -> Choices:
    return _evict_all(frozenset({tensor}), choices)


def _evict_all(tensors: frozenset[int], choices: Choices) -> Choices:
    return replace(choices, evicted=choices.evicted | tensors, kept=choices.kept - tensors)


def _keep(tensor: int, choices: Choices) -> Choices:
    return replace(choices, evicted=choices.evicted - {tensor}, kept=choices.kept | {tensor})


_SEED = 0
_LEAST_SHARE = 1e-4
"""Layers that units wait for in less than this share of all cycles are tried last."""


@dataclass(frozen=True, slots=True)
class Timing:
    """The machine's timing of a program: its cycles, and per layer those in which all computing units wait for it."""

    cycles: int
    waiting: Sequence[int]


Evaluate = Callable[[Program], Timing]
Progress = Callable[[int, int], None]
"""Called with (schedules tried, schedules to try)."""


def search(
    network: Network, evaluate: Evaluate, schedules: int, progress: Progress | None = None
) -> Schedule:
    """Return the fastest schedule among the one by estimates and `schedules` further ones.

    Raises CompileError for a network that does not fit the machine.
    """
    return _Descent(network, evaluate, schedules, progress).run()


class _Descent:
    """The state of a descent: the best schedule so far, and the choices tried."""

    def __init__(
        self, network: Network, evaluate: Evaluate, schedules: int, progress: Progress | None
    ) -> None:
        self._network = network
        self._evaluate = evaluate
        self._schedules = schedules
        self._progress = progress
        self._tried: set[tuple[object, ...]] = set()
        self._count = 0
        self._random = Random(_SEED)
        self._best = estimated_schedule(network)
        self._timing = evaluate(self._best.program)

    def run(self) -> Schedule:
        """Try all changes in passes, where most time is lost first; then try pairs of changes."""
        while self._left:
            changes = self._changes()
            if self._try_all(changes):
                continue
            if not self._left or not self._try_pairs(changes):
                break
        return self._best

    @property
    def _left(self) -> bool:
        return self._count < self._schedules

    def _changes(self) -> list[Change]:
        waiting, items = self._timing.waiting, self._network.items
        order = sorted(range(len(items)), key=lambda index: (-self._share(waiting[items[index].node]), index))
        changes = list(network_changes(self._best))
        for index in order:
            changes.extend(item_changes(self._best, index))
        return changes

    def _share(self, cycles: int) -> int:
        """Return the cycles, or 0 if they are at most `_LEAST_SHARE` of the run's cycles."""
        return cycles if cycles > _LEAST_SHARE * self._timing.cycles else 0

    def _try_all(self, changes: Iterable[Change]) -> bool:
        """Try each change on top of those that made the schedule faster; return True if any did."""
        improved = False
        for change in changes:
            if not self._left:
                break
            improved |= self._try(change(self._best.choices))
        return improved

    def _try_pairs(self, changes: Sequence[Change]) -> bool:
        """Try random pairs of changes; return True with the first that makes the schedule faster.

        Ends without one when the schedules are used up, or as many draws as there are changes were tried before.
        """
        if len(changes) < 2:
            return False
        fruitless = 0
        while self._left and fruitless < len(changes):
            first, second = self._random.sample(changes, 2)
            before = self._count
            if self._try(second(first(self._best.choices))):
                return True
            fruitless += self._count == before
        return False

    def _try(self, choices: Choices) -> bool:
        """Compile and time a candidate, and keep it if it is faster than the best schedule so far.

        Returns True if it is kept; False also for choices that were tried before or do not fit.
        """
        key = choices.key()
        if key in self._tried:
            return False
        self._tried.add(key)
        self._count += 1
        if self._progress is not None:
            self._progress(self._count, self._schedules)
        try:
            candidate = schedule(self._network, choices)
        except CompileError:
            return False
        timing = self._evaluate(candidate.program)
        if timing.cycles >= self._timing.cycles:
            return False
        self._best, self._timing = candidate, timing
        return True
