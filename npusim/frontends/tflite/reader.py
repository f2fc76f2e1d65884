"""TFLite files: the first subgraph of a model as a graph.

The file is read in two steps: `tflite_records` takes out plain values and minds the bytes, this module minds
what they mean. Tensors keep their names and their numbers, so tensor i of the graph is tensor i of the file;
constants are read-only views of the file's bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf
from mmap import mmap
from pathlib import Path
from typing import Any

import numpy as np

from npusim.frontends.tflite.layer import EMPTY_TABLE, Layer
from npusim.frontends.tflite.operators import OPERATORS, Translation
from npusim.frontends.tflite.records import (
    IDENTIFIER,
    Data,
    ModelRecord,
    OperatorRecord,
    TensorRecord,
    decode,
    inside_the_file,
)
from npusim.isa.base import user_file
from npusim.isa.base.elements import element
from npusim.isa.base.elements import names as element_names
from npusim.isa.base.errors import FormatError, GraphError
from npusim.isa.base.tensor import Array, Quantization, TensorType
from npusim.kernels.graph.graph import Graph, Node, State, Tensor
from npusim.kernels.graph.names import quoted, unique
from npusim.kernels.operator.operator import Call
from npusim.kernels.operator.parameters import Parameters, Unchecked
from npusim.kernels.table import infer, known, operator

_DTYPES = {name.upper(): name for name in element_names()}
_MOST_CODE_BITS = 16
"""Wider whole numbers with a scale are biases and operands: some converters write scale 0 into them."""
_LARGEST_TENSOR_BYTES = 2**31 - 1


def recognises(path: Path, head: bytes) -> bool:
    """True if the file begins as TFLite files do."""
    return head[4:8] == IDENTIFIER


def read(path: Path) -> Graph:
    """The graph of a TFLite file, named after the file, as a whole not checked; raises FormatError or GraphError."""
    return parse(user_file.mapped(path, user_file.MODEL, FormatError, ""), path.stem)


def parse(data: bytes | mmap, name: str) -> Graph:
    """The graph of the bytes of a TFLite file, as a whole not checked; raises FormatError or GraphError."""
    model = decode(data)
    tensors = [_tensor(model, number) for number in range(len(model.tensors))]
    _fill_empty(model, tensors)
    inputs = _numbers(model.inputs, tensors, "model inputs")
    outputs = _numbers(model.outputs, tensors, "model outputs")
    now: dict[int, int] = {}
    nodes = _nodes(model, tensors, now)
    states = tuple([State(number, after) for number, after in sorted(now.items())])
    outputs = tuple([now.get(number, number) for number in outputs])
    return Graph(name, tuple(_constant_states(model, tensors, now)), nodes, inputs, outputs, states)


# Tensors


def _tensor(model: ModelRecord, number: int) -> Tensor:
    record = model.tensors[number]
    name = record.name or f"tensor_{number}"
    where = f"tensor {number} {quoted(record.name)}"
    if record.kind not in _DTYPES:
        raise FormatError(f"{where}: element type {record.kind}, may be {', '.join(_DTYPES)}")
    if record.sparse:
        raise FormatError(f"{where}: is sparse, may be dense; convert the model without sparsity")
    if record.buffer >= max(len(model.buffers), 1):  # a file without constants may have no buffer at all
        raise FormatError(f"{where}: buffer {record.buffer}, the model has {len(model.buffers)}")
    dtype = _DTYPES[record.kind]
    type_ = TensorType(dtype, record.shape, _quantization(record, dtype, where))
    _check_size(type_, where)
    data = model.buffers[record.buffer] if record.buffer < len(model.buffers) else None
    return Tensor(name, type_, None if record.variable else _constant(type_, data, where))


def _constant_states(model: ModelRecord, tensors: list[Tensor], now: Mapping[int, int]) -> Iterator[Tensor]:
    """The tensors; variables that no operator updates keep the real zero with which they begin."""
    for number, tensor in enumerate(tensors):
        forever = _is_variable(model, number) and number not in now
        kind = tensor.type
        zero = 0 if kind.quantization is None else kind.quantization.zero_point
        yield replace(tensor, data=np.full(kind.shape, zero, kind.numpy_dtype)) if forever else tensor


def _fill_empty(model: ModelRecord, tensors: list[Tensor]) -> None:
    """Gives tensors without elements that nothing writes their data, which is nothing: they are constants."""
    written = {*model.inputs, *(output for record in model.operators for output in record.outputs)}
    for number, tensor in enumerate(tensors):
        if 0 in tensor.type.shape and number not in written and not model.tensors[number].variable:
            tensors[number] = replace(tensor, data=np.empty(tensor.type.shape, tensor.type.numpy_dtype))


def _check_size(type_: TensorType, where: str) -> None:
    spanned = type_.spanned_bytes
    if spanned > _LARGEST_TENSOR_BYTES:
        raise FormatError(f"{where}: {spanned} bytes, may have {_LARGEST_TENSOR_BYTES}")


def _constant(type_: TensorType, data: Data | None, where: str) -> Array | None:
    """The data of a tensor, or None if the file has none. An empty buffer means no data."""
    if data is None or not data.size:
        return None
    if data.size != type_.size_bytes or min(type_.shape, default=0) < 0:
        what = f"{type_.dtype}{list(type_.shape)}"
        raise FormatError(f"{where}: {what} takes {type_.size_bytes} bytes, its buffer has {data.size}")
    return data.view(type_.numpy_dtype).reshape(type_.shape)


def _quantization(record: TensorRecord, dtype: str, where: str) -> Quantization | None:
    """The quantization of a tensor; None without scales and for types that hold no codes."""
    scales = record.scales.tolist()
    row = element(dtype)
    if not scales or not row.codes:
        return None
    if row.bits > _MOST_CODE_BITS and not all(scales):
        return None  # some converters write scale 0 into shapes, axes and the biases of dead channels
    for scale in scales:
        if not 0 < scale < inf:
            raise FormatError(f"{where}: scale {scale}, must be finite and positive")
    points = record.zero_points.tolist() or [0]
    if len(points) not in (1, len(scales)):
        raise FormatError(f"{where}: {len(points)} zero points for {len(scales)} scales, may be as many or 1")
    least, most = row.limits
    for point in (min(points), max(points)):
        if not least <= point <= most:
            raise FormatError(f"{where}: zero point {point}, {dtype} may have {least}..{most}")
    if len(scales) == 1:
        return Quantization((scales[0],), (points[0],))
    if len(points) == 1:
        points *= len(scales)
    return Quantization(tuple(scales), tuple(points), _channel_axis(record, where))


def _channel_axis(record: TensorRecord, where: str) -> int:
    """The axis that the scales belong to. Biases of early converters name the axis of their weights."""
    count, axis = record.scales.size, record.axis
    if record.shape == (count,):
        return 0
    if not 0 <= axis < len(record.shape) or record.shape[axis] != count:
        raise FormatError(f"{where}: {count} scales along axis {axis} of shape {list(record.shape)}")
    return axis


# Operators


def _numbers(numbers: Sequence[int], tensors: Sequence[Any], where: str) -> tuple[int, ...]:
    """`numbers` if all of them number a tensor."""
    for number in numbers:
        if not 0 <= number < len(tensors):
            raise FormatError(f"{where}: tensor {number}, the model has {len(tensors)}")
    return tuple(numbers)


def _nodes(model: ModelRecord, tensors: list[Tensor], now: dict[int, int]) -> tuple[Node, ...]:
    """The operators as nodes; gives those results their shapes for which the file says none.

    Variables are updated in place; in a graph every value is a tensor of its own. `now` becomes what each variable
    that is updated is after the last operator.

    Converters leave shapes of results out, as scalars or with sizes of -1: LiteRT works all of them out anew. So
    does this reader, operator by operator in the file's order.
    """
    skipped = _shape_arithmetic(model)
    options_class = _options_classes()
    names: dict[str, int] = {}
    nodes = []
    for number, record in enumerate(model.operators):
        where = f"operator {number} ({record.kind} version {record.version})"
        outputs = _numbers(record.outputs, tensors, where)
        if number in skipped:
            continue
        if not outputs:
            raise GraphError(f"{where}: has no output")
        # Converters join the names of all that they fused with ";": the first one tells the layer.
        name = unique(tensors[outputs[0]].name.split(";")[0], names)
        where = f"layer {quoted(name)} ({record.kind} version {record.version}, operator {number})"
        if record.kind not in OPERATORS:
            nodes.append(_unknown(name, where, record, tensors))
            continue
        layer = _layer(where, record, tensors, options_class)
        node = _node(name, record, layer, tensors)
        nodes.append(_updating(model, node, tensors, now))
        for output, shape in zip(outputs, _shapes(record, layer, node, tensors), strict=True):
            tensors[output] = _shaped(tensors[output], shape, where)
    return tuple(nodes)


def _shapes(
    record: OperatorRecord, layer: Layer, node: Node, tensors: Sequence[Tensor]
) -> tuple[tuple[int, ...] | None, ...]:
    """The shapes of the outputs as operands and parameters say them, None where they do not."""
    inputs = tuple(None if number is None else tensors[number].type for number in node.inputs)
    found = infer(Call(node.parameters, inputs, layer.outputs, {}), node.op)
    if found is None or len(found) != len(record.outputs):
        return (None,) * len(record.outputs)
    return found


def _shaped(tensor: Tensor, shape: tuple[int, ...] | None, where: str) -> Tensor:
    """A result with its shape. The one in the file, if it is there and complete, must be the same."""
    stored = tensor.type.shape
    incomplete = not stored or min(stored) < 0
    if shape is None and min(stored, default=0) < 0:
        raise GraphError(
            f"{where}: output {quoted(tensor.name)} has shape {list(stored)}, and its operands do not say it either; "
            "convert the model with a fixed shape"
        )
    if shape is None or stored == shape:
        return tensor
    if not incomplete or (stored and not _fits(stored, shape)):
        raise GraphError(
            f"{where}: output {quoted(tensor.name)} has shape {list(stored)} in the file, {list(shape)} by its "
            "operands and options"
        )
    if min(shape, default=0) < 0:
        raise GraphError(f"{where}: output {quoted(tensor.name)} would have shape {list(shape)}")
    shaped = replace(tensor, type=replace(tensor.type, shape=shape))
    _check_size(shaped.type, where)
    return shaped


def _fits(stored: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Whether a shape is what another says where it is not -1."""
    return len(stored) == len(shape) and all(
        s < 0 or s == size for s, size in zip(stored, shape, strict=True)
    )


