"""The result of an execution: output shapes, timing, and on demand every number of the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import ceil

from npusim.frontends.nn_hal.structs import OutputShape, Timing
from npusim.isa.base.tensor import Array
from npusim.isa.hardware.hardware import Hardware
from npusim.numbers.run import RunResult
from npusim.numbers.staged import Launch, measure_launches


@dataclass
class Execution:
    """One execution of a prepared model.

    outputShapes: the computed shape of each output.
    timing:       simulated microseconds on the machine, and with the call overhead of the host; rounded up.
    """

    outputShapes: list[OutputShape]
    timing: Timing
    _name: str = field(repr=False, compare=False)
    _launches: tuple[Launch, ...] = field(repr=False, compare=False)
    _outputs: tuple[Array, ...] | None = field(repr=False, compare=False)

    @cached_property
    def run(self) -> RunResult:
        """Cycles, energy and layers of the programs that ran one after the other; computed at the first access."""
        return measure_launches(self._name, self._launches, self._outputs)


def timing(launches: Sequence[Launch], hardware: Hardware) -> Timing:
    """Return the time of consecutive launches."""
    cycles = sum(launch.execution.cycles for launch in launches)
    device_us = hardware.us_of_cycles(cycles)
    return Timing(ceil(device_us), ceil(device_us + hardware.host.call_overhead_us))
