"""ONNX to graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from npusim.frontends.onnx import file, groups, limits
from npusim.frontends.onnx.codes import DEQUANTIZE, QUANTIZE, Codes
from npusim.frontends.onnx.network import MICROSOFT, Network, Node, Value
from npusim.frontends.onnx.operations.conversion import Conversion
from npusim.frontends.onnx.operations.row import Row
from npusim.frontends.onnx.operations.table import row
from npusim.isa.base.elements import is_element
from npusim.isa.base.errors import GraphError
from npusim.isa.base.tensor import Array, TensorType
from npusim.kernels.graph.builder import GraphBuilder
from npusim.kernels.graph.graph import UNKNOWN, Graph
from npusim.kernels.graph.names import quoted

_QUANTIZING = (QUANTIZE, DEQUANTIZE)


def recognises(path: Path, head: bytes) -> bool:
    """No: files of ONNX begin with nothing of their own; the suffix tells."""
    return False


def read(path: Path, builder: GraphBuilder) -> Graph:
    """The graph of a file. Raises FormatError or GraphError."""
    return graph_of(file.parsed(path), builder)


def graph_of(network: Network, builder: GraphBuilder) -> Graph:
    """The graph of a network. Raises GraphError, with the node's place, for what npusim does not have."""
    network = _folded(network)
    return _Reading(network, builder, groups.plan(network, network.constants, _groupable)).graph()


class _Reading:
    """The reading of a network."""

    def __init__(self, network: Network, builder: GraphBuilder, plan: groups.Plan) -> None:
        self.builder = builder
        self.makers: dict[int, int] = {}
        self._network = network
        self._plan = plan
        self._numbers: dict[str, int] = {}
        self._codes: dict[str, int] = {}
        self._named_already: set[int] = set()

    @property
    def opsets(self) -> Mapping[str, int]:
        return self._network.opsets

    def graph(self) -> Graph:
        network = self._network
        for note in network.notes:
            self.builder.note(note)
        for value in network.inputs:
            self._numbers[value.name] = self._input(value)
        for node in network.nodes:
            self.add(node)
        for note in groups.summary(self._plan.reasons):
            self.builder.note(note)
        return self.builder.graph([self._output(name) for name in network.outputs])

    # What conversions ask, and what is asked of a reading

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
        return self._plan.results.get(name)

    def in_reals(self, node: Node, reason: str) -> None:
        self._plan.reasons.append((reason, node))

    # Parts of the network

    def _input(self, value: Value) -> int:
        if not is_element(value.dtype):
            raise GraphError(
                f"input {quoted(value.name)} has elements of type {value.dtype}, which npusim lacks"
            )
        if value.sizes is None:
            raise GraphError(f"input {quoted(value.name)} says no shape; write one into the model")
        shape = tuple(size if isinstance(size, int) else UNKNOWN for size in value.sizes)
        names = tuple(size or "" for size in value.sizes if not isinstance(size, int))
        return self.builder.input(value.name, TensorType(value.dtype, shape), names)

    def add(self, node: Node) -> None:
        """Adds what a node becomes. Raises GraphError for one that npusim does not have."""
        entry = _row_of(node)
        if entry is None:
            raise node.fault("npusim does not have the operation; `npusim ops` lists those it has")
        numbers: Sequence[int | None] | None = self._limited(node)
        if numbers is None:
            numbers = entry.convert(Conversion(node, entry.inputs, self))
        for name, number in zip(node.outputs, numbers, strict=False):
            if name and number is not None:
                coded = name in self._plan.results and self.builder.type(number).quantization is not None
                (self._codes if coded else self._numbers)[name] = self._named(name, number, final=not coded)

    def _limited(self, node: Node) -> Sequence[int] | None:
        """The result of a Relu or Clip on the codes that it has already; None where it takes a node of its own."""
        bounds = self._plan.bounds.get(node)
        codes = None if bounds is None else self._codes.get(node.inputs[0])
        if bounds is None or codes is None:
            return None
        maker = self.makers.get(codes)
        through = limits.lets_all_through(self.builder.type(codes), bounds)
        return (
            [codes] if through or (maker is not None and limits.fused(self.builder, maker, bounds)) else None
        )

    def _named(self, name: str, number: int, *, final: bool) -> int:
        """A result under its own name, if it is nothing else already; a name that is not final may give way."""
        held = self.builder.tensors[number]
        if not held.constant and number not in self._named_already and number not in self.builder.inputs:
            self.builder.rename(number, name)
            if final:
                self._named_already.add(number)
        return number

    def _output(self, name: str) -> int:
        """An output, a tensor of its own with its own name."""
        number = self.number(name)
        held = self.builder.tensors[number]
        taken = held.constant or number in self.builder.inputs or held.name != name
        if taken:
            how = Conversion(Node("Identity", "", name, (), (name,), {}), "", self)
            number = how.node("reshape", [number], how.like(number), shape=held.type.shape)
            self.builder.rename(number, name)
        return number


def _groupable(node: Node) -> bool:
    entry = _row_of(node)
    return entry is not None and entry.groups


def _row_of(node: Node) -> Row | None:
    """The row of a node; the two of com.microsoft that convert codes are those of ONNX."""
    if node.domain == MICROSOFT and node.operation in _QUANTIZING:
        return row("", node.operation)
    return row(node.domain, node.operation)


def _folded(network: Network) -> Network:
    """A network without the nodes that follow from its constants; what they give are constants.

    What DequantizeLinear gives stays with its codes.
    """
    builder = GraphBuilder(network.name)
    reading = _Reading(network, builder, groups.Plan())
    constants, nodes = dict(network.constants), []
    for node in network.nodes:
        values = _values(node, reading) if all(name in constants for name in node.inputs if name) else None
        if values is None:
            nodes.append(node)
        else:
            constants.update(values)
    return replace(network, nodes=tuple(nodes), constants=constants)


def _values(node: Node, reading: _Reading) -> dict[str, Array] | None:
    """What a node on constants gives; None where only a run does, or it is a fault."""
    entry = _row_of(node)
    if entry is None or node.operation == DEQUANTIZE or groups.captured(node):
        return None
    try:
        reading.add(node)
    except GraphError:
        return None
    arrays = {name: reading.builder.tensors[reading.number(name)].array for name in node.outputs if name}
    values = {name: array for name, array in arrays.items() if array is not None}
    return values if len(values) == len(arrays) else None
