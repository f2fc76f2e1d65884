"""Reads TFLite files. The first subgraph becomes the graph, and those that IF and WHILE name become bodies of nodes.

The file is read in two steps: `records` decodes the bytes to plain values, and `tensors`, `operators` and this module
interpret them. Tensors keep their names and numbers, so tensor i of the graph is tensor i of the file. Constants are
read-only views of the file's bytes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from mmap import mmap
from pathlib import Path
from typing import Any

from npusim.frontends.tflite.file_tensors import check_size, tensor_name, tensors_of, zeros
from npusim.frontends.tflite.layer import EMPTY_TABLE, Layer
from npusim.frontends.tflite.operators import COMPILED, DECIDING, OPERATORS, Deciding, Translation
from npusim.frontends.tflite.records import (
    IDENTIFIER,
    ModelRecord,
    OperatorRecord,
    decode,
    generated,
    inside_the_file,
)
from npusim.frontends.tflite.shape_arithmetic import VALUES, reads_shapes, resized
from npusim.frontends.tflite.weighted_layers import WEIGHTED, bias_note
from npusim.isa.base import user_file
from npusim.isa.base.errors import FormatError, GraphError
from npusim.isa.base.tensor import Array, SizeOnly, TensorType
from npusim.kernels.graph import folding
from npusim.kernels.graph.bind import Sizes
from npusim.kernels.graph.builder import GraphBuilder
from npusim.kernels.graph.control import body_names, shown
from npusim.kernels.graph.graph import UNKNOWN, UNRANKED, Graph, quoted
from npusim.kernels.graph.inference import fits
from npusim.kernels.operator.parameters import NONE, Parameters, Unchecked
from npusim.kernels.operator.registered import custom
from npusim.kernels.table import known, operator

DEEPEST = 16
"""Most bodies inside one another."""
MOST_BODIES = 4096
"""Most bodies of a file; one subgraph may be that of several operators."""


def recognises(path: Path, head: bytes) -> bool:
    """Return True if the file begins as TFLite files do."""
    return head[4:8] == IDENTIFIER


def read(path: Path, builder: GraphBuilder) -> Graph:
    """Return the graph of a TFLite file, not yet checked as a whole; raises FormatError or GraphError."""
    data = user_file.mapped(path, user_file.MODEL, FormatError, "")
    model = decode(data)
    stored = sum(len(buffer) for buffer in model.buffers if not isinstance(buffer, SizeOnly))
    builder.read_with(folding.MOST_ELEMENTS, weight_bytes=min(stored, len(data)))
    return _whole(model, builder)


def parse(data: bytes | mmap, name: str, sizes: Sizes | None = None) -> Graph:
    """Return the graph of the bytes of a TFLite file, not yet checked as a whole; raises FormatError or GraphError.

    sizes: of inputs that the file leaves open, as for `npusim.kernels.graph.bind.bind`.
    """
    builder = GraphBuilder(name, sizes)
    graph = _whole(decode(data), builder)
    builder.check_sizes()
    return graph


def _whole(model: ModelRecord, builder: GraphBuilder) -> Graph:
    """Return the graph of a model. Inputs with open sizes in their signature get the sizes that the caller gives."""
    shapes = {}
    offered = builder.offered
    for position, number in enumerate(model.inputs if builder.sizes or offered.shapes else ()):
        name = tensor_name(model, number)
        given = builder.sizes.get(name)
        taken = given is None
        if taken:
            given = offered.shapes.get(name, offered.shapes.get(f"in{position}"))
        if given is None or number >= len(model.tensors):
            continue
        shape = (given,) if isinstance(given, int) else given
        signature = model.tensors[number].signature or model.tensors[number].shape
        if UNKNOWN in signature and shape != model.tensors[number].shape:
            if taken:
                offered.taken[name] = shape
            if not fits(signature, shape):
                where = f"input {quoted(tensor_name(model, number))}"
                raise GraphError(f"{where}: shape {list(signature)} in the file, {list(shape)} was given")
            shapes[number] = shape
    if shapes:
        model = resized(model, shapes)
    return graph_of(model, builder)


def graph_of(record: ModelRecord, builder: GraphBuilder) -> Graph:
    """Return the graph of a subgraph, not yet checked as a whole; raises FormatError or GraphError."""
    return _Reading(record, builder).graph()


class _Reading:
    """Reads one subgraph.

    The file updates variables in place, but in a graph every value is a tensor of its own: `_now` maps each variable to
    its latest value. `within` are the numbers of this subgraph and of those that it is a body of; `count` counts the
    bodies of the file.
    """

    def __init__(
        self,
        model: ModelRecord,
        builder: GraphBuilder,
        within: tuple[int, ...] = (0,),
        count: Iterator[int] | None = None,
    ) -> None:
        self._model = model
        self._builder = builder
        builder.read_with(folding.MOST_ELEMENTS)
        self._within = within
        self._count = count or itertools.count()
        self._now: dict[int, int] = {}

    def graph(self) -> Graph:
        model, builder = self._model, self._builder
        for record in model.operators:
            if record.kind in COMPILED:
                raise FormatError(f"already compiled {COMPILED[record.kind]}; give the original")
        builder.tensors += tensors_of(model)
        inputs = self._numbers(model.inputs, "model inputs")
        outputs = self._numbers(model.outputs, "model outputs")
        for number in inputs:
            builder.as_input(number)
        skipped = _shape_arithmetic(model)
        for number, record in enumerate(model.operators):
            where = f"operator {number} ({record.kind} version {record.version})"
            self._numbers(record.outputs, where)
            if number in skipped:
                self._value_alone(number, record, where)
            else:
                self._operator(number, record, where)
        for number in range(len(model.tensors)):
            if self._is_variable(number) and number not in self._now:
                builder.tensors[number] = zeros(builder.tensors[number])
        for before, after in sorted(self._now.items()):
            builder.keep(before, after)
        return builder.graph([self._now.get(number, number) for number in outputs])

    def _numbers(self, numbers: Sequence[int | None], where: str) -> tuple[int, ...]:
        """Return the tensor numbers without absent operands. Raises FormatError for a tensor that does not exist."""
        given = tuple([number for number in numbers if number is not None])
        for number in given:
            if not 0 <= number < len(self._model.tensors):
                raise FormatError(f"{where}: tensor {number}, the model has {len(self._model.tensors)}")
        return given

    def _value_alone(self, number: int, record: OperatorRecord, where: str) -> None:
        """Compute the results of an operator if they follow from shapes and constants, without adding a node.

        Nothing is lost if they do not: only operands that the reader drops depend on them.
        """
        nodes, states = len(self._builder.nodes), dict(self._now)
        with suppress(GraphError):
            self._operator(number, record, where)
        del self._builder.nodes[nodes:]
        self._now = states

    def _operator(self, number: int, record: OperatorRecord, where: str) -> None:
        """Add an operator as a node, or as a constant if its result follows from shapes and constants."""
        if not record.outputs:
            raise GraphError(f"{where}: has no output")
        builder = self._builder
        # Converters join the names of all that they fused with ";": the first one tells the layer.
        name = builder.tensors[record.outputs[0]].name.split(";")[0]
        where = f"layer {quoted(name)} ({record.kind} version {record.version}, operator {number})"
        self._numbers(record.inputs, where)
        row = OPERATORS.get(record.kind)
        if record.kind in DECIDING:
            deciding = DECIDING[record.kind]
            bodies = self._bodies(record, deciding, where)
            builder.add(deciding.op, record.inputs, record.outputs, name=name, bodies=bodies)
        elif record.kind in VALUES:
            row, value = VALUES[record.kind]
            self._store(record.outputs[0], value(self._layer(where, record, row)), where)
        elif row is None:
            kind, _, called = record.kind.partition(" ")
            op = custom(called) if kind == "CUSTOM" else record.kind.lower()
            parameters = NONE
            if kind == "CUSTOM" and known(op):
                parameters = Unchecked.of({"custom_options": record.custom_options.tolist()})
            builder.add(op, record.inputs, record.outputs, parameters, name=name)
        else:
            layer = self._layer(where, record, row)
            inputs, states = self._operands(record, row, layer)
            builder.add(row.op, inputs, (*record.outputs, *states), _parameters(row, layer), name=name)
            if len(inputs) == 3 and row.op in WEIGHTED:
                kinds = [None if number is None else builder.type(number) for number in inputs]
                note = bias_note(row.op, kinds, layer.outputs[0], where)
                if note:
                    builder.note(note)
        for output in record.outputs:
            self._settle(output, where)

    def _store(self, number: int, value: Array, where: str) -> None:
        """Make the result of an operator a constant."""
        tensor = self._builder.tensors[number]
        if tensor.type.dtype != value.dtype.name or not fits(tensor.type.shape, value.shape):
            raise GraphError(
                f"{where}: output {quoted(tensor.name)} is {shown(tensor.type)}, its operands give "
                f"{value.dtype}{list(value.shape)}"
            )
        value.setflags(write=False)
        kind = replace(tensor.type, shape=value.shape)
        self._builder.tensors[number] = replace(tensor, type=kind, data=value)

    def _bodies(self, record: OperatorRecord, deciding: Deciding, where: str) -> list[Graph]:
        """Return the bodies of a control-flow operator; its operands give their inputs the shapes."""
        options = _options(where, record, deciding.options)
        operands = [number for number in record.inputs[deciding.first :] if number is not None]
        shapes = [self._builder.shape(number) for number in operands]
        bodies = []
        for word, option in zip(body_names(deciding.op), deciding.bodies, strict=True):
            with inside_the_file(f"{where}: options"):
                number = int(getattr(options, option)())
            if number in self._within:
                raise FormatError(f"{where}, {word}: subgraph {number} is a body of itself")
            if len(self._within) > DEEPEST or next(self._count) >= MOST_BODIES:
                raise FormatError(
                    f"{where}, {word}: is nested too deep or too often, may be {DEEPEST} deep and {MOST_BODIES} bodies"
                )
            try:
                model = self._model.other(number)
                names = [tensor_name(model, tensor) for tensor in model.inputs]
                builder = GraphBuilder(word, dict(zip(names, shapes, strict=False)))
                builder.budget = self._builder.budget
                bodies.append(_Reading(model, builder, (*self._within, number), self._count).graph())
            except (FormatError, GraphError) as fault:
                raise type(fault)(f"{where}, {word}: {fault}") from None
        return bodies

    def _layer(self, where: str, record: OperatorRecord, row: Translation) -> Layer:
        """Return an operator with its types and constants. Raises GraphError for a wrong number of operands."""
        self._numbers(record.intermediates, where)
        _check_counts(where, record, row)
        tensors = self._builder.tensors
        operands = [None if operand is None else tensors[operand] for operand in record.inputs]
        return Layer(
            where=where,
            inputs=tuple(None if operand is None else operand.type for operand in operands),
            outputs=tuple(self._stored(output) for output in record.outputs),
            constants=tuple(None if operand is None else operand.array for operand in operands),
            intermediates=tuple(self._stored(operand) for operand in record.intermediates),
            options=_options(where, record, row.options),
            custom_options=record.custom_options,
        )

    def _stored(self, number: int) -> TensorType:
        """Return the type of a tensor, with the shape that the file says."""
        kind = self._builder.type(number)
        return TensorType(kind.dtype, self._model.tensors[number].shape, kind.quantization)

    def _settle(self, output: int, where: str) -> None:
        """Require a shape of a result; a scalar stands for one that nothing determines."""
        tensor = self._builder.tensors[output]
        shape = tensor.type.shape
        if shape == UNRANKED:
            self._builder.reshape(output, ())
        elif min(shape, default=0) < 0:
            raise GraphError(
                f"{where}: output {quoted(tensor.name)} has shape {list(shape)}, and its operands do not say it "
                "either; convert the model with a fixed shape"
            )
        check_size(self._builder.type(output), where)

    def _operands(
        self, record: OperatorRecord, row: Translation, layer: Layer
    ) -> tuple[list[int | None], list[int]]:
        """Return the inputs of the node, variables with their latest value, and the new values that it gives them."""
        operands = list(record.inputs)
        for position, type_ in row.retyped(layer).items():
            operands[position] = self._another(operands[position], type_)
        if row.keeps is not None:
            operands = [operands[i] if i < len(operands) else None for i in row.keeps]
        inputs = [None if number is None else self._now.get(number, number) for number in operands]
        positions = operator(row.op).states if known(row.op) else ()
        states = [operands[position] for position in positions if position < len(operands)]
        variables = [number for number in states if number is not None and self._is_variable(number)]
        if not states or len(set(variables)) != len(states):
            return inputs, []
        for number in variables:
            self._now[number] = self._another(number, self._builder.type(number))
        return inputs, [self._now[number] for number in variables]

    def _is_variable(self, number: int) -> bool:
        return number < len(self._model.tensors) and self._model.tensors[number].variable

    def _another(self, number: int | None, type_: TensorType) -> int:
        """Return a new tensor with the data of a tensor of the file, read as another type."""
        assert number is not None
        tensor = self._builder.tensors[number]
        return self._builder.tensor(tensor.name, type_, tensor.data)


def _shape_arithmetic(model: ModelRecord) -> set[int]:
    """Return the operators whose results are only used by operands that the reader drops.

    Models converted with a variable batch compute the shapes of their RESHAPE operators (SHAPE, STRIDED_SLICE, PACK).
    All shapes are fixed here, so the run has nothing to compute for them.
    """
    skipped, dropped = set(), set[int | None]()
    wanted: set[int | None] = set(model.outputs)
    for number in reversed(range(len(model.operators))):
        record = model.operators[number]
        outputs = set(record.outputs)
        if outputs & dropped and not outputs & wanted:
            skipped.add(number)
            dropped.update(record.inputs)
            continue
        for position, operand in enumerate(record.inputs):
            (dropped if reads_shapes(record, position) else wanted).add(operand)
    return skipped


def _parameters(row: Translation, layer: Layer) -> Parameters:
    values = row.parameters(layer)
    if not known(row.op):
        return Unchecked.of(values)
    try:
        return operator(row.op).parameters(**values)
    except GraphError as fault:
        raise GraphError(f"{layer.where}: {fault}") from None


def _check_counts(where: str, record: OperatorRecord, row: Translation) -> None:
    count = len(record.inputs)
    if count < row.required or (row.most is not None and count > row.most):
        most = "" if row.most is None else row.most
        raise GraphError(f"{where}: has {count} operands, may have {row.required}..{most}")
    for position in range(count if row.most is None else row.required):
        if record.inputs[position] is None:
            raise GraphError(f"{where}: operand {position} is absent")
    if row.results not in (None, len(record.outputs)):
        raise GraphError(f"{where}: has {len(record.outputs)} outputs, must have {row.results}")


def _options(where: str, record: OperatorRecord, table: str | None) -> Any | None:
    """Return the options table of an operator; one that the file leaves out has all its defaults."""
    if table is None:
        return None
    if record.options_kind not in ("NONE", table):
        raise FormatError(f"{where}: has {record.options_kind}, must have {table}")
    with inside_the_file(f"{where}: options"):
        options = generated(table)()
        if record.options_kind == "NONE" or record.options is None:
            options.Init(EMPTY_TABLE, 4)
        else:
            options.Init(record.options.Bytes, record.options.Pos)
    return options
