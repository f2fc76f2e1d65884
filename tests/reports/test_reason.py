"""How an answer ends: why the run takes as long as it does, what makes it faster, and which layer that is."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

import npusim
from npusim.isa.hardware.parameters import parameters
from npusim.isa.hardware.units import RESOURCES
from npusim.numbers.answer import Answer, Lever, Tried
from npusim.numbers.causes import CAUSES
from npusim.numbers.measure import measure
from npusim.numbers.run import RunResult
from npusim.reports.run import html, terminal
from npusim.reports.words.reason import ending, idlest, settings
from npusim.session import api

from ..command_line import command
from ..graphs import Sketch
from ..npusim.numbers.fake_run import execution, program


@pytest.fixture(scope="module")
def mobilenet() -> RunResult:
    return api.run("mobilenet_v2", timing_only=True)


@pytest.fixture(scope="module")
def keywords() -> RunResult:
    """A network on an array that works nearly all the time, while an ideal array would wait for the DRAM."""
    return npusim.run("ds_cnn", hw="ethos-u55-128", timing_only=True)


def _answer(result: RunResult) -> Answer:
    found = result.answer
    assert found is not None
    return found


def _words(result: RunResult) -> str:
    return " ".join(" ".join(line[:3]) for line in ending(result))


def test_every_lever_is_a_parameter_and_every_loss_has_one() -> None:
    known = {each.path for each in parameters()}
    levers = {name: cause.levers for name, cause in CAUSES.items()}
    for found in (*levers.values(), *(each.levers for each in RESOURCES.values())):
        assert set(found) <= known
    gains = {name for name, cause in CAUSES.items() if cause.meaning.startswith("gain")}
    assert {name for name, found in levers.items() if not found} == gains


def test_what_works_is_the_reason_not_what_an_ideal_array_would_wait_for(keywords: RunResult) -> None:
    assert keywords.lower_bound.bound_by == "dram"
    found = _answer(keywords)
    assert (found.reason.by, found.bound) == ("mac", "compute")
    assert found.reason.share == keywords.cycles.mac / keywords.cycles > 0.85
    assert found.busy["mac"] > 2 * found.busy["dram"]
    by_layer = [layer.busy_cycles["mac"] for layer in keywords.layers]
    assert found.reason.layer == max(range(len(by_layer)), key=lambda layer: by_layer[layer])
    assert found.reason.layer_share == max(by_layer) / sum(by_layer)
    assert sum(by_layer) == keywords.cycles.mac
    convolutions = [layer for layer in keywords.layers if layer.macs and layer.op != "fully_connected"]
    assert {layer.bound_by for layer in convolutions} == {"mac"}
    assert {layer.lower_bound_limit for layer in convolutions} >= {"dram"}
    assert "the MAC array works (compute-bound)" in _words(keywords)


def test_a_unit_s_time_is_that_in_which_it_works_for_a_layer() -> None:
    """Not what the layer loses: bounds and losses have no part in it."""
    sketch = Sketch()
    wide = sketch.resize(sketch.input(1, 64, 64, 8), 128, 128)
    sketch.pool("average_pool_2d", wide, (2, 2))
    result = npusim.simulate(npusim.compile(sketch.graph()), timing_only=True)
    found, busy = _answer(result), [layer.busy_cycles["vector"] for layer in result.layers]
    assert found.reason.by == "vector"
    assert sum(busy) == result.cycles.vector
    assert (found.reason.layer, found.reason.layer_share) == (0, busy[0] / sum(busy))
    assert result.layers[0].op == "resize_bilinear"


def test_operators_on_the_host_are_the_reason_where_the_time_is_theirs() -> None:
    sketch = Sketch()
    sketch.resize(sketch.conv(sketch.input(1, 16, 16, 8), 8), 64, 64)
    compiled = npusim.compile(sketch.graph(), host=["resize_bilinear"])
    result = npusim.simulate(compiled, timing_only=True)
    host = sum(layer.cycles for layer in result.layers if layer.unit == "host")
    found = _answer(result)
    assert found.reason.by == "host"
    assert found.reason.share == pytest.approx(host / result.cycles, rel=1e-3)
    words = "of the time is 1 operator on the host: resize_bilinear"
    first_screen = terminal.render(result).split("Busy")[0]
    assert words in " ".join(first_screen.split())
    page = html.render(result)
    assert page.index("operator on the host: resize_bilinear") < page.index('id="cycles"')


def test_a_wait_is_the_reason_where_it_holds_more_than_any_unit() -> None:
    slow = npusim.hardware("edge-128", ["dram.latency_ns=100000.0"])
    result = npusim.run("digits_cnn", hw=slow, timing_only=True)
    found = _answer(result)
    assert found.reason.by in ("start_up", "stall_dma")
    assert found.reason.share == result.lost_cycles[found.reason.by] / result.cycles
    assert not found.bound
    assert found.levers
    assert dict(found.levers[0].set) == {"dram.latency_ns": 50_000.0}


def _lever(relieves: str, percent: float, **changes: float) -> Lever:
    return Lever(relieves, changes, "", 1, 100 + percent, 1.0, 1.0, percent, 0.0, 0.0)


def test_a_bound_is_said_only_where_relieving_it_gains(mobilenet: RunResult) -> None:
    without = replace(mobilenet, tried=None)
    assert (_answer(without).bound, _answer(without).levers) == ("", None)
    assert _answer(without).reason.by == "dram"
    vain = Tried((_lever("dram", -0.4, bandwidth=1.0), _lever("clock", -30.0, clock=1.0)))
    found = _answer(replace(mobilenet, tried=vain))
    assert (found.bound, found.reason.by) == ("", "dram")
    assert [each.relieves for each in found.levers or ()] == ["clock"]
    helpful = Tried((_lever("dram", -5.0, bandwidth=1.0), _lever("mac", -7.0, rows=1.0)))
    found = _answer(replace(mobilenet, tried=helpful))
    assert (found.bound, found.reason.by) == ("compute", "mac")


def test_levers_are_the_best_of_their_kind_and_at_most_three(mobilenet: RunResult) -> None:
    tried = [_lever("mac", -3.0, rows=1.0), _lever("mac", -9.0, rows=2.0), _lever("dram", -2.0, dram=1.0)]
    tried += [
        _lever("vector", -1.5, vector=1.0),
        _lever("clock", -1.2, clock=1.0),
        _lever("host", 4.0, host=1.0),
    ]
    found = _answer(replace(mobilenet, tried=Tried(tuple(tried))))
    assert [each.latency_percent for each in found.levers or ()] == [-9.0, -2.0, -1.5]
    assert found.tried == 6
    nothing = replace(mobilenet, tried=Tried((_lever("mac", -0.5, rows=1.0),)))
    assert _words(nothing).endswith("Lever none no change takes off 1 % or more; 1 simulated")


def test_a_machine_without_an_npu_has_no_lever() -> None:
    result = npusim.run("digits_cnn", hw="cortex-m7", timing_only=True)
    assert "Lever none cortex-m7 has no NPU to change; --hw edge-128 runs the model on one" in _words(result)


def test_keys_are_options_with_every_digit_and_quoted_for_a_shell() -> None:
    changes = {"clock_mhz": 1000.0, "dram.latency_ns": 100 / 3, "float32_rescale": True, "name": "an NPU"}
    assert settings(changes) == (
        "--set clock_mhz=1000",
        "--set dram.latency_ns=33.333333333333336",
        "--set float32_rescale=true",
        """--set 'name="an NPU"'""",
    )


def _pasted(shown: str) -> list[list[str]]:
    """Return what a shell reads from each command of the first screen, without the prompt's indentation."""
    screen = shown.split("\n\nBusy")[0]
    commands = re.findall(r"^ +((?:--set|npusim quantize) (?:.*\\\n)*.*)$", screen, re.MULTILINE)
    return [shlex.split(command.replace("\\\n", "")) for command in commands]  # a shell joins such lines