def _shape_arithmetic(model: ModelRecord) -> set[int]:
    """The operators that only compute operands which the reader drops.

    Models converted with a variable batch work out the shapes of their RESHAPE operators (SHAPE,
    STRIDED_SLICE, PACK). All shapes are fixed here, so nothing remains to be computed.
    """
    skipped, dropped = set(), set[int | None]()
    wanted: set[int | None] = set(model.outputs)
    for number in reversed(range(len(model.operators))):
        record = model.operators[number]
        made = set(record.outputs)
        if made & dropped and not made & wanted:
            skipped.add(number)
            dropped.update(record.inputs)
            continue
        row = OPERATORS.get(record.kind)
        for position, operand in enumerate(record.inputs):
            kept = row is None or row.keeps is None or position in row.keeps
            (wanted if kept else dropped).add(operand)
    return skipped


def _options_classes() -> Callable[[str], Any]:
    import tflite

    return lambda name: getattr(tflite, name)


def _unknown(name: str, where: str, record: OperatorRecord, tensors: Sequence[Tensor]) -> Node:
    """An operator that the table does not have, of which nothing but the operands is read."""
    _numbers([operand for operand in record.inputs if operand is not None], tensors, where)
    kind, _, custom = record.kind.partition(" ")
    return Node(
        name, f'custom "{custom}"' if kind == "CUSTOM" else record.kind.lower(), record.inputs, record.outputs
    )


