"""Energy of the stages of a run: how much, and when in the run, whatever hardware each is on.

As in `npusim.numbers.power`, but that what is drawn in every cycle is drawn by the hardware of the stage alone: its
standing power lasts as long as a launch, not as long as the run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from npusim.numbers import power, timeline
from npusim.numbers.energy import Energy, energy, standing_mw
from npusim.numbers.power import Amounts
from npusim.numbers.stage import Stage


@dataclass(frozen=True, slots=True)
class Charges:
    """The energy of a run along its cycles, in pJ: by component, and all of it."""

    by_component: dict[str, timeline.Accumulation]
    whole: timeline.Accumulation


def charges(stages: Sequence[Stage], total: int) -> Charges:
    """Energy of instructions evenly over their cycles, what belongs to none of them and what the hardware draws in any
    cycle evenly over the launch (`npusim.numbers.power`).
    """
    rows: dict[str, list[tuple[timeline.Times, timeline.Times, Amounts]]] = {}
    for stage in stages:
        program, execution = stage.program, stage.execution
        started, ended = stage.of_run(execution.trace.started), stage.of_run(execution.trace.ended)
        begin, end = np.array([stage.start_cycle]), np.array([stage.end_cycle])
        for component, (of_instructions, rest) in power.moving_pj(program, execution).items():
            row = rows.setdefault(component, [])
            row += [(started, ended, of_instructions), (begin, end, np.array([rest]))]
        time_us = program.hardware.us_of_cycles(execution.cycles)
        for component, milliwatts in standing_mw(program.hardware).items():
            standing_pj = np.array([milliwatts * time_us * 1e3])  # mW * us = nJ
            rows.setdefault(component, []).append((begin, end, standing_pj))
    return Charges(
        {component: _accumulated(row, total) for component, row in rows.items()},
        _accumulated([part for row in rows.values() for part in row], total),
    )


def _accumulated(
    parts: Sequence[tuple[timeline.Times, timeline.Times, Amounts]], total: int
) -> timeline.Accumulation:
    started, ended, amounts = (np.concatenate(column) for column in zip(*parts, strict=True))
    return timeline.accumulate(started, ended, amounts, total)


def stage_energy(stage: Stage) -> Energy:
    """The energy of one launch on its hardware."""
    program, execution = stage.program, stage.execution
    actions: Counter[str] = Counter()
    for counts in execution.layer_actions:
        actions.update(counts)
    host_uj = float(power.host_work(program, execution).energy_uj.sum())
    return energy(actions, execution.cycles, program.hardware, host_uj)
