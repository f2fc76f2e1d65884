"""Where the cycles of a run went: a lower bound for the network and every layer, and what was lost to what.

    cycles = lower bound + losses, to the cycle, for the network and for each layer

**The bound** is that of `npusim.numbers.bounds`: the time of the MAC array, the vector unit, the DRAM port or the host,
whichever needs longest for the work alone.

**The cycles** of a layer are those of `timeline.layer_cycles`: of every cycle there is one owner, the layer at
work, in a stall the one that everybody waits for.

**The losses.** Let R be the resource that sets the bound. Every cycle of a layer in which R works for that layer
counts towards the bound; every other one is lost, to whatever happens in it (`npusim.numbers.activity`): another unit
computes, or nothing does and somebody is waited for. To this come two corrections. R needs more cycles than its
bound: that difference is lost inside R (edge tiles, row misses, ...). And R does part of its work in cycles of
other layers, beside what these do: that part is a gain, the negative entry `prefetched` (DRAM) or `overlapped`
(vector unit, host). A layer may so be faster than its own bound. In symbols, for busy cycles of R:

    cycles - bound = (cycles - busy here) + (busy - bound) - (busy - busy here)

The network is accounted for like one layer that owns all cycles; nothing is prefetched there. Its losses are
therefore not the sums of its layers' losses: what a layer bound by the DRAM loses while the MAC array computes may
be time in which the network gains on the DRAM for the next.

`CAUSES` lists every cause with its definition. Losses inside the MAC array come from the closed forms of
`npusim.isa.engines.systolic`, one hindrance after the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from npusim.isa.hardware.hardware import Hardware
from npusim.isa.instructions.instruction import Cost, Instruction, Unit
from npusim.isa.instructions.mac import Convolve, Depthwise
from npusim.isa.instructions.table import decode_all
from npusim.isa.program.program import Program
from npusim.machine.trace import Execution
from npusim.numbers.activity import Activity, Doing, activity
from npusim.numbers.bounds import RESOURCES, LowerBound, compulsory_bytes, dram_cycles, vector_work
from npusim.numbers.timeline import Times

CAUSES: Mapping[str, str] = MappingProxyType({
    "edge_tiles": "inside the MAC array: rows, columns or pixels that a tile does not fill",
    "fill_drain": "inside the MAC array: weights load while nothing streams, results leave the pipeline",
    "port": "inside the MAC array: operands take several cycles, their port is narrower than the array",
    "output_stage": "inside the MAC array: it waits for the output stage, and the last group passes through it",
    "vector_overhead": "inside the vector unit: start-up of instructions, lanes without an element, loading tables",
    "dram_traffic": "inside the DRAM port: bytes beyond the compulsory ones, spilled or fetched again",
    "dram_overhead": "inside the DRAM port: row misses, unfinished bursts, too few requests in flight",
    "mac": "the MAC array computes, and what sets the bound rests or works for another layer",
    "vector": "the vector unit computes, likewise",
    "host": "the host computes, likewise",
    "moves": "copies of an operator that moves bytes, or inside the scratchpad, and nothing computes",
    "stall_weights": "nothing computes: the weights being waited for pass the DRAM port",
    "stall_feature_map": "nothing computes: the feature map being waited for passes the DRAM port, in or out",
    "stall_dram_contention": "nothing computes: the transfer being waited for waits for another's turn at the port",
    "stall_dma": "nothing computes: the DMA sets up, or bytes are between DRAM and scratchpad",
    "stall_bank_ports": "nothing computes: the instruction being waited for waits for ports of scratchpad banks",
    "stall_queue": "nothing computes: what could start is behind an instruction that finds its unit's queue full",
    "stall_front_end": "nothing computes: the instruction being waited for is not yet fetched and decoded",
    "instruction_fetch": "instruction fetch has the DRAM port, which sets the bound",
    "start_up": "before the first computation, but for full queues: first instructions, weights, input",
    "tail": "after the last computation: results on their way to DRAM",
    "prefetched": "gain: the DRAM port worked for the layer in cycles of other layers",
    "overlapped": "gain: the vector unit or the host worked for the layer in cycles of other layers",
})  # fmt: skip
"""What cycles are lost to, in the order of reports, each with its definition."""

CAUSE_OF: Mapping[Doing, str] = {
    Doing.MAC: "mac",
    Doing.VECTOR: "vector",
    Doing.HOST: "host",
    Doing.MOVES: "moves",
    Doing.STALL_WEIGHTS: "stall_weights",
    Doing.STALL_FEATURE_MAP: "stall_feature_map",
    Doing.STALL_CONTENTION: "stall_dram_contention",
    Doing.STALL_DMA: "stall_dma",
    Doing.STALL_BANK_PORTS: "stall_bank_ports",
    Doing.STALL_QUEUE: "stall_queue",
    Doing.STALL_FRONT_END: "stall_front_end",
    Doing.START_UP: "start_up",
    Doing.TAIL: "tail",
}
"""The cause that stands for a stretch of the run in which what sets the bound does not work."""

_GAIN = {"mac": "overlapped", "vector": "overlapped", "dram": "prefetched", "host": "overlapped"}
_FETCH = len(Doing)
_LOST_IN = (*(CAUSE_OF[doing] for doing in Doing), "instruction_fetch")


@dataclass(frozen=True, slots=True)
class Account:
    """The cycles of a layer or a network: cycles = bound.cycles + sum(lost.values()).

    lost: cycles by cause, in the order of `CAUSES`, without those that are 0; only gains are negative.
    """

    cycles: int
    bound: LowerBound
    lost: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Accounts:
    """The accounts of a run: of the network, and of each layer of the program."""

    network: Account
    layers: tuple[Account, ...]


def accounts(program: Program, execution: Execution) -> Accounts:
    """Account for all cycles of a run of `program` on its own hardware."""
    instructions = decode_all(program.code)
    context = program.context
    costs = [each.cost(context) for each in instructions]
    seen = activity(program, execution, instructions, costs)
    totals = _totals(program, execution, instructions, costs, seen)
    everything = np.zeros(max(len(program.layers), 1), np.int64)
    (network,) = _accounts(seen, totals, everything, program.hardware)
    layers = _accounts(seen, totals, np.arange(len(program.layers)), program.hardware)
    return Accounts(network, tuple(layers))


class _Totals(NamedTuple):
    """What each layer asks of the resources and how long it has them, int64 [layers] each.

    macs, vector_work, dram_bytes: what the bound is made of; moved_bytes: all bytes through the port.
    mac, vector, dram, host: cycles in which the resource works for the layer.
    streamed, fill_drain, port: of the cycles of the MAC array, those of the split: useful and edge, and so on.
    """

    macs: Times
    vector_work: Times
    dram_bytes: Times
    moved_bytes: Times
    mac: Times
    vector: Times
    dram: Times
    host: Times
    streamed: Times
    fill_drain: Times
    port: Times


def _totals(
    program: Program,
    execution: Execution,
    instructions: Sequence[Instruction],
    costs: Sequence[Cost],
    seen: Activity,
) -> _Totals:
    count, unit, use = max(len(program.layers), 1), execution.trace.unit, seen.port
    context = program.context
    layer_of = program.layer_of.astype(np.int64)
    duration = execution.trace.ended - execution.trace.started
    splits = np.zeros((len(costs), 3), np.int64)
    macs, work = np.zeros(len(costs), np.int64), np.zeros(len(costs), np.int64)
    for at, (instruction, cost) in enumerate(zip(instructions, costs, strict=True)):
        if isinstance(instruction, Convolve | Depthwise):
            split = instruction.split(context)
            splits[at] = split.useful + split.edge, split.fill_drain, split.port
            macs[at] = cost.actions["mac_int8"]
        elif instruction.unit is Unit.VECTOR:
            work[at] = vector_work(cost, program.hardware)

    def per_layer(amounts: Times, layers: Times = layer_of) -> Times:
        return np.bincount(layers, amounts, count).astype(np.int64)

    transfers = use.instruction >= 0
    requester = layer_of[use.instruction[transfers]]
    wanted = np.array([layer.workload.macs for layer in program.layers] or [0], np.int64)
    return _Totals(
        macs=np.minimum(wanted, per_layer(macs)),
        vector_work=per_layer(work),
        dram_bytes=compulsory_bytes(program, costs),
        moved_bytes=per_layer(use.size_bytes[transfers], requester),
        mac=per_layer(np.where(unit == Unit.MAC, duration, 0)),
        vector=per_layer(np.where(unit == Unit.VECTOR, duration, 0)),
        dram=per_layer((use.ended - use.started)[transfers], requester),
        host=per_layer(np.where(unit == Unit.HOST, duration, 0)),
        streamed=per_layer(splits[:, 0]),
        fill_drain=per_layer(splits[:, 1]),
        port=per_layer(splits[:, 2]),
    )


def _accounts(seen: Activity, totals: _Totals, scope_of: Times, hardware: Hardware) -> list[Account]:
    """An account for each scope; `scope_of` says to which scope each layer belongs."""
    count = int(scope_of.max(initial=-1)) + 1
    if not count:
        return []
    sums = _Totals(*(np.bincount(scope_of, amounts, count).astype(np.int64) for amounts in totals))
    bounds = _bounds(sums, hardware)
    # Row 4: nothing sets the bound.
    limit = np.where(bounds.max(0) > 0, bounds.argmax(0), len(RESOURCES))
    mine = scope_of[seen.layer]
    everywhere = np.append(scope_of, -1)
    serves = np.vstack((everywhere[seen.serves], np.full((1, len(mine)), -1, np.int64)))
    progress = serves[limit[mine], np.arange(len(mine))] == mine
    delayed = (everywhere[seen.delayed] == mine) & (limit[mine] == RESOURCES.index("dram"))
    lost_to = np.where(delayed, _FETCH, seen.doing.astype(np.int64))
    table = np.bincount(
        (mine * len(_LOST_IN) + lost_to)[~progress], seen.cycles[~progress], count * len(_LOST_IN)
    )
    table = table.astype(np.int64).reshape(count, len(_LOST_IN))
    here = np.bincount(mine[progress], seen.cycles[progress], count).astype(np.int64)
    cycles = np.bincount(mine, seen.cycles, count).astype(np.int64)
    inside, busy = _inside(bounds, sums, hardware), np.array([sums.mac, sums.vector, sums.dram, sums.host])
    found = []
    for scope in range(count):
        bound = LowerBound(*bounds[:, scope].tolist())
        lost = dict(zip(_LOST_IN, table[scope].tolist(), strict=True))
        if bound.bound_by != "mac":
            lost |= _mac_time(lost["mac"], {cause: int(each[scope]) for cause, each in inside["mac"].items()})
        if bound.cycles:
            lost |= {cause: int(amounts[scope]) for cause, amounts in inside[bound.bound_by].items()}
            lost[_GAIN[bound.bound_by]] = int(here[scope] - busy[limit[scope], scope])
        found.append(Account(int(cycles[scope]), bound, _in_order(lost)))
    return found


def _bounds(sums: _Totals, hardware: Hardware) -> Times:
    """The bound of each scope by each resource, int64 [4, scopes] in the order of `RESOURCES`."""
    return np.array(
        [
            -(-sums.macs // hardware.macs_per_cycle),
            -(-sums.vector_work // hardware.vector.lanes),
            dram_cycles(sums.dram_bytes, hardware),
            sums.host,
        ]
    )


def _inside(bounds: Times, sums: _Totals, hardware: Hardware) -> Mapping[str, Mapping[str, Times]]:
    """Busy cycles beyond the bound, by resource and cause, int64 [scopes] each; the host has none."""
    mac, vector, dram, _ = bounds
    moving = dram_cycles(sums.moved_bytes, hardware)
    return {
        "mac": {
            "edge_tiles": sums.streamed - mac,
            "fill_drain": sums.fill_drain,
            "port": sums.port,
            "output_stage": sums.mac - sums.streamed - sums.fill_drain - sums.port,
        },
        "vector": {"vector_overhead": sums.vector - vector},
        "dram": {"dram_traffic": moving - dram, "dram_overhead": sums.dram - moving},
        "host": {},
    }


def _mac_time(lost: int, hindrances: Mapping[str, int]) -> dict[str, int]:
    """Lost cycles in which the MAC array computes: for its hindrances first, in proportion, the rest useful."""
    total = sum(hindrances.values())
    shares, before = {}, 0
    for cause, reached in zip(hindrances, accumulate(hindrances.values()), strict=True):
        share = min(lost, total) * reached // total if total > 0 else 0
        shares[cause], before = share - before, share
    return shares | {"mac": lost - before}


def _in_order(lost: Mapping[str, int]) -> Mapping[str, int]:
    return {cause: lost[cause] for cause in CAUSES if lost.get(cause)}
