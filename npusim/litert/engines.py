"""Engines that compute a partition: a program on one machine, or NNAdapter's devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from npusim.frontends.nn_hal.enumerations import DeviceStatus
from npusim.hal.device import Device
from npusim.hal.launches import Stage, Target
from npusim.isa.base.errors import NpusimError
from npusim.isa.base.tensor import Array
from npusim.isa.hardware.hardware import Hardware
from npusim.kernels.graph.graph import Graph
from npusim.nnadapter.compilation import Compilation
from npusim.nnadapter.device_context import Context
from npusim.nnadapter.model_execution import Execution
from npusim.nnadapter.models import from_graph
from npusim.numbers.run import RunResult
from npusim.numbers.staged import Launch, measure_launches
from npusim.session import api
from npusim.session.host import one_blas_thread

Where = str | Path | Hardware | Device | Context
"""The hardware or devices that a delegate computes on."""


class Done(NamedTuple):
    """One run of a partition.

    outputs: None where no data is executed.
    launch:  the launch on one machine.
    run:     every number of a run on several devices; None if npusim simulates none of them.
    """

    outputs: Sequence[Array] | None
    launch: Launch | None = None
    run: RunResult | None = None


class Engine(Protocol):
    """A compiled graph."""

    def run(self, inputs: Sequence[Array]) -> Done:
        """Compute the graph. Raises NpusimError."""


class OnMachine:
    """A graph as one program."""

    def __init__(self, graph: Graph, target: Target) -> None:
        self._stage = Stage(graph, target)
        self._timing_only = target.timing_only

    def run(self, inputs: Sequence[Array]) -> Done:
        """Compute the graph; the first run is on the machine, and later ones have its timeline."""
        with one_blas_thread(self._timing_only):
            launch, outputs = self._stage.run(None if self._timing_only else inputs)
        return Done(outputs, launch=launch)


class OnDevices:
    """A graph on the devices of a context."""

    def __init__(self, graph: Graph, context: Context) -> None:
        self._compilation = Compilation(from_graph(graph), context)
        self._compilation.finish()

    def run(self, inputs: Sequence[Array]) -> Done:
        """Compute the graph. Raises NNAdapterError."""
        execution = Execution(self._compilation)
        for index, array in enumerate(inputs):
            execution.set_input(index, array)
        result = execution.compute()
        return Done(result.outputs, run=result.run)


def compiler(where: Where) -> Callable[[Graph], Engine]:
    """Return the function that compiles graphs for a machine or devices. Raises NpusimError for other values."""
    if isinstance(where, Context):
        where.require_open()
        return lambda graph: OnDevices(graph, where)
    if isinstance(where, Device):
        if where.getStatus() is not DeviceStatus.AVAILABLE:
            raise NpusimError("hw: the device is closed")
        target = where.target
    elif isinstance(where, str | Path | Hardware):
        target = Target(where if isinstance(where, Hardware) else api.hardware(where))
    else:
        raise NpusimError(
            f"hw: is {where!r}, may be a preset, a file, a Hardware, an npusim.hal.Device, an npusim.nnadapter.Context"
        )
    return lambda graph: OnMachine(graph, target)


def measured(name: str, runs: Sequence[Done]) -> RunResult:
    """Return every number of the consecutive runs of one partition.

    Raises NpusimError if npusim simulates none of the devices.
    """
    launches = [done.launch for done in runs if done.launch is not None]
    if launches:
        return measure_launches(name, launches, runs[-1].outputs)
    if runs[-1].run is None:
        raise NpusimError(
            f"{name}: npusim simulates none of the devices that computed it, so it has no cycles"
        )
    return runs[-1].run
