"""What npusim has, as JSON: presets, built-in models, operators."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from npusim.isa.base.version import npusim_version
from npusim.isa.hardware.agreement import standing
from npusim.isa.hardware.hardware import Hardware
from npusim.numbers.area import area

if TYPE_CHECKING:
    from npusim.reports.run.coverage import Coverage, Standard


def presets(hardware: Iterable[Hardware]) -> str:
    """The presets with the numbers of `npusim hw list`; what a machine without an NPU lacks is null."""
    return _document("presets", map(_preset, hardware))


def models(rows: Iterable[Mapping[str, Any]]) -> str:
    """The built-in models: name, description, macs, parameters."""
    return _document("models", rows)


def operators(rows: Sequence[Coverage]) -> str:
    """The operators: what each model format calls them, and which unit computes which element types, if what holds."""
    return _document("operators", ({"operator": row.op, **_coverage(row)} for row in rows))


def operations(rows: Sequence[Standard]) -> str:
    """The operations of a model format and what each becomes; `computed` is null for what is known before a run."""
    return _document("operations", map(_operation, rows))


def _document(name: str, rows: Iterable[Mapping[str, Any]]) -> str:
    head = {"schema_version": 1, "npusim_version": npusim_version()}
    return json.dumps({**head, name: list(rows)}, indent=2, allow_nan=False) + "\n"


def _preset(each: Hardware) -> dict[str, Any]:
    alone = each.is_host_alone
    return {
        "name": each.name,
        "description": each.description,
        "macs_per_cycle": None if alone else each.macs_per_cycle,
        "clock_mhz": each.clock_mhz,
        "tops": None if alone else each.tops,
        "area_mm2": None if alone else area(each).total,
        "scratchpad_kib": each.scratchpad.size_kib,
        "host": f"{each.host.threads} x {each.host.core}",
        "node_nm": each.technology.node_nm,
        "agreement": standing(each).to_dict(),
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
