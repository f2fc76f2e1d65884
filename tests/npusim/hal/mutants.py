"""Changes of a model that may or may not leave it legal: values of parameters, sizes, types, scales, what is constant.

They reach the rules, the conversion and the operators with what nobody would write.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

import npusim.hal as hal
from npusim.frontends.nn_hal.enumerations import row_of
from npusim.hal import OperandLifeTime, OperandType, OperationType

T, L, O = OperandType, OperandLifeTime, OperationType  # noqa: E741

WHOLE = (
    -(2**31),
    -65536,
    -129,
    -5,
    -2,
    -1,
    0,
    1,
    2,
    3,
    4,
    5,
    7,
    8,
    127,
    128,
    255,
    1000,
    65535,
    2**20,
    2**31 - 1,
)
REAL = (0.0, -0.0, 1e-45, 1e-38, 1e-3, 0.5, 1.0, 255.0, 1e6, 1e20, 3e38, float("inf"), float("nan"), -1.0)
SIZES = (0, 1, 2, 3, 5, 1000, 65536, 2**31 - 1, 2**32 - 1)
_MOST_BYTES = 1 << 14

Change = Callable[[hal.Model, random.Random], None]


def _graph(model: hal.Model, rng: random.Random) -> Any:
    return rng.choice([model, *model.referenced])


def _constants(model: hal.Model) -> list[hal.Operand]:
    graphs: list[Any] = [model, *model.referenced]
    return [each for graph in graphs for each in graph.operands if each.lifetime == L.CONSTANT_COPY]


def _elements(element: str, rng: random.Random, count: int, wild: float) -> bytes:
    """Elements, mostly small; some of them anything."""
    values = REAL if "float" in element else WHOLE
    drawn = [rng.choice(values) if rng.random() < wild else rng.choice((0, 1, 1, 2, 3)) for _ in range(count)]
    with np.errstate(all="ignore"):
        return np.array(drawn).astype(element).tobytes()


def value(model: hal.Model, rng: random.Random) -> None:
    """An element of a constant."""
    fitting = [each for each in _constants(model) if each.location.length and row_of(T(each.type)).element]
    if fitting:
        operand = rng.choice(fitting)
        element = row_of(T(operand.type)).element or ""
        data = _elements(element, rng, 1, 1.0)
        whole = max(operand.location.length // len(data), 1)  # a length that was changed before may hold none
        begin = operand.location.offset + len(data) * rng.randrange(whole)
        memory = bytearray(model.operandValues)
        memory[begin : begin + len(data)] = data
        model.operandValues = bytes(memory)


def sizes(model: hal.Model, rng: random.Random) -> None:
    """The dimensions of an operand; a small constant gets as many bytes."""
    operand = rng.choice(_graph(model, rng).operands)
    own = list(operand.dimensions)
    kind = rng.randrange(5)
    if kind == 0 and own:
        own[rng.randrange(len(own))] = rng.choice(SIZES)
    elif kind == 1:
        own.insert(rng.randint(0, len(own)), rng.choice((0, 1, 2)))
    elif kind == 2 and own:
        del own[rng.randrange(len(own))]
    elif kind == 3:
        rng.shuffle(own)
    else:
        own = []
    operand.dimensions = own
    element = row_of(T(operand.type)).element
    if operand.lifetime in (L.CONSTANT_COPY, L.CONSTANT_REFERENCE) and element and prod(own) <= _MOST_BYTES:
        data = _elements(element, rng, prod(own), 0.0)
        operand.lifetime = L.CONSTANT_COPY
        operand.location = hal.DataLocation(0, len(model.operandValues), len(data))
        model.operandValues = bytes(model.operandValues) + data


def opened(model: hal.Model, rng: random.Random) -> None:
    """Sizes are left to the request."""
    for operand in model.operands:
        if operand.lifetime in (L.TEMPORARY_VARIABLE, L.MODEL_INPUT, L.MODEL_OUTPUT) and rng.random() < 0.5:
            own = [size * rng.randrange(2) for size in operand.dimensions]
            operand.dimensions = own if rng.random() < 0.7 else []


def a_type(model: hal.Model, rng: random.Random) -> None:
    _retype(rng.choice(_graph(model, rng).operands), OperandType(rng.randrange(16)))


def types(model: hal.Model, rng: random.Random) -> None:
    """All operands of a type get another."""
    graph = _graph(model, rng)
    before = rng.choice(graph.operands).type
    after = rng.choice([kind for kind in OperandType if row_of(kind).tensor and row_of(kind).element])
    for operand in graph.operands:
        if operand.type == before:
            _retype(operand, after)


def _retype(operand: hal.Operand, type_: OperandType) -> None:
    operand.type = type_
    row = row_of(type_)
    if row.scaling != "one":
        operand.scale, operand.zeroPoint = 0.0, 0
    else:
        low, high = row.zero_points
        operand.scale, operand.zeroPoint = operand.scale or 0.5, min(max(operand.zeroPoint, low), high)


def scaling(model: hal.Model, rng: random.Random) -> None:
    operand = rng.choice(_graph(model, rng).operands)
    operand.scale = rng.choice((*REAL, operand.scale * 2, operand.scale * 1.0001))
    operand.zeroPoint = rng.choice((operand.zeroPoint, operand.zeroPoint, 0, 1, 127, -128, 255))


def kind_of_operation(model: hal.Model, rng: random.Random) -> None:
    rng.choice(_graph(model, rng).operations).type = OperationType(rng.randrange(106))


def fed(model: hal.Model, rng: random.Random) -> None:
    """A constant becomes an input of the model."""
    fitting = [
        i for i, each in enumerate(model.operands) if each.lifetime in (L.CONSTANT_COPY, L.CONSTANT_REFERENCE)
    ]
    if fitting:
        index = rng.choice(fitting)
        model.operands[index].lifetime, model.operands[index].location = L.MODEL_INPUT, hal.DataLocation()
        model.inputIndexes = [*model.inputIndexes, index]


def omitted(model: hal.Model, rng: random.Random) -> None:
    operand = rng.choice(model.operands)
    operand.lifetime, operand.location = L.NO_VALUE, hal.DataLocation()


def shorter(model: hal.Model, rng: random.Random) -> None:
    """The last input of an operation goes."""
    operation = rng.choice(model.operations)
    if operation.inputs:
        model.operands[operation.inputs[-1]].numberOfConsumers -= 1
        operation.inputs = list(operation.inputs)[:-1]


def version(model: hal.Model, rng: random.Random) -> None:
    model.version = rng.randint(1, 7)


CHANGES: tuple[Change, ...] = (
    *(value, value, value, sizes, sizes, opened, a_type, types, scaling, kind_of_operation),
    *(fed, omitted, shorter, version),
)


def request_for(model: hal.Model, rng: random.Random) -> hal.Request:
    """A request that may fit a model: open sizes are small, elements mostly too."""
    pool = bytearray()
    arguments: list[list[hal.RequestArgument]] = []
    for indexes in (model.inputIndexes, model.outputIndexes):
        arguments.append([])
        for index in indexes:
            operand, row = model.operands[index], row_of(T(model.operands[index].type))
            own = list(operand.dimensions)
            if row.tensor and not own:
                own = [0] * rng.randint(1, 4)
            shape = [size or rng.randint(1, 3) for size in own]
            is_input = indexes is model.inputIndexes
            count = prod(shape) if prod(shape) <= 1 << 18 else 1
            data = _elements(row.element, rng, count, 0.1) if row.element and is_input else bytes(count * 4)
            given = shape if is_input and shape != list(operand.dimensions) else []
            arguments[-1].append(hal.RequestArgument(False, hal.DataLocation(0, len(pool), len(data)), given))
            pool += data
    return hal.Request(*arguments, [pool])
