"""Drivers of simulated devices: NPUs, the host CPU, and NNAdapter's `builtin_device`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, ClassVar

from npusim.frontends.nnadapter.nnadapter_codes import (
    DeviceInternalError,
    DeviceType,
    InvalidDimensions,
    InvalidParameter,
    NNAdapterError,
    OperationType,
)
from npusim.frontends.nnadapter.operation_graphs import PieceGraph
from npusim.isa.base.errors import NpusimError
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.program import container
from npusim.isa.program.program import Program
from npusim.kernels.graph.graph import Graph
from npusim.machine.system import execute
from npusim.nnadapter.hal import device_machines
from npusim.nnadapter.hal.driver import Argument, Cache, Driver, Properties, Submodel
from npusim.nnadapter.hal.properties import above_zero
from npusim.scheduler import prepare
from npusim.scheduler.network.storage import HostStep
from npusim.session import api
from npusim.session.host import host_functions, one_blas_thread
from npusim.session.options import Options


@dataclass
class SimulatedContext:
    """A simulated device in a context.

    machine:      its hardware, changed by properties and by sharing memories and host with other devices.
    with_cpu:     whether the context has a CPU device, which takes what the NPU cannot compute.
    host_changes: parameters that the device changes in the host of the context.
    """

    machine: Hardware
    with_cpu: bool = False
    effort: str = "fast"
    host_changes: Mapping[str, Any] = field(default_factory=dict)


class Simulated(Driver):
    """The driver of a simulated device, whose programs the runtime links with those of others on one system.

    all_in_float: whether quantized operations compute in floating point.
    """

    vendor = "npusim"
    all_in_float: ClassVar[bool] = False

    def own_machine(self) -> Hardware:
        """Return the hardware before properties change it."""
        raise NotImplementedError

    def create_context(
        self, device: object, properties: Properties, callback: Callable[..., Any] | None
    ) -> SimulatedContext:
        """Return a context whose hardware has the properties applied."""
        machine = device_machines.changed(self.own_machine(), self.name, properties)
        effort = device_machines.value_of(properties, self.name, "EFFORT")
        return SimulatedContext(machine, effort=effort or "fast")

    def validate_program(self, context: SimulatedContext, model: Submodel) -> Sequence[str | None]:
        """Return why the device cannot compute each operation, or None."""
        return [self._reason(context, Submodel(model.network, (place,))) for place in model.places]

    def _reason(self, context: SimulatedContext, one: Submodel) -> str | None:
        try:
            graph = one.graph(all_in_float=self.all_in_float).graph
        except NNAdapterError as fault:
            return str(fault)
        return self.refusal(context, graph)

    def refusal(self, context: SimulatedContext, graph: Graph) -> str | None:
        """Return why this device cannot compute the graph of one operation, or None."""
        return None

    def placed(self, piece: PieceGraph) -> PieceGraph:
        """Return a piece with the nodes marked that the host computes."""
        return piece

    def create_program(self, context: object, model: Submodel | None, cache: Cache) -> Program:
        """Compile a model, or restore a cached program."""
        assert isinstance(context, SimulatedContext)
        if model is None:
            if not cache.buffer:
                raise InvalidParameter(f"{self.name}: create_program: neither a model nor a cache is given")
            return container.loads(cache.buffer)
        graph = _forced(self.placed(model.graph(all_in_float=self.all_in_float)), model.forced)
        program = api.compile_program(graph, context.machine, Options(context.effort))
        if cache.token:
            cache.buffer = container.dumps(program)
        return program

    def execute_program(
        self, program: object, inputs: Sequence[Argument], outputs: Sequence[Argument]
    ) -> float | None:
        """Run a program alone on its machine; the runtime itself runs all programs of a model on one system."""
        assert isinstance(program, Program)
        if not outputs or len(outputs) != len(program.outputs) or len(inputs) != len(program.inputs):
            raise InvalidParameter(
                f"{self.name}: {len(inputs)} inputs and {len(outputs)} outputs, the program has "
                f"{len(program.inputs)} and {len(program.outputs)}"
            )
        arrays = [argument.read() for argument in inputs]
        for place, array in zip(program.inputs, arrays, strict=True):
            if array.shape != place.type.shape:
                raise InvalidDimensions(
                    f"{self.name}: input {place.name} is {list(array.shape)}, must be {list(place.type.shape)}"
                )
        try:
            with one_blas_thread(False):
                done = execute(program, arrays, host_functions=host_functions(program))
        except NpusimError as fault:
            raise DeviceInternalError(f"{self.name}: {fault}") from None
        for argument, value in zip(outputs, done.outputs or (), strict=True):
            argument.write(value)
        return program.hardware.us_of_cycles(done.cycles)


def on_host(graph: Graph, reason: str) -> Graph:
    """Return the graph with every node, including those of bodies, on the host."""
    nodes = tuple(
        replace(
            node,
            on_host="" if node.bodies else reason,
            bodies=tuple(on_host(body, reason) for body in node.bodies),
        )
        for node in graph.nodes
    )
    return replace(graph, nodes=nodes)


def _forced(piece: PieceGraph, forced: Mapping[int, str]) -> Graph:
    """Return the graph of a piece with the forced operations on the host."""
    if not forced:
        return piece.graph
    nodes = tuple(
        replace(node, on_host=forced.get(place, node.on_host))
        for node, place in zip(piece.graph.nodes, piece.groups, strict=True)
    )
    return replace(piece.graph, nodes=nodes)


def accelerator(device: str, machine: Callable[[], Hardware]) -> type[Simulated]:
    """Return the driver class of a simulated NPU; `machine` returns its hardware when it is first needed."""

    class Accelerator(Simulated):
        name = device
        type = DeviceType.ACCELERATOR
        version = 1
        keys: ClassVar[Mapping[str, Any]] = device_machines.keys_of(device, host=False)

        def own_machine(self) -> Hardware:
            return machine()

        def refusal(self, context: SimulatedContext, graph: Graph) -> str | None:
            """Return why the graph needs a host if the context has a CPU device; without one the NPU has a host."""
            if not context.with_cpu:
                return None
            try:
                items = prepare(graph, context.machine).items
            except NpusimError as fault:
                return str(fault)
            return next((item.body.reason for item in items if isinstance(item.body, HostStep)), None)

    Accelerator.__doc__ = f"The simulated NPU {device}."
    return Accelerator


class Host(Simulated):
    """The simulated host CPU, which computes every operation, timed by the model of its core."""

    name = "npusim_host"
    type = DeviceType.CPU
    version = 1
    keys: ClassVar[Mapping[str, Any]] = device_machines.keys_of("npusim_host", host=True)

    def own_machine(self) -> Hardware:
        """Return the default hardware, whose host this device is."""
        return api.hardware(api.DEFAULT_HARDWARE)

    def placed(self, piece: PieceGraph) -> PieceGraph:
        """Return the piece with all nodes on the host."""
        return piece._replace(graph=on_host(piece.graph, f"{self.name} computes it"))


THREADS = "BUILTIN_DEVICE_NUM_THREADS"

OPERATIONS = tuple(
    kind.name.lower()
    for kind in (
        *(OperationType.ADD, OperationType.SUB, OperationType.MUL, OperationType.DIV, OperationType.MAX),
        *(OperationType.MIN, OperationType.POW, OperationType.FLOOR_DIV, OperationType.RELU),
        *(OperationType.RELU6, OperationType.BATCH_NORMALIZATION, OperationType.CAST, OperationType.CONCAT),
        *(OperationType.CONV_2D, OperationType.CUM_SUM, OperationType.DEQUANTIZE, OperationType.EXPAND),
        *(OperationType.FILL, OperationType.FILL_LIKE, OperationType.FULLY_CONNECTED, OperationType.GATHER),
        *(OperationType.LOG_SOFTMAX, OperationType.MAT_MUL, OperationType.MESHGRID),
        *(OperationType.AVERAGE_POOL_2D, OperationType.MAX_POOL_2D, OperationType.QUANTIZE),
        *(OperationType.RESHAPE, OperationType.SHAPE, OperationType.SLICE, OperationType.SOFTMAX),
        OperationType.STACK,
    )
)
"""The supported operations, as partition files write them."""


class Builtin(Host):
    """`builtin_device`: the CPU device that NNAdapter always has, with its arithmetic and its 32 operations.

    It computes in floating point: inputs are dequantized, and results divided by their scale, truncated toward zero and
    limited to -127..127. Timed as the simulated host.
    """

    name = "builtin_device"
    vendor = "Paddle"
    all_in_float = True
    keys: ClassVar[Mapping[str, Any]] = {THREADS: above_zero}

    def create_context(self, device: object, properties: Properties, callback: Any) -> SimulatedContext:
        """Return a context with the number of threads that the properties set."""
        changes = {"host.threads": properties[THREADS]} if THREADS in properties else {}
        return SimulatedContext(self.own_machine(), host_changes=changes)

    def validate_program(self, context: SimulatedContext, model: Submodel) -> Sequence[str | None]:
        """Return why the device cannot compute each operation, or None; it supports 32 of NNAdapter's operations."""
        return [
            self._reason(context, Submodel(model.network, (place,)))
            if operation.kind in OPERATIONS
            else f"{operation.kind} is none of the {len(OPERATIONS)} operations of {self.name}"
            for place, operation in zip(model.places, model.operations, strict=True)
        ]
