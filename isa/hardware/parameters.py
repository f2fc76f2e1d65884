"""The table of all keys of a hardware file, and which of them a machine reads.

What a machine reads depends on its MAC engine type, its memories and other keys. A schema field that only some
machines read carries the condition (`ReadBy`). A key that a machine does not read is left out of written files, lists
and comparisons, and is refused where a user gives it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from npusim.isa.base.fields import Field, ReadBy, Section
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.engines.kinds import ENGINES, engine_of, kind_fault
from npusim.isa.hardware.hardware import Hardware

MEMORY = "memory"
"""The only key that holds a list of tables, [[memory]]. In a path, the name of the memory follows it."""

ANY_NAME = "NAME"
"""Placeholder for the name of a memory in the paths of the schema's keys."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One key of a hardware file, for messages and manuals; `default` is None for a key without one.

    required: whether a file must have it.
    read_by:  which machines read it; None: all.
    what_if:  factors on its value that what-if runs try; none for a name or a choice.
    chosen:   whether an NPU architect may choose it; otherwise the DRAM, the circuits or the host determine it.
    """

    path: str
    allowed: str
    default: object
    description: str
    what_if: tuple[float, ...] = ()
    chosen: bool = True
    required: bool = False
    read_by: ReadBy | None = None

    @property
    def readers(self) -> str:
        """Return in words which machines read it; empty if every machine does."""
        if self.read_by is None:
            return ""
        others = "; others for area and energy" if self.read_by.priced else ""
        types = ", ".join(self.read_by.types) + others
        return ", ".join([types] * bool(types) + [f"with {self.read_by.needed}"] * bool(self.read_by.needs))


def parameters(of: Hardware | None = None) -> tuple[Parameter, ...]:
    """Return every key that a hardware file may hold, in the order of the schema.

    The keys of further memories follow, under the names of the memories of the machine `of`.
    """
    names = [memory.name for memory in of.memory] if of else []
    all_parameters = _schema_parameters()
    return tuple(row for row in all_parameters if not row.path.startswith(f"{MEMORY}.")) + tuple(
        replace(row, path=f"{MEMORY}.{name}.{row.path.rpartition('.')[2]}")
        for name in names
        for row in memory_parameters()
    )


def parameters_read(by: Hardware) -> tuple[Parameter, ...]:
    """Return the keys that a machine reads; changing any other key has no effect on it."""
    reasons = unread(by)
    return tuple(row for row in parameters(by) if not why_unread(by, row.path, reasons))


def memory_parameters() -> tuple[Parameter, ...]:
    """Return the keys of a further memory, with `ANY_NAME` in place of its name."""
    return tuple(row for row in _schema_parameters() if row.path.startswith(f"{MEMORY}."))


@cache
def _schema_parameters() -> tuple[Parameter, ...]:
    return tuple(_parameters(Hardware, "", None))


def _parameters(table: type[Section], prefix: str, read_by: ReadBy | None) -> Iterator[Parameter]:
    """Yield the keys of a table. `read_by` is the condition of the table, for keys without their own."""
    for key, field in table.model_fields.items():
        path, condition = f"{prefix}{key}", field.read_by or read_by
        if field.table is not None:
            yield from _parameters(field.table, _below(path, field), condition)
            continue
        yield Parameter(
            path,
            field.allowed,
            None if field.required else list(field.default) if field.item else field.default,
            field.description,
            field.what_if,
            not field.given,
            field.required,
            condition,
        )


def _below(path: str, field: Field) -> str:
    """Return the prefix of the keys of a table, or of each table in a list, at a path."""
    return f"{path}.{ANY_NAME}." if field.item else f"{path}."


@cache
def known_paths() -> dict[str, Parameter]:
    """Map the path of every key to its parameter; paths of memories contain `ANY_NAME`."""
    return {row.path: row for row in _schema_parameters()}


def parameter(path: str) -> Parameter | None:
    """Return the parameter at a path, the same for every further memory; None if there is none."""
    keys = path.split(".")
    if keys[0] == MEMORY and len(keys) == 3:
        path = f"{MEMORY}.{ANY_NAME}.{keys[2]}"
    return known_paths().get(path)


@cache
def _conditions() -> dict[str, ReadBy]:
    """Map the path of every key or table that only some machines read to its condition; memories are `ANY_NAME`."""
    return dict(_conditions_of(Hardware, ""))


def _conditions_of(table: type[Section], prefix: str) -> Iterator[tuple[str, ReadBy]]:
    for key, field in table.model_fields.items():
        if field.read_by is not None:
            yield prefix + key, field.read_by
        if field.table is not None:
            yield from _conditions_of(field.table, _below(prefix + key, field))


def unread(hardware: Hardware) -> dict[str, str]:
    """Map each key or table that nothing in a machine reads to the reason, which names the keys that count instead."""
    reasons: dict[str, str] = {}
    for path, conditions in _conditions().items():
        for name in _names(hardware, path):
            reason = _reason(hardware, name, conditions)
            if reason:
                reasons[name] = reason
    return reasons


def why_unread(hardware: Hardware, path: str, reasons: Mapping[str, str] | None = None) -> str:
    """Return why nothing in a machine reads a key; empty if something does. `reasons` are those of `unread`."""
    reasons = unread(hardware) if reasons is None else reasons
    return next((why for key, why in reasons.items() if f"{path}.".startswith(f"{key}.")), "")


def _names(hardware: Hardware, path: str) -> list[str]:
    """Return a path itself, or for a path with `ANY_NAME` one path for each memory of a machine."""
    if f".{ANY_NAME}." not in path:
        return [path]
    return [path.replace(ANY_NAME, memory.name, 1) for memory in hardware.memory]


def _reason(hardware: Hardware, path: str, reads: ReadBy) -> str:
    """Return why a machine does not read a key; empty if it does."""
    kind = hardware.mac_array.kind
    if reads.types and kind not in reads.types and not reads.priced:
        sizes = engine_of(hardware.mac_array).sizes if kind_fault(kind) is None else (path,)
        if path not in sizes:
            others = f"only {_listed(reads.types)} engines do"
            instead = f"its size is {_listed(sizes)}" if path in _size_keys() else others
            return f"a {kind} engine does not read it; {instead}"
    table = path.rpartition(".")[0]
    needs = [f"{table}{need}" if need.startswith(".") else need for need in reads.needs]
    if needs and not any(_value(hardware, need) for need in needs):
        return f"nothing reads it without {reads.needed}"
    return ""


@cache
def _size_keys() -> frozenset[str]:
    """Return the keys that set the size of a MAC engine, and their own tables, such as mac_array.block."""
    keys = [path for engine in ENGINES for path in engine.sizes]
    return frozenset(keys) | {path.rpartition(".")[0] for path in keys if path.count(".") > 1}


def _value(hardware: Hardware, path: str) -> object:
    """Return the value at a dotted path, in which a further memory goes by its name."""
    value: object = hardware
    for name in path.split("."):
        if isinstance(value, tuple):
            value = next(memory for memory in value if memory.name == name)
        else:
            value = getattr(value, name)
    return value


def _listed(paths: tuple[str, ...]) -> str:
    """Join keys for a sentence; only the first one keeps the table that they share."""
    table = f"{paths[0].rpartition('.')[0]}."
    words = [paths[0], *(path.removeprefix(table) for path in paths[1:])]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def without_unread(hardware: Hardware, reasons: Mapping[str, str]) -> Hardware:
    """Return the machine with defaults in all keys that it does not read, so that equal machines compare equal.

    `reasons` are those of `unread`.
    """
    for path in reasons:
        hardware = _reset(hardware, *path.split("."))
    return hardware


def _reset(table: Any, key: str, *below: str) -> Any:
    """Return a table with the key at the path `key`, `below` set to its default; unchanged if it has it already."""
    value = getattr(table, key)
    if not below:
        value = type(table).model_fields[key].default
    elif isinstance(value, tuple):
        value = tuple(_reset(memory, *below[1:]) if memory.name == below[0] else memory for memory in value)
    elif value is not None:
        value = _reset(value, *below)
    return table if value == getattr(table, key) else table.model_copy(update={key: value})
