"""How a model is cut: which device gets which operation, in pieces as large as can be."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from npusim.frontends.nnadapter.dot import COLORS
from npusim.frontends.nnadapter.nnadapter_errors import (
    FeatureNotSupported,
    InvalidParameter,
    NNAdapterError,
    faults_as,
    said,
)
from npusim.frontends.nnadapter.operation_graphs import Network, PieceGraph
from npusim.isa.base.printable import printable
from npusim.isa.base.tensor import Array, TensorType
from npusim.kernels.graph import placing
from npusim.kernels.graph.call import call_of
from npusim.kernels.graph.graph import Graph, Node, Tensor
from npusim.kernels.graph.placing import line_of
from npusim.kernels.operator.in_reals import reals_of_codes
from npusim.kernels.table import operator
from npusim.nnadapter.cache.compiled import CompiledPiece
from npusim.nnadapter.device_context import Member, reasons
from npusim.nnadapter.hal import device_machines
from npusim.scheduler.partition.pieces import Operation, Piece
from npusim.session.devices import COST, SINGLE, Bench, Task, by_cost, by_order, single

FORCED, IN_FLOAT = "SUBGRAPH_PARTITION_CONFIG", "MIXED_PRECISION_QUANTIZATION_CONFIG"
"""Variables of the environment, with _FILE or _BUFFER behind them: lines of operators that are forced to the CPU, and
of those that compute on real numbers."""


@dataclass(frozen=True, slots=True)
class Partition:
    """Operations that are forced to the CPU: the lines of a partition file.

    alone: whether it replaces the lines of the environment instead of adding to them.
    """

    lines: tuple[placing.Forced, ...] = ()
    alone: bool = False

    @classmethod
    def read(cls, path: str | Path) -> Partition:
        """The lines of a file. Raises InvalidParameter for one that is none."""
        if not isinstance(path, str | Path):
            raise InvalidParameter(f"partition: is {said(path)}, must be the path of a file")
        with faults_as(InvalidParameter):
            return cls(placing.read(path))

    @classmethod
    def parse(cls, text: str, name: str = "partition") -> Partition:
        """Lines of a text; `name` is what messages call it. Raises InvalidParameter likewise."""
        if not isinstance(text, str):
            raise InvalidParameter(f"{name}: is {said(text)}, must be a text")
        with faults_as(InvalidParameter):
            return cls(placing.parse(text, name))

    def forced(self, operators: Sequence[tuple[str, Sequence[str], Sequence[str]]]) -> list[int]:
        """The places of the operators that some line takes, each (type, names of inputs, names of outputs)."""
        return [
            place
            for place, operator_ in enumerate(operators)
            if any(line.takes(*operator_) for line in self.lines)
        ]


Asked = str | Path | Partition | Sequence[str | Path | Partition] | None
"""A mode, a partition file, a `Partition`, or several of these."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is asked for: how to choose among devices that can, and what is forced."""

    mode: str
    forced: tuple[placing.Forced, ...]
    in_float: tuple[placing.Forced, ...] = ()


def asked(given: Asked, mode: str, in_float: Partition | None = None) -> Plan:
    """Return the partition plan that a user asks for, in `mode` unless `given` names one.

    The lines of the environment are forced as well, unless a given `Partition` is `alone`.

    in_float: operations that are computed in floating point.

    Raises InvalidParameter.
    """
    if in_float is not None and not isinstance(in_float, Partition):
        raise InvalidParameter(f"in_float: is {said(in_float)}, must be a Partition")
    kept, environment = in_float or _of_environment(IN_FLOAT), _of_environment(FORCED)
    parts = () if given is None else (given,) if isinstance(given, str | Path | Partition) else given
    forced: list[placing.Forced] = []
    if not isinstance(parts, Sequence):
        raise InvalidParameter(f"partition: is {said(given)}, must be a mode, a file or a Partition")
    for part in parts:
        if isinstance(part, str) and part in device_machines.MODES:
            mode = part
        elif isinstance(part, Partition):
            forced += part.lines
        elif isinstance(part, str | Path):
            forced += Partition.read(part).lines
        else:
            raise InvalidParameter(f"partition: is {said(part)}, must be a mode, a file or a Partition")
    if environment and not any(isinstance(part, Partition) and part.alone for part in parts):
        forced += environment.lines
    return Plan(mode, tuple(forced), kept.lines if kept else ())


def _of_environment(name: str) -> Partition | None:
    """What a file, or else a text, of the environment says."""
    if path := os.environ.get(f"{name}_FILE"):
        return Partition.read(path)
    text = os.environ.get(f"{name}_BUFFER")
    return Partition.parse(text, f"{name}_BUFFER") if text else None