def _layer(
    where: str, record: OperatorRecord, tensors: Sequence[Tensor], options_class: Callable[[str], Any]
) -> Layer:
    """An operator that the table has, with as many operands as it may have."""
    row = OPERATORS[record.kind]
    _numbers([operand for operand in record.inputs if operand is not None], tensors, where)
    _numbers(record.intermediates, tensors, where)
    _check_counts(where, record, row)
    operands = [None if operand is None else tensors[operand] for operand in record.inputs]
    return Layer(
        where=where,
        inputs=tuple(None if operand is None else operand.type for operand in operands),
        outputs=tuple(tensors[output].type for output in record.outputs),
        constants=tuple(None if operand is None else operand.array for operand in operands),
        intermediates=tuple(tensors[operand].type for operand in record.intermediates),
        options=_options(where, record, row, options_class),
        custom_options=record.custom_options,
    )


def _node(name: str, record: OperatorRecord, layer: Layer, tensors: list[Tensor]) -> Node:
    row, inputs = OPERATORS[record.kind], record.inputs
    for position, type_ in row.retyped(layer).items():
        inputs = (*inputs[:position], _another(tensors, inputs[position], type_), *inputs[position + 1 :])
    if row.keeps is not None:
        inputs = tuple(inputs[i] if i < len(inputs) else None for i in row.keeps)
    return Node(name, row.op, inputs, record.outputs, _parameters(row, layer))


