"""Every number of a hardware file has a least and a largest value, and a machine at either end gives finite numbers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any

import pytest

import npusim
from npusim.isa.base.errors import HardwareError
from npusim.isa.hardware.file import change, hardware
from npusim.isa.hardware.hardware import Hardware

from ...test_rooms import ROOT


def _fields(
    schema: Mapping[str, Any], tables: Mapping[str, Any], prefix: str = ""
) -> Iterator[tuple[str, Any]]:
    for key, field in schema["properties"].items():
        table = field.get("$ref", "").rpartition("/")[2]
        if table:
            yield from _fields(tables[table], tables, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", field["anyOf"][0] if "anyOf" in field else field


SCHEMA = Hardware.model_json_schema()
NUMBERS = {
    path: field
    for path, field in _fields(SCHEMA, SCHEMA["$defs"])
    if field.get("type") in ("integer", "number") and "enum" not in field
}


def _ends(field: Mapping[str, Any]) -> tuple[float, float]:
    """The least and the largest value of a field."""
    whole = field["type"] == "integer"
    inside = 1 if whole else 1e-9
    low = field.get("minimum", field.get("exclusiveMinimum", 0) + inside)
    high = field.get("maximum", field.get("exclusiveMaximum", 0) - inside)
    return (low, high) if whole else (float(low), float(high))


def test_every_number_has_finite_limits() -> None:
    assert len(NUMBERS) > 35
    for path, field in NUMBERS.items():
        low = [field[name] for name in ("minimum", "exclusiveMinimum") if name in field]
        high = [field[name] for name in ("maximum", "exclusiveMaximum") if name in field]
        assert len(low) == len(high) == 1, path
        assert isfinite(low[0]), path
        assert isfinite(high[0]), path
        # A clock or bandwidth "above 0" may be 5e-324, and times of a run are its reciprocal.
        if "clock" in path or "bandwidth" in path:
            assert low[0] >= 1e-6, path
            assert "minimum" in field, path


@pytest.mark.cases(12)
@pytest.mark.parametrize("path", NUMBERS)
def test_a_machine_at_either_end_gives_finite_numbers(path: str) -> None:
    graph = npusim.load("digits_cnn")
    for value in _ends(NUMBERS[path]):
        try:
            chip = change(hardware("edge-128"), {path: value})
        except HardwareError:
            continue  # a rule between fields, such as a scratchpad that is too small for the array
        result = npusim.simulate(npusim.compile(graph, chip), timing_only=True)
        json.dumps(result.to_dict(), allow_nan=False)
        assert result.cycles >= result.lower_bound.cycles
        assert 0 < result.latency_ms < 1e12
        assert 0 < result.energy_uj < 1e15


@pytest.mark.parametrize("name", ["hw_clock_1e-9", "hw_bandwidth_1e-18", "hw_host_clock_5e-324"])
def test_values_that_nobody_builds_are_refused(name: str) -> None:
    file = ROOT.parent / "shared" / "repro" / f"{name}.toml"
    if not file.exists():
        pytest.skip("needs ../shared/repro")
    with pytest.raises(HardwareError, match=r"1 fault: .* is not a number from (0\.001|1e-06) to "):
        hardware(file)
