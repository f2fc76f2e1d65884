"""Networks of Paddle programs, blocks of operators that read and write variables, and the table of operators."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field, replace
from itertools import chain
from pathlib import Path
from typing import Any

from npusim.frontends.forms.networks import PADDLE, STANDARD, Network, Node, Value
from npusim.frontends.forms.node_rows import Row, registered
from npusim.frontends.forms.signatures import arguments
from npusim.frontends.paddle.operations import paddle_axes, paddle_images, paddle_moves
from npusim.frontends.paddle.paddle_file import (
    ATTRIBUTES,
    DENSE_TENSOR,
    ELEMENTS,
    SCALARS,
    messages,
    parameters,
)
from npusim.frontends.paddle.written_out import WHOLE, WRITTEN_OUT, Operation, quantize_factors
from npusim.isa.base import user_file
from npusim.isa.base.errors import FormatError
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.tensor import Array
from npusim.kernels.graph.graph import quoted

_MODULES = (paddle_axes, paddle_images, paddle_moves)

ROWS: tuple[Row, ...] = tuple(
    sorted((row for each in _MODULES for row in each.ROWS), key=lambda row: row.name)
)
"""All rows, sorted by name."""

_BY_NAME = {row.name: row for row in ROWS}


def row(name: str) -> Row | None:
    """Return the row of an operator, or of one that the user registered as "paddle.NAME"; None if there is none."""
    return _BY_NAME.get(name) or registered(PADDLE, name)


_CONTROL = ("while", "conditional_block", "conditional_block_infer", "recurrent", "pylayer")


def network_of(path: Path) -> Network:
    """Return the network of a program file with its parameters. Raises FormatError or GraphError."""
    program = messages()["ProgramDesc"]()
    data = user_file.contents(path, user_file.MODEL, FormatError, "")
    try:
        program.ParseFromString(data)
    except Exception as fault:  # protobuf has several errors of its own
        raise FormatError(f"is no Paddle model: {' '.join(str(fault).split())[:120]}") from None
    if not program.blocks or not program.blocks[0].ops:
        raise FormatError("is no Paddle model: its program has no block with operators")
    if any(isinstance(text, bytes) for text in _texts(program.blocks[0])):  # protobuf's form of no UTF-8
        raise FormatError("is damaged: a name in it is no UTF-8 text")
    return _Program(path, program).network()


def _texts(block: Any) -> Iterator[Any]:
    """Yield all names of a block."""
    yield from (variable.name for variable in block.vars)
    for operator in block.ops:
        yield from (operator.type, *(attribute.name for attribute in operator.attrs))
        for slot in (*operator.inputs, *operator.outputs):
            yield from (slot.parameter, *slot.arguments)


@dataclass(slots=True)
class _Program:
    """The main block of a program, while it becomes a network.

    variables: the declarations by name.
    current: the value that a variable has at this point; operators may write a variable again.
    taken: all names of values so far.
    whole: values that are integers, the results of `fake_quantize_*`.
    """

    path: Path
    program: Any
    variables: dict[str, Any] = field(default_factory=dict)
    current: dict[str, str] = field(default_factory=dict)
    constants: dict[str, Array] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    foreign: dict[str, Value] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)
    whole: set[str] = field(default_factory=set)

    def network(self) -> Network:
        """Return the network."""
        block = self.program.blocks[0]
        self.variables = {variable.name: variable for variable in block.vars}
        operations = [self._operation(operator, number) for number, operator in enumerate(block.ops)]
        ends = [operation for operation in operations if operation.type in ("feed", "fetch")]
        ends.sort(key=lambda end: end.whole("col", 0))
        fed = [name for end in ends if end.type == "feed" for name in end.outputs.get("Out", ())]
        fetched = [name for end in ends if end.type == "fetch" for name in end.inputs.get("X", ())]
        if not fetched:
            raise FormatError("has no operator fetch, so nothing is a result; save it for inference")
        read = {name for operation in operations for names in operation.inputs.values() for name in names}
        if unknown := sorted(read - set(self.variables)):
            raise FormatError(f"variable {quoted(unknown[0])} is read and not declared in the block")
        kept = [var.name for var in block.vars if var.persistable and var.type.type == DENSE_TENSOR]
        self.constants |= parameters(self.path, [name for name in kept if name not in fed])
        self.taken = {*self.constants, *fed}
        for operation in operations:
            if operation.type not in ("feed", "fetch"):
                self._add(operation)
        inputs = tuple([self._value(name, name) for name in fed])
        outputs = tuple([self.current.get(name, name) for name in fetched])
        versions = {PADDLE: int(self.program.version.version), STANDARD: 21}
        nodes = tuple(self.nodes)
        return Network(self.path.stem, nodes, self.constants, inputs, outputs, versions, foreign=self.foreign)

    def _operation(self, operator: Any, number: int) -> Operation:
        if operator.type in _CONTROL:
            raise FormatError(
                f"operator {number} ({operator.type}) runs another block; npusim has straight programs: export the "
                "model with fixed sizes"
            )
        inputs, outputs = (
            {slot.parameter: tuple(slot.arguments) for slot in slots if slot.arguments}
            for slots in (operator.inputs, operator.outputs)
        )
        main = [outputs[slot][0] for slot in (*("Out", "Output", "Y"), *outputs) if slot in outputs]
        name, attributes = (*main, f"{operator.type}_{number}")[0], dict(map(_attribute, operator.attrs))
        return Operation(operator.type, name, inputs, outputs, attributes, self.constants)

    def _add(self, source: Operation) -> None:
        """Add the nodes of an operator, on the values that its variables have at this point."""
        current, entry = self.current, row(source.type)
        inputs = {
            slot: tuple([current.get(name, name) for name in names]) for slot, names in source.inputs.items()
        }
        outputs = {slot: tuple(map(self._fresh, names)) for slot, names in source.outputs.items()}
        operation = replace(source, inputs=inputs, outputs=outputs)
        if operation.type in WRITTEN_OUT:
            WRITTEN_OUT[operation.type](operation)
            self.whole |= set(outputs.get("Out", ()) if operation.type.startswith(WHOLE) else ())
        else:
            quantize_factors(operation, self.whole)
            operation.nodes.append(_node(operation, entry))
        read, wrote = (tuple(chain.from_iterable(one.values())) for one in (source.inputs, source.outputs))
        self.nodes += [replace(node, written=(source.type, read, wrote)) for node in operation.nodes]
        written = {name for node in operation.nodes for name in node.outputs}
        for slot, names in source.outputs.items():
            # Statistics and scales for further training are outputs too; without a node they keep their values.
            pairs = [pair for pair in zip(names, outputs[slot], strict=True) if pair[1] in written]
            current |= dict(pairs)
            if entry is None:
                self.foreign |= {value: self._value(value, name) for name, value in pairs}

    def _fresh(self, name: str) -> str:
        """Return a new name for a value of a variable."""
        fresh, count = name, 1
        while fresh in self.taken:
            count += 1
            fresh = f"{name}@{count}"
        self.taken.add(fresh)
        return fresh

    def _value(self, value: str, name: str) -> Value:
        """Return what a variable declares of a value: element type and sizes, open ones below 0."""
        variable = self.variables.get(name)
        if variable is None or not variable.type.HasField("dense_tensor"):
            return Value(value, "no tensor", None)
        tensor = variable.type.dense_tensor.tensor
        sizes = tuple([int(size) if size >= 0 else "" for size in tensor.dims])
        return Value(value, ELEMENTS.get(tensor.data_type, f"type {tensor.data_type}"), sizes)


def _node(operation: Operation, entry: Row | None) -> Node:
    """Return the node of an operator, with inputs and outputs in the order of its row."""
    slots = [*operation.inputs] if entry is None else [slot.name for slot in arguments(entry.inputs)]
    inputs = tuple([name for slot in slots for name in operation.inputs.get(slot, ())])
    outputs: list[str] = []
    every = [f"{slot}*" for slot in operation.outputs]
    for slot in every if entry is None or not entry.outputs else entry.outputs.split():
        names = operation.outputs.get(slot.rstrip("*"), ())
        outputs += names if slot.endswith("*") else names[:1] or ("",)
    parts = (operation.type, PADDLE, operation.name, inputs, tuple(outputs), operation.attributes)
    node = Node(*parts, slots=operation.inputs)
    if entry is None or not entry.role:
        return node
    role = (entry.role, {}) if isinstance(entry.role, str) else entry.role(operation.attributes)
    return replace(node, twin=replace(node, operation=role[0], domain=STANDARD, attributes=role[1]))


def _attribute(attribute: Any) -> tuple[str, Any]:
    """Return the name and plain value of an attribute; None for a block or a variable."""
    kind = ATTRIBUTES.get(attribute.type)
    value: Any = getattr(attribute, kind) if kind else None
    if kind == "scalar":
        value = getattr(value, SCALARS[value.type]) if value.type in SCALARS else None
    single = value is None or isinstance(value, (bool, int, float, bytes))
    return attribute.name, _text(value) if single else [*map(_text, value)]


def _text(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
