"""Ways to break a rule in a legal model or request, whatever it is: each gives an illegal one, or leaves it alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import npusim.hal as hal
from npusim.hal import HalVersion, OperandLifeTime, OperandType, OperationType

from .garbage import Refuses, places
from .random_models import Drawn, Pick

T, L, O = OperandType, OperandLifeTime, OperationType  # noqa: E741

Break = Callable[[Pick, Drawn], bool]
"""Breaks one rule; False where it found no place for that."""

_CERTAIN: tuple[Callable[[], Any], ...] = (
    object,
    Refuses,
    lambda: float("nan"),
    lambda: "garbage",
    lambda: -(2**40),
)


def _one(pick: Pick, options: Sequence[Any]) -> Any:
    return options[pick(0, len(options) - 1)] if options else None


def _graphs(model: hal.Model) -> list[Any]:
    return [model, *model.referenced]


def _operand(pick: Pick, drawn: Drawn, wanted: Callable[[hal.Operand], bool] = lambda operand: True) -> Any:
    graph = _one(pick, _graphs(drawn.model))
    return _one(pick, [operand for operand in graph.operands if wanted(operand)])


def _constant(operand: hal.Operand) -> bool:
    return operand.lifetime in (L.CONSTANT_COPY, L.CONSTANT_REFERENCE)


def _tensor(operand: hal.Operand) -> bool:
    return OperandType(operand.type).name.startswith("TENSOR")


def _set(struct: Any, name: str, value: object) -> bool:
    if struct is not None:
        setattr(struct, name, value)
    return struct is not None


# Models


def garbage(pick: Pick, drawn: Drawn) -> bool:
    _one(pick, [setter for _, setter in places(drawn.model)])(_one(pick, _CERTAIN)())
    return True


def consumers(pick: Pick, drawn: Drawn) -> bool:
    operand = _operand(pick, drawn)
    return _set(operand, "numberOfConsumers", operand.numberOfConsumers + pick(1, 3))


def operand_type(pick: Pick, drawn: Drawn) -> bool:
    return _set(_operand(pick, drawn), "type", _one(pick, (16, 99, 9999, 10002, -1)))


def operation_type(pick: Pick, drawn: Drawn) -> bool:
    return _set(_one(pick, drawn.model.operations), "type", _one(pick, (106, 9999, 10001, -1)))


def lifetime(pick: Pick, drawn: Drawn) -> bool:
    operand = _operand(pick, drawn)
    wrong = {L.TEMPORARY_VARIABLE: L.MODEL_INPUT, L.MODEL_INPUT: L.TEMPORARY_VARIABLE}
    return _set(operand, "lifetime", wrong.get(operand.lifetime, 7))


def scalar_size(pick: Pick, drawn: Drawn) -> bool:
    return _set(_operand(pick, drawn, lambda operand: not _tensor(operand)), "dimensions", [1])


def constant_size(pick: Pick, drawn: Drawn) -> bool:
    operand = _operand(pick, drawn, lambda operand: _constant(operand) and _tensor(operand))
    if operand is not None:
        sizes = list(operand.dimensions)
        sizes[pick(0, len(sizes) - 1)] = 0
        operand.dimensions = _one(pick, (sizes, []))
    return operand is not None


def scale(pick: Pick, drawn: Drawn) -> bool:
    operand = _operand(pick, drawn)
    quantized = "QUANT" in OperandType(operand.type).name
    integers = operand.type == T.TENSOR_INT32
    wrong = (0, -1.0, -0.0) if quantized else (-1.0, -1e-30) if integers else (1, -1)
    return _set(operand, "scale", _one(pick, wrong))


def zero_point(pick: Pick, drawn: Drawn) -> bool:
    operand = _operand(pick, drawn)
    wrong = {T.TENSOR_QUANT8_ASYMM: (-1, 256), T.TENSOR_QUANT8_ASYMM_SIGNED: (-129, 128)}
    return _set(operand, "zeroPoint", _one(pick, wrong.get(operand.type, (1, -1, 2**31 - 1))))


def channels(pick: Pick, drawn: Drawn) -> bool:
    return _set(_operand(pick, drawn), "extraParams", hal.SymmPerChannelQuantParams([1.0], 0))


def location(pick: Pick, drawn: Drawn) -> bool:
    operand = _operand(pick, drawn)
    where, reference = operand.location, operand.lifetime == L.CONSTANT_REFERENCE
    wrong = [
        (0, where.offset, where.length + 1),
        (0, 2**32 - 1, where.length or 1),
        (2**32 - 1, 0, where.length),
    ]
    if _constant(operand) and where.length:
        wrong.append((int(reference), where.offset, where.length - 1))
    operand.location = hal.DataLocation(*_one(pick, wrong))
    return True


def pool(pick: Pick, drawn: Drawn) -> bool:
    return _set(drawn.model, "pools", [_one(pick, (None, 3, "x", np.zeros((4, 4))[:, 0], [1]))])


def indexes(pick: Pick, drawn: Drawn) -> bool:
    graph = _one(pick, _graphs(drawn.model))
    name = _one(pick, ("inputIndexes", "outputIndexes"))
    own = list(getattr(graph, name))
    stranger = next(
        (i for i, operand in enumerate(graph.operands) if _constant(operand)), len(graph.operands)
    )
    wrong = ([*own, own[0]], own[1:], [*own, len(graph.operands)], [*own, stranger], [])
    return _set(graph, name, _one(pick, wrong))


def operation_indexes(pick: Pick, drawn: Drawn) -> bool:
    graph = _one(pick, _graphs(drawn.model))
    operation = _one(pick, graph.operations)
    name = _one(pick, ("inputs", "outputs"))
    own = list(getattr(operation, name))
    own[pick(0, len(own) - 1)] = len(graph.operands) + pick(0, 2)
    return _set(operation, name, own)


def order(pick: Pick, drawn: Drawn) -> bool:
    """The last operation that reads what another writes comes first."""
    operations = drawn.model.operations
    written = {index for operation in operations for index in operation.outputs}
    readers = [operation for operation in operations if written & set(operation.inputs)]
    if readers:
        operations.remove(readers[-1])
        operations.insert(0, readers[-1])
    return bool(readers)


def missing_input(pick: Pick, drawn: Drawn) -> bool:
    operation = _one(pick, [each for each in drawn.model.operations if each.type != O.CONCATENATION])
    if operation is not None:
        drawn.model.operands[operation.inputs[0]].numberOfConsumers -= 1
        del operation.inputs[0]
    return operation is not None


def more_outputs(pick: Pick, drawn: Drawn) -> bool:
    model = drawn.model
    operation = _one(pick, model.operations)
    like = model.operands[operation.outputs[0]]
    fields = {"scale": like.scale, "zeroPoint": like.zeroPoint, "lifetime": L.TEMPORARY_VARIABLE}
    model.operands.append(hal.Operand(like.type, like.dimensions, **fields))
    operation.outputs.append(len(model.operands) - 1)
    return True


def other_type(pick: Pick, drawn: Drawn) -> bool:
    """A parameter that is an INT32 becomes a FLOAT32 of the same four bytes."""
    return _set(_operand(pick, drawn, lambda operand: operand.type == T.INT32), "type", T.FLOAT32)


def output_size(pick: Pick, drawn: Drawn) -> bool:
    """An output of a model whose other sizes are all known has one more element in a dimension."""
    model = drawn.model
    if any(_tensor(each) and (not each.dimensions or 0 in each.dimensions) for each in model.operands):
        return False
    operand = model.operands[_one(pick, model.outputIndexes)]
    sizes = list(operand.dimensions)
    sizes[pick(0, len(sizes) - 1)] += 1
    return _set(operand, "dimensions", sizes)


def activation(pick: Pick, drawn: Drawn) -> bool:
    """The last parameter of an addition is no activation."""
    kinds = (O.ADD, O.MUL, O.SUB, O.CONV_2D, O.FULLY_CONNECTED)
    operation = _one(pick, [each for each in drawn.model.operations if each.type in kinds])
    if operation is None:
        return False
    where = drawn.model.operands[operation.inputs[-1]].location
    memory = bytearray(drawn.model.operandValues)
    memory[where.offset : where.offset + 4] = np.int32(_one(pick, (4, -1, 2**31 - 1))).tobytes()
    drawn.model.operandValues = memory
    return True


def prescribed_scale(pick: Pick, drawn: Drawn) -> bool:
    """The result of an operation that prescribes it has another scale."""
    kinds = (O.RELU, O.RELU6, O.LOGISTIC, O.TANH, O.SOFTMAX, O.RESHAPE, O.TRANSPOSE, O.MAX_POOL_2D)
    operands = drawn.model.operands
    fitting = [
        operands[each.outputs[0]]
        for each in drawn.model.operations
        if each.type in kinds and operands[each.outputs[0]].scale
    ]
    operand = _one(pick, fitting)
    return operand is not None and _set(operand, "scale", operand.scale * 1.5)


def bias_scale(pick: Pick, drawn: Drawn) -> bool:
    operands = drawn.model.operands
    fitting = [each for each in operands if each.type == T.TENSOR_INT32 and each.scale]
    operand = _one(pick, fitting)
    return operand is not None and _set(operand, "scale", operand.scale * 1.25)


def older(pick: Pick, drawn: Drawn) -> bool:
    """The model says that it is written by a version that had not what it uses."""
    later = (O.GATHER, O.SPLIT, O.TRANSPOSE, O.PAD, O.SUB, O.IF)
    kinds = [operation.type for operation in drawn.model.operations]
    return any(kind in later for kind in kinds) and _set(drawn.model, "version", HalVersion.V1_0)


def reference(pick: Pick, drawn: Drawn) -> bool:
    """A reference to a graph that is not there."""
    model = drawn.model
    operand = _one(pick, [each for each in model.operands if each.type == T.SUBGRAPH])
    wrong = ((0, len(model.referenced), 0), (1, 0, 0), (0, 0, 1))
    return _set(operand, "location", hal.DataLocation(*_one(pick, wrong)))


MODEL_BREAKS: tuple[Break, ...] = (
    *(garbage, garbage, consumers, operand_type, operation_type, lifetime, scalar_size, constant_size, scale),
    *(zero_point, channels, location, pool, indexes, operation_indexes, order, missing_input, more_outputs),
    *(other_type, output_size, activation, prescribed_scale, bias_scale, older, reference),
)


# Requests


def _argument(pick: Pick, drawn: Drawn) -> hal.RequestArgument:
    argument: hal.RequestArgument = _one(pick, [*drawn.request.inputs, *drawn.request.outputs])
    return argument


def garbage_of_request(pick: Pick, drawn: Drawn) -> bool:
    _one(pick, [setter for _, setter in places(drawn.request)])(_one(pick, _CERTAIN)())
    return True


def count(pick: Pick, drawn: Drawn) -> bool:
    name = _one(pick, ("inputs", "outputs"))
    own = list(getattr(drawn.request, name))
    return _set(drawn.request, name, _one(pick, (own[1:], [*own, own[0]])))


def omitted(pick: Pick, drawn: Drawn) -> bool:
    """An argument that must be there is omitted, with details or without."""
    read = [
        i for i, index in enumerate(drawn.model.inputIndexes) if drawn.model.operands[index].numberOfConsumers
    ]
    arguments: list[Any] = [*(drawn.request.inputs[i] for i in read), *drawn.request.outputs]
    argument = _one(pick, arguments)
    argument.hasNoValue = True
    if pick(0, 1):
        argument.location, argument.dimensions = hal.DataLocation(), ()
    return True


def outside(pick: Pick, drawn: Drawn) -> bool:
    where = _argument(pick, drawn).location
    name, value = _one(pick, (("poolIndex", 1), ("offset", 2**32 - 1), ("length", 2**32 - 1)))
    return _set(where, name, value) and (name != "offset" or where.length > 0)


def wrong_rank(pick: Pick, drawn: Drawn) -> bool:
    arguments = [*drawn.request.inputs, *drawn.request.outputs]
    operands = [drawn.model.operands[i] for i in (*drawn.model.inputIndexes, *drawn.model.outputIndexes)]
    known = [a for a, operand in zip(arguments, operands, strict=True) if operand.dimensions]
    return _set(_one(pick, known), "dimensions", [1] * 7)


def zero_size(pick: Pick, drawn: Drawn) -> bool:
    given = [each for each in (*drawn.request.inputs, *drawn.request.outputs) if each.dimensions]
    argument = _one(pick, given)
    return argument is not None and _set(argument, "dimensions", [0, *list(argument.dimensions)[1:]])


def other_size(pick: Pick, drawn: Drawn) -> bool:
    """Another size than the model has."""
    for argument, index in zip(drawn.request.inputs, drawn.model.inputIndexes, strict=True):
        sizes = list(drawn.model.operands[index].dimensions)
        if sizes and sizes[0]:
            argument.dimensions = [sizes[0] + 1, *(size or 1 for size in sizes[1:])]
            return True
    return False


def no_size(pick: Pick, drawn: Drawn) -> bool:
    for argument, index in zip(drawn.request.inputs, drawn.model.inputIndexes, strict=True):
        sizes = drawn.model.operands[index].dimensions
        if not sizes or 0 in sizes:
            argument.dimensions = ()
            return True
    return False


def length(pick: Pick, drawn: Drawn) -> bool:
    where = _one(pick, drawn.request.inputs).location
    return _set(where, "length", where.length - 1)


def overlap(pick: Pick, drawn: Drawn) -> bool:
    """An output begins where another argument does, or a constant."""
    output = _one(pick, drawn.request.outputs)
    others = [each for each in (*drawn.request.inputs, *drawn.request.outputs) if each is not output]
    output.location.offset = _one(pick, others).location.offset
    longest = max(each.location.offset + each.location.length for each in (*others, output))
    drawn.request.pools = [*_longer(drawn.request.pools, longest)]
    return output.location.length > 0


def _longer(pools: Sequence[Any], size: int) -> list[Any]:
    data = (
        bytes(memoryview(pools[0]).cast("B")) if not isinstance(pools[0], np.ndarray) else pools[0].tobytes()
    )
    return [bytearray(data + bytes(max(size - len(data), 0)))]


def read_only(pick: Pick, drawn: Drawn) -> bool:
    return _set(drawn.request, "pools", [bytes(_longer(drawn.request.pools, 0)[0])])


REQUEST_BREAKS: tuple[Break, ...] = (
    *(
        garbage_of_request,
        count,
        omitted,
        outside,
        wrong_rank,
        zero_size,
        other_size,
        no_size,
        length,
        overlap,
    ),
    read_only,
)
