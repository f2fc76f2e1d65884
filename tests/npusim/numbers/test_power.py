"""Where and when the energy goes: the parts add up to the run, by component, layer and over time."""

from __future__ import annotations

import numpy as np
import pytest

import npusim
from npusim.isa.hardware.units import Unit
from npusim.numbers.measure import measure
from npusim.numbers.power import (
    WINDOWS,
    charges,
    layer_energy_uj,
    moving_pj,
    window_cycles,
)
from npusim.numbers.run import RunResult
from npusim.numbers.timeline import scratchpad_use

from . import fake_run as fake
from .fake_run import BENCH, LAYERS, STEPS, execution, program


def handmade() -> RunResult:
    return measure(program(), execution())


RUNS = {"handmade": handmade, "digits_cnn": lambda: npusim.run("digits_cnn", timing_only=True)}


@pytest.fixture(scope="module", params=RUNS, ids=str)
def result(request: pytest.FixtureRequest) -> RunResult:
    return RUNS[request.param]()


def test_power_times_time_is_the_energy_of_each_component(result: RunResult) -> None:
    power = charges(result.program, result.execution).over_time(WINDOWS)
    us = result.hardware.us_of_cycles(1) * np.diff(power.edges)
    spent = {name: float((part * us).sum()) * 1e-3 for name, part in power.by_component_mw.items()}
    expected = {name: value for name, value in result.energy_uj.by_component.items() if value}
    assert {name: value for name, value in spent.items() if value} == pytest.approx(expected)
    assert float((power.total_mw * us).sum()) * 1e-3 == pytest.approx(float(result.energy_uj))


def test_power_has_windows_of_whole_cycles(result: RunResult) -> None:
    edges = charges(result.program, result.execution).over_time(WINDOWS).edges
    assert (edges[0], edges[-1]) == (0, int(result.cycles))
    assert len(edges) - 1 == min(WINDOWS, int(result.cycles))
    assert (np.diff(edges) > 0).all()


def test_the_chart_is_the_energy_and_its_highest_point_the_peak(result: RunResult) -> None:
    power = result.moving_power()
    us = result.hardware.us_of_cycles(1) * np.diff(power.edges)
    spent = {name: float((part * us).sum()) * 1e-3 for name, part in power.by_component_mw.items()}
    expected = {name: value for name, value in result.energy_uj.by_component.items() if value}
    assert {name: value for name, value in spent.items() if value} == pytest.approx(expected)
    assert power.highest_mw.max() == pytest.approx(result.power_mw.peak_10us, rel=1e-9)
    assert (sum(power.by_component_mw.values()) <= power.highest_mw * (1 + 1e-9)).all()


def test_peaks_of_longer_windows_are_lower_and_none_is_below_the_average(result: RunResult) -> None:
    power = result.power_mw
    assert power.peak == power.peak_10us >= power.peak_1ms >= power.average > 0


def test_peaks_of_a_run_with_a_plateau_are_in_order() -> None:
    """Constant power for longer than any window: all peaks are that power, whatever the order of the sums."""
    host = fake.LAYERS[-1]
    steps = tuple(fake.Step(Unit.HOST, 0, at * 700_001 + 3, (at + 1) * 700_001) for at in range(3))
    run = fake.execution(steps=steps, layer_actions=[{}, {"dram_read_byte": 7}])
    power = measure(fake.program((host,), steps), run).power_mw
    assert power.peak_10us >= power.peak_1ms >= power.average


@pytest.mark.parametrize(("clock_mhz", "cycles"), [(500.0, 5000), (333.3, 3333), (0.15, 2), (0.001, 1)])
def test_windows_are_whole_cycles(clock_mhz: float, cycles: int) -> None:
    hardware = BENCH.model_copy(update={"clock_mhz": clock_mhz})
    assert window_cycles(hardware, "10 us") == cycles
    assert window_cycles(hardware, "1 ms") == 100 * cycles


def test_power_is_drawn_where_the_unit_works() -> None:
    result = handmade()
    power = result.power_over_time(200)
    mac = power.by_component_mw["mac_array"]
    standing = mac[0]
    # The convolution runs from cycle 40 to 100.
    assert (mac[40:100] > standing).all()
    assert mac[:40] == pytest.approx(standing)
    assert mac[100:] == pytest.approx(standing)


def test_energy_of_layers_adds_up_both_ways(result: RunResult) -> None:
    parts = layer_energy_uj(result.program, result.execution)
    by_component = {name: float(part.sum()) for name, part in parts.items()}
    expected = {name: value for name, value in result.energy_uj.by_component.items() if value}
    assert {name: value for name, value in by_component.items() if value} == pytest.approx(expected)
    by_layer = np.sum(list(parts.values()), axis=0)
    assert by_layer == pytest.approx(np.array([layer.energy_uj for layer in result.layers]))


def test_energy_of_the_host_is_that_of_its_layer() -> None:
    result = handmade()
    spent = layer_energy_uj(result.program, result.execution)["host"]
    assert np.flatnonzero(spent).tolist() == [len(LAYERS) - 1]
    spread, rest = moving_pj(result.program, result.execution)["host"]
    assert np.flatnonzero(spread).tolist() == [6]
    assert STEPS[6].layer == len(LAYERS) - 1
    assert rest == 0


def test_the_scratchpad_is_never_fuller_than_what_is_given(result: RunResult) -> None:
    use = scratchpad_use(result.program, result.execution.trace)
    assert 0 < use.sizes.max() <= result.scratchpad_peak_bytes
    assert use.sizes[-1] == 0
