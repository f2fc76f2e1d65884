"""Conversion of structs to checked values. Each field is read once and must hold a value of its HAL type.

It decides the rules G1, E1 to E3 and P1.
"""

from __future__ import annotations

from collections.abc import Mapping

from npusim.frontends.nn_hal import field_values
from npusim.frontends.nn_hal.checked import (
    Bytes,
    Channels,
    CheckedGraph,
    CheckedModel,
    CheckedOperand,
    CheckedOperation,
    Location,
)
from npusim.frontends.nn_hal.enumerations import (
    EXTENSIONS,
    HalVersion,
    OperandLifeTime,
    OperandType,
    OperationType,
    of_extension,
    since,
)
from npusim.frontends.nn_hal.operand_types import row_of
from npusim.frontends.nn_hal.structs import (
    DataLocation,
    ExtensionNameAndPrefix,
    Model,
    Operand,
    Operation,
    Subgraph,
    SymmPerChannelQuantParams,
)

FIELD_RULES: dict[str, str] = {
    "G1": "A field holds a value of its HAL type: uint32, int32, finite float32, bool, vec, the named struct; one that "
    "the version of the model does not have, its default.",
    "E1 E2 E3": "Operand type, operation type and lifetime are enumerators that exist in the version of the model.",
    "P1": "A pool is a C-contiguous buffer.",
}
"""The rules that this module decides."""


_EXTENSIONS = "extensionNameToPrefix"
_LONGEST_NAME = 60
_NUMBER_BITS = 31
_RELAXED = "relaxComputationFloat32toFloat16"


def clean_model(model: object) -> CheckedModel:
    """Return a model as checked values. Raises Broken with the first fault."""
    struct = field_values.instance("model", model, Model)
    version = field_values.enumerator("version", field_values.field("", struct, "version"), HalVersion, "G1")
    values = field_values.memory("operandValues", field_values.field("", struct, "operandValues"), "G1")
    pools = memories("pools", field_values.field("", struct, "pools"))
    extensions = _extensions(field_values.field("", struct, _EXTENSIONS))
    cleaner = _Cleaner(version, values, pools, extensions)
    subgraphs = field_values.vec("referenced", field_values.field("", struct, "referenced"))
    relaxed = field_values.truth(_RELAXED, field_values.field("", struct, _RELAXED))
    cleaned = CheckedModel(
        cleaner.graph("", struct),
        tuple(
            cleaner.graph(place, field_values.instance(place, subgraph, Subgraph))
            for place, subgraph in ((f"referenced[{i}]", each) for i, each in enumerate(subgraphs))
        ),
        version,
        relaxed,
        values,
        pools,
        extensions,
    )
    # Checked last, because an operand or operation that the version lacks is the more helpful fault to report.
    for name, given, since_ in (
        (_RELAXED, relaxed, HalVersion.V1_1),
        ("referenced", subgraphs, HalVersion.V1_3),
        (_EXTENSIONS, extensions, HalVersion.V1_2),
    ):
        if given and version < since_:
            raise field_values.broken(name, f"is of {since_.name}; the model is {version.name}", "G1")
    return cleaned


def _extensions(value: object) -> dict[int, str]:
    """Return the names of extensions by their prefixes. Raises Broken."""
    found: dict[int, str] = {}
    for number, each in enumerate(field_values.vec(_EXTENSIONS, value)):
        place = f"{_EXTENSIONS}[{number}]"
        struct = field_values.instance(place, each, ExtensionNameAndPrefix)
        name = field_values.field(place, struct, "name")
        if type(name) is not str or not 0 < len(name) <= _LONGEST_NAME or not name.isprintable():
            text = f"is {field_values.shown(name)}, must be a name of 1 to {_LONGEST_NAME} characters"
            raise field_values.broken(f"{place}.name", text)
        prefix = field_values.integer(
            f"{place}.prefix", field_values.field(place, struct, "prefix"), 1, 0x7FFF
        )
        if prefix in found:
            raise field_values.broken(f"{place}.prefix", f"is {prefix} again, each must occur once")
        found[prefix] = name
    return found


def memories(place: str, value: object) -> tuple[Bytes, ...]:
    """Return a list of pools as bytes. Raises Broken."""
    return tuple(
        [field_values.memory(f"{place}[{i}]", each) for i, each in enumerate(field_values.vec(place, value))]
    )


def location(place: str, value: object) -> Location:
    """Return a DataLocation as plain numbers. Raises Broken."""
    struct = field_values.instance(place, value, DataLocation)
    pool, offset, length = (
        field_values.uint32(f"{place}.{name}", field_values.field(place, struct, name))
        for name in ("poolIndex", "offset", "length")
    )
    return Location(pool, offset, length)


