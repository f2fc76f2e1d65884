"""Conversion of networks of ONNX and Paddle to graphs, node by node.

`qdq_groups` decides beforehand which nodes compute on quantized values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from itertools import chain

import numpy as np

from npusim.frontends.forms import arithmetic, qdq_groups
from npusim.frontends.forms.network_values import NetworkValues
from npusim.frontends.forms.networks import Network, Node, Value, values_read
from npusim.frontends.forms.node_conversion import NodeConversion
from npusim.frontends.forms.node_rows import Row
from npusim.frontends.forms.qdq import DEQUANTIZE
from npusim.isa.base.elements import is_element
from npusim.isa.base.errors import GraphError
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.tensor import Array, TensorType
from npusim.kernels.graph import folding
from npusim.kernels.graph.builder import GraphBuilder, unshaped
from npusim.kernels.graph.graph import UNKNOWN, Graph, Tensor, quoted

_UNKNOWN = (
    "npusim does not have the operation; `npusim ops` lists all, npusim.register_operator adds your own"
)


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What the reader needs to know about a format.

    name:    the format, as messages call it.
    row:     returns the row of a node; None for an operation that npusim lacks.
    missing: advice for some operations that npusim lacks, by operation.
    shapes:  functions that return the result shape of operations that npusim lacks, from the types of their operands.
    states:  where a file states the types of results, for messages.
    ends:    how a model is cut before an operation, for messages.
    """

    name: str
    row: Callable[[Node], Row | None]
    missing: Mapping[str, str] = field(default_factory=dict)
    shapes: Mapping[str, Callable[[Sequence[TensorType]], tuple[int, ...]]] = field(default_factory=dict)
    states: str = ""
    ends: str = ""

    def groupable(self, node: Node) -> bool:
        """Return whether the operation of a node may compute on quantized values."""
        entry = self.row(node)
        return entry is not None and entry.groups


def graph_of(network: Network, builder: GraphBuilder, vocabulary: Vocabulary) -> Graph:
    """Return the graph of a network. Raises GraphError, with the node's place, for what npusim does not have."""
    network = _folded(network, vocabulary)
    return _Reading(
        network, builder, qdq_groups.plan(network, network.constants, vocabulary.groupable), vocabulary
    ).graph()


