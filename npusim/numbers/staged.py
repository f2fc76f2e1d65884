"""The result of a run of several programs in sequence, on one core or on several devices of one system.

A launch begins when the one before it has ended, so cycles, energy, bytes and work are sums over launches. A layer of a
program that is launched several times has the cycles, energy and work of all its launches. For the lower bound, the MAC
array and the vector unit of each device count separately, while all devices share the DRAM port and the host.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from functools import cached_property
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base.elements import Workload
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.tensor import Array
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.units import COMPUTING, PORT, RESOURCES
from npusim.isa.instructions.control import Call
from npusim.isa.instructions.table import decode_all, encode_all
from npusim.isa.program.program import Blank, Layer, Program
from npusim.machine.trace import Execution, Trace, Transfers
from npusim.numbers.bounds import LowerBound
from npusim.numbers.causes import STAGES
from npusim.numbers.layers import LayerResult, layer_results, share
from npusim.numbers.losses import Account, Accounts, accounts, in_order
from npusim.numbers.measure import measure
from npusim.numbers.run import RunResult
from npusim.numbers.stage import Stage

Groups = list[list[Stage]]
"""The stages grouped by program and device, in the order of their first stages."""


def numbered(stages: Sequence[Stage]) -> tuple[Stage, ...]:
    """Return the stages with the numbers of their first layers and instructions in the run.

    The layers of a program are counted once for each device that runs it, however often it is launched there.
    """
    layers, instructions, first_layers = 0, 0, dict[tuple[int, int], int]()
    numbered_stages = []
    for stage in stages:
        key = _key(stage)
        if key not in first_layers:
            first_layers[key] = layers
            layers += len(stage.program.layers)
        numbered_stages.append(replace(stage, first_layer=first_layers[key], first_instruction=instructions))
        instructions += stage.program.instructions
    return tuple(numbered_stages)


def groups(stages: Sequence[Stage]) -> Groups:
    """Group the stages by program and device."""
    by_key: dict[tuple[int, int], list[Stage]] = {}
    for stage in stages:
        by_key.setdefault(_key(stage), []).append(stage)
    return list(by_key.values())


def _key(stage: Stage) -> tuple[int, int]:
    return id(stage.program), stage.device


def record(name: str, hardware: Hardware, stages: Sequence[Stage]) -> tuple[Program, Execution]:
    """Join all launches into one program and one timeline in cycles of the run. At least one stage is needed."""
    kinds = groups(stages)
    first_call, calls = dict[tuple[int, int], int](), 0
    for first, *_ in kinds:
        first_call[_key(first)] = calls
        calls += len(first.program.host_calls)
    programs = [first.program for first, *_ in kinds]
    blank = [program.constants for program in programs if isinstance(program.constants, Blank)]
    codes: dict[tuple[int, int], NDArray[np.uint8]] = {
        key: _calls_from(first.program, first_call[key]) for first, *_ in kinds for key in (_key(first),)
    }
    program = Program(
        name=name,
        hardware=hardware,
        code=np.concatenate([codes[_key(stage)] for stage in stages]),
        constants=blank[0] if blank else b"",
        dram_size_bytes=max(program.dram_size_bytes for program in programs),
        code_address=programs[0].code_address,
        inputs=programs[0].inputs,
        outputs=programs[-1].outputs,
        layers=tuple(_worked(layer, len(group)) for group in kinds for layer in group[0].program.layers),
        layer_of=np.concatenate([stage.program.layer_of + np.uint32(stage.first_layer) for stage in stages]),
        host_calls=tuple(call for one_program in programs for call in one_program.host_calls),
        code_space=programs[0].code_space,
    )
    return program, _joined(stages, kinds)


def _worked(layer: Layer, count: int) -> Layer:
    """Return a layer with the work of all its launches."""
    work = layer.workload
    sizes = {
        field.name: getattr(work, field.name) * count
        for field in fields(Workload)
        if field.name not in ("kind", "dtype", "inner_k")
    }
    return replace(layer, workload=replace(work, **sizes))


def _calls_from(program: Program, first: int) -> NDArray[np.uint8]:
    """Return a program's code for a table of host calls in which its own calls begin at row `first`."""
    if not first or not program.host_calls:
        return program.code
    code = program.code.copy()
    for at, instruction in enumerate(decode_all(program.code)):
        if isinstance(instruction, Call):
            code[at] = encode_all([replace(instruction, index=instruction.index + first)])[0]
    return code


