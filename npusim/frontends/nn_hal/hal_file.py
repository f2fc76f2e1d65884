"""The `.hal` file: a HAL model with the memory of its constants.

A file of sections (`npusim.isa.base.sections`; docs/hal.md): `model` is the structs as JSON, `operandValues` and
`pools` are raw bytes. The same model always gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields
from enum import IntEnum
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from npusim.base import files
from npusim.frontends.nn_hal.checked import CheckedGraph, CheckedModel, CheckedOperand
from npusim.frontends.nn_hal.cleaning import clean_model
from npusim.frontends.nn_hal.enumerations import (
    EXTENSIONS,
    HalVersion,
    OperandLifeTime,
    OperandType,
    OperationType,
)
from npusim.frontends.nn_hal.fault import Fault, HalError
from npusim.frontends.nn_hal.field_values import Broken
from npusim.frontends.nn_hal.model_check import check_model
from npusim.frontends.nn_hal.structs import (
    DataLocation,
    ExtensionNameAndPrefix,
    Model,
    Operand,
    Operation,
    Subgraph,
    SymmPerChannelQuantParams,
)
from npusim.isa.base import user_file
from npusim.isa.base.errors import FormatError, ProgramError
from npusim.isa.base.plain_values import from_json, shown, to_json
from npusim.isa.base.sections import Sections

MAGIC = b"\x89HAL\r\n\x1a\n"
VERSION = 1
_MODEL, _VALUES, _POOLS = "model", "operandValues", "pools"
_EXTENSIONS = "extensionNameToPrefix"
_FILE = Sections(
    "an npusim HAL model",
    MAGIC,
    VERSION,
    (_MODEL, _VALUES, _POOLS),
    FormatError,
    "save the model again with hal.save",
)

LARGEST_JSON_BYTES = 1 << 28
"""Most bytes of JSON, because parsed JSON takes several times its size. A model of a million operands is smaller."""


def save(model: Model, path: str | Path) -> None:
    """Write a model and its memory as a `.hal` file, whole or not at all.

    Raises HalError for a model that breaks a rule, NpusimError where the file cannot be written.
    """
    pieces = _pieces(model)
    files.write(Path(path), lambda file: file.writelines(pieces))


def dumps(model: Model) -> bytes:
    """Return the bytes of the file of a model. Raises HalError as `save` does."""
    return b"".join(_pieces(model))


def _pieces(model: Model) -> Iterable[bytes | memoryview]:
    checked = check_model(model)
    if isinstance(checked, Fault):
        raise HalError(checked.message, checked.status)
    return _FILE.pieces(
        {
            _MODEL: to_json(_model_fields(checked)).encode("ascii"),
            _VALUES: checked.values.data,
            _POOLS: b"".join(pool.tobytes() for pool in checked.pools),
        }
    )


def load(path: str | Path) -> Model:
    """Return the model of a `.hal` file, with read-only memory. It keeps the rules if `save` wrote the file.

    Raises FormatError, one line with the path, for a file that is missing, truncated, damaged or too new.
    """
    try:
        return loads(user_file.mapped(path, user_file.MODEL, FormatError, ""))
    except FormatError as fault:
        raise FormatError(f"{path}: {fault}") from None


def loads(data: Any) -> Model:
    """Return the model in the bytes of a file. Raises FormatError."""
    model = _model(_FILE.bodies(memoryview(data)))
    try:
        clean_model(model)
    except Broken as broken:
        raise FormatError(broken.fault.message) from None
    return model


# To JSON


def _model_fields(model: CheckedModel) -> dict[str, Any]:
    return {
        "version": model.version.name,
        "relaxComputationFloat32toFloat16": model.relaxed,
        "pools": [pool.size for pool in model.pools],
        "referenced": [_graph_fields(graph) for graph in model.referenced],
        **_graph_fields(model.main),
        **(
            {_EXTENSIONS: extensions}
            if (extensions := [[name, prefix] for prefix, name in model.extensions.items()])
            else {}
        ),
    }


def _graph_fields(graph: CheckedGraph) -> dict[str, Any]:
    return {
        "operands": [_operand_fields(operand) for operand in graph.operands],
        "operations": [
            {
                "type": operation.type.name if operation.type < EXTENSIONS else int(operation.type),
                "inputs": list(operation.inputs),
                "outputs": list(operation.outputs),
            }
            for operation in graph.operations
        ],
        "inputIndexes": list(graph.inputs),
        "outputIndexes": list(graph.outputs),
    }


def _operand_fields(operand: CheckedOperand) -> dict[str, Any]:
    where, channels = operand.location, operand.channels
    values: dict[str, Any] = {
        "type": operand.type.name,
        "dimensions": list(operand.dimensions or ()),
        "numberOfConsumers": operand.consumers,
        "scale": operand.scale,
        "zeroPoint": operand.zero_point,
        "lifetime": operand.lifetime.name,
        "location": [where.pool, where.offset, where.length],
        "extraParams": channels and {"scales": list(channels.scales), "channelDim": channels.axis},
    }
    return {name: value for name, value in values.items() if name == "type" or value not in _LEFT_OUT[name]}


_LEFT_OUT: Mapping[str, tuple[Any, ...]] = {
    "dimensions": ([],),
    "numberOfConsumers": (0,),
    "scale": (0.0,),
    "zeroPoint": (0,),
    "lifetime": (OperandLifeTime.TEMPORARY_VARIABLE.name,),
    "location": ([0, 0, 0],),
    "extraParams": (None,),
}
"""Default of each field of an operand as JSON; fields with their default are left out of the file."""


# From JSON


def _model(bodies: Mapping[str, memoryview]) -> Model:
    """Return the structs in the sections of a file, with unchecked field values."""
    values = _table("model", _parsed(bodies[_MODEL]), Model, _VALUES)
    values |= _graph_values("", values)
    values["referenced"] = [
        Subgraph(**_graph_values(f"referenced[{i}].", _table(f"referenced[{i}]", subgraph, Subgraph)))
        for i, subgraph in enumerate(_list("referenced", values.get("referenced", [])))
    ]
    values["version"] = _named(values.get("version"), HalVersion)
    pairs = [_list(_EXTENSIONS, pair) for pair in _list(_EXTENSIONS, values.get(_EXTENSIONS, []))]
    values[_EXTENSIONS] = [ExtensionNameAndPrefix(*pair) if len(pair) == 2 else pair for pair in pairs]
    values[_POOLS] = _pools(_list(_POOLS, values.get(_POOLS, [])), bodies[_POOLS])
    return Model(**values, operandValues=bodies[_VALUES])


def _graph_values(prefix: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the structs of a graph from the values of its JSON table."""
    return {
        "operands": [
            _operand(f"{prefix}operands[{i}]", operand)
            for i, operand in enumerate(_list(f"{prefix}operands", values["operands"]))
        ],
        "operations": [
            _operation(f"{prefix}operations[{i}]", operation)
            for i, operation in enumerate(_list(f"{prefix}operations", values["operations"]))
        ],
        "inputIndexes": values["inputIndexes"],
        "outputIndexes": values["outputIndexes"],
    }


