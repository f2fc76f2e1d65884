"""Rules of graphs: which operands its operations read and write, and how IF and WHILE refer to graphs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from npusim.frontends.nn_hal.checked import CheckedGraph, CheckedModel, CheckedOperand, CheckedOperation
from npusim.frontends.nn_hal.enumerations import OperandLifeTime, OperandType, OperationType
from npusim.frontends.nn_hal.fault import Fault, Rule

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


# References to graphs, and the operations that execute them


def subgraph_operands(_: CheckedModel, graph: CheckedGraph) -> Iterator[Fault]:
    """Type SUBGRAPH and lifetime SUBGRAPH go together."""
    for operand in graph.operands:
        if (operand.type is OperandType.SUBGRAPH) is not _refers(operand):
            yield Fault(
                f"{operand.place}.lifetime",
                f"is {operand.lifetime.name} for type {operand.type.name}; SUBGRAPH must be both or neither",
            )


def references(model: CheckedModel, graph: CheckedGraph) -> Iterator[Fault]:
    """The location of a SUBGRAPH operand is (0, index of a referenced graph, 0)."""
    for operand in graph.operands:
        if _refers(operand):
            where, count = operand.location, len(model.referenced)
            if where.pool or where.length:
                yield Fault(f"{operand.place}.location", "must be (0, index of a referenced graph, 0)")
            if where.offset >= count:
                text = f"is {where.offset}, there are {count} referenced graphs"
                yield Fault(f"{operand.place}.location.offset", text)


def no_graph_in_itself(model: CheckedModel, graph: CheckedGraph) -> Iterator[Fault]:
    """No graph refers to itself, directly or not."""
    to_visit, seen = [graph], set[int]()
    while to_visit:
        for operand in to_visit.pop().operands:
            if _refers(operand) and operand.graph not in seen:
                seen.add(operand.graph)
                to_visit.append(model.referenced[operand.graph])
                if to_visit[-1] is graph:
                    text = f"refers to {graph.place}, which must not execute itself"
                    yield Fault(graph.place, f"{operand.place} {text}")


def control_flow(model: CheckedModel, graph: CheckedGraph) -> Iterator[Fault]:
    """The condition of IF and WHILE is a TENSOR_BOOL8 of one element; their operands have values, and agree with the
    inputs and outputs of the graphs that they execute in number, type, scale and zero point, and in size where both are
    known."""
    for operation in graph.operations:
        if operation.type in (OperationType.IF, OperationType.WHILE):
            yield from _without_value(graph, operation)
        if operation.type is OperationType.IF:
            yield from _if(model, graph, operation)
        elif operation.type is OperationType.WHILE:
            yield from _while(model, graph, operation)


def _without_value(graph: CheckedGraph, operation: CheckedOperation) -> Iterator[Fault]:
    for number, index in enumerate(operation.inputs):
        if not graph.operands[index].has_value:
            text = f"operands[{index}] has no value, which this argument must have"
            yield Fault(f"{operation.place}.inputs[{number}]", text, "L6")


def _if(model: CheckedModel, graph: CheckedGraph, operation: CheckedOperation) -> Iterator[Fault]:
    inputs, outputs = _operands_of(graph, operation.inputs), _operands_of(graph, operation.outputs)
    if len(inputs) < 3 or not outputs:
        yield Fault(operation.place, "must have a condition, two graphs and an output")
        return
    if not _is_truth(inputs[0]):
        yield Fault(f"{operation.place}.inputs[0]", "must be a TENSOR_BOOL8 of one element")
    for number in (1, 2):
        place = f"{operation.place}.inputs[{number}]"
        if not _refers(inputs[number]):
            yield Fault(place, "must be a SUBGRAPH")
            continue
        branch = model.referenced[inputs[number].graph]
        yield from _agree(
            f"{place}: inputs of {branch.place}", inputs[3:], _operands_of(branch, branch.inputs)
        )
        yield from _agree(
            f"{place}: outputs of {branch.place}", outputs, _operands_of(branch, branch.outputs)
        )


def _while(model: CheckedModel, graph: CheckedGraph, operation: CheckedOperation) -> Iterator[Fault]:
    inputs, outputs = _operands_of(graph, operation.inputs), _operands_of(graph, operation.outputs)
    if len(inputs) < 3 or not outputs:
        yield Fault(operation.place, "must have two graphs, a value to begin with and an output")
        return
    for number in (0, 1):
        if not _refers(inputs[number]):
            yield Fault(f"{operation.place}.inputs[{number}]", "must be a SUBGRAPH")
            return
    condition, body = (model.referenced[inputs[number].graph] for number in (0, 1))
    values, place = inputs[2:], f"{operation.place}.inputs"
    truths = _operands_of(condition, condition.outputs)
    if len(truths) != 1 or not _is_truth(truths[0]):
        yield Fault(f"{place}[0]", f"{condition.place} must have one output, a TENSOR_BOOL8 of one element")
    yield from _agree(
        f"{place}[0]: inputs of {condition.place}", values, _operands_of(condition, condition.inputs)
    )
    yield from _agree(f"{place}[1]: inputs of {body.place}", values, _operands_of(body, body.inputs))
    results = _operands_of(body, body.outputs)
    if not len(outputs) <= len(results) <= len(values):
        text = f"{body.place} has {len(results)} outputs, must have {len(outputs)}..{len(values)}"
        yield Fault(f"{place}[1]", text)
        return
    yield from _agree(f"{place}[1]: outputs of {body.place}", values[: len(results)], results)
    yield from _agree(f"{operation.place}.outputs", results[: len(outputs)], outputs)


def _agree(
    place: str, expected: Sequence[CheckedOperand], given: Sequence[CheckedOperand]
) -> Iterator[Fault]:
    if len(given) != len(expected):
        yield Fault(place, f"are {len(given)}, must be {len(expected)}")
        return
    for a, b in zip(expected, given, strict=True):
        if (a.type, a.scale, a.zero_point, a.channels) != (b.type, b.scale, b.zero_point, b.channels):
            yield Fault(place, f"{b.place} is {_described(b)}, {a.place} is {_described(a)}; they must agree")
        elif not _fit(a, b):
            sizes = f"{list(b.dimensions or ())}, {a.place} {list(a.dimensions or ())}"
            yield Fault(place, f"{b.place} has dimensions {sizes}; they must agree")


def _fit(a: CheckedOperand, b: CheckedOperand) -> bool:
    """Return True if the dimensions are equal as far as both are known."""
    if a.dimensions is None or b.dimensions is None:
        return True
    pairs = zip(a.dimensions, b.dimensions, strict=False)
    return len(a.dimensions) == len(b.dimensions) and all(i == j or not (i and j) for i, j in pairs)


def _described(operand: CheckedOperand) -> str:
    return f"{operand.type.name} scale {operand.scale:g} zeroPoint {operand.zero_point}"


def _is_truth(operand: CheckedOperand) -> bool:
    """Return True if it is a condition; its size may be open."""
    sizes = operand.dimensions
    return (
        operand.type is OperandType.TENSOR_BOOL8 and operand.has_value and (sizes is None or max(sizes) <= 1)
    )


def _refers(operand: CheckedOperand) -> bool:
    return operand.lifetime is OperandLifeTime.SUBGRAPH


def _operands_of(graph: CheckedGraph, indexes: Sequence[int]) -> list[CheckedOperand]:
    return [graph.operands[index] for index in indexes]


REFERENCES: tuple[Rule, ...] = (
    Rule(("S1",), subgraph_operands),
    Rule(("S2",), references),
    Rule(("S3",), no_graph_in_itself),
)
"""In this order: later ones count on references leading somewhere."""

CONTROL_FLOW: tuple[Rule, ...] = (Rule(("S5", "L6"), control_flow),)
"""Checked after the rules of references and of graphs."""