class _Reading(NetworkValues):
    """The construction of a graph from a network."""

    def __init__(
        self,
        network: Network,
        builder: GraphBuilder,
        plan: qdq_groups.Plan,
        vocabulary: Vocabulary,
        outer: _Reading | None = None,
    ) -> None:
        super().__init__(network, builder, plan, outer)
        self.builder.read_with(folding.MOST_ELEMENTS)
        self._vocabulary = vocabulary
        self._named_already: set[int] = set()

    def graph(self) -> Graph:
        network = self._network
        for note in network.notes:
            self.builder.note(note)
        inputs = [_input(value) for value in network.inputs]
        self.builder.expect(inputs)
        for given in inputs:
            self._numbers[given.name] = self.builder.input(given.name, given.type, given.size_names)
        for node in network.nodes:
            if node not in self._plan.gone:
                self.add(node)
        for note in qdq_groups.summary(self._plan.reasons):
            self.builder.note(note)
        return self.builder.graph([self._output(name) for name in network.outputs])

    def as_real(self, name: str, codes: int) -> int:
        """Return a quantized tensor dequantized, as the value of a name."""
        return NodeConversion(Node("DequantizeLinear", "", name, (), (name,), {}), "", self).as_real(codes)

    def body(self, network: Network, operands: Sequence[int]) -> list[int]:
        """Add the nodes of a nested network, and return its results for these operands."""
        assert self.builder.budget is not None
        self.builder.budget.write_out(len(network.nodes))  # each time that the nested graph is expanded
        network = replace(network, constants={**self._network.constants, **network.constants})
        plan = qdq_groups.plan(network, network.constants, self._vocabulary.groupable, self.held())
        inner = _Reading(network, self.builder, plan, self._vocabulary, self)
        inner.makers = self.makers
        inner._numbers.update(zip([value.name for value in network.inputs], operands, strict=True))
        inner._named_already.update(operands)
        for node in network.nodes:
            if node not in plan.gone:
                inner.add(node)
        self._plan.reasons += [reason for reason in plan.reasons if reason not in self._plan.reasons]
        return [inner.number(name) for name in network.outputs]

    # Nodes

    def add(self, node: Node) -> None:
        """Add the nodes that an operation becomes. Raises GraphError for an operation that npusim does not have."""
        entry = self._vocabulary.row(node)
        if entry is not None and not any(node.outputs):
            raise node.fault("has no output")
        numbers: Sequence[int | None] | None
        before = len(self.builder.nodes)
        numbers = self._foreign(node) if entry is None else self._looked_up(node) or self._limited(node)
        if numbers is None and entry is not None:
            try:
                numbers = entry.convert(NodeConversion(node, entry.inputs, self, entry.operators))
            except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as fault:
                reason = " ".join(str(fault).split())[:120]
                raise node.fault(f"the operation does not take its inputs or attributes ({reason})") from None
        if node.written is not None:
            added = self.builder.nodes[before:]
            self.builder.nodes[before:] = [replace(new, written=node.written) for new in added]
        for name, number in zip(node.outputs, numbers or (), strict=False):
            if name and number is not None:
                coded = name in self._plan.results and self.builder.type(number).quantization is not None
                (self._codes if coded else self._numbers)[name] = self._named(name, number, final=not coded)

    def _foreign(self, node: Node) -> Sequence[int | None]:
        """Add a node for an operation that npusim lacks and return its results; the host is timed by the bytes moved.

        Raises GraphError if their element types and sizes are not known.
        """
        if node.operation in self._vocabulary.missing:
            raise node.fault(self._vocabulary.missing[node.operation])
        inputs = [self.number(name) if name else None for name in node.inputs]
        names = [name for name in node.outputs if name in self._read]
        types = [self._foreign_type(node, name, inputs) for name in names]
        results = self.builder.node(f'{self._vocabulary.name} "{node.kind}"', inputs, types, name=node.name)
        return [dict(zip(names, results, strict=True)).get(name) for name in node.outputs]

    @cached_property
    def _read(self) -> set[str]:
        """The values that some node reads, and the outputs."""
        readers = self._network.nodes
        return {*self._network.outputs, *chain.from_iterable(map(values_read, readers))}

    def _foreign_type(self, node: Node, name: str, inputs: Sequence[int | None]) -> TensorType:
        value, infer_shape = self._network.foreign.get(name), self._vocabulary.shapes.get(node.operation)
        types = [self.builder.type(number) for number in inputs if number is not None]
        if value is None and infer_shape is not None and types:
            return replace(types[0], shape=infer_shape(types))
        if value is not None and not is_element(value.dtype):
            raise node.fault(
                f"result {quoted(name)} has elements of type {value.dtype}, which npusim lacks; let the model end "
                f"without it{self._vocabulary.ends}"
            )
        if value is not None and value.sizes is not None:
            sizes = [self.builder.sizes.get(size) if isinstance(size, str) else size for size in value.sizes]
            if sizes[:1] == [None] and types and types[0].shape:
                sizes[:1] = types[0].shape[:1]
                self.builder.note(
                    f"result {quoted(name)} of {node.place} has a first axis which the file leaves open: taken to be "
                    f"{sizes[0]}, that of the first operand; state another in the file{self._vocabulary.states}"
                )
            shape = tuple([size for size in sizes if isinstance(size, int)])
            if len(shape) == len(sizes):
                return TensorType(value.dtype, shape)
        raise node.fault(
            f"{_UNKNOWN}; --unknown host times it once the file says type and shape of "
            f"{quoted(name)}{self._vocabulary.states}"
        )

    def _looked_up(self, node: Node) -> Sequence[int] | None:
        """Add a look-up table for a chain of operations, and return its result; None for other nodes."""
        region = self._plan.tables.get(node)
        if region is None:
            return None
        codes, name = self.codes(region.source), node.outputs[0]
        assert codes is not None
        kind, target = self.builder.type(codes), self._plan.results[name]
        reading = _Reading(self._network, GraphBuilder(""), qdq_groups.Plan({name: target}), self._vocabulary)
        all_values = np.arange(256, dtype=np.uint8).view(kind.numpy_dtype)
        reading._codes[region.source] = reading.builder.constant("", all_values, kind.quantization)
        for inner in region.nodes:
            reading.add(inner)
        result, bare = unshaped(target.dtype, target.quantization), replace(node, inputs=())
        number = reading._codes[name] if name in reading._codes else reading.number(name)
        entries = reading.builder.tensors[NodeConversion(bare, "", reading).in_type(number, result)].array
        assert entries is not None
        c = NodeConversion(bare, "", self)
        return [c.node("look_up", [codes], result, entries=tuple(entries.tolist()), rescale="fixed_point")]

    def _limited(self, node: Node) -> Sequence[int] | None:
        """Return the result of a Relu or Clip that needs no node of its own; None if it needs one."""
        bounds = self._plan.bounds.get(node)
        codes = None if bounds is None else self.codes(node.inputs[0])
        if bounds is None or codes is None:
            return None
        if arithmetic.lets_all_through(self.builder.type(codes), bounds):
            return [codes]
        maker = self.makers.get(codes)
        if maker is None or not arithmetic.fused(self.builder, maker, bounds):
            return None
        self._named_already.discard(codes)  # From now on the name belongs to the limited result.
        return [codes]

    def _named(self, name: str, number: int, *, final: bool) -> int:
        """Give a result its own name, unless it has another purpose; a name that is not final may be replaced."""
        is_constant = self.builder.tensors[number].constant
        if not is_constant and number not in self._named_already and number not in self.builder.inputs:
            self.builder.rename(number, name)
            if final:
                self._named_already.add(number)
        return number

    def _output(self, name: str) -> int:
        """Return an output as a tensor of its own with its own name."""
        number = self.number(name)
        tensor = self.builder.tensors[number]
        if tensor.constant or number in self.builder.inputs or tensor.name != name:
            c = NodeConversion(Node("Identity", "", name, (), (name,), {}), "", self)
            number = c.node("reshape", [number], c.like(number), shape=tensor.type.shape)
            self.builder.rename(number, name)
        return number