def _joined(stages: Sequence[Stage], kinds: Groups) -> Execution:
    """Concatenate the timelines of stages."""
    executions = [stage.in_run() for stage in stages]
    begins = [stage.start_cycle for stage in stages]
    traces = [execution.trace for execution in executions]

    def times(name: str) -> NDArray[Any]:
        return np.concatenate(
            [getattr(trace, name) + begin for trace, begin in zip(traces, begins, strict=True)]
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
        transfers=Transfers.joined(
            [
                transfers.at(transfers.started + begin, transfers.ended + begin)
                for transfers, begin in zip(
                    [Transfers.of(trace.transfers) for trace in traces], begins, strict=True
                )
            ]
        ),
    )
    front_end: Counter[str] = Counter()
    actions: list[dict[str, int]] = []
    for group in kinds:
        of_layers = [Counter[str]() for _ in group[0].program.layers]
        for stage in group:
            *layers, own = stage.execution.layer_actions
            front_end.update(own)
            for total, layer in zip(of_layers, layers, strict=True):
                total.update(layer)
        actions += map(dict, of_layers)
    return Execution(
        None,
        stages[-1].end_cycle,
        trace,
        (*actions, dict(front_end)),
        sum(execution.dram_read_bytes for execution in executions),
        sum(execution.dram_write_bytes for execution in executions),
        sum(execution.instruction_bytes for execution in executions),
    )


SHARED_RESOURCES = (PORT, *(kind.resource.name for kind in COMPUTING if kind.resource and not kind.on_chip))
"""The resources that all devices of a system share: the DRAM port and the host."""


class Launch(NamedTuple):
    """One launch of a program. Every launch of a program takes the same cycles, so launches share timelines."""

    program: Program
    execution: Execution


@dataclass(frozen=True, kw_only=True, repr=False)
class StagedRun(RunResult):
    """The result of a run of several programs. `program` and `execution` join all of them (`record`).

    launches: the programs with their timelines, in order.
    """

    launches: tuple[Stage, ...]

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The launches."""
        return self.launches

    @cached_property
    def accounts(self) -> Accounts:
        """Cycle breakdowns, summed over the launches.

        The sum of their lower bounds exceeds that of the network; the difference counts as lost between programs.
        """
        networks, layers = list[tuple[int, Account]](), list[Account]()
        for group in self._groups:
            networks += [(same.stage.device, _times(same.network, same.times)) for same in group]
            layers += [
                _sum([(0, _times(account, same.times)) for same, account in zip(group, row, strict=True)])
                for row in zip(*(same.layers for same in group), strict=True)
            ]
        return Accounts(_sum(networks), tuple(layers))

    @cached_property
    def layers(self) -> tuple[LayerResult, ...]:
        """The results of the programs' layers, in the order in which programs were first launched."""
        layers = list[LayerResult]()
        for group in self._groups:
            results = [same.results(self) for same in group]
            layers += [_merged(same_layer) for same_layer in zip(*results, strict=True)]
        return tuple(layers)

    @cached_property
    def _groups(self) -> list[list[Same]]:
        """The launches of each program on each device, grouped by their timeline."""
        same_groups = []
        for group in groups(self.launches):
            alike: dict[tuple[object, ...], list[Stage]] = {}
            for stage in group:
                alike.setdefault((id(stage.execution), stage.time), []).append(stage)
            same_groups.append([same(stages) for stages in alike.values()])
        return same_groups


class Same(NamedTuple):
    """Launches that differ only in their start.

    stage, times, last_cycle: the first launch, the number of launches, and the cycle in which the last one begins.
    own:     cycle breakdowns of one launch in cycles of the core.
    network, layers: cycle breakdowns of one launch in cycles of the run.
    """

    stage: Stage
    times: int
    last_cycle: int
    own: Accounts
    network: Account
    layers: tuple[Account, ...]

    def results(self, run: RunResult) -> list[LayerResult]:
        """Return the results of the layers over all these launches, in cycles of the run."""
        stage, count, hardware = self.stage, self.times, run.hardware
        of_core = layer_results(stage.program, stage.execution, self.own)
        device = run.devices[stage.device].name if run.several_devices else ""
        results = []
        for layer, account in zip(of_core, self.layers, strict=True):
            first, last = layer.start_cycle, layer.end_cycle
            results.append(
                replace(
                    layer,
                    device=device,
                    cycles=account.cycles * count,
                    time_us=hardware.us_of_cycles(account.cycles * count),
                    macs=layer.macs * count,
                    bytes=layer.bytes * count,
                    energy_uj=layer.energy_uj * count,
                    start_cycle=None if first is None else stage.cycle_of_run(first),
                    end_cycle=None if last is None else self.last_cycle + stage.time.cycle(last),
                    lower_bound_cycles=account.bound.cycles * count,
                    lower_bound_limit=account.bound.bound_by,
                    bound_by=account.busiest,
                    busy_cycles={name: cycles * count for name, cycles in account.busy.items()},
                    lost_cycles={cause: cycles * count for cause, cycles in account.lost.items()},
                )
            )
        return results