def test_what_the_terminal_shows_of_a_lever_can_be_pasted(tmp_path: Path) -> None:
    numbers = tmp_path / "run.json"
    given = "ds_cnn", "--timing-only", "--hw", "ethos-u55-128", "--json", numbers
    shown = command("run", *given).out
    levers = json.loads(numbers.read_text())["answer"]["levers"]
    pasted = _pasted(shown)
    assert len(pasted) == len(levers) == 3
    assert any(len(words) > 4 for words in pasted)  # over several lines
    for words, lever in zip(pasted, levers, strict=True):
        command("run", *given, "--no-lever", *words)
        assert json.loads(numbers.read_text())["cycles"]["total"] == lever["cycles"]


@pytest.mark.parametrize("width", [60, 80, 110])
def test_lines_break_at_no_number_and_a_long_name_stays_whole(mobilenet: RunResult, width: int) -> None:
    do = f"npusim quantize '{'a long name ' * 8}.onnx' --data SAMPLES.npz --io int8 -o {'b' * 90}.tflite"
    quantizing = Lever("host", {}, do, 1, 1.0, 1.0, 1.0, -50.0, -10.0, 0.1)
    shown = terminal.render(replace(mobilenet, tried=Tried((quantizing,))), width)
    assert _pasted(shown) == [shlex.split(do)]
    lines = [line.rstrip() for line in shown.split("\n\nBusy")[0].split("\n")]
    assert not [line for line in lines if re.match(r" {30}(%|[munp]?[sJW]|MHz|KiB|MiB|mm2)\b", line)]
    assert not [line for line in lines if len(line) > width and "long name" not in line and "bbb" not in line]


