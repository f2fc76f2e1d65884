"""Drawings of models in the DOT language of graphviz.

Operations are yellow boxes with their names. Operands are nodes with their shape, or with their value if they are
constants of one element. Edges are labelled `index:argument`, tooltips show names and types.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from npusim.frontends.nnadapter import operation_table
from npusim.frontends.nnadapter.operand import Operand, Operation
from npusim.isa.base.errors import printable
from npusim.isa.base.tensor import Array
from npusim.kernels.graph.control import body_names
from npusim.kernels.graph.graph import UNRANKED, Graph, Node

COLORS = ("yellow", "lightskyblue", "palegreen", "lightsalmon", "plum", "khaki", "lightgray", "paleturquoise")
"""Colours of operations by device, repeated if there are more devices."""


class _Operand(NamedTuple):
    number: int
    label: str
    tooltip: str


class _Operation(NamedTuple):
    """An operation in a drawing; inputs and outputs are operands by number, with the names of the arguments."""

    number: int
    label: str
    tooltip: str
    inputs: Sequence[tuple[int, str]]
    outputs: Sequence[tuple[int, str]]


def of_operations(
    name: str,
    operands: Iterable[Operand],
    operations: Sequence[Operation],
    devices: Mapping[int, str] | None = None,
) -> str:
    """Return the DOT text of a model built by calls, finished or not.

    operands: the operands to draw.
    devices:  the device of each operation by number; it colours the operation and is written below its name.
    """
    lines = _lines("", map(_of_operand, operands), map(_of_operation, operations), devices or {})
    return _text(name, lines)


def of_graph(graph: Graph, devices: Mapping[int, str] | None = None) -> str:
    """Return the DOT text of a graph that another front end read; bodies of control flow are drawn in frames.

    devices: as in `of_operations`.
    """
    return _text(graph.name, _graph_lines("", graph, devices or {}))


def _text(name: str, lines: Iterable[str]) -> str:
    return "\n".join((f"digraph {quoted(name)} {{", *(f"  {line}" for line in lines), "}\n"))


def _lines(
    prefix: str, operands: Iterable[_Operand], operations: Iterable[_Operation], devices: Mapping[int, str]
) -> Iterator[str]:
    """Yield the lines of a drawing; `prefix` makes the names of its nodes unique among several graphs of one text."""
    colors = dict(zip(dict.fromkeys(devices.values()), COLORS * len(devices), strict=False))
    for operand in operands:
        name = f"{prefix}operand_{operand.number}"
        yield f"{name} [label={quoted(operand.label)}, tooltip={quoted(operand.tooltip)}];"
    for operation in operations:
        name = f"{prefix}operation_{operation.number}"
        device = devices.get(operation.number)
        label = operation.label if device is None else f"{operation.label}\n{device}"
        color = COLORS[0] if device is None else colors[device]
        yield (
            f"{name} [label={quoted(label)}, shape=box, style=filled, fillcolor={color}, "
            f"tooltip={quoted(operation.tooltip)}];"
        )
        for index, (number, argument) in enumerate(operation.inputs):
            if number >= 0:
                yield f"{prefix}operand_{number} -> {name} [label={quoted(f'{index}:{argument}')}];"
        for index, (number, argument) in enumerate(operation.outputs):
            yield f"{name} -> {prefix}operand_{number} [label={quoted(f'{index}:{argument}')}];"


def quoted(text: str) -> str:
    """Return a quoted DOT string, with quotes and backslashes escaped and lines separated by backslash n."""
    lines = [printable(line).replace("\\", "\\\\").replace('"', '\\"') for line in text.split("\n")]
    return '"' + "\\n".join(lines) + '"'


def _shape(sizes: Sequence[int]) -> str:
    if tuple(sizes) == UNRANKED:
        return "[...]"
    return f"[{', '.join('?' if size < 0 else str(size) for size in sizes)}]"


def _value_or(constant: Array | None, shape: str) -> str:
    """Return the value of a constant of one element, otherwise the shape."""
    return str(constant.reshape(-1)[0]) if constant is not None and constant.size == 1 else shape


def _of_operand(operand: Operand) -> _Operand:
    label = _value_or(operand.buffer, _shape(operand.type.shape))
    return _Operand(operand.index, label, f"{operand.name}: {operand.type.words()}")


def _of_operation(operation: Operation) -> _Operation:
    row = operation_table.row(operation.type).signature
    read = [-1 if operand is None else operand.index for operand in operation.input_operands]
    written = [operand.index for operand in operation.output_operands]
    inputs, outputs = (
        _named([(end.name, bool(end.repeats)) for end in ends], numbers)
        for ends, numbers in ((row.inputs, read), (row.outputs, written))
    )
    return _Operation(operation.index, operation.type.name, operation.name, inputs, outputs)


def _named(ends: Sequence[tuple[str, bool]], numbers: Sequence[int]) -> list[tuple[int, str]]:
    """Pair operands with the names of a signature, of which a repeated one stands for several operands."""
    several = len(numbers) - len(ends) + 1
    names: list[str] = []
    for name, repeats in ends:
        names += [f"{name.removesuffix('s')}{number}" for number in range(several)] if repeats else [name]
    return list(zip(numbers, names, strict=False))


def _ends_of(node: Node) -> list[tuple[str, bool]]:
    """Return argument names for a node: those of an NNAdapter operation with its operator, or "input" for each."""
    for row in operation_table.OPERATIONS:
        if node.op in row.operators:
            ends = [(end.name, bool(end.repeats)) for end in row.signature.inputs if not end.kind]
            if len(node.inputs) <= len(ends) or any(repeats for _, repeats in ends):
                return ends
    return [("input", False)] * len(node.inputs)


def _graph_lines(prefix: str, graph: Graph, devices: Mapping[int, str]) -> Iterator[str]:
    taken = {number for node in graph.nodes for number in (*node.inputs, *node.outputs)}
    taken |= {*graph.inputs, *graph.outputs}
    operands = (
        _Operand(
            number,
            _value_or(tensor.array, _shape(tensor.type.shape)),
            f"{tensor.name}: {tensor.type.dtype}{_shape(tensor.type.shape)}",
        )
        for number, tensor in enumerate(graph.tensors)
        if number in taken
    )
    operations = (
        _Operation(
            number,
            node.op,
            node.name,
            _named(_ends_of(node), [-1 if end is None else end for end in node.inputs]),
            [(end, "output") for end in node.outputs],
        )
        for number, node in enumerate(graph.nodes)
    )
    yield from _lines(prefix, operands, operations, devices)
    for number, node in enumerate(graph.nodes):
        for word, body in zip(body_names(node.op), node.bodies, strict=True):
            inside = f"{prefix}operation_{number}_{word}_"
            yield f"subgraph cluster_{inside} {{"
            yield f"  label={quoted(f'{node.name}: {word}')};"
            yield from (f"  {line}" for line in _graph_lines(inside, body, {}))
            yield "}"
