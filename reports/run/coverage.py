"""Operator coverage: what each model format calls an operator, which element types run where, on which conditions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from npusim.base.files import json_text
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.version import npusim_version
from npusim.isa.hardware.agreement import standing
from npusim.isa.hardware.hardware import Hardware
from npusim.numbers.area import area
from npusim.reports.words.names import UNIT_WORDS
from npusim.reports.words.quantities import columns, markdown

HOST = "host"


@dataclass(frozen=True, slots=True)
class Way:
    """A unit of the NPU, or the host, that computes an operator, with its element types and conditions."""

    unit: str
    types: tuple[str, ...]
    conditions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Coverage:
    """One operator of npusim.

    names:   per model format, what it calls the operator; empty where the format does not have it.
    types:   the element types that its first operand may have; ("any",) for all.
    ways:    how it is computed; the first whose conditions hold, else on the host.
    on_host: the types that only the host computes.
    mixed:   how calls with weights of another type than the activations are computed.
    """

    op: str
    names: Mapping[str, Sequence[str]]
    types: tuple[str, ...]
    ways: tuple[Way, ...]
    on_host: tuple[str, ...] = ()
    mixed: tuple[Way, ...] = ()

    def __hash__(self) -> int:
        return hash(self.op)

    @property
    def places(self) -> dict[str, tuple[str, ...]]:
        """Element types by the unit that computes them where the conditions hold."""
        units: dict[str, list[str]] = {}
        for way in self.ways:
            types = units.setdefault(way.unit, [])
            types += [name for name in way.types if name not in types]
        if self.on_host and self.on_host != tuple(units.get(HOST, ())):
            units[HOST] = [*units.get(HOST, ()), *self.on_host]
        return {unit: tuple(types) for unit, types in units.items()}


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of the NN HAL: what becomes of it, and what its text demands."""

    code: int
    name: str
    since: str
    types: tuple[str, ...]
    operators: tuple[str, ...]
    constraints: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Standard:
    """One operation of a model format.

    code:      its number, where operations have some.
    arguments: inputs and outputs as its row has them, without defaults.
    operators: what it becomes, the main one first; none where it is known before anything runs.
    main:      how that one is computed.
    """

    code: int | None
    name: str
    arguments: str
    operators: tuple[str, ...]
    main: Coverage | None


def unit_words(unit: str) -> str:
    """Return the name of a unit in reports."""
    return UNIT_WORDS.get(unit, unit)


def table(rows: Sequence[Coverage], width: int = 80) -> str:
    """Return, per operator, a line for each unit that runs it with element types, and one for its names; then totals.

    width: maximum characters of a line, unless a single name is longer.
    """
    lines: list[tuple[str, str]] = []
    for row in rows:
        head = row.op
        for unit, types in row.places.items():
            lines.append((head, f"{unit_words(unit)}: {', '.join(types)}"))
            head = ""
        named = (f"{name} {', '.join(kinds)}" for name, kinds in row.names.items() if kinds)
        lines.append((head, f"called {'; '.join(named) or 'so by no model format'}"))
    note = "Where a condition does not hold the host computes; npusim ops OP says which there are."
    text = columns(("operator", "what runs it, and what model formats call it"), lines, width=width)
    return f"{text}\n\n{_counts(rows)}\n{note}"


def details(row: Coverage) -> str:
    """Return the text about one operator: its names, units, element types and conditions."""
    lines = [row.op]
    lines += [f"  {name}: {', '.join(kinds) or '-'}" for name, kinds in row.names.items()]
    for way in (*row.ways, *row.mixed):
        lines.append(f"  {unit_words(way.unit)}: {', '.join(way.types)}{', if' if way.unit != HOST else ''}")
        lines += [f"    {condition}" for condition in way.conditions]
    if row.on_host and all(way.unit != HOST for way in row.ways):
        lines.append(f"  host: {', '.join(row.on_host)}, and where no condition holds")
    return "\n".join(lines)


def standard_table(rows: Sequence[Standard], width: int = 80) -> str:
    """Return a table of the operations of a front end, a line per unit of the main operator, and the counts."""
    lines: list[tuple[str, ...]] = []
    for row in rows:
        number = () if row.code is None else (str(row.code),)
        head: tuple[str, ...] = (*number, row.name, row.operators[0] if row.operators else "-")
        for place in _places(row):
            lines.append((*head, *place))
            head = ("",) * len(head)
    coded = any(row.code is not None for row in rows)
    titles = (*(("code",) if coded else ()), "operation", "becomes", "runs on", "of")
    note = "Where a condition does not hold the host computes; npusim ops OP says which there are."
    return f"{columns(titles, lines, (0,) if coded else (), width)}\n\n{_standard_counts(rows)}\n{note}"


def _places(row: Standard) -> list[tuple[str, str]]:
    if row.main is None:
        return [("nothing", "constants: known before anything runs")]
    return [(unit_words(unit), ", ".join(types)) for unit, types in row.main.places.items()]


