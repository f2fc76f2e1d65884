"""Partition of a model among the devices of a context: each operation gets a device, neighbours on one are a piece.

The log of a partition has the format of NNAdapter:

    subgraph operators:
    conv_2d:image,weights,bias:features
    subgraph clusters: 1
    digraph G {
      node_0[label="conv_2d" ...]
      node_0->node_1
    } // end G

A line of the operators can be copied into a partition file. Operators of one piece have one colour.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from npusim.frontends.nnadapter.dot import COLORS, quoted
from npusim.frontends.nnadapter.nnadapter_codes import (
    FeatureNotSupported,
    InvalidParameter,
    NNAdapterError,
    faults_as,
    text_of,
)
from npusim.frontends.nnadapter.operation_graphs import Network
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.kernels.graph import placing
from npusim.kernels.graph.graph import Graph, Node, call_of
from npusim.kernels.graph.placing import line_of
from npusim.kernels.table import operator
from npusim.nnadapter.cache.compiled import CompiledPiece
from npusim.nnadapter.device_context import Member, reasons
from npusim.nnadapter.hal import device_machines
from npusim.scheduler.partition.pieces import Operation, Piece
from npusim.session.devices import COST, SINGLE, Bench, Task, by_cost, by_order, single

FORCED, IN_FLOAT = "SUBGRAPH_PARTITION_CONFIG", "MIXED_PRECISION_QUANTIZATION_CONFIG"
"""Environment variables, followed by _FILE or _BUFFER, with lines of operators that are forced to the CPU and of those
that compute in floating point."""


@dataclass(frozen=True, slots=True)
class Partition:
    """Operations that are forced to the CPU: the lines of a partition file.

    alone: whether it replaces the lines of the environment instead of adding to them.
    """

    lines: tuple[placing.Forced, ...] = ()
    alone: bool = False

    @classmethod
    def read(cls, path: str | Path) -> Partition:
        """Read a partition file. Raises InvalidParameter for a file with faults."""
        if not isinstance(path, str | Path):
            raise InvalidParameter(f"partition: is {text_of(path)}, must be the path of a file")
        with faults_as(InvalidParameter):
            return cls(placing.read(path))

    @classmethod
    def parse(cls, text: str, name: str = "partition") -> Partition:
        """Parse the text of a partition file, called `name` in messages. Raises InvalidParameter for faults."""
        if not isinstance(text, str):
            raise InvalidParameter(f"{name}: is {text_of(text)}, must be a text")
        with faults_as(InvalidParameter):
            return cls(placing.parse(text, name))

    def forced(self, operators: Sequence[tuple[str, Sequence[str], Sequence[str]]]) -> list[int]:
        """Return the places of operators that a line names; an operator is (type, input names, output names)."""
        return [
            place
            for place, operator_ in enumerate(operators)
            if any(line.takes(*operator_) for line in self.lines)
        ]


Asked = str | Path | Partition | Sequence[str | Path | Partition] | None
"""A mode, a partition file, a `Partition`, or several of these."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How to partition a model.

    mode:     "order", "cost" or "single".
    forced:   lines of operators that must run on a CPU.
    in_float: lines of operators that compute in floating point.
    """

    mode: str
    forced: tuple[placing.Forced, ...]
    in_float: tuple[placing.Forced, ...] = ()


def plan_of(given: Asked, mode: str, in_float: Partition | None = None) -> Plan:
    """Return the partition plan that a user asks for, in `mode` unless `given` names one.

    The lines of the environment are forced as well, unless a given `Partition` is `alone`.

    in_float: operations that are computed in floating point.

    Raises InvalidParameter.
    """
    if in_float is not None and not isinstance(in_float, Partition):
        raise InvalidParameter(f"in_float: is {text_of(in_float)}, must be a Partition")
    kept, environment = in_float or _of_environment(IN_FLOAT), _of_environment(FORCED)
    parts = () if given is None else (given,) if isinstance(given, str | Path | Partition) else given
    forced: list[placing.Forced] = []
    if not isinstance(parts, Sequence):
        raise InvalidParameter(f"partition: is {text_of(given)}, must be a mode, a file or a Partition")
    for part in parts:
        if isinstance(part, str) and part in device_machines.MODES:
            mode = part
        elif isinstance(part, Partition):
            forced += part.lines
        elif isinstance(part, str | Path):
            forced += Partition.read(part).lines
        else:
            raise InvalidParameter(f"partition: is {text_of(part)}, must be a mode, a file or a Partition")
    if environment and not any(isinstance(part, Partition) and part.alone for part in parts):
        forced += environment.lines
    return Plan(mode, tuple(forced), kept.lines if kept else ())


def _of_environment(name: str) -> Partition | None:
    """Return the lines of the file that an environment variable names, or of the text of another; None without them."""
    if path := os.environ.get(f"{name}_FILE"):
        return Partition.read(path)
    text = os.environ.get(f"{name}_BUFFER")
    return Partition.parse(text, f"{name}_BUFFER") if text else None


@dataclass(frozen=True, slots=True)
class Cut:
    """A partitioned model.

    pieces:          in an order in which they can run; the device of a piece is its number in the context.
    forced:          why operations must run on a CPU, by place.
    tries:           how many other partitions the search by cost timed.
    by_order_cycles: the cycles of the partition by order, if it was timed.
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
    """Partition a model for the devices of a context; `bench` makes what times partitions, from the forced operations.

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
    best = by_cost(task, bench(forced))
    return Cut(best.pieces, forced, best.tries, best.by_order_cycles)


def task_of(network: Network, members: Sequence[Member], forced: Collection[int] = ()) -> Task:
    """Return the task of partitioning a model. Raises FeatureNotSupported if no driver can say what it supports.

    An NPU that cannot copy still takes operations that move nothing, such as a reshape, if other operations read their
    results: within a piece nothing is copied. Results for the caller would be.
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
    """Return why operations are forced to a CPU, by place. Warns of a line that names no operation."""
    return _taken(network, plan.forced)


