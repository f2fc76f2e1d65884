"""ONNX to graphs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from npusim.frontends.onnx import file, groups
from npusim.frontends.onnx.groups import Codes
from npusim.frontends.onnx.network import MICROSOFT, Network, Node, Value
from npusim.frontends.onnx.operations.conversion import Conversion
from npusim.frontends.onnx.operations.row import Row
from npusim.frontends.onnx.operations.table import row
from npusim.isa.base.elements import is_element
from npusim.isa.base.errors import GraphError
from npusim.isa.base.tensor import TensorType
from npusim.kernels.graph.builder import GraphBuilder
from npusim.kernels.graph.graph import UNKNOWN, Graph
from npusim.kernels.graph.names import quoted

_QUANTIZING = (groups.QUANTIZE, groups.DEQUANTIZE)


def recognises(path: Path, head: bytes) -> bool:
    """No: files of ONNX begin with nothing of their own; the suffix tells."""
    return False


def read(path: Path, builder: GraphBuilder) -> Graph:
    """The graph of a file. Raises FormatError or GraphError."""
    return graph_of(file.parsed(path), builder)


def graph_of(network: Network, builder: GraphBuilder) -> Graph:
    """The graph of a network. Raises GraphError, with the node's place, for what npusim does not have."""
    return _Reading(network, builder).graph()


class _Reading:
    """The reading of a network."""

    def __init__(self, network: Network, builder: GraphBuilder) -> None:
        self.builder = builder
        self._network = network
        self._numbers: dict[str, int] = {}
        self._codes: dict[str, int] = {}
        self._plan = groups.plan(network, network.constants, _groupable)

    @property
    def opsets(self) -> Mapping[str, int]:
        return self._network.opsets

    def graph(self) -> Graph:
        network = self._network
        for note in (*network.notes, *self._plan.notes):
            self.builder.note(note)
        for value in network.inputs:
            self._numbers[value.name] = self._input(value)
        for node in network.nodes:
            if node not in self._plan.skipped:
                self._node(node)
        return self.builder.graph([self._output(name) for name in network.outputs])

    # What conversions ask

    def number(self, name: str) -> int:
        if name in self._numbers:
            return self._numbers[name]
        if name in self._network.constants:
            data = self._network.constants[name]
            self._numbers[name] = self.builder.constant(name, data)
        elif name in self._codes:
            node = Node("DequantizeLinear", "", name, (), (name,), {})
            self._numbers[name] = Conversion(node, "", self).as_real(self._codes[name])
        else:
            raise GraphError(f"value {quoted(name)} is read, and nothing before writes it")
        return self._numbers[name]

    def codes(self, name: str) -> int | None:
        return self._codes.get(name)

    def dequantized(self, name: str, codes: int) -> None:
        self._codes[name] = codes

    def bits(self, name: str) -> int:
        return self._network.narrow.get(name, 0)

    def result(self, name: str) -> Codes | None:
        found = self._plan.results.get(name)
        return None if found is None else found[1]

    # Parts of the network

    def _input(self, value: Value) -> int:
        if not is_element(value.dtype):
            raise GraphError(
                f"input {quoted(value.name)} has elements of type {value.dtype}, which npusim lacks"
            )
        if value.sizes is None:
            raise GraphError(f"input {quoted(value.name)} says no shape; write one into the model")
        shape = tuple(size if isinstance(size, int) else UNKNOWN for size in value.sizes)
        names = tuple(size for size in value.sizes if isinstance(size, str))
        number = self.builder.tensor(value.name, TensorType(value.dtype, shape))
        self.builder.tensors[number] = replace(self.builder.tensors[number], size_names=names)
        return self.builder.as_input(number)

    def _node(self, node: Node) -> None:
        entry = _row_of(node)
        if entry is None:
            raise node.fault("npusim does not have the operation; `npusim ops` lists those it has")
        numbers = entry.convert(Conversion(node, entry.inputs, self))
        for name, number in zip(node.outputs, numbers, strict=False):
            if not name or number is None:
                continue
            if name in self._plan.results:
                for quantized in self._plan.results[name][0]:
                    self._numbers[quantized] = self._named(quantized, number)
            else:
                self._numbers[name] = self._named(name, number)

    def _named(self, name: str, number: int) -> int:
        """A result under its own name, if it is nothing else already."""
        held = self.builder.tensors[number]
        if not held.constant and number not in self._numbers.values():
            self.builder.tensors[number] = replace(held, name=name)
        return number

    def _output(self, name: str) -> int:
        """An output, a tensor of its own with its own name."""
        number = self.number(name)
        held = self.builder.tensors[number]
        taken = held.constant or number in self.builder.inputs or held.name != name
        if taken:
            how = Conversion(Node("Identity", "", name, (), (name,), {}), "", self)
            number = how.node("reshape", [number], how.like(number), shape=held.type.shape)
            self.builder.tensors[number] = replace(self.builder.tensors[number], name=name)
        return number


def _groupable(node: Node) -> bool:
    entry = _row_of(node)
    return entry is not None and entry.groups


def _row_of(node: Node) -> Row | None:
    """The row of a node; the two of com.microsoft that convert codes are those of ONNX."""
    if node.domain == MICROSOFT and node.operation in _QUANTIZING:
        return row("", node.operation)
    return row(node.domain, node.operation)