@dataclass(frozen=True, slots=True)
class Cut:
    """A model in pieces, in an order in which they can run; the device of a piece is its number in the context.

    forced: operations that must be on a CPU, by place, and who says so.
    tries:  how many other partitions were timed to find it.
    by_order_cycles: what the partition by order takes, where that was timed.
    """

    pieces: tuple[Piece, ...]
    forced: dict[int, str]
    tries: int = 0
    by_order_cycles: int = 0


def cut(
    network: Network,
    members: Sequence[Member],
    plan: Plan,
    bench: Callable[[dict[int, str]], Bench],
) -> Cut:
    """A model cut for the devices of a context. `bench` times partitions of it with these operations forced.

    Raises FeatureNotSupported for operations that no device can do, for devices of which none can do all ("single"),
    and where none of them is simulated ("cost").
    """
    forced = forced_of(network, plan)
    task = task_of(network, members, forced)
    if plan.mode == SINGLE:
        return Cut(single(task), forced)
    if plan.mode != COST:
        return Cut(by_order(task), forced)
    if all(member.machine is None for member in members):
        raise FeatureNotSupported(f"{network.name}: partition by cost: no device of the context is simulated")
    found = by_cost(task, bench(forced))
    return Cut(found.pieces, forced, found.tries, found.by_order_cycles)


def task_of(network: Network, members: Sequence[Member], forced: Collection[int] = ()) -> Task:
    """What there is to cut. Raises FeatureNotSupported where no driver says what it can do.

    An NPU that refuses to copy has what moves nothing all the same, as long as others read its results and not the
    caller: between neighbours in a piece nothing is copied.
    """
    cpu = next((member.name for member in members if member.is_cpu), "")
    npus = {member.name for member in members if member.machine is not None and not member.is_cpu}
    moves_nothing = frozenset(place for place in range(len(network.steps)) if _moves_nothing(network, place))
    refusals = reasons(members, network)
    passed_on = {number for step in network.steps for number in step.inputs} - set(network.outputs)
    for place in moves_nothing:
        if passed_on.issuperset(network.steps[place].outputs):
            refusals[place] = {name: why for name, why in refusals[place].items() if name not in npus}
    return Task(
        name=network.name,
        operations=[Operation(step.inputs, step.outputs) for step in network.steps],
        places=[step.place for step in network.steps],
        devices=[member.name for member in members],
        refusals=refusals,
        moves_nothing=moves_nothing,
        together=_of_states(network),
        forced=frozenset(forced if cpu else ()),
        cpu=cpu,
        untimed=frozenset(number for number, member in enumerate(members) if member.machine is None),
    )


def forced_of(network: Network, plan: Plan) -> dict[int, str]:
    """The operations that lines force to a CPU, by place, and who says so; a line that takes none is a warning."""
    return _taken(network, plan.forced)


def floating(network: Network, plan: Plan) -> Network:
    """The model with what its plan wants computed on real numbers. A line that takes nothing is a warning."""
    places = _taken(network, plan.in_float)
    return FloatNetwork(network, places) if places else network


def _taken(network: Network, lines: Sequence[placing.Forced]) -> dict[int, str]:
    if not lines:
        return {}
    taken = placing.taken(network.name, uses(network), lines)
    return {place: entry.reason for place, entry in taken.items()}


def uses(network: Network) -> list[placing.Use]:
    """The operations as partition files know them; constants count as inputs."""
    return [
        placing.Use(
            step.kind,
            [network.tensor_name(number) for number in step.inputs],
            [network.tensor_name(number) for number in step.outputs],
        )
        for step in network.steps
    ]


def _of_states(network: Network) -> list[list[int]]:
    """Operations that read a state, with that which gives its next value."""
    return [
        [
            place
            for place, step in enumerate(network.steps)
            if before in step.inputs or before in step.outputs or after in step.outputs
        ]
        for before, after in network.states
    ]


def _moves_nothing(network: Network, place: int) -> bool:
    """Whether an operation is done when its operands share memory, or known beforehand."""
    try:
        graph = network.piece([place]).graph
    except NNAdapterError:
        return False
    return all(_shares(graph, node) for node in graph.nodes)


def _shares(graph: Graph, node: Node) -> bool:
    entry, call = operator(node.op), call_of(graph, node)
    return entry.alias is not None and entry.broken_rule(call) is None and bool(entry.alias(call))


# Operations in floating point

REAL = "float32"
_CONVERSIONS = ("quantize", "dequantize")


