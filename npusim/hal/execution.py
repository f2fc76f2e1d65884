"""What an execution gives back."""

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

    outputShapes: of each output, as computed.
    timing:       simulated microseconds: of the machine, and with the driver call of the hardware's host. Rounded up.
    """

    outputShapes: list[OutputShape]
    timing: Timing
    _name: str = field(repr=False, compare=False)
    _launches: tuple[Launch, ...] = field(repr=False, compare=False)
    _outputs: tuple[Array, ...] | None = field(repr=False, compare=False)

    @cached_property
    def run(self) -> RunResult:
        """Cycles, energy and layers of the programs that ran, one after the other; worked out when first asked for."""
        return measure_launches(self._name, self._launches, self._outputs)


def timing(launches: Sequence[Launch], hardware: Hardware) -> Timing:
    """The time of launches that follow one another."""
    cycles = sum(launch.execution.cycles for launch in launches)
    device_us = hardware.us_of_cycles(cycles)
    return Timing(ceil(device_us), ceil(device_us + hardware.host.call_overhead_us))
