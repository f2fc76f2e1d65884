"""The timing of schedules on the simulated machine, for the compiler's search."""

from __future__ import annotations

import numpy as np

from npusim.isa.hardware.units import ADVANCING
from npusim.isa.program.program import Program
from npusim.machine.system import execute
from npusim.scheduler.search.search import Timing


def timing(program: Program) -> Timing:
    """Execute a program without data, and return its cycles and the waits for each layer.

    The waits are the cycles in which no unit computes until an instruction of the layer does.
    """
    execution = execute(program, data=False)
    trace = execution.trace
    computing = np.flatnonzero(np.isin(trace.unit, ADVANCING))
    order = computing[np.argsort(trace.started[computing], kind="stable")]
    waiting = np.zeros(len(program.layers), np.int64)
    if len(order):
        busy_until = np.maximum.accumulate(np.concatenate(([0], trace.ended[order][:-1])))
        gaps = np.maximum(trace.started[order] - busy_until, 0)
        np.add.at(waiting, program.layer_of[order], gaps)
    return Timing(execution.cycles, waiting.tolist())