def _input(value: Value) -> Tensor:
    """Return an input, with the names of the sizes that the file leaves open. Raises GraphError for an unusable one."""
    if not is_element(value.dtype):
        raise GraphError(f"input {quoted(value.name)} has elements of type {value.dtype}, which npusim lacks")
    if value.sizes is None:
        raise GraphError(f"input {quoted(value.name)} has no shape; state one in the model")
    shape = tuple(size if isinstance(size, int) else UNKNOWN for size in value.sizes)
    names = tuple(size or "" for size in value.sizes if not isinstance(size, int))
    return Tensor(value.name, TensorType(value.dtype, shape), size_names=names)


def _folded(network: Network, vocabulary: Vocabulary) -> Network:
    """Return a network in which nodes that depend on constants alone are replaced by their results.

    Results of DequantizeLinear stay quantized.
    """
    builder = GraphBuilder(network.name)
    reading = _Reading(network, builder, qdq_groups.Plan(), vocabulary)
    constants, nodes = dict(network.constants), []
    for node in network.nodes:
        values = (
            _values(node, reading, vocabulary)
            if all(name in constants for name in node.inputs if name)
            else None
        )
        if values is None:
            nodes.append(node)
        else:
            constants.update(values)
    return replace(network, nodes=tuple(nodes), constants=constants)


def _values(node: Node, reading: _Reading, vocabulary: Vocabulary) -> dict[str, Array] | None:
    """Return the results of a node on constants; None if only a run gives them, or if the node has a fault."""
    entry = vocabulary.row(node)
    if entry is None or node.operation == DEQUANTIZE or qdq_groups.captured(node):
        return None
    try:
        reading.add(node)
    except GraphError:
        return None
    arrays = {name: reading.builder.tensors[reading.number(name)].array for name in node.outputs if name}
    values = {name: array for name, array in arrays.items() if array is not None}
    return values if len(values) == len(arrays) else None