def _operand(place: str, value: Any) -> Operand:
    values = {"dimensions": [], **_table(place, value, Operand)}
    values["type"] = _named(values["type"], OperandType)
    if "lifetime" in values:
        values["lifetime"] = _named(values["lifetime"], OperandLifeTime)
    if "location" in values:
        numbers = _list(f"{place}.location", values["location"])
        if len(numbers) != 3:
            raise FormatError(f"{place}.location: must be poolIndex, offset, length")
        values["location"] = DataLocation(*numbers)
    if "extraParams" in values:
        channels = _table(f"{place}.extraParams", values["extraParams"], SymmPerChannelQuantParams)
        values["extraParams"] = SymmPerChannelQuantParams(**channels)
    return Operand(**values)


def _operation(place: str, value: Any) -> Operation:
    values = _table(place, value, Operation)
    values["type"] = _named(values["type"], OperationType)
    return Operation(**values)


def _named(value: Any, kind: type[IntEnum]) -> Any:
    """Return the enumerator of a name; a value that names none is returned unchanged."""
    return kind.__members__.get(value, value) if isinstance(value, str) else value


def _pools(sizes: list[Any], data: memoryview) -> list[memoryview]:
    if not all(type(size) is int and size >= 0 for size in sizes) or sum(sizes) != len(data):
        raise FormatError(
            f"pools: must be sizes that add up to the {len(data)} bytes of the section {_POOLS}"
        )
    ends = list(accumulate(sizes, initial=0))
    return [data[begin:end] for begin, end in pairwise(ends)]


def _table(place: str, value: Any, struct: type, *elsewhere: str) -> dict[str, Any]:
    """Return the fields of a struct from its JSON table; elsewhere: fields that the file stores in other sections."""
    if not isinstance(value, dict):
        raise FormatError(f"{place}: is {shown(value)}, must be a table")
    known = [field for field in fields(struct) if field.name not in elsewhere]
    for name in value:
        if name not in [field.name for field in known]:
            raise FormatError(f"{place}: has {shown(name)}, which is no field of {struct.__name__}")
    for field in known:
        if field.default is MISSING and field.default_factory is MISSING and field.name not in value:
            raise FormatError(f"{place}: has no {field.name}")
    return dict(value)


def _list(place: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise FormatError(f"{place}: is {shown(value)}, must be a list")
    return value


def _parsed(section: memoryview) -> Any:
    if len(section) > LARGEST_JSON_BYTES:
        raise FormatError(f"section {_MODEL} has {len(section)} bytes, there may be {LARGEST_JSON_BYTES}")
    try:
        return from_json(bytes(section).decode("ascii"))
    except UnicodeDecodeError as fault:
        raise FormatError(f"section {_MODEL}: byte {fault.start} is not ASCII") from None
    except ProgramError as fault:
        raise FormatError(f"section {_MODEL}: {fault}") from None