def same(stages: Sequence[Stage]) -> Same:
    """Group launches of one program that have the same timeline."""
    first = stages[0]
    own = accounts(first.program, first.execution)
    begins = accumulate((account.cycles for account in own.layers), initial=0)
    late = [first.late_cycles] + [0] * len(own.layers)
    layers = [
        first.account(account, begin, waited)
        for account, begin, waited in zip(own.layers, begins, late, strict=False)
    ]
    network = first.account(own.network, 0, first.late_cycles)
    return Same(first, len(stages), stages[-1].start_cycle, own, network, tuple(layers))


def measure_launches(
    name: str, launches: Sequence[Launch], outputs: Sequence[Array] | None = None
) -> RunResult:
    """Return the result of launches that follow one another on one core; at least one launch is needed."""
    given = None if outputs is None else tuple(outputs)
    if len(launches) == 1:
        program, execution = launches[0]
        return measure(program, replace(execution, outputs=given))
    begins = list(accumulate((launch.execution.cycles for launch in launches), initial=0))
    stages = numbered(
        [
            Stage(program, execution, begin, begin + execution.cycles)
            for (program, execution), begin in zip(launches, begins, strict=False)
        ]
    )
    program, execution = record(name, launches[0].program.hardware, stages)
    whole = measure(program, replace(execution, outputs=given))
    peak = max(launch.program.scratchpad_peak_bytes for launch in launches)
    own = {field.name: getattr(whole, field.name) for field in fields(RunResult)}
    return StagedRun(**(own | {"scratchpad_peak_bytes": peak, "launches": stages}))


def _times(account: Account, count: int) -> Account:
    bound = LowerBound(
        {name: cycles * count for name, cycles in account.bound.by_resource.items()}, account.bound.port
    )
    lost, busy = (
        {name: cycles * count for name, cycles in amounts.items()} for amounts in (account.lost, account.busy)
    )
    return Account(account.cycles * count, bound, lost, busy)


def _sum(parts: Iterable[tuple[int, Account]]) -> Account:
    """Return the cycle breakdown of parts that follow one another, each on its device."""
    given = list(parts)
    own: dict[str, Counter[int]] = {name: Counter() for name in RESOURCES if name not in SHARED_RESOURCES}
    shared: Counter[str] = Counter()
    ports: Counter[str] = Counter()
    lost, busy = Counter[str](), Counter[str]()
    for device, part in given:
        for name, cycles in part.bound.by_resource.items():
            if name == PORT:
                ports[part.bound.port] += cycles
            elif name in own:
                own[name][device] += cycles
            else:
                shared[name] += cycles
        lost.update(part.lost)
        busy.update(part.busy)
    port = max(ports, key=lambda name: ports[name])
    needed = (
        dict(shared) | {PORT: ports[port]} | {name: max(by_cause.values()) for name, by_cause in own.items()}
    )
    bound = LowerBound({name: needed[name] for name in RESOURCES}, port)
    lost[STAGES.name] += sum(part.bound.cycles for _, part in given) - bound.cycles
    return Account(sum(part.cycles for _, part in given), bound, in_order(lost), busy)


def _merged(layers: Sequence[LayerResult]) -> LayerResult:
    """Return the result of a layer over all its launches, from its results by timeline."""
    first = layers[0]
    if len(layers) == 1:
        return first
    lost, busy = Counter[str](), Counter[str]()
    for layer in layers:
        lost.update(layer.lost_cycles)
        busy.update(layer.busy_cycles)
    cycles = sum(layer.cycles for layer in layers)
    worked = sum(layer.utilization * layer.cycles for layer in layers)
    starts = [layer.start_cycle for layer in layers if layer.start_cycle is not None]
    ends = [layer.end_cycle for layer in layers if layer.end_cycle is not None]
    return replace(
        first,
        cycles=cycles,
        time_us=sum(layer.time_us for layer in layers),
        macs=sum(layer.macs for layer in layers),
        utilization=share(worked, cycles),
        bytes=sum(layer.bytes for layer in layers),
        energy_uj=sum(layer.energy_uj for layer in layers),
        start_cycle=min(starts, default=None),
        end_cycle=max(ends, default=None),
        lower_bound_cycles=sum(layer.lower_bound_cycles for layer in layers),
        lost_cycles=in_order(lost),
        busy_cycles=busy,
    )
