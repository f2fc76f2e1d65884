"""Partitioning of a graph with IF and WHILE into an executable.

Each straight-line segment of the graph becomes a program; each IF and WHILE becomes a step between programs. A value
between segments is placed where the program that computes it writes it. The step before a launch copies it to where
the program reads it. An input without a place yet, of the network or carried by a WHILE, gets the place at which the
first program reads it, and needs no copy there. The results of a WHILE are its carried values at the end. Those of an
IF have places of their own, to which both branches copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from npusim.isa.base.errors import GraphError
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.program.executable import Executable, If, Launch, Place, Step, While
from npusim.isa.program.program import Program
from npusim.kernels.graph.check import check_bound
from npusim.kernels.graph.control import IF, body_operands
from npusim.kernels.graph.graph import Graph, Node
from npusim.kernels.graph.unknown import require_known
from npusim.scheduler.partition.windows import Windows


def segments(graph: Graph) -> Iterator[Graph | Node]:
    """Split a graph into its IF and WHILE nodes and the straight-line segments between them, in order.

    A segment is a graph; its tensors keep their numbers. Nodes whose results nobody needs are dropped. Raises
    GraphError for a state that one segment reads and another one updates.
    """
    groups = [tuple(group) for _, group in groupby(graph.nodes, key=lambda node: bool(node.bodies))]
    needed = {*graph.outputs, *(state.after for state in graph.states)}
    wanted: list[set[int]] = []
    for group in reversed(groups):
        wanted.insert(0, set(needed))
        needed |= _read(group)
    for group, outside in zip(groups, wanted, strict=True):
        if group[0].bodies:
            yield from group
        elif inside := _segment(graph, group, outside):
            yield inside


def _read(nodes: Sequence[Node]) -> set[int]:
    return {number for node in nodes for number in node.inputs if number is not None}


def _segment(graph: Graph, nodes: tuple[Node, ...], outside: set[int]) -> Graph | None:
    """Return nodes as a graph whose outputs are the tensors that are needed outside; None if none is needed."""
    written = [number for node in nodes for number in node.outputs]
    states = tuple(state for state in graph.states if state.after in written)
    read = _read(nodes) - set(written)
    for state in graph.states:
        if (state.before in read) != (state in states):
            name = graph.tensors[state.before].name
            raise GraphError(
                f'{graph.name}: state "{name}" is read on one side of a layer that decides, and updated on the other'
            )
    results = tuple(
        number for number in written if number in outside and number not in {s.after for s in states}
    )
    if not results and not states:
        return None
    kept = {state.before for state in states}
    inputs = sorted(number for number in read - kept if not graph.tensors[number].constant)
    return Graph(graph.name, graph.tensors, nodes, tuple(inputs), results or (states[0].after,), states)


Places = dict[int, Place]
"""The places of the tensors of a graph, by number."""


def partition(graph: Graph, hardware: Hardware, compiled: Callable[[Graph], Program]) -> Executable:
    """Return the executable of a bound graph for one core.

    compiled: compiles a straight-line segment to a program.
    Raises GraphError for a graph that is not well formed, for operators that npusim does not have, and for a state that
    is read and updated in different segments. Also raises whatever `compiled` raises.
    """
    windows = Windows(hardware)
    parts = _Partition(windows, compiled)
    check_bound(graph)
    require_known(graph)
    places: Places = {}
    steps = parts.take(graph, graph.name, places)
    inputs, outputs = (
        tuple(parts.place(graph, number, places) for number in ends) for ends in (graph.inputs, graph.outputs)
    )
    return Executable(
        graph.name,
        hardware,
        tuple(windows.programs),
        steps,
        inputs,
        outputs,
        windows.states(),
        bytes(windows.values),
        graph.notes,
    )


@dataclass
class _Partition:
    """The builder of an executable's steps: the programs so far, and the compiler."""

    windows: Windows
    compiled: Callable[[Graph], Program]

    def take(self, graph: Graph, name: str, places: Places) -> tuple[Step, ...]:
        """Return the steps of a graph.

        places: the places of its inputs; those of results, and of inputs that had none, are added.
        """
        steps: list[Step] = []
        for number, part in enumerate(segments(graph)):
            if isinstance(part, Graph):
                steps += self._program(replace(part, name=f"{name}/{number}"), places)
            elif part.op == IF:
                steps += self._if(graph, part, f"{name}/{part.name}", places)
            else:
                steps += self._while(graph, part, f"{name}/{part.name}", places)
        return tuple(steps)

    def place(self, graph: Graph, number: int, places: Places) -> Place:
        """Return the place of a tensor, allocating one for a constant or an input that no program reads."""
        if number not in places:
            places[number] = self.windows.own(graph.tensors[number])
        return places[number]

    def _program(self, segment: Graph, places: Places) -> list[Step]:
        """Compile a segment, and return the steps that copy its inputs and launch it."""
        program, window = self.compiled(segment), len(self.windows.programs)
        self.windows.programs.append(program)
        moves = []
        for number, read in zip(segment.inputs, program.inputs, strict=True):
            if number in places:
                moves.append((places[number], Place(window, read)))
            else:
                places[number] = Place(window, read)
        for number, written in zip(segment.outputs, program.outputs, strict=True):
            places[number] = Place(window, written)
        return [
            *self.windows.transfers(f"{segment.name}/operands", moves),
            *([Launch(window)] if program.instructions else []),
        ]

    def _if(self, graph: Graph, node: Node, name: str, places: Places) -> list[Step]:
        operands = [self.place(graph, number, places) for number in node.inputs if number is not None]
        results = [self.windows.own(graph.tensors[number]) for number in node.outputs]
        branches: list[tuple[Step, ...]] = []
        for word, body in zip(("then", "otherwise"), node.bodies, strict=True):
            inside = dict(zip(body.inputs, operands[1:], strict=True))
            steps = self.take(body, f"{name}/{word}", inside)
            moves = [
                (self.place(body, end, inside), result)
                for end, result in zip(body.outputs, results, strict=True)
            ]
            branches.append((*steps, *self.windows.transfers(f"{name}/{word}/results", moves)))
        places.update(zip(node.outputs, results, strict=True))
        then, otherwise = branches
        return [If(name, operands[0], then, otherwise)]

    def _while(self, graph: Graph, node: Node, name: str, places: Places) -> list[Step]:
        """Return the steps of a WHILE.

        Carried values are placed where the test reads them, else where the body does, else in the executable's own
        window.
        """
        operands = [self.place(graph, number, places) for number in body_operands(node) if number is not None]
        test, turn = node.bodies
        tested: Places = {}
        testing = self.take(test, f"{name}/test", tested)
        inside = {
            mine: tested[theirs]
            for mine, theirs in zip(turn.inputs, test.inputs, strict=True)
            if theirs in tested
        }
        turning = self.take(turn, f"{name}/turn", inside)
        carried = [self.place(turn, number, inside) for number in turn.inputs]
        tested.update(zip(test.inputs, carried, strict=True))
        results = [self.place(turn, number, inside) for number in turn.outputs]
        condition = self.place(test, test.outputs[0], tested)
        places.update(zip(node.outputs, carried, strict=True))
        return [
            *self.windows.transfers(f"{name}/operands", list(zip(operands, carried, strict=True))),
            While(
                name,
                testing,
                condition,
                (
                    *turning,
                    *self.windows.transfers(f"{name}/turn/results", list(zip(results, carried, strict=True))),
                ),
            ),
        ]