def _parameters(row: Translation, layer: Layer) -> Parameters:
    values = row.parameters(layer)
    if not known(row.op):
        return Unchecked.of(values)
    try:
        return operator(row.op).parameters(**values)
    except GraphError as fault:
        raise GraphError(f"{layer.where}: {fault}") from None


def _updating(model: ModelRecord, node: Node, tensors: list[Tensor], now: dict[int, int]) -> Node:
    """The node with variables as they are now; one that updates them gives their next values, too."""
    positions = operator(node.op).states if known(node.op) else ()
    states = [node.inputs[position] for position in positions if position < len(node.inputs)]
    inputs = tuple([None if number is None else now.get(number, number) for number in node.inputs])
    variables = [number for number in states if number is not None and _is_variable(model, number)]
    if not states or len(set(variables)) != len(states):
        return replace(node, inputs=inputs)
    for number in variables:
        now[number] = _another(tensors, number, tensors[number].type)
    return replace(node, inputs=inputs, outputs=(*node.outputs, *(now[number] for number in variables)))


def _is_variable(model: ModelRecord, number: int) -> bool:
    return number < len(model.tensors) and model.tensors[number].variable


def _another(tensors: list[Tensor], number: int | None, type_: TensorType) -> int:
    """The number of a new tensor behind those of the file: the data of one of them, read as another type."""
    assert number is not None
    tensors.append(replace(tensors[number], type=type_))
    return len(tensors) - 1


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


def _options(
    where: str, record: OperatorRecord, row: Translation, options_class: Callable[[str], Any]
) -> Any | None:
    """The options table of an operator; one that the file leaves out has all its defaults."""
    if row.options is None:
        return None
    if record.options_kind not in ("NONE", row.options):
        raise FormatError(f"{where}: has {record.options_kind}, must have {row.options}")
    with inside_the_file(f"{where}: options"):
        options = options_class(row.options)()
        if record.options_kind == "NONE" or record.options is None:
            options.Init(EMPTY_TABLE, 4)
        else:
            options.Init(record.options.Bytes, record.options.Pos)
    return options
