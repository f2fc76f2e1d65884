"""Rules of references to graphs, and of the operations that execute them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from npusim.frontends.nn_hal.checked import CheckedGraph, CheckedModel, CheckedOperand, CheckedOperation
from npusim.frontends.nn_hal.enumerations import OperandLifeTime, OperandType, OperationType
from npusim.frontends.nn_hal.fault import Fault
from npusim.frontends.nn_hal.rules.rule import Rule


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
    inputs, outputs = _operands(graph, operation.inputs), _operands(graph, operation.outputs)
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
        yield from _agree(f"{place}: inputs of {branch.place}", inputs[3:], _operands(branch, branch.inputs))
        yield from _agree(f"{place}: outputs of {branch.place}", outputs, _operands(branch, branch.outputs))


def _while(model: CheckedModel, graph: CheckedGraph, operation: CheckedOperation) -> Iterator[Fault]:
    inputs, outputs = _operands(graph, operation.inputs), _operands(graph, operation.outputs)
    if len(inputs) < 3 or not outputs:
        yield Fault(operation.place, "must have two graphs, a value to begin with and an output")
        return
    for number in (0, 1):
        if not _refers(inputs[number]):
            yield Fault(f"{operation.place}.inputs[{number}]", "must be a SUBGRAPH")
            return
    condition, body = (model.referenced[inputs[number].graph] for number in (0, 1))
    values, place = inputs[2:], f"{operation.place}.inputs"
    truths = _operands(condition, condition.outputs)
    if len(truths) != 1 or not _is_truth(truths[0]):
        yield Fault(f"{place}[0]", f"{condition.place} must have one output, a TENSOR_BOOL8 of one element")
    yield from _agree(
        f"{place}[0]: inputs of {condition.place}", values, _operands(condition, condition.inputs)
    )
    yield from _agree(f"{place}[1]: inputs of {body.place}", values, _operands(body, body.inputs))
    results = _operands(body, body.outputs)
    if not len(outputs) <= len(results) <= len(values):
        text = f"{body.place} has {len(results)} outputs, must have {len(outputs)}..{len(values)}"
        yield Fault(f"{place}[1]", text)
        return
    yield from _agree(f"{place}[1]: outputs of {body.place}", values[: len(results)], results)
    yield from _agree(f"{operation.place}.outputs", results[: len(outputs)], outputs)


def _agree(
    place: str, expected: Sequence[CheckedOperand], found: Sequence[CheckedOperand]
) -> Iterator[Fault]:
    if len(found) != len(expected):
        yield Fault(place, f"are {len(found)}, must be {len(expected)}")
        return
    for a, b in zip(expected, found, strict=True):
        if (a.type, a.scale, a.zero_point, a.channels) != (b.type, b.scale, b.zero_point, b.channels):
            yield Fault(place, f"{b.place} is {_described(b)}, {a.place} is {_described(a)}; they must agree")
        elif not _fit(a, b):
            sizes = f"{list(b.dimensions or ())}, {a.place} {list(a.dimensions or ())}"
            yield Fault(place, f"{b.place} has dimensions {sizes}; they must agree")


def _fit(a: CheckedOperand, b: CheckedOperand) -> bool:
    """Whether the dimensions are equal as far as both are known."""
    if a.dimensions is None or b.dimensions is None:
        return True
    pairs = zip(a.dimensions, b.dimensions, strict=False)
    return len(a.dimensions) == len(b.dimensions) and all(i == j or not (i and j) for i, j in pairs)


def _described(operand: CheckedOperand) -> str:
    return f"{operand.type.name} scale {operand.scale:g} zeroPoint {operand.zero_point}"


def _is_truth(operand: CheckedOperand) -> bool:
    """Whether it is a condition; its size may be open."""
    sizes = operand.dimensions
    return (
        operand.type is OperandType.TENSOR_BOOL8 and operand.has_value and (sizes is None or max(sizes) <= 1)
    )


def _refers(operand: CheckedOperand) -> bool:
    return operand.lifetime is OperandLifeTime.SUBGRAPH


def _operands(graph: CheckedGraph, indexes: Sequence[int]) -> list[CheckedOperand]:
    return [graph.operands[index] for index in indexes]


REFERENCES: tuple[Rule, ...] = (
    Rule(("S1",), subgraph_operands),
    Rule(("S2",), references),
    Rule(("S3",), no_graph_in_itself),
)
"""In this order: later ones count on references leading somewhere."""

RULES: tuple[Rule, ...] = (Rule(("S5", "L6"), control_flow),)
"""Behind the rules of references and of graphs."""
