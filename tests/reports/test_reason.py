"""How an answer ends: why the run takes as long as it does, what would change it, and which layer that is."""

from __future__ import annotations

import pytest

import npusim
from npusim.isa.hardware.file import change
from npusim.isa.hardware.parameters import parameters
from npusim.numbers.causes import CAUSES
from npusim.numbers.measure import measure
from npusim.numbers.run import RunResult
from npusim.reports.run import html, terminal
from npusim.reports.words.reason import BOUND_LEVERS, CAUSE_LEVERS, Ending, ending, idlest

from ..graphs import Sketch
from ..npusim.numbers.fake_run import execution, program


@pytest.fixture(scope="module")
def mobilenet() -> RunResult:
    return npusim.run("mobilenet_v2", timing_only=True)


def _ending(result: RunResult) -> Ending:
    found = ending(result)
    assert found is not None
    return found


def test_every_lever_is_a_parameter_and_every_loss_has_one() -> None:
    known = {each.path for each in parameters()}
    for keys in (*BOUND_LEVERS.values(), *CAUSE_LEVERS.values()):
        assert keys
        assert set(keys) <= known
    gains = {name for name, cause in CAUSES.items() if cause.meaning.startswith("gain")}
    assert set(CAUSE_LEVERS) == set(CAUSES) - gains


def _segmentation() -> RunResult:
    """A convolution, and a resize of its map on the host, which holds the time."""
    sketch = Sketch()
    sketch.resize(sketch.conv(sketch.input(1, 16, 16, 8), 8), 64, 64)
    return npusim.simulate(npusim.compile(sketch.graph(), host=["resize_bilinear"]), timing_only=True)


def test_operators_on_the_host_are_the_reason_where_the_time_is_theirs() -> None:
    result = _segmentation()
    host = sum(layer.cycles for layer in result.layers if layer.unit == "host")
    found = _ending(result)
    assert found.reason.share == host / result.cycles > 0.5
    assert found.reason.words.startswith("of the time is 1 operator on the host: resize_bilinear")
    rest_us = result.hardware.us_of_cycles(int(result.cycles) - host)
    assert found.lever.best_ms == pytest.approx(rest_us * 1e-3)
    assert "host.core" in found.lever.words
    first_screen = terminal.render(result).split("Busy")[0]
    assert "on the host: resize_bilinear" in " ".join(first_screen.split())
    page = html.render(result)
    assert page.index("operator on the host: resize_bilinear") < page.index('id="cycles"')


def test_a_bound_is_the_reason_and_names_the_layer_that_dominates_it(mobilenet: RunResult) -> None:
    found, bound = _ending(mobilenet), mobilenet.lower_bound
    assert bound.bound_by == "dram"
    assert found.reason.share == bound.cycles / mobilenet.cycles
    largest = max(mobilenet.layers, key=lambda layer: layer.bytes)
    part = 100 * largest.bytes / sum(layer.bytes for layer in mobilenet.layers)
    assert f"{part:.1f} % of it in {largest.name}" in found.reason.words
    assert "dram.bandwidth_gb_per_s" in found.lever.words
    assert found.lever.best_ms == pytest.approx(mobilenet.hardware.us_of_cycles(bound.mac) * 1e-3)


def test_pulling_the_lever_helps(mobilenet: RunResult) -> None:
    faster = change(mobilenet.hardware, {"dram.bandwidth_gb_per_s": 8.0})
    then = npusim.run("mobilenet_v2", hw=faster, timing_only=True)
    assert _ending(mobilenet).lever.best_ms <= then.latency_ms < mobilenet.latency_ms


def test_a_loss_is_the_reason_where_it_holds_more_than_the_bound(mobilenet: RunResult) -> None:
    slow = change(mobilenet.hardware, {"dram.latency_ns": 100_000.0})
    result = npusim.run("digits_cnn", hw=slow, timing_only=True)
    cause = max(result.lost_cycles, key=lambda each: result.lost_cycles[each])
    assert result.lost_cycles[cause] > result.lower_bound.cycles
    found = _ending(result)
    assert found.reason.share == result.lost_cycles[cause] / result.cycles
    assert "of the time is lost to" in found.reason.words
    assert any(key in found.lever.words for key in CAUSE_LEVERS[cause])


def test_a_mean_utilization_names_the_layer_that_pulls_it(mobilenet: RunResult) -> None:
    idle = max(mobilenet.layers, key=lambda layer: layer.cycles * (1 - layer.utilization))
    assert idlest(mobilenet).startswith(f"{idle.name}: ")
    assert idlest(mobilenet) in terminal.render(mobilenet)


def test_a_run_of_nothing_has_no_reason() -> None:
    nothing = measure(program(steps=()), execution(steps=()))
    assert ending(nothing) is None
    assert "Reason" not in terminal.render(nothing)