class _Cleaner:
    """Cleans the graphs of one model, whose version, memory and extensions they depend on."""

    def __init__(
        self, version: HalVersion, values: Bytes, pools: tuple[Bytes, ...], extensions: Mapping[int, str]
    ) -> None:
        self._version, self._values, self._pools = version, values, pools
        self._extensions = extensions

    def graph(self, place: str, struct: object) -> CheckedGraph:
        prefix = f"{place}." if place else ""
        operands, operations, inputs, outputs = (
            field_values.field(place, struct, name)
            for name in ("operands", "operations", "inputIndexes", "outputIndexes")
        )
        return CheckedGraph(
            place,
            tuple(
                [
                    self._operand(f"{prefix}operands[{index}]", index, each)
                    for index, each in enumerate(field_values.vec(f"{prefix}operands", operands))
                ]
            ),
            tuple(
                [
                    self._operation(f"{prefix}operations[{index}]", index, each)
                    for index, each in enumerate(field_values.vec(f"{prefix}operations", operations))
                ]
            ),
            field_values.uint32s(f"{prefix}inputIndexes", inputs),
            field_values.uint32s(f"{prefix}outputIndexes", outputs),
        )

    def _operand(self, place: str, index: int, value: object) -> CheckedOperand:
        struct = field_values.instance(place, value, Operand)
        type_ = field_values.enumerator(
            f"{place}.type", field_values.field(place, struct, "type"), OperandType, "E1"
        )
        lifetime = field_values.enumerator(
            f"{place}.lifetime", field_values.field(place, struct, "lifetime"), OperandLifeTime, "E3"
        )
        self._exists(f"{place}.type", type_, "E1")
        self._exists(f"{place}.lifetime", lifetime, "E3")
        dimensions = field_values.uint32s(
            f"{place}.dimensions", field_values.field(place, struct, "dimensions")
        )
        where = location(f"{place}.location", field_values.field(place, struct, "location"))
        return CheckedOperand(
            place,
            index,
            type_,
            dimensions if dimensions or not row_of(type_).tensor else None,
            field_values.uint32(
                f"{place}.numberOfConsumers", field_values.field(place, struct, "numberOfConsumers")
            ),
            field_values.float32(f"{place}.scale", field_values.field(place, struct, "scale")),
            field_values.integer(
                f"{place}.zeroPoint", field_values.field(place, struct, "zeroPoint"), *field_values.INT32
            ),
            lifetime,
            where,
            _channels(f"{place}.extraParams", field_values.field(place, struct, "extraParams")),
            self._bytes(lifetime, where),
        )

    def _operation(self, place: str, index: int, value: object) -> CheckedOperation:
        struct = field_values.instance(place, value, Operation)
        type_ = self._operation_type(f"{place}.type", field_values.field(place, struct, "type"))
        self._exists(f"{place}.type", type_, "E2")
        inputs, outputs = (
            field_values.uint32s(f"{place}.{name}", field_values.field(place, struct, name))
            for name in ("inputs", "outputs")
        )
        return CheckedOperation(place, index, type_, inputs, outputs)

    def _operation_type(self, place: str, value: object) -> OperationType:
        number = field_values.whole(value) or 0
        prefix = number // EXTENSIONS
        if prefix < 1 or number.bit_length() > _NUMBER_BITS:
            return field_values.enumerator(place, value, OperationType, "E2")
        if prefix not in self._extensions:
            text = f"is {number} of the extension {prefix}, which {_EXTENSIONS} does not have"
            raise field_values.broken(place, text, "E2")
        return of_extension(self._extensions[prefix], number)

    def _exists(self, place: str, value: OperandType | OperationType | OperandLifeTime, rule: str) -> None:
        if since(value) > self._version:
            raise field_values.broken(
                place,
                f"is {value.name}, which is of {since(value).name}; the model is {self._version.name}",
                rule,
            )

    def _bytes(self, lifetime: OperandLifeTime, where: Location) -> Bytes | None:
        """Return the data of a constant; None for other operands, and if its memory is missing."""
        if lifetime is OperandLifeTime.CONSTANT_COPY:
            memory = self._values
        elif lifetime is OperandLifeTime.CONSTANT_REFERENCE and where.pool < len(self._pools):
            memory = self._pools[where.pool]
        else:
            return None
        end = where.offset + where.length
        return memory[where.offset : end] if end <= memory.size else None


def _channels(place: str, value: object) -> Channels | None:
    if value is None:
        return None
    struct = field_values.instance(place, value, SymmPerChannelQuantParams)
    scales = field_values.vec(f"{place}.scales", field_values.field(place, struct, "scales"))
    return Channels(
        tuple([field_values.float32(f"{place}.scales[{i}]", scale) for i, scale in enumerate(scales)]),
        field_values.uint32(f"{place}.channelDim", field_values.field(place, struct, "channelDim")),
    )
