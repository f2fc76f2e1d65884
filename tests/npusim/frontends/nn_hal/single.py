"""Models of one operation, for tests: operands in a line each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from npusim.frontends.nn_hal.checked import CheckedModel
from npusim.frontends.nn_hal.enumerations import (
    HalVersion,
    OperandLifeTime,
    OperandType,
    OperationType,
    row_of,
)
from npusim.frontends.nn_hal.fault import Fault
from npusim.frontends.nn_hal.model_check import check_model
from npusim.frontends.nn_hal.operations.graph_parts import GraphParts
from npusim.frontends.nn_hal.operations.named_arguments import Known
from npusim.frontends.nn_hal.operations.signatures import TENSORS
from npusim.frontends.nn_hal.structs import (
    DataLocation,
    Model,
    Operand,
    Operation,
    SymmPerChannelQuantParams,
)
from npusim.kernels.graph.graph import Graph

LATEST = HalVersion.AIDL_V3
_SCALED = (
    *(
        OperandType.TENSOR_QUANT8_ASYMM,
        OperandType.TENSOR_QUANT8_ASYMM_SIGNED,
        OperandType.TENSOR_QUANT8_SYMM,
    ),
    *(OperandType.TENSOR_QUANT16_SYMM, OperandType.TENSOR_QUANT16_ASYMM),
)


@dataclass(frozen=True)
class Spec:
    """An operand: a model input or output without a `value`, else a constant; `omitted` is NO_VALUE."""

    type: OperandType
    dimensions: tuple[int, ...] = ()
    value: Any = None
    scale: float = 0.0
    zero_point: int = 0
    channels: tuple[tuple[float, ...], int] | None = None
    omitted: bool = field(default=False)


def tensor(
    kind: str, dimensions: Sequence[int], scale: float = 0.0, zero_point: int = 0, **more: Any
) -> Spec:
    """A tensor of a type as signatures call it; 8-bit ones without a scale get 0.5."""
    type_ = TENSORS[kind]
    if type_ in _SCALED and not scale:
        scale = 0.5
    return Spec(type_, tuple(dimensions), scale=float(np.float32(scale)), zero_point=zero_point, **more)


def vector(*values: int) -> Spec:
    """A constant TENSOR_INT32 of one dimension."""
    return Spec(OperandType.TENSOR_INT32, (len(values),), list(values))


def pairs(*values: Sequence[int]) -> Spec:
    """A constant TENSOR_INT32 of shape [n, 2]."""
    return Spec(OperandType.TENSOR_INT32, (len(values), 2), [list(pair) for pair in values])


def scalar(value: bool | int | float) -> Spec:
    """A constant BOOL, INT32 or FLOAT32."""
    if isinstance(value, bool):
        return Spec(OperandType.BOOL, (), value)
    return Spec(OperandType.INT32 if isinstance(value, int) else OperandType.FLOAT32, (), value)


NOTHING = Spec(OperandType.TENSOR_INT32, (1,), omitted=True)
"""An omitted TENSOR_INT32."""


def model(
    operation: str,
    inputs: Sequence[Spec | bool | int | float],
    outputs: Sequence[Spec],
    version: HalVersion = LATEST,
) -> Model:
    """The model of one operation; plain numbers are scalars."""
    memory = bytearray()
    specs = [one if isinstance(one, Spec) else scalar(one) for one in inputs]
    operands = [_operand(spec, OperandLifeTime.MODEL_INPUT, memory) for spec in specs]
    operands += [_operand(spec, OperandLifeTime.MODEL_OUTPUT, memory) for spec in outputs]
    for operand in operands[: len(specs)]:
        operand.numberOfConsumers = 1
    given, made = range(len(specs)), range(len(specs), len(operands))
    return Model(
        operands,
        [Operation(OperationType[operation], list(given), list(made))],
        [i for i in given if operands[i].lifetime == OperandLifeTime.MODEL_INPUT],
        list(made),
        operandValues=bytes(memory),
        version=version,
    )


def _operand(spec: Spec, lifetime: OperandLifeTime, memory: bytearray) -> Operand:
    location = DataLocation()
    if spec.omitted:
        lifetime = OperandLifeTime.NO_VALUE
    elif spec.value is not None:
        data = np.array(spec.value, row_of(spec.type).element).tobytes()
        lifetime, location = OperandLifeTime.CONSTANT_COPY, DataLocation(0, len(memory), len(data))
        memory += data
    channels = None if spec.channels is None else SymmPerChannelQuantParams(*spec.channels)
    return Operand(spec.type, spec.dimensions, 0, spec.scale, spec.zero_point, lifetime, location, channels)


def fault(*args: Any, **keywords: Any) -> str:
    """The message of the rule that a model of one operation breaks, "" if it keeps all."""
    found = check_model(model(*args, **keywords))
    return found.message if isinstance(found, Fault) else ""


def graph(*args: Any, values: Mapping[int, Any] | None = None, **keywords: Any) -> Graph:
    """What a model of one operation becomes; `values` are those that the request gives inputs."""
    checked = check_model(model(*args, **keywords))
    assert isinstance(checked, CheckedModel), checked
    known = Known(checked.main)
    known.undecided.clear()
    for operand, value in (values or {}).items():
        known.values[operand] = np.array(value, np.int32)
        known.shapes[operand] = known.values[operand].shape
    parts = GraphParts("test", known, checked.version)
    (operation,) = checked.main.operations
    parts.add(operation)
    return parts.builder.graph([parts.tensor(index) for index in operation.outputs])
