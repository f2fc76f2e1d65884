"""The cycle breakdown of a run: a lower bound for the network and every layer, and lost cycles by cause.

    cycles = lower bound + lost cycles, exactly, for the network and for each layer

**The lower bound** is that of `npusim.numbers.bounds`: the time of the MAC array, the vector unit, the DRAM port or the
host, whichever needs longest for the work alone.

**The cycles** of a layer are those of `timeline.layer_cycles`. Every cycle has one owner: the layer at work, or in a
stall the layer that all units wait for.

**The lost cycles.** Let R be the resource that sets the bound. Every cycle of a layer in which R works for that layer
counts towards the bound. Every other cycle is lost to whatever happens in it (`npusim.numbers.activity`): another unit
computes, or none does and something is waited for. There are two corrections. First, R needs more cycles than its
bound, and the difference is lost inside R (edge tiles, row misses, ...). Second, R does part of its work in cycles of
other layers. That part is a gain, with the negative entry `prefetched` (DRAM) or `overlapped` (vector unit, host). So a
layer may be faster than its own bound. In symbols, for busy cycles of R:

    cycles - bound = (cycles - busy here) + (busy - bound) - (busy - busy here)

The network is treated like one layer that owns all cycles, so nothing is prefetched there. Its lost cycles are
therefore not the sums of its layers' lost cycles: what a memory-bound layer loses while the MAC array computes may be
time in which the DRAM already works for the next layer.

`npusim.numbers.causes` defines every cause. The rows of instructions say what an instruction needs of a resource and
where its other cycles go (`demand`, `split`); this module adds that up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.memories import Space
from npusim.isa.hardware.units import COMPUTING, MOVING, PORT, PRODUCERS, RESOURCES
from npusim.isa.instructions.instruction import Cost, Instruction
from npusim.isa.instructions.table import decode_all
from npusim.isa.program.program import Program
from npusim.machine.trace import Execution
from npusim.numbers.activity import CAUSE_OF, Activity, PortUse, activity, parts, port_use
from npusim.numbers.bounds import NOBODY, UNBOUND, LowerBound, compulsory_bytes, needed_cycles
from npusim.numbers.causes import CAUSES, FETCH, INSIDE
from npusim.numbers.timeline import Times

_FETCH = len(CAUSE_OF)
_LOST_IN = (*CAUSE_OF, FETCH.name)
_RESOURCES = tuple(RESOURCES)


@dataclass(frozen=True, slots=True)
class Account:
    """Cycle breakdown of a layer or a network: cycles = bound.cycles + sum(lost.values()).

    lost: lost cycles by cause, in the order of `CAUSES`, without zeros; negative values are gains.
    busy: cycles in which each unit and each memory's port works for it, by `busy_names`, including cycles that are
          attributed to other layers.
    """

    cycles: int
    bound: LowerBound
    lost: Mapping[str, int]
    busy: Mapping[str, int] = field(default_factory=dict, compare=False)

    @property
    def busiest(self) -> str:
        """Return the unit or memory that works longest for it; "none" if nothing does."""
        busiest = max(self.busy, key=lambda name: self.busy[name], default=UNBOUND)
        return busiest if self.busy.get(busiest) else UNBOUND


@dataclass(frozen=True, slots=True)
class Accounts:
    """Cycle breakdowns of a run: of the network, and of each layer of the program.

    alone: cycles in which a unit, or the busiest memory's port, is the only one at work, by `busy_names`; empty for a
           run of several programs.
    """

    network: Account
    layers: tuple[Account, ...]
    alone: Mapping[str, int] = field(default_factory=dict, compare=False)


def accounts(program: Program, execution: Execution) -> Accounts:
    """Account for all cycles of a run of `program` on its own hardware."""
    instructions = decode_all(program.code)
    context = program.context
    costs = [instruction.cost(context) for instruction in instructions]
    seen = activity(program, execution, instructions, costs, in_time=False)
    totals = _totals(program, execution, instructions, costs, seen)
    everything = np.zeros(max(len(program.layers), 1), np.int64)
    (network,) = _accounts(seen, totals, everything, program.hardware)
    layers = _accounts(seen, totals, np.arange(len(program.layers)), program.hardware)
    fetched = {program.hardware.memory_name(seen.space): _fetch_cycles(seen.port)}
    fetched |= {
        program.hardware.memory_name(space): _fetch_cycles(port_use(execution.trace, space))
        for space in _other_spaces(program.hardware, seen.space)
    }
    busy = {name: cycles + fetched.get(name, 0) for name, cycles in network.busy.items()}
    works = seen.serves >= 0
    only = works.sum(axis=0) == 1
    alone = [int(seen.cycles[only & mine].sum()) for mine in works]
    names = busy_names(program.hardware, seen.space)
    return Accounts(replace(network, busy=busy), tuple(layers), dict(zip(names, alone, strict=False)))


def _fetch_cycles(port: PortUse) -> int:
    """Return the cycles in which a port transfers instructions, which belong to no layer."""
    return int((port.ended - port.started)[port.instruction == NOBODY].sum())


class _Totals(NamedTuple):
    """Work, busy cycles and lost cycles of each layer; resources are in the order of `RESOURCES`.

    work:   int64 [resources, layers], work from which the lower bound is computed.
    busy:   int64 [resources, layers], cycles in which the resource works for the layer.
    others: int64 [names, layers], the same for the DMA of layers that copy, and for the ports of other memories.
    moved:  int64 [1, layers], all bytes through the port.
    lost:   int64 [causes, layers], cycles that instructions of the layer lose, by the causes in `_SPLIT`.
    """

    work: Times
    busy: Times
    others: Times
    moved: Times
    lost: Times


_COPIES = "dma"


def busy_names(hardware: Hardware, space: Space) -> tuple[str, ...]:
    """Return the names of the rows of `_Totals.busy`, with the memory `space` for the port, and of `_Totals.others`."""
    first = tuple(hardware.memory_name(space) if name == PORT else name for name in _RESOURCES)
    return (*first, _COPIES, *(hardware.memory_name(other) for other in _other_spaces(hardware, space)))


def _other_spaces(hardware: Hardware, space: Space) -> list[Space]:
    return [other for other in hardware.outer_spaces if other != space]


_SPLIT = tuple(cause.name for name in RESOURCES if name != PORT for cause in INSIDE[name][1:])
"""The causes by which instructions split their cycles, without the first of each resource, which has the rest."""


def _totals(
    program: Program,
    execution: Execution,
    instructions: Sequence[Instruction],
    costs: Sequence[Cost],
    seen: Activity,
) -> _Totals:
    count, unit, use = max(len(program.layers), 1), execution.trace.unit, seen.port
    layer_of = program.layer_of.astype(np.int64)
    duration = execution.trace.ended - execution.trace.started
    demand, lost = _demands(program, instructions)

    def per_layer(amounts: Times, layers: Times = layer_of) -> Times:
        return np.bincount(layers, amounts, count).astype(np.int64)

    def of_port(used: PortUse) -> Times:
        mine = used.instruction >= 0
        return per_layer((used.ended - used.started)[mine], layer_of[used.instruction[mine]])

    transfers = use.instruction >= 0
    requester = layer_of[use.instruction[transfers]]
    copies = np.array([layer.unit == _COPIES for layer in program.layers] or [False], bool)
    channels = [per_layer(np.where(unit == channel, duration, 0)) for channel in MOVING]
    others = [np.max(channels, axis=0) * copies]
    others += [
        of_port(port_use(execution.trace, other)) for other in _other_spaces(program.hardware, seen.space)
    ]
    work, busy = [], []
    for name, resource in RESOURCES.items():
        if name == PORT:
            work.append(compulsory_bytes(program, costs, seen.space))
            busy.append(of_port(use))
            continue
        mine = np.isin(unit, [int(producer) for producer in PRODUCERS if producer.kind.resource is resource])
        asked = per_layer(np.where(mine, demand, 0))
        if resource.asked:
            limits = [resource.asked(layer.workload) for layer in program.layers] or [0]
            asked = np.minimum(np.array(limits, np.int64), asked)
        busy.append(per_layer(np.where(mine, duration, 0)))
        # If instructions lose no cycles inside the resource, they need all cycles that they take.
        work.append(asked if INSIDE[name] else busy[-1])
    return _Totals(
        work=np.array(work),
        busy=np.array(busy),
        others=np.array(others),
        moved=per_layer(use.size_bytes[transfers], requester)[None],
        lost=np.array([per_layer(row) for row in lost]).reshape(-1, count),
    )


def _demands(program: Program, instructions: Sequence[Instruction]) -> tuple[Times, Times]:
    """Return the cycles that instructions need of their unit's resource, int64 [n], and those that they lose.

    Lost cycles are int64 [causes, n], by `_SPLIT`.
    """
    context, row_of = program.context, {name: row for row, name in enumerate(_SPLIT)}
    demand = np.zeros(len(instructions), np.int64)
    lost = np.zeros((len(_SPLIT), len(instructions)), np.int64)
    for at, instruction in enumerate(instructions):
        if instruction.causes:
            demand[at] = instruction.demand(context)
            if len(instruction.causes) > 1:
                for name, cycles in instruction.split(context).items():
                    if name in row_of:
                        lost[row_of[name], at] = cycles
    return demand, lost


def _accounts(seen: Activity, totals: _Totals, scope_of: Times, hardware: Hardware) -> list[Account]:
    """Return the cycle breakdown of each scope. scope_of: the scope of each layer, such as the whole network."""
    count = int(scope_of.max(initial=-1)) + 1
    if not count:
        return []
    sums = _Totals(*(_by_scope(amounts, scope_of, count) for amounts in totals))
    bounds = np.array(
        [
            needed_cycles(work, name, hardware, seen.space)
            for name, work in zip(_RESOURCES, sums.work, strict=True)
        ]
    )
    # The row after the last resource stands for a bound of 0 that no resource sets.
    limit = np.where(bounds.max(0) > 0, bounds.argmax(0), len(_RESOURCES))
    everywhere = np.append(scope_of, -1)
    lost_to_each, here, cycles = (np.zeros(size, np.int64) for size in (count * len(_LOST_IN), count, count))
    for part in parts(len(seen.cycles)):
        mine, spent = scope_of[seen.layer[part]], seen.cycles[part]
        serves = np.vstack((everywhere[seen.serves[:, part]], np.full((1, len(mine)), -1, np.int64)))
        progress = serves[limit[mine], np.arange(len(mine))] == mine
        delayed = (everywhere[seen.delayed[part]] == mine) & (limit[mine] == _RESOURCES.index(PORT))
        lost_to = mine * len(_LOST_IN) + np.where(delayed, _FETCH, seen.doing[part].astype(np.int64))
        lost_to_each += _sums(lost_to[~progress], spent[~progress], len(lost_to_each))
        here += _sums(mine[progress], spent[progress], count)
        cycles += _sums(mine, spent, count)
    table = lost_to_each.reshape(count, len(_LOST_IN))
    inside = _inside(bounds, sums, hardware, seen.space)
    worked = np.vstack((sums.busy, sums.others))
    names = busy_names(hardware, seen.space)
    scope_accounts = []
    for scope in range(count):
        by_resource = dict(zip(_RESOURCES, bounds[:, scope].tolist(), strict=True))
        bound = LowerBound(by_resource, hardware.memory_name(seen.space))
        lost = dict(zip(_LOST_IN, table[scope].tolist(), strict=True))
        for name, works in _HINDERED.items():
            if bound.bound_by != name:
                hindrances = {cause: int(amounts[scope]) for cause, amounts in inside[name].items()}
                lost |= _hindered(works, lost[works], hindrances)
        if bound.cycles:
            lost |= {cause: int(amounts[scope]) for cause, amounts in inside[bound.bound_by].items()}
            gain = RESOURCES[bound.bound_by].gain
            lost[gain] = int(here[scope] - sums.busy[limit[scope], scope])
        busy = dict(zip(names, worked[:, scope].tolist(), strict=True))
        scope_accounts.append(Account(int(cycles[scope]), bound, in_order(lost), busy))
    return scope_accounts


def _sums(places: Times, amounts: Times, count: int) -> Times:
    """Return the sum of the amounts at each of `count` places."""
    return np.bincount(places, amounts, count).astype(np.int64)


_HINDERED = {
    kind.resource.name: kind.works.name
    for kind in COMPUTING
    if kind.hindered and kind.resource and kind.works
}
"""Resources whose causes are listed even if they do not set the bound, each with the cause that takes the rest."""


def _by_scope(amounts: Times, scope_of: Times, count: int) -> Times:
    """Return the sums over the layers of each scope, int64 [rows, count]."""
    rows = [_sums(scope_of, row, count) for row in amounts]
    return np.array(rows, np.int64).reshape(-1, count)


def _inside(
    bounds: Times, sums: _Totals, hardware: Hardware, space: Space
) -> Mapping[str, Mapping[str, Times]]:
    """Return the busy cycles beyond the bound, by resource and cause, int64 [scopes] each."""
    by_name = {}
    for row, name in enumerate(_RESOURCES):
        causes = [cause.name for cause in INSIDE[name]]
        if name == PORT:
            told = [sums.busy[row] - needed_cycles(sums.moved[0], name, hardware, space)]
        else:
            told = [sums.lost[_SPLIT.index(cause)] for cause in causes[1:]]
        first = sums.busy[row] - bounds[row] - sum(told)
        by_name[name] = dict(zip(causes, [first, *told], strict=False))
    return by_name


def _hindered(works: str, lost: int, hindrances: Mapping[str, int]) -> dict[str, int]:
    """Split the lost cycles in which a unit computes among its causes in proportion; the rest is useful work."""
    total = sum(hindrances.values())
    shares, before = {}, 0
    for cause, reached in zip(hindrances, accumulate(hindrances.values()), strict=True):
        share = min(lost, total) * reached // total if total > 0 else 0
        shares[cause], before = share - before, share
    return shares | {works: lost - before}


def in_order(lost: Mapping[str, int]) -> Mapping[str, int]:
    """Return lost cycles in the order of `CAUSES`, without causes that are 0."""
    return {cause: lost[cause] for cause in CAUSES if lost.get(cause)}