def floating(network: Network, plan: Plan) -> Network:
    """Return the model with operations in floating point as planned. Warns of a line that names no operation."""
    places = _taken(network, plan.in_float)
    return network.with_floats(places) if places else network


def _taken(network: Network, lines: Sequence[placing.Forced]) -> dict[int, str]:
    if not lines:
        return {}
    taken = placing.taken(network.name, uses(network), lines)
    return {place: entry.reason for place, entry in taken.items()}


def uses(network: Network) -> list[placing.Use]:
    """Return the operations as partition files name them; constants count as inputs."""
    return [
        placing.Use(
            step.kind,
            [network.tensor_name(number) for number in step.inputs],
            [network.tensor_name(number) for number in step.outputs],
        )
        for step in network.steps
    ]


def _of_states(network: Network) -> list[list[int]]:
    """Return, per state, the operations that read it or write its next value, which must run on one device."""
    return [
        [
            place
            for place, step in enumerate(network.steps)
            if before in step.inputs or before in step.outputs or after in step.outputs
        ]
        for before, after in network.states
    ]


def _moves_nothing(network: Network, place: int) -> bool:
    """Return whether an operation moves no bytes: its result shares its operand's memory, or is a constant."""
    try:
        graph = network.piece([place]).graph
    except NNAdapterError:
        return False
    return all(_shares(graph, node) for node in graph.nodes)


def _shares(graph: Graph, node: Node) -> bool:
    entry, call = operator(node.op), call_of(graph, node)
    return entry.alias is not None and entry.broken_rule(call) is None and bool(entry.alias(call))


# The log of a partition


def log_text(network: Network, pieces: Sequence[CompiledPiece]) -> str:
    """Return the log of a partition: the operators of a model, and its pieces."""
    return "\n".join(
        [
            "subgraph operators:",
            *(line_of(*use) for use in uses(network)),
            f"subgraph clusters: {len(pieces)}",
            *_dot_lines(network, pieces),
        ]
    )


def _dot_lines(network: Network, pieces: Sequence[CompiledPiece]) -> Iterator[str]:
    """Yield the lines of the drawing: operators as nodes in order, tensors between them as edges."""
    numbers = piece_of(network, pieces)
    yield "digraph G {"
    for place, step in enumerate(network.steps):
        piece = numbers.get(place)
        shown = [f"label={quoted(step.kind)}"]
        if piece is not None:
            colour, device = COLORS[piece % len(COLORS)], pieces[piece].device
            shown += [f"tooltip={quoted(f'{device}, piece {piece}')}", "style=filled", f"fillcolor={colour}"]
        yield f"  node_{place}[{' '.join(shown)}]"
    writer = {tensor: place for place, step in enumerate(network.steps) for tensor in step.outputs}
    for place, step in enumerate(network.steps):
        for giver in dict.fromkeys(writer[tensor] for tensor in step.inputs if tensor in writer):
            yield f"  node_{giver}->node_{place}"
    yield "} // end G"


def piece_of(network: Network, pieces: Sequence[CompiledPiece]) -> dict[int, int]:
    """Return the piece of each operator, by numbers. Pieces contain operators of the same name in order."""
    places: dict[str, list[int]] = {}
    for place, step in enumerate(network.steps):
        places.setdefault(step.name, []).append(place)
    return {places[name].pop(0): number for number, piece in enumerate(pieces) for name in piece.operations}