@pytest.mark.usefixtures("one_figure")
@pytest.mark.slow
def test_terminal_page_and_json_say_the_same(tmp_path: Path) -> None:
    numbers, folder = tmp_path / "run.json", tmp_path / "report"
    ran = command("run", "ds_cnn", "--timing-only", "--json", numbers, "--report", folder)
    answer = json.loads(numbers.read_text())["answer"]
    assert answer == npusim_answer()
    shown, written = " ".join(ran.out.split()), (folder / "report.html").read_text()
    for lever in answer["levers"]:
        assert f"{lever['latency_percent']:+.1f} % " in shown
        assert " ".join(settings(lever["set"])) in shown.replace(" \\ ", " ")
        assert " ".join(settings(lever["set"])) in written
    assert f"{answer['bound']}-bound" in shown


def npusim_answer() -> object:
    result = npusim.run("ds_cnn", timing_only=True)
    assert result.to_dict()["answer"]["levers"] is None  # nobody asked yet
    assert result.answer is not None
    return json.loads(json.dumps(result.to_dict()))["answer"]


def test_no_lever_simulates_nothing(tmp_path: Path) -> None:
    numbers = tmp_path / "run.json"
    ran = command("run", "digits_cnn", "--timing-only", "--no-lever", "--json", numbers)
    assert "Lever" not in ran.out
    assert json.loads(numbers.read_text())["answer"]["levers"] is None


def test_a_mean_utilization_names_the_layer_that_pulls_it(mobilenet: RunResult) -> None:
    idle = max(mobilenet.layers, key=lambda layer: layer.cycles * (1 - layer.utilization))
    assert idlest(mobilenet).startswith(f"{idle.name} uses ")
    assert idlest(mobilenet) in terminal.render(mobilenet)


def test_a_run_of_nothing_has_no_reason() -> None:
    nothing = measure(program(steps=()), execution(steps=()))
    assert nothing.answer is None
    assert ending(nothing) == ()
    assert "Reason" not in terminal.render(nothing)
