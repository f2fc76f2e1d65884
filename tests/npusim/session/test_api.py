"""The Python interface: one call or step by step, by position or by name, with the same errors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import npusim
from npusim import models


def test_step_by_step_is_the_same_as_one_call() -> None:
    graph = npusim.load("digits_cnn")
    program = npusim.compile(graph, npusim.hardware("edge-64"))
    image = models.digits_test()[0][:1]
    name = program.inputs[0].name
    results = [
        npusim.simulate(program, [image]),
        npusim.simulate(program, {name: image}),
        npusim.run("digits_cnn", hw="edge-64", inputs={"in0": image}),
        npusim.run("digits_cnn", hw=npusim.hardware("edge-64"), inputs=[image]),
    ]
    first = results[0]
    assert first.hardware.name == "edge-64"
    assert first.outputs[0].shape == (1, 10)
    for other in results[1:]:
        assert other.cycles == first.cycles
        assert np.array_equal(other.outputs[0], first.outputs[0])


def test_timing_only_has_the_same_cycles_and_energy_and_no_outputs() -> None:
    exact, timing = npusim.run("digits_cnn"), npusim.run("digits_cnn", timing_only=True)
    assert (timing.cycles, timing.energy_uj, timing.outputs) == (exact.cycles, exact.energy_uj, [])


def test_wall_times_of_each_step() -> None:
    whole = npusim.run("digits_cnn").wall_s
    assert None not in (whole.load, whole.compile, whole.simulate)
    part = npusim.simulate(npusim.compile(npusim.load("digits_cnn")), timing_only=True).wall_s
    assert (part.load, part.compile) == (None, None)


def test_programs_are_files(tmp_path: Path) -> None:
    program = npusim.compile(npusim.load("digits_cnn"))
    npusim.save_program(program, tmp_path / "p.npu")
    again = npusim.load_program(tmp_path / "p.npu")
    assert npusim.simulate(again).to_dict()["cycles"] == npusim.simulate(program).to_dict()["cycles"]
    assert npusim.run(tmp_path / "p.npu").wall_s.compile == 0.0
    with pytest.raises(
        npusim.NpusimError, match=r"p\.npu: is a compiled program, not a model; npusim\.load_pro"
    ):
        npusim.load(tmp_path / "p.npu")


def test_faults_of_the_user_are_npusim_errors(tmp_path: Path) -> None:
    with pytest.raises(npusim.NpusimError, match="no such file"):
        npusim.load(tmp_path / "none.tflite")
    with pytest.raises(npusim.NpusimError, match="did you mean edge-128"):
        npusim.hardware("edge-12")
    with pytest.raises(npusim.NpusimError, match="1 input"):
        npusim.run("digits_cnn", inputs=[])


def test_a_file_comes_before_a_built_in_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("digits_cnn").write_bytes(models.path_or_bytes("ds_cnn"))
    assert len(npusim.load("digits_cnn").nodes) == len(npusim.load("ds_cnn").nodes)


def test_names_of_the_package() -> None:
    assert set(npusim.__all__) <= set(dir(npusim))
    assert all(getattr(npusim, name) is not None for name in npusim.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        getattr(npusim, "nothing")  # noqa: B009


def test_host_calls_of_a_program_keep_the_rules_of_their_operators(shared: Path) -> None:
    program = npusim.compile(npusim.load(shared / "models" / "edgetpu_ssd_mnv1_head.tflite"))
    (call,) = program.host_calls
    where = r'host call ".*" \(detection_post_process\): '
    for change, text in (
        (
            {"num_classes": 5},
            r"breaks a rule: scores have num_classes columns, or one more for the background",
        ),
        ({"num_classes": -1}, r"parameters: num_classes: -1 is not a whole number from 1 to 2147483647"),
        ({"num_clases": 1}, r"parameters: num_clases: unknown parameter, did you mean num_classes\?"),
        ({"y_scale": [1]}, r"parameters: y_scale: a list of 1 is not a number"),
    ):
        changed = replace(call, parameters={**call.parameters, **change})
        with pytest.raises(npusim.NpusimError, match=where + text):
            npusim.simulate(replace(program, host_calls=(changed,)), timing_only=True)


def test_hardware_by_keys() -> None:
    made = npusim.hardware("edge-128", clock_mhz=300, mac_array={"rows": 32})
    assert made == npusim.hardware("edge-128", ["clock_mhz=300", "mac_array.rows=32"])
    assert (made.clock_mhz, made.mac_array.rows) == (300, 32)
    with pytest.raises(npusim.NpusimError, match=r"^clock_mhzz: unknown key, did you mean clock_mhz\?$"):
        npusim.hardware("edge-128", clock_mhzz=300)
    with pytest.raises(npusim.NpusimError, match=r"^mac_array.rows: 0 is not a whole number from 1"):
        npusim.hardware("edge-128", mac_array={"rows": 0})
