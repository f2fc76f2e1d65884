"""The token of a compilation that is given none: the same for what compiles to the same, else another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any

import numpy as np

from npusim.frontends.nnadapter.model import Model
from npusim.frontends.nnadapter.network import GraphNetwork
from npusim.frontends.nnadapter.operand import Operand, Operation
from npusim.isa.base.plain_json import to_json
from npusim.isa.base.tensor import SIZE_ONLY, Data, TensorType
from npusim.isa.base.version import npusim_version
from npusim.isa.program.record import to_plain
from npusim.kernels.graph.graph import Graph
from npusim.nnadapter.cache.expectation import DeviceFacts, machine_digest

TOKEN_CHARACTERS = 32
"""Hexadecimal digits, as NNAdapter's own tokens have."""


def token_of(model: Model, devices: Iterable[DeviceFacts], settings: Mapping[str, Any]) -> str:
    """A token of 32 hexadecimal digits: of the model's operations, constants, types, gears and names, of the devices
    of the context, of the version of npusim, and of the settings: what else decides how it is compiled, as plain
    values.
    """
    parts = (npusim_version(), model_digest(model), machine_digest(devices), settings)
    return sha256(to_json(parts).encode("ascii")).hexdigest()[:TOKEN_CHARACTERS]


def model_digest(model: Model) -> str:
    """SHA-256 of all that a finished model says, its names too: reports show them."""
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
    """A type as plain values, also where sizes are not known."""
    quantization = None if type_.quantization is None else to_plain(type_.quantization)
    return type_.dtype, type_.shape, quantization


def _data_parts(data: Data | None) -> Iterator[bytes]:
    """The elements of a constant, with their number in front."""
    if data is None or data is SIZE_ONLY:
        yield b"none" if data is None else b"size"
        return
    array = np.ascontiguousarray(data)
    yield _text(array.dtype.str, array.shape)
    yield array.tobytes()


def _text(*values: Any) -> bytes:
    return to_json(values).encode("ascii") + b"\n"
