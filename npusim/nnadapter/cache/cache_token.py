"""Which context a compiled model fits: the devices and settings it was compiled for, and the token that names it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np

from npusim.frontends.nnadapter.model_building import Model
from npusim.frontends.nnadapter.operand import Operand, Operation
from npusim.frontends.nnadapter.operation_graphs import GraphNetwork
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.plain_values import printable, to_json
from npusim.isa.base.tensor import SIZE_ONLY, Data, TensorType
from npusim.isa.base.version import npusim_version
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.program.record import to_plain
from npusim.kernels.graph.graph import Graph
from npusim.nnadapter.cache.compiled_record import Record
from npusim.nnadapter.cache.nnc_container import WrongDevice, WrongMachine, WrongToken
from npusim.numbers.provenance import digest_of_hardware

TOKEN_CHARACTERS = 32
"""Hexadecimal digits, as NNAdapter's own tokens have."""


class DeviceFacts(NamedTuple):
    """What a compiled model depends on of one device.

    version:  the version of its driver.
    hardware: the hardware of a simulated device, with the memories that it shares with others of the context.
    """

    name: str
    version: int
    hardware: Hardware | None = None


def machine_digest(devices: Iterable[DeviceFacts]) -> str:
    """Return the devices of a context in order as text: name, driver version and SHA-256 of the hardware of each."""
    return ", ".join(
        f"{device.name} {device.version} {'-' if device.hardware is None else digest_of_hardware(device.hardware)}"
        for device in devices
    )


def _by_device(digest: str) -> dict[str, str]:
    """Split a machine digest into version and hardware hash by device name."""
    parts = (part.partition(" ") for part in digest.split(", "))
    return {name: rest for name, _, rest in parts}


@dataclass(frozen=True, slots=True)
class Expectation:
    """What a cached model must have been compiled for, so that a context takes it.

    properties: the properties of the context, as one text.
    """

    token: str
    devices: Sequence[DeviceFacts]
    properties: str

    @property
    def machine_digest(self) -> str:
        """The devices of the context as text."""
        return machine_digest(self.devices)

    def require(self, record: Record) -> None:
        """Raise WrongToken, WrongDevice or WrongMachine for a model that was compiled for something else."""
        if record.token != self.token:
            raise WrongToken(
                f'kept under token "{printable(record.token)}", must be "{printable(self.token)}"'
            )
        names = [device.name for device in self.devices]
        for name in record.devices:
            if name not in names:
                raise WrongDevice(
                    f'compiled for device "{printable(name)}", the context has {", ".join(map(printable, names))}'
                )
        digests, wanted = _by_device(record.machine_digest), _by_device(self.machine_digest)
        if list(digests) != names:
            listed = ", ".join(map(printable, digests))
            raise WrongDevice(
                f'compiled for the devices "{listed}", the context has {", ".join(map(printable, names))}'
            )
        for what, kept, here in (
            ("npusim", record.npusim_version, npusim_version()),
            *((f"another {name}: version and machine digest", digests[name], wanted[name]) for name in names),
            ("properties", record.properties, self.properties),
        ):
            if kept != here:
                raise WrongMachine(f'compiled with {what} "{printable(kept)}", must be "{printable(here)}"')


def token_of(model: Model, devices: Iterable[DeviceFacts], settings: Mapping[str, Any]) -> str:
    """Return the token of a compilation, 32 hexadecimal digits: models that compile to the same have the same.

    It depends on the model's operations, constants, types, gears and names, on the devices of the context, on the
    version of npusim, and on the settings, plain values that decide how the model is compiled.
    """
    parts = (npusim_version(), model_digest(model), machine_digest(devices), settings)
    return sha256(to_json(parts).encode("ascii")).hexdigest()[:TOKEN_CHARACTERS]


def model_digest(model: Model) -> str:
    """Return the SHA-256 of a finished model, including its names, because reports show them."""
    digest = sha256()
    for part in _parts(model):
        digest.update(part)
    return digest.hexdigest()


def _parts(model: Model) -> Iterator[bytes]:
    graphs: tuple[Graph, ...] = getattr(model, "graphs", ())
    if graphs:
        for graph in graphs:
            yield from _graph_parts(graph)
        return
    network = None if model.operations else model.network()
    if isinstance(network, GraphNetwork):
        yield from _graph_parts(network.graph)
        return
    yield _text(model.name, [operand.index for operand in model.input_operands])
    yield _text([operand.index for operand in model.output_operands])
    for operand in model.operands:
        yield from _operand_parts(operand)
    for operation in model.operations:
        yield _operation_part(operation)


def _operand_parts(operand: Operand) -> Iterator[bytes]:
    kind = operand.type
    yield _text(
        operand.name,
        kind.precision,
        kind.layout,
        tuple(kind.dimensions),
        kind.scale,
        kind.zero_point,
        None if kind.scales is None else tuple(kind.scales),
        None if kind.zero_points is None else tuple(kind.zero_points),
        kind.channel_dim,
        [tuple(gear) for gear in kind.dynamic],
    )
    yield from _data_parts(operand.buffer)


def _operation_part(operation: Operation) -> bytes:
    read = [None if operand is None else operand.index for operand in operation.input_operands]
    return _text(operation.type, read, [operand.index for operand in operation.output_operands])


def _graph_parts(graph: Graph) -> Iterator[bytes]:
    yield _text(graph.name, graph.inputs, graph.outputs, graph.states, len(graph.tensors), len(graph.nodes))
    for tensor in graph.tensors:
        yield _text(tensor.name, _plain_type(tensor.type), tensor.size_names)
        yield from _data_parts(tensor.data)
    for node in graph.nodes:
        yield _text(node.name, node.op, node.inputs, node.outputs, node.parameters.plain(), node.on_host)
        for body in node.bodies:
            yield from _graph_parts(body)


def _plain_type(type_: TensorType) -> Any:
    """Return a type as plain values, whether its sizes are known or not."""
    quantization = None if type_.quantization is None else to_plain(type_.quantization)
    return type_.dtype, type_.shape, quantization


def _data_parts(data: Data | None) -> Iterator[bytes]:
    """Yield the elements of a constant, preceded by type and shape."""
    if data is None or data is SIZE_ONLY:
        yield b"none" if data is None else b"size"
        return
    array = np.ascontiguousarray(data)
    yield _text(array.dtype.str, array.shape)
    yield array.tobytes()


def _text(*values: Any) -> bytes:
    return to_json(values).encode("ascii") + b"\n"
