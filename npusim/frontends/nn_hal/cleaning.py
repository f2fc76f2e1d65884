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
    row_of,
    since,
)
from npusim.frontends.nn_hal.field_values import Fields
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
    fields = Fields("", model, Model)
    version = fields.read("version", field_values.enumerator, HalVersion, "G1")
    values = fields.read("operandValues", field_values.memory, "G1")
    pools = fields.read("pools", memories)
    extensions = _extensions(fields)
    cleaner = _Cleaner(version, values, pools, extensions)
    subgraphs = fields.each("referenced")
    relaxed = fields.read(_RELAXED, field_values.truth)
    cleaned = CheckedModel(
        cleaner.graph("", fields),
        tuple(cleaner.graph(place, Fields(place, subgraph, Subgraph)) for place, subgraph in subgraphs),
        *(version, relaxed, values, pools, extensions),
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


def _extensions(model: Fields) -> dict[int, str]:
    """Return the names of extensions by their prefixes. Raises Broken."""
    names: dict[int, str] = {}
    for place, extension in model.each(_EXTENSIONS):
        fields = Fields(place, extension, ExtensionNameAndPrefix)
        name = fields.value("name")
        if type(name) is not str or not 0 < len(name) <= _LONGEST_NAME or not name.isprintable():
            text = f"is {field_values.shown(name)}, must be a name of 1 to {_LONGEST_NAME} characters"
            raise field_values.broken(fields.at("name"), text)
        prefix = fields.read("prefix", field_values.integer, 1, 0x7FFF)
        if prefix in names:
            raise field_values.broken(fields.at("prefix"), f"is {prefix} again, each must occur once")
        names[prefix] = name
    return names


def memories(place: str, value: object) -> tuple[Bytes, ...]:
    """Return a list of pools as bytes. Raises Broken."""
    return tuple(
        [field_values.memory(f"{place}[{i}]", item) for i, item in enumerate(field_values.vec(place, value))]
    )


def location(place: str, value: object) -> Location:
    """Return a DataLocation as plain numbers. Raises Broken."""
    fields = Fields(place, value, DataLocation)
    return Location(*[fields.read(name, field_values.uint32) for name in ("poolIndex", "offset", "length")])


class _Cleaner:
    """Cleans the graphs of one model, whose version, memory and extensions they depend on."""

    def __init__(
        self, version: HalVersion, values: Bytes, pools: tuple[Bytes, ...], extensions: Mapping[int, str]
    ) -> None:
        self._version, self._values, self._pools = version, values, pools
        self._extensions = extensions

    def graph(self, place: str, fields: Fields) -> CheckedGraph:
        return CheckedGraph(
            place,
            tuple([self._operand(at, *located) for at, located in enumerate(fields.each("operands"))]),
            tuple([self._operation(at, *located) for at, located in enumerate(fields.each("operations"))]),
            fields.read("inputIndexes", field_values.uint32s),
            fields.read("outputIndexes", field_values.uint32s),
        )

    def _operand(self, index: int, place: str, value: object) -> CheckedOperand:
        fields = Fields(place, value, Operand)
        type_ = fields.read("type", field_values.enumerator, OperandType, "E1")
        lifetime = fields.read("lifetime", field_values.enumerator, OperandLifeTime, "E3")
        self._exists(fields.at("type"), type_, "E1")
        self._exists(fields.at("lifetime"), lifetime, "E3")
        dimensions = fields.read("dimensions", field_values.uint32s)
        where = fields.read("location", location)
        return CheckedOperand(
            *(place, index, type_),
            dimensions if dimensions or not row_of(type_).tensor else None,
            fields.read("numberOfConsumers", field_values.uint32),
            fields.read("scale", field_values.float32),
            fields.read("zeroPoint", field_values.integer, *field_values.INT32),
            lifetime,
            where,
            fields.read("extraParams", _channels),
            self._bytes(lifetime, where),
        )

    def _operation(self, index: int, place: str, value: object) -> CheckedOperation:
        fields = Fields(place, value, Operation)
        type_ = fields.read("type", self._operation_type)
        self._exists(fields.at("type"), type_, "E2")
        inputs, outputs = (fields.read(name, field_values.uint32s) for name in ("inputs", "outputs"))
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
    fields = Fields(place, value, SymmPerChannelQuantParams)
    scales = [field_values.float32(*located) for located in fields.each("scales")]
    return Channels(tuple(scales), fields.read("channelDim", field_values.uint32))
