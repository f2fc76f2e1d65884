"""The page of several models on several machines: what is compared with what, colours, and the axis."""

from __future__ import annotations

from typing import Any

import pytest

from npusim.numbers.variants import Run, RunTable
from npusim.reports.run.run_table import DEEPEST, QUANTITIES, _section, machine_groups, render, text

MACHINES = {"gap9": 0.4, "stm32n6": 0.2, "cortex-m7": 8.0, "edge-128": 0.07, "own": 0.02}
PRESETS = {"own": "edge-128"}
QUANTITY = {each.title: each for each in QUANTITIES}


def values(machine: str, model: str, latency_ms: float) -> dict[str, Any]:
    """As much of the JSON of a run as a table reads."""
    words = {"words": f"error of {machine}"}
    return {
        "model": model,
        "hardware": {"name": machine, "lacks_operators": ["all"] if machine == "cortex-m7" else []},
        "latency_ms": latency_ms,
        "energy_uj": {"total": latency_ms * 10},
        "power_mw": {"average": 10.0},
        "mac_utilization": 0.02 / latency_ms,
        "area_mm2": {"total": 5.0},
        "agreement": {"preset": PRESETS.get(machine, machine), "latency": words, "energy": words},
    }


@pytest.fixture
def table() -> RunTable:
    runs = [
        Run(model, machine, values(machine, model, latency * times))
        for model, times in (("small", 1.0), ("large", 10.0))
        for machine, latency in MACHINES.items()
    ]
    runs[0] = Run("small", "gap9", None, "does not fit")
    return RunTable(("small", "large"), tuple(MACHINES), tuple(runs))


def test_idealised_arrays_stand_apart(table: RunTable) -> None:
    """A machine of one's own stands with the presets that it is nearest to."""
    assert machine_groups(table) == {
        "Chips": ("gap9", "stm32n6", "cortex-m7"),
        "Idealised arrays": ("edge-128", "own"),
    }


def test_the_best_is_that_of_a_row_and_a_group(table: RunTable) -> None:
    section = _section(table, QUANTITY["latency"], machine_groups(table), {("large", "gap9"): "run-6.html"})
    chips, arrays = section.matrices
    small, large = (cells for _, cells in chips.rows)
    assert [cell.text for cell in small] == ["-", "200 us", "8 ms"]
    assert [cell.times for cell in large] == ["2x", "1x", "40x"]
    assert [cell.best for cell in large] == [False, True, False]
    assert [cell.page for cell in large] == ["run-6.html", "", ""]
    # Colours go by the logarithm: 2 is a fifth of the way to 40, which is log 2 / log 40 = 0.19 of it.
    assert [cell.depth for cell in large] == [round(DEEPEST * (1 - 0.1879)), DEEPEST, 0]
    assert [cell.best for cell in arrays.rows[0][1]] == [False, True]
    assert {bar.machine for bar in section.bars if bar.best} == {"stm32n6", "own"}


def test_the_axis_is_logarithmic(table: RunTable) -> None:
    """20 us to 80 ms: four decades from 10 us to 100 ms."""
    chart = _section(table, QUANTITY["latency"], machine_groups(table), {})
    assert chart.ticks == ((0.0, "10 us"), (0.25, "100 us"), (0.5, "1 ms"), (0.75, "10 ms"), (1.0, "100 ms"))
    ends = {(bar.text, round(bar.part, 3)) for bar in chart.bars}
    assert {("-", 0.0), ("20 us", 0.075), ("200 us", 0.325), ("80 ms", 0.976)} <= ends


def test_more_use_of_the_array_is_better_on_a_linear_axis(table: RunTable) -> None:
    section = _section(table, QUANTITY["MAC use"], machine_groups(table), {})
    large = section.matrices[0].rows[1][1]
    assert [cell.best for cell in large] == [False, True, False]
    assert section.ticks[-1] == (1.0, "100.0 %")


def test_a_cpu_has_no_area_and_no_array(table: RunTable) -> None:
    cpu, chip = (values(name, "small", 1.0) for name in ("cortex-m7", "gap9"))
    for title in ("area", "MAC use"):
        assert QUANTITY[title].get(cpu) is None
        assert QUANTITY[title].get(chip) is not None
    one_each = RunTable(
        ("small",), ("cortex-m7", "gap9"), (Run("small", "cortex-m7", cpu), Run("small", "gap9", chip))
    )
    lines = {
        line.split()[1]: line.split() for line in text(one_each, 200).splitlines() if line.startswith("small")
    }
    assert lines["cortex-m7"][-2:] == ["-", "-"]
    assert lines["gap9"][-1] == "mm2"
    assert '<th scope="row">cortex-m7</th><td class="n">-</td>' in render(one_each)


def test_names_cannot_spoil_the_page(table: RunTable) -> None:
    evil = "<script>alert(1)</script>"
    runs = tuple(Run(evil, run.hardware, run.values, run.fault) for run in table.runs[:5])
    page = render(RunTable((evil,), table.machines, runs), {4: "run-5.html"})
    assert evil not in page
    assert 'href="run-5.html"' in page
    assert "color-mix" in page
