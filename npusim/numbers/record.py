"""The record of a run of several programs: all that was launched as if it were one program, and its timeline.

It is for reports, not to be run: its programs do not share memory, and need not be for the same hardware.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base.workload import Workload
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.instructions.control import Call
from npusim.isa.instructions.table import decode_all, encode_all
from npusim.isa.program.program import Blank, Layer, Program
from npusim.machine.trace import Execution, Trace
from npusim.numbers.stage import Stage

Groups = list[list[Stage]]
"""The stages of each program on each device, in the order in which they first come."""


def numbered(stages: Sequence[Stage]) -> tuple[Stage, ...]:
    """Stages with their first layers and instructions. The layers of a program stand once for each device that runs it,
    however often it is launched there.
    """
    layers, instructions, first_layers = 0, 0, dict[tuple[int, int], int]()
    found = []
    for stage in stages:
        key = _key(stage)
        if key not in first_layers:
            first_layers[key] = layers
            layers += len(stage.program.layers)
        found.append(replace(stage, first_layer=first_layers[key], first_instruction=instructions))
        instructions += stage.program.instructions
    return tuple(found)


def groups(stages: Sequence[Stage]) -> Groups:
    """Stages of one program on one device together."""
    found: dict[tuple[int, int], list[Stage]] = {}
    for stage in stages:
        found.setdefault(_key(stage), []).append(stage)
    return list(found.values())


def _key(stage: Stage) -> tuple[int, int]:
    return id(stage.program), stage.device


def record(name: str, hardware: Hardware, stages: Sequence[Stage]) -> tuple[Program, Execution]:
    """What was launched as one program, and its timeline in cycles of the run. At least one stage."""
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
        host_calls=tuple(call for each in programs for call in each.host_calls),
        code_space=programs[0].code_space,
    )
    return program, _joined(stages, kinds)


def _worked(layer: Layer, count: int) -> Layer:
    """A layer with the work of all its launches."""
    work = layer.workload
    sizes = {
        field.name: getattr(work, field.name) * count
        for field in fields(Workload)
        if field.name not in ("kind", "dtype", "inner_k")
    }
    return replace(layer, workload=replace(work, **sizes))


def _calls_from(program: Program, first: int) -> NDArray[np.uint8]:
    """The code of a program whose calls stand from row `first` on in the table of host calls."""
    if not first or not program.host_calls:
        return program.code
    code = program.code.copy()
    for at, instruction in enumerate(decode_all(program.code)):
        if isinstance(instruction, Call):
            code[at] = encode_all([replace(instruction, index=instruction.index + first)])[0]
    return code


def _joined(stages: Sequence[Stage], kinds: Groups) -> Execution:
    """Timelines one behind the other."""
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
        transfers=tuple(
            replace(transfer, start_cycle=transfer.start_cycle + begin, end_cycle=transfer.end_cycle + begin)
            for trace, begin in zip(traces, begins, strict=True)
            for transfer in trace.transfers
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