def _standard_counts(rows: Sequence[Standard]) -> str:
    known = sum(row.main is None for row in rows)
    on_host = sum(row.main is not None and row.main.ways[0].unit == HOST for row in rows)
    on_npu = len(rows) - known - on_host
    units = f"{on_npu} on the NPU, {on_host} on the host only"
    return f"{len(rows)} operations, {units}, {known} known before anything runs."


def _formats(rows: Sequence[Coverage]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row.names))


def _counts(rows: Sequence[Coverage]) -> str:
    on_host = sum(row.ways[0].unit == HOST for row in rows)
    return f"{len(rows)} operators, {len(rows) - on_host} on the NPU, {on_host} on the host only."


def page(rows: Sequence[Coverage], operations: Sequence[Operation], standard: Sequence[Standard]) -> str:
    """Return docs/operators.md: table and conditions of the operators, operations of the NN HAL and of NNAdapter."""
    lines = [
        *_summary(rows),
        *_conditions(rows),
        *_operations(operations),
        "",
        *_standard_operations(standard),
    ]
    return "\n".join(lines) + "\n"


def _standard_operations(rows: Sequence[Standard]) -> Iterator[str]:
    yield from ("## Operations of NNAdapter", "")
    lines = []
    for row in rows:
        becomes = ", ".join(f"`{name}`" for name in row.operators)
        places = "; ".join(f"{unit}: {types}" for unit, types in _places(row))
        lines.append((str(row.code), f"`{row.name}`", f"`{row.arguments}`", becomes or "-", places))
    yield from markdown(
        ("code", "operation", "inputs > outputs", "becomes", "its main operator runs on"), lines
    )
    yield from ("", _standard_counts(rows))


def _summary(rows: Sequence[Coverage]) -> Iterator[str]:
    formats = _formats(rows)
    lines = []
    for row in rows:
        names = [", ".join(f"`{kind}`" for kind in row.names.get(name, ())) or "-" for name in formats]
        places = {unit_words(unit): ", ".join(types) for unit, types in row.places.items()}
        host = places.pop(HOST, "-")
        units = "; ".join(f"{unit}: {types}" for unit, types in places.items())
        lines.append((f"[`{row.op}`](#{row.op})", *names, units or "-", host))
    yield from markdown(("operator", *formats, "on the NPU", "host only"), lines)
    yield from ("", _counts(rows), "")


def _conditions(rows: Sequence[Coverage]) -> Iterator[str]:
    yield from ("## Conditions", "")
    for row in rows:
        yield from (f"### {row.op}", "")
        for way in (*row.ways, *row.mixed):
            words = "; ".join(way.conditions)
            yield f"- **{unit_words(way.unit)}**, {', '.join(way.types)}: {words}"
        yield ""


def _operations(operations: Sequence[Operation]) -> Iterator[str]:
    yield from ("## Operations of the NN HAL", "")
    lines = []
    for row in operations:
        types, becomes = ", ".join(row.types), ", ".join(f"`{name}`" for name in row.operators)
        constraints = "; ".join(row.constraints)
        lines.append(
            (str(row.code), f"`{row.name}`", row.since, types or "-", becomes or "-", constraints or "-")
        )
    yield from markdown(("code", "operation", "since", "tensor types", "becomes", "must keep"), lines)


def presets(hardware: Iterable[Hardware]) -> str:
    """Return the presets with the numbers of `npusim hw list`, as JSON; values of a missing NPU are null."""
    return _document("presets", map(_preset, hardware))


def models(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return the built-in models as JSON: name, description, macs, parameters."""
    return _document("models", rows)


def operators(rows: Sequence[Coverage]) -> str:
    """Return the operators as JSON: names by model format, and units with their element types and conditions."""
    return _document("operators", ({"operator": row.op, **_coverage(row)} for row in rows))


def operations(rows: Sequence[Standard]) -> str:
    """Return the operations of a model format and what each becomes, as JSON; `computed` is null for constants."""
    return _document("operations", map(_operation, rows))


def _document(name: str, rows: Iterable[Mapping[str, Any]]) -> str:
    head = {"schema_version": 1, "npusim_version": npusim_version()}
    return json_text({**head, name: list(rows)})


def _preset(preset: Hardware) -> dict[str, Any]:
    alone = preset.is_host_alone
    return {
        "name": preset.name,
        "description": preset.description,
        "macs_per_cycle": None if alone else preset.macs_per_cycle,
        "clock_mhz": preset.clock_mhz,
        "tops": None if alone else preset.tops,
        "area_mm2": None if alone else area(preset).total,
        "scratchpad_kib": preset.scratchpad.size_kib,
        "host": f"{preset.host.threads} x {preset.host.core}",
        "node_nm": preset.technology.node_nm,
        "agreement": standing(preset).to_dict(),
    }


def _coverage(row: Coverage) -> dict[str, Any]:
    return {
        "names": {name: list(kinds) for name, kinds in row.names.items()},
        "types": list(row.types),
        "ways": [asdict(way) for way in (*row.ways, *row.mixed)],
        "on_host": list(row.on_host),
    }


def _operation(row: Standard) -> dict[str, Any]:
    return {
        "code": row.code,
        "operation": row.name,
        "arguments": row.arguments,
        "operators": list(row.operators),
        "computed": None if row.main is None else _coverage(row.main),
    }