class FloatNetwork:
    """A network of which some operations, by place, compute on real numbers. Everything else is that of the network."""

    def __init__(self, network: Network, places: Collection[int]) -> None:
        self._network, self._places = network, frozenset(places)
        self.name, self.steps, self.states = network.name, network.steps, network.states
        self.inputs, self.outputs, self.counted = network.inputs, network.outputs, network.counted

    def tensor_name(self, number: int) -> str:
        """What a tensor is called."""
        return self._network.tensor_name(number)

    def tensor_type(self, number: int) -> TensorType:
        """The type of an input or output of the model or of a piece."""
        return self._network.tensor_type(number)

    def value(self, number: int) -> Array | None:
        """The value of a tensor that is fixed before anything runs."""
        return self._network.value(number)

    def piece(self, operations: Sequence[int], *, in_reals: bool = False) -> PieceGraph:
        """Some operations, in this order, as a graph."""
        made = self._network.piece(operations, in_reals=in_reals)
        rewriting = _Rewriting(made.graph)
        for node, group in zip(made.graph.nodes, made.groups, strict=True):
            rewriting.add(node, group, group in self._places)
        graph = replace(made.graph, tensors=tuple(rewriting.tensors), nodes=tuple(rewriting.nodes))
        return made._replace(graph=graph, groups=tuple(rewriting.groups))


class _Rewriting:
    """A graph in the making."""

    def __init__(self, graph: Graph) -> None:
        self.tensors = list(graph.tensors)
        self.nodes: list[Node] = []
        self.groups: list[int] = []
        self._reals: dict[int, int] = {}

    def add(self, node: Node, group: int, in_float: bool) -> None:
        """A node as it is, or on real numbers."""
        coded = [number for number in node.outputs if self.tensors[number].type.quantized]
        if not in_float or not coded or node.op in _CONVERSIONS:
            self._take(node, group)
            return
        inputs = [number if number is None else self._real(number, group) for number in node.inputs]
        outputs = {
            number: self._new(number, "real") if number in coded else number for number in node.outputs
        }
        self._take(replace(node, inputs=tuple(inputs), outputs=tuple(outputs.values())), group)
        for number in coded:
            self._convert("quantize", outputs[number], number, group, saturating=True)

    def _take(self, node: Node, group: int) -> None:
        self.nodes.append(node)
        self.groups.append(group)

    def _real(self, number: int, group: int) -> int:
        """A tensor as real numbers; a constant is converted here."""
        tensor = self.tensors[number]
        if not tensor.type.quantized:
            return number
        if number not in self._reals:
            made = self._new(number, "real")
            if tensor.array is not None:
                self.tensors[made] = replace(self.tensors[made], data=_reals(tensor))
            else:
                self._convert("dequantize", number, made, group)
            self._reals[number] = made
        return self._reals[number]

    def _new(self, number: int, word: str) -> int:
        """A new tensor of real numbers in the shape of another."""
        like = self.tensors[number]
        self.tensors.append(Tensor(f"{like.name}/{word}", TensorType(REAL, like.type.shape)))
        return len(self.tensors) - 1

    def _convert(self, op: str, source: int, target: int, group: int, **parameters: Any) -> None:
        made = operator(op).parameters(**parameters)
        self._take(Node(f"{self.tensors[target].name}/{op}", op, (source,), (target,), made), group)


def _reals(tensor: Tensor) -> Array:
    """What the codes of a constant stand for."""
    assert tensor.array is not None
    reals = reals_of_codes(tensor.array, tensor.type)
    reals.setflags(write=False)
    return reals


# The log of a partition


def log_text(network: Network, pieces: Sequence[CompiledPiece]) -> str:
    """The operators of a model, and the pieces that it was cut into."""
    return "\n".join(
        [
            "subgraph operators:",
            *(line_of(*use) for use in uses(network)),
            f"subgraph clusters: {len(pieces)}",
            *_dot_lines(network, pieces),
        ]
    )


def _dot_lines(network: Network, pieces: Sequence[CompiledPiece]) -> Iterator[str]:
    """Operators as nodes, in their order, and what one gives to another as edges."""
    numbers = piece_of(network, pieces)
    yield "digraph G {"
    for place, step in enumerate(network.steps):
        piece = numbers.get(place)
        shown = [f"label={_quoted(step.kind)}"]
        if piece is not None:
            colour, device = COLORS[piece % len(COLORS)], pieces[piece].device
            shown += [f"tooltip={_quoted(f'{device}, piece {piece}')}", "style=filled", f"fillcolor={colour}"]
        yield f"  node_{place}[{' '.join(shown)}]"
    writer = {tensor: place for place, step in enumerate(network.steps) for tensor in step.outputs}
    for place, step in enumerate(network.steps):
        for giver in dict.fromkeys(writer[tensor] for tensor in step.inputs if tensor in writer):
            yield f"  node_{giver}->node_{place}"
    yield "} // end G"


def piece_of(network: Network, pieces: Sequence[CompiledPiece]) -> dict[int, int]:
    """The piece of each operator, by numbers; operators of one name follow one another."""
    places: dict[str, list[int]] = {}
    for place, step in enumerate(network.steps):
        places.setdefault(step.name, []).append(place)
    return {places[name].pop(0): number for number, piece in enumerate(pieces) for name in piece.operations}


def _quoted(words: str) -> str:
    escaped = printable(words).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
