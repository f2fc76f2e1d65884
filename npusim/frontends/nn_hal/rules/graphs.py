"""Rules of how operands and operations of a graph hang together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from npusim.frontends.nn_hal.checked import CheckedGraph, CheckedModel
from npusim.frontends.nn_hal.enumerations import OperandLifeTime
from npusim.frontends.nn_hal.fault import Fault
from npusim.frontends.nn_hal.rules.rule import Rule

_Life = OperandLifeTime
_NEVER_WRITTEN = {
    _Life.MODEL_INPUT: "L2",
    _Life.CONSTANT_COPY: "L4",
    _Life.CONSTANT_REFERENCE: "L5",
    _Life.NO_VALUE: "L6a",
    _Life.SUBGRAPH: "S1",
}
_WRITTEN_ONCE = {_Life.TEMPORARY_VARIABLE: "L1", _Life.MODEL_OUTPUT: "L3"}


def ends_are_there(_: CheckedModel, graph: CheckedGraph) -> Iterator[Fault]:
    """A graph has at least one input index and one output index."""
    for name, indexes in _ends(graph):
        if not indexes:
            yield Fault(_place(graph, name), "is empty, must have at least one index")


def ends_are_operands(_: CheckedModel, graph: CheckedGraph) -> Iterator[Fault]:
    """Each input or output index of a graph is the index of an operand, and no index occurs twice in a list."""
    for name, indexes in _ends(graph):
        seen: set[int] = set()
        for number, index in enumerate(indexes):
            place = _place(graph, f"{name}[{number}]")
            if index >= len(graph.operands):
                yield Fault(place, f"is {index}, there are {len(graph.operands)} operands", "M2")
            elif index in seen:
                yield Fault(place, f"is {index} again, each index must occur once", "M4")
            seen.add(index)


def ends_are_of_their_lifetime(_: CheckedModel, graph: CheckedGraph) -> Iterator[Fault]:
    """The operands listed are exactly those of lifetime MODEL_INPUT, MODEL_OUTPUT."""
    for (name, indexes), lifetime in zip(_ends(graph), (_Life.MODEL_INPUT, _Life.MODEL_OUTPUT), strict=True):
        for number, index in enumerate(indexes):
            if index < len(graph.operands) and graph.operands[index].lifetime is not lifetime:
                text = f"is {index}, a {graph.operands[index].lifetime.name}; must be a {lifetime.name}"
                yield Fault(_place(graph, f"{name}[{number}]"), text, "M3")
        listed = set(indexes)
        for operand in graph.operands:
            if operand.lifetime is lifetime and operand.index not in listed:
                yield Fault(
                    operand.place, f"is a {lifetime.name}, must be listed in {_place(graph, name)}", "M5"
                )


def ends_are_apart(_: CheckedModel, graph: CheckedGraph) -> Iterator[Fault]:
    """No operand is both input and output of its graph."""
    inputs = set(graph.inputs)
    for number, index in enumerate(graph.outputs):
        if index in inputs:
            yield Fault(
                _place(graph, f"outputIndexes[{number}]"), f"is {index}, which is an input of the graph too"
            )


def indexes_of_operations(_: CheckedModel, graph: CheckedGraph) -> Iterator[Fault]:
    """The inputs and outputs of an operation are indexes of operands."""
    for operation in graph.operations:
        for name, indexes in (("inputs", operation.inputs), ("outputs", operation.outputs)):
            for number, index in enumerate(indexes):
                if index >= len(graph.operands):
                    text = f"is {index}, there are {len(graph.operands)} operands"
                    yield Fault(f"{operation.place}.{name}[{number}]", text)


def writers(_: CheckedModel, graph: CheckedGraph) -> Iterator[Fault]:
    """A TEMPORARY_VARIABLE and a MODEL_OUTPUT are output of exactly one operation; a MODEL_INPUT, CONSTANT_COPY,
    CONSTANT_REFERENCE, NO_VALUE operand of none."""
    times = Counter(index for operation in graph.operations for index in operation.outputs)
    for operand in graph.operands:
        lifetime, written = operand.lifetime, times[operand.index]
        if written != 1 and lifetime in _WRITTEN_ONCE:
            text = f"is output of {written} operations, a {lifetime.name} must be of exactly one"
            yield Fault(operand.place, text, _WRITTEN_ONCE[lifetime])
        elif written and lifetime in _NEVER_WRITTEN:
            text = f"is output of an operation, a {lifetime.name} must be of none"
            yield Fault(operand.place, text, _NEVER_WRITTEN[lifetime])


def consumers(_: CheckedModel, graph: CheckedGraph) -> Iterator[Fault]:
    """numberOfConsumers is how often the operand appears among the inputs of the graph's operations."""
    times = Counter(index for operation in graph.operations for index in operation.inputs)
    for operand in graph.operands:
        if operand.consumers != times[operand.index]:
            text = f"is {operand.consumers}, must be {times[operand.index]}"
            yield Fault(f"{operand.place}.numberOfConsumers", text)


def execution_order(_: CheckedModel, graph: CheckedGraph) -> Iterator[Fault]:
    """Operations stand in execution order: nothing is read before it is written, hence no cycle."""
    written: set[int] = set()
    for operation in graph.operations:
        for number, index in enumerate(operation.inputs):
            if graph.operands[index].lifetime in _WRITTEN_ONCE and index not in written:
                text = f"is {index}, which no operation before this one writes"
                yield Fault(f"{operation.place}.inputs[{number}]", text)
        written.update(operation.outputs)


def _ends(graph: CheckedGraph) -> tuple[tuple[str, tuple[int, ...]], ...]:
    return (("inputIndexes", graph.inputs), ("outputIndexes", graph.outputs))


def _place(graph: CheckedGraph, name: str) -> str:
    return f"{graph.place}.{name}" if graph.place else name


RULES: tuple[Rule, ...] = (
    Rule(("M1",), ends_are_there),
    Rule(("M2", "M4"), ends_are_operands),
    Rule(("L7",), ends_are_apart),
    Rule(("M3", "M5"), ends_are_of_their_lifetime),
    Rule(("O1",), indexes_of_operations),
    Rule(("L1", "L2", "L3", "L4", "L5", "L6a"), writers),
    Rule(("C1",), consumers),
    Rule(("O2",), execution_order),
)
"""In this order: later ones count on indexes being those of operands."""
