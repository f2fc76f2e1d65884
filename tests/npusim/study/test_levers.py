"""Levers: every line of an answer is what `--set` of its keys gives, and the first is the best that was looked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import npusim
from npusim.isa.base.errors import NpusimError
from npusim.numbers.answer import Answer, Lever, Tried
from npusim.numbers.run import RunResult
from npusim.quantization.quantization import placements, quantize
from npusim.session import api
from npusim.session.options import FAST, Options
from npusim.study import levers as searching
from npusim.study.levers import candidates, levers
from npusim.study.what_if import what_if

from ...command_line import command
from ...graphs import Sketch
from ..quantization.floats import float_twin

FLOATS = ["vector.float32_lanes=4", "mac_array.float32_columns=2"]


def _ran(model: str, preset: str, *settings: str) -> RunResult:
    return api.run(model, npusim.hardware(preset, settings), timing_only=True)


def _levers(model: str, result: RunResult, how: Options = FAST) -> tuple[Answer, Tried]:
    tried = levers(api.load(model), result, how, file=model)
    found = replace(result, tried=tried).answer
    assert found is not None
    return found, tried


@pytest.mark.slow
@pytest.mark.cases(2)
@pytest.mark.parametrize(
    ("model", "preset"),
    [
        ("digits_cnn", "edge-128"),
        ("ds_cnn", "mobile-1024"),
        ("ds_cnn", "ethos-u55-128"),
        ("ds_cnn", "gap9"),
        ("digits_cnn", "stm32n6"),
    ],
)
def test_a_line_is_what_set_gives(model: str, preset: str) -> None:
    before = _ran(model, preset)
    found, tried = _levers(model, before)
    assert found.levers
    for lever in found.levers:
        then = _ran(model, preset, *(f"{path}={value}" for path, value in lever.set.items()))
        assert (int(then.cycles), then.latency_ms) == (lever.cycles, lever.latency_ms)
        assert (float(then.energy_uj), then.area.total) == (lever.energy_uj, lever.area_mm2)
        assert lever.latency_percent == pytest.approx(100 * (then.latency_ms / before.latency_ms - 1))
        assert lever.latency_percent <= -1
    gains = [lever.latency_percent for lever in tried.levers]
    assert found.levers[0].latency_percent == min(gains)
    assert _levers(model, before)[1] == tried  # equal runs have equal answers


@pytest.mark.slow
@pytest.mark.cases(1)
@pytest.mark.parametrize("preset", ["edge-128", "ethos-u55-128", "mobile-1024"])
def test_no_single_key_is_better_than_the_first_line(preset: str) -> None:
    before = _ran("digits_cnn", preset)
    found, _ = _levers("digits_cnn", before)
    every = what_if("digits_cnn", preset, jobs=1)
    best = min(each.latency_ms for each in every.variants if each.latency_ms is not None)
    assert found.levers
    assert found.levers[0].latency_ms <= best


def test_an_array_that_works_all_the_time_is_what_is_made_larger() -> None:
    """FAULTS2 A1: an ideal array would wait for the DRAM, so twice the bandwidth was said to help most."""
    found, _ = _levers("ds_cnn", _ran("ds_cnn", "ethos-u55-128"))
    assert found.bound == "compute"
    assert found.levers
    gains = {lever.relieves: -lever.latency_percent for lever in found.levers}
    assert gains["mac"] > 30 > 5 > gains["dram"]


def test_a_float_network_is_quantized_or_gets_units_for_floats() -> None:
    """FAULTS2 A3. Both are timed; ranges that were made up take no other cycles than measured ones."""
    sketch = Sketch()
    image = sketch.input(1, 16, 16, 8)
    sketch.softmax(sketch.fully_connected(sketch.reshape(sketch.conv(image, 16), 1, 14 * 14 * 16), 10))
    graph = float_twin(sketch.graph())
    before = api.simulate(api.compile_program(graph), timing_only=True)
    tried = levers(graph, before, file="float.tflite")
    found = replace(before, tried=tried).answer
    assert found is not None
    assert found.reason.by == "host"
    assert found.levers
    quantizing, floats, *_ = found.levers
    assert quantizing.do == ("npusim quantize float.tflite --data SAMPLES.npz --io int8 -o float_int8.tflite")
    rng = np.random.default_rng(0)
    samples = {
        place.name: rng.normal(size=(3, *place.type.shape)).astype(np.float32) for place in placements(graph)
    }
    made = quantize(graph, samples, codes_outside=True).graph
    assert made is not None
    then = api.simulate(api.compile_program(made), timing_only=True)
    assert quantizing.cycles == pytest.approx(int(then.cycles), rel=0.01)
    assert dict(floats.set) == {"vector.float32_lanes": 4, "mac_array.float32_columns": 2}
    units = api.compile_program(graph, npusim.hardware("edge-128", FLOATS))
    assert floats.cycles == int(api.simulate(units, timing_only=True).cycles)
    assert {layer.unit for layer in units.layers} <= {"mac", "vector", "none"}


def test_what_an_operator_lacks_is_given_to_the_machine() -> None:
    without = npusim.hardware("edge-128", ["float32_rescale=false"])
    sketch = Sketch()
    sketch.conv(sketch.input(1, 32, 32, 8), 16)
    graph = sketch.graph()
    nodes = [replace(node, parameters=node.parameters.changed(rescale="float32")) for node in graph.nodes]
    graph = replace(graph, nodes=tuple(nodes))
    before = api.simulate(api.compile_program(graph, without), timing_only=True)
    needed = "needs an output stage that requantizes in float32 (float32_rescale); edge-128"
    assert before.layers[0].reason.startswith(needed)
    best, *_ = replace(before, tried=levers(graph, before)).answer.levers  # type: ignore[union-attr, misc]
    then = api.simulate(api.compile_program(graph, npusim.hardware("edge-128")), timing_only=True)
    assert (dict(best.set), best.cycles) == ({"float32_rescale": True}, int(then.cycles))


@pytest.mark.slow
def test_what_helps_most_of_all_keys_is_among_the_levers() -> None:
    before = _ran("digits_cnn", "gap9")
    every = what_if("digits_cnn", "gap9", jobs=1)
    tried = levers(api.load("digits_cnn"), replace(before, variants=every))
    best = min(
        (each for each in every.variants if not each.reason), key=lambda each: each.latency_percent or 0
    )
    assert any(lever.latency_percent == pytest.approx(best.latency_percent) for lever in tried.levers)


def test_where_nothing_is_simulated_it_says_why(tmp_path: Path) -> None:
    before = _ran("digits_cnn", "edge-128")
    effort, _ = _levers("digits_cnn", before, Options(effort=3))
    assert (
        effort.note
        == "with --effort 3 each change would be a search; run without it to see what changes bring"
    )
    cost, _ = _levers("digits_cnn", before, Options(partition="cost"))
    assert cost.note.startswith("with --partition cost each change would be a search")
    cpu, _ = _levers("digits_cnn", _ran("digits_cnn", "cortex-m7"))
    assert cpu.note == "cortex-m7 has no NPU to change; --hw edge-128 runs the model on one"
    assert (effort.levers, cost.levers, cpu.levers) == ((), (), ())
    file = tmp_path / "digits.npu"
    npusim.save_program(before.program, file)
    assert "the program is compiled already; run the model" in " ".join(command("run", file).out.split())


@pytest.mark.slow
def test_operators_that_were_put_on_the_host_stay_there() -> None:
    before = api.run("digits_cnn", host=["max_pool_2d"], timing_only=True)
    _, tried = _levers("digits_cnn", before, Options(host=["max_pool_2d"]))
    for lever in tried.levers[:3]:
        settings = [f"{path}={value}" for path, value in lever.set.items()]
        faster = npusim.hardware("edge-128", settings)
        then = api.run("digits_cnn", faster, host=["max_pool_2d"], timing_only=True)
        assert int(then.cycles) == lever.cycles


@pytest.mark.slow
def test_a_large_network_is_tried_on_fewer_machines() -> None:
    small, large = _ran("digits_cnn", "edge-128"), _ran("mobilenet_v2", "edge-128")
    assert searching._affordable(small) > 10
    assert searching._affordable(large) == 2
    largest = _ran("resnet50", "edge-128")
    assert searching._affordable(largest) == 1
    computed = replace(largest, outputs=(np.zeros(1),))
    assert searching._affordable(computed) == 2
    assert [each.relieves for each in candidates(large, {})[:3]] == ["dram", "clock", "mac"]


def test_a_change_that_the_model_does_not_fit_is_no_lever(monkeypatch: pytest.MonkeyPatch) -> None:
    before = _ran("digits_cnn", "edge-128")
    tiny = searching.Candidate("scratchpad", {"scratchpad.size_kib": 1}, 1.0)
    monkeypatch.setattr(searching, "candidates", lambda result, lacking: [tiny])
    found, tried = _levers("digits_cnn", before)
    assert tried == Tried(())
    assert found.note == "no change takes off 1 % or more; 0 simulated"


def test_a_lever_is_a_set_or_a_command() -> None:
    setting = Lever("dram", {"dram.bandwidth_gb_per_s": 1.0}, "", 1, 1.0, 1.0, 1.0, -1.0, 0.0, 0.0).to_dict()
    assert setting["set"] == {"dram.bandwidth_gb_per_s": 1.0}
    assert "do" not in setting
    assert "set" not in Lever("host", {}, "npusim quantize", 1, 1.0, 1.0, 1.0, -1.0, 0.0, 0.0).to_dict()


def test_a_model_of_constants_has_no_levers(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx", reason="onnx is not installed")
    path = tmp_path / "constants.onnx"
    codes = onnx.numpy_helper.from_array(np.array([[3, 0, 1]], np.int64), "codes")
    node = onnx.helper.make_node("NonZero", ["codes"], ["places"])
    output = onnx.helper.make_tensor_value_info("places", onnx.TensorProto.INT64, None)
    graph = onnx.helper.make_graph([node], "constants", [], [output], [codes])
    opsets = [onnx.helper.make_opsetid("", 17)]
    path.write_bytes(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString())
    done = command("run", str(path))
    assert (done.status, done.err) == (0, "")


def test_levers_are_of_the_sizes_that_the_inputs_settled(tmp_path: Path) -> None:
    """A model with an open batch was timed at 1 for its levers, whatever had been run."""
    (tmp_path / "net.nnef").write_text(
        "version 1.0;\ngraph net( x ) -> ( y )\n{ x = external(shape = [0,64]); y = relu(x); }\n"
    )
    result = npusim.run(tmp_path / "net.nnef", inputs=[np.zeros((4096, 64), np.float32)])
    assert result.answer is not None
    assert result.answer.levers
    for lever in (each for each in result.answer.levers if each.set):
        then = npusim.run(
            tmp_path / "net.nnef",
            npusim.hardware("edge-128", [f"{path}={value}" for path, value in lever.set.items()]),
            timing_only=True,
            sizes={"x": (4096, 64)},
        )
        assert int(then.cycles) == lever.cycles


def test_a_model_file_that_has_changed_has_no_levers(tmp_path: Path) -> None:
    file = tmp_path / "net.nnef"
    file.write_text("version 1.0;\ngraph net( x ) -> ( y )\n{ x = external(shape = [1,64]); y = relu(x); }\n")
    result = npusim.run(file)
    file.write_text("version 1.0;\ngraph net( x ) -> ( y )\n{ x = external(shape = [1,65]); y = relu(x); }\n")
    with pytest.raises(NpusimError, match=r"has changed since the run; run it again"):
        _ = result.answer


def test_a_layer_on_the_host_for_lack_of_scratchpad_gets_more() -> None:
    """By the key that its operator needs, whatever the words of the reason are."""
    sketch = Sketch()
    image = sketch.input(1, 4, 50, 1000)
    sketch.pool("max_pool_2d", image, (3, 3))
    graph, small = sketch.graph(), npusim.hardware("edge-128", ["scratchpad.size_kib=128"])
    before = api.simulate(api.compile_program(graph, small), timing_only=True)
    (layer,) = before.layers
    assert (layer.unit, "room" in layer.reason) == ("host", True)
    calls = tuple(replace(call, reason="a") for call in before.program.host_calls)
    silent = replace(before, program=replace(before.program, host_calls=calls))
    found = [dict(lever.set) for lever in levers(graph, silent).levers if lever.relieves == "host"]
    assert {"scratchpad.size_kib": 256} in found
