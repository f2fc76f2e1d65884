"""The result of a run of several programs, one after the other on one core: what a driver does that decides between.

A launch begins when the one before it has ended, so cycles, energy, bytes and work are sums over launches. A layer is
one of a program; where that is launched again it has the cycles, energy and work of all its launches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.isa.base.workload import Workload
from npusim.isa.instructions.control import Call
from npusim.isa.instructions.table import decode_all, encode_all
from npusim.isa.program.program import Layer, Program
from npusim.machine.trace import Execution, Trace
from npusim.numbers.bounds import LowerBound
from npusim.numbers.causes import CAUSES, STAGES
from npusim.numbers.layers import LayerResult, layer_results
from npusim.numbers.losses import Account, Accounts, accounts
from npusim.numbers.measure import measure
from npusim.numbers.run import RunResult
from npusim.numbers.timeline import Times


class Launch(NamedTuple):
    """One launch of a program. A program takes the same cycles whenever it is launched, so launches share timelines."""

    program: Program
    execution: Execution


@dataclass(frozen=True, kw_only=True, repr=False)
class StagedRun(RunResult):
    """A run of several programs. `program` and `execution` are their record, one behind the other: for reports, not to
    be run, as its programs do not share memory.

    launches: the programs with their timelines, in order.
    """

    launches: tuple[Launch, ...]

    @cached_property
    def accounts(self) -> Accounts:
        """Sums over the launches; what their bounds together are above that of the network is lost between them."""
        kinds = _distinct(self.launches)
        made = [accounts(*launch) for launch, _ in kinds]
        times = [count for _, count in kinds]
        layers = [
            _times(account, count)
            for found, count in zip(made, times, strict=True)
            for account in found.layers
        ]
        networks = [_times(found.network, count) for found, count in zip(made, times, strict=True)]
        return Accounts(_sum(networks), tuple(layers))

    @cached_property
    def layers(self) -> tuple[LayerResult, ...]:
        """The layers of the programs, in the order in which these were first launched."""
        begins = list(accumulate((launch.execution.cycles for launch in self.launches), initial=0))
        found = []
        for launch, count in _distinct(self.launches):
            at = [begin for begin, other in zip(begins, self.launches, strict=False) if _same(other, launch)]
            for layer in layer_results(*launch, accounts(*launch)):
                found.append(_launched(layer, count, at[0], at[-1]))
        return tuple(found)


def measure_launches(
    name: str, launches: Sequence[Launch], outputs: Sequence[Array] | None = None
) -> RunResult:
    """Every number about launches that follow one another; at least one."""
    if len(launches) == 1:
        program, execution = launches[0]
        return measure(program, replace(execution, outputs=None if outputs is None else tuple(outputs)))
    program, execution = _record(name, launches)
    whole = measure(program, replace(execution, outputs=None if outputs is None else tuple(outputs)))
    peak = max(launch.program.scratchpad_peak_bytes for launch in launches)
    own = {field.name: getattr(whole, field.name) for field in fields(RunResult)}
    return StagedRun(**(own | {"scratchpad_peak_bytes": peak, "launches": tuple(launches)}))


def _same(one: Launch, other: Launch) -> bool:
    return one.program is other.program and one.execution is other.execution


def _distinct(launches: Sequence[Launch]) -> list[tuple[Launch, int]]:
    """The different launches in the order in which they first come, and how often each does."""
    counts = Counter((id(launch.program), id(launch.execution)) for launch in launches)
    firsts = {(id(launch.program), id(launch.execution)): launch for launch in reversed(launches)}
    return [(firsts[key], count) for key, count in counts.items()]


def _times(account: Account, count: int) -> Account:
    bound = LowerBound(
        {name: cycles * count for name, cycles in account.bound.by_resource.items()}, account.bound.port
    )
    return Account(
        account.cycles * count, bound, {cause: cycles * count for cause, cycles in account.lost.items()}
    )


def _sum(parts: Sequence[Account]) -> Account:
    """The account of parts that follow one another."""
    resources: Counter[str] = Counter()
    lost: Counter[str] = Counter()
    for part in parts:
        resources.update(part.bound.by_resource)
        lost.update(part.lost)
    bound = LowerBound(dict(resources), parts[0].bound.port)
    lost[STAGES.name] = sum(part.bound.cycles for part in parts) - bound.cycles
    in_order = {cause: lost[cause] for cause in CAUSES if lost.get(cause)}
    return Account(sum(part.cycles for part in parts), bound, in_order)


def _launched(layer: LayerResult, count: int, first: int, last: int) -> LayerResult:
    """A layer that is launched `count` times, from cycle `first` on, the last time from cycle `last` on."""
    return replace(
        layer,
        cycles=layer.cycles * count,
        time_us=layer.time_us * count,
        macs=layer.macs * count,
        bytes=layer.bytes * count,
        energy_uj=layer.energy_uj * count,
        start_cycle=None if layer.start_cycle is None else layer.start_cycle + first,
        end_cycle=None if layer.end_cycle is None else layer.end_cycle + last,
        lower_bound_cycles=layer.lower_bound_cycles * count,
        lost_cycles={cause: cycles * count for cause, cycles in layer.lost_cycles.items()},
    )


# The record.


def _record(name: str, launches: Sequence[Launch]) -> tuple[Program, Execution]:
    """What was launched as if it were one program, and its timeline."""
    kinds = _distinct(launches)
    programs = [launch.program for launch, _ in kinds]
    number = {id(launch.execution): position for position, (launch, _) in enumerate(kinds)}
    first_layer = list(accumulate((len(program.layers) for program in programs), initial=0))
    first_call = list(accumulate((len(program.host_calls) for program in programs), initial=0))
    codes = [_calls_from(program, first) for program, first in zip(programs, first_call, strict=False)]
    order = [number[id(launch.execution)] for launch in launches]
    layers = [_worked(layer, count) for (launch, count) in kinds for layer in launch.program.layers]
    program = Program(
        name=name,
        hardware=programs[0].hardware,
        code=np.concatenate([codes[kind] for kind in order]),
        constants=b"",
        dram_size_bytes=max(program.dram_size_bytes for program in programs),
        code_address=programs[0].code_address,
        inputs=programs[0].inputs,
        outputs=programs[-1].outputs,
        layers=tuple(layers),
        layer_of=np.concatenate([programs[kind].layer_of + np.uint32(first_layer[kind]) for kind in order]),
        host_calls=tuple(call for program in programs for call in program.host_calls),
        code_space=programs[0].code_space,
    )
    return program, _joined([launch.execution for launch in launches], kinds)


def _worked(layer: Layer, count: int) -> Layer:
    """A layer with the work of all its launches."""
    work = layer.workload
    sizes = {
        field.name: getattr(work, field.name) * count
        for field in fields(Workload)
        if field.name not in ("kind", "dtype", "inner_k")
    }
    return replace(layer, workload=replace(work, **sizes))


def _calls_from(program: Program, first: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """The code of a program whose calls stand from row `first` on in the table of host calls."""
    if not first or not program.host_calls:
        return program.code
    code = program.code.copy()
    for at, instruction in enumerate(decode_all(program.code)):
        if isinstance(instruction, Call):
            code[at] = encode_all([replace(instruction, index=instruction.index + first)])[0]
    return code


def _joined(executions: Sequence[Execution], kinds: Sequence[tuple[Launch, int]]) -> Execution:
    """Timelines one behind the other."""
    begins = list(accumulate((execution.cycles for execution in executions), initial=0))
    traces = [execution.trace for execution in executions]

    def times(name: str) -> Times:
        return np.concatenate(
            [getattr(trace, name) + begin for trace, begin in zip(traces, begins, strict=False)]
        )

    trace = Trace(
        unit=np.concatenate([trace.unit for trace in traces]),
        dispatched=times("dispatched"),
        at_head=times("at_head"),
        ready=times("ready"),
        started=times("started"),
        ended=times("ended"),
        blocked_by=np.concatenate([trace.blocked_by for trace in traces]),
        busy=np.concatenate([trace.busy for trace in traces]),
        transfers=tuple(
            replace(transfer, start_cycle=transfer.start_cycle + begin, end_cycle=transfer.end_cycle + begin)
            for trace, begin in zip(traces, begins, strict=False)
            for transfer in trace.transfers
        ),
    )
    front_end: Counter[str] = Counter()
    actions = []
    for launch, count in kinds:
        *of_layers, own = launch.execution.layer_actions
        actions += [{name: number * count for name, number in layer.items()} for layer in of_layers]
        front_end.update({name: number * count for name, number in own.items()})
    return Execution(
        None,
        begins[-1],
        trace,
        (*actions, dict(front_end)),
        sum(execution.dram_read_bytes for execution in executions),
        sum(execution.dram_write_bytes for execution in executions),
        sum(execution.instruction_bytes for execution in executions),
    )
