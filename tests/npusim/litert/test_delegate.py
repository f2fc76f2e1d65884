"""The delegate in interpreters: what comes out, what it did, and what it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npusim
import npusim.hal
import npusim.litert
from npusim import models
from npusim import nnadapter as nna
from npusim.base import extras
from npusim.frontends.tflite.records import decode
from npusim.isa.base.tensor import Array
from npusim.litert import delegate as delegates
from npusim.litert import source

from ...examples import NIGHT
from ...litert.live import needs_litert
from .interpreters import (
    gathering,
    interpreter,
    invoked,
    open_batch,
    random_inputs,
    reshaping,
    two_signatures,
)

pytestmark = needs_litert

SHARED = {
    "coral_tf2_mobilenet_v2_1.0_224_ptq.tflite": 29,
    "mlperf_resnet8_int8.tflite": 3,
    "mlperf_kws_int8.tflite": 5,
    "mlperf_vww96_int8.tflite": 14,
}
"""Networks, and the partitions that their convolutions alone make: LiteRT joins those with nothing in between."""

BUILT_IN = {"digits_cnn": 3, "ds_cnn": 5, "mobilenet_v2": 28}
TRIED = [name for name in BUILT_IN if NIGHT or name != "mobilenet_v2"]
"""By day without the network that takes seconds; the others have the same operators."""
KWS = "ds_cnn"


def same(found: list[Array], expected: list[Array]) -> bool:
    return len(found) == len(expected) and all(
        ours.shape == theirs.shape and ours.tobytes() == theirs.tobytes()
        for ours, theirs in zip(found, expected, strict=True)
    )


def compared(model: bytes | str, delegate: npusim.litert.Delegate, invokes: int = 2, **how: Any) -> None:
    """Asserts that a model gives the same bytes with and without a delegate."""
    without, with_it = interpreter(model), interpreter(model, delegate, **how)
    for seed in range(invokes):
        inputs = random_inputs(without, seed)
        assert same(invoked(with_it, inputs), invoked(without, inputs))


# Bytes and numbers


@pytest.mark.slow
@pytest.mark.parametrize("name", TRIED)
def test_a_built_in_model_is_one_partition_with_the_cycles_of_a_run(name: str) -> None:
    delegate = npusim.litert.Delegate(hw="edge-128")
    assert delegate.runs == []
    compared(models.path_or_bytes(name), delegate)
    [run] = delegate.runs
    assert run.cycles == npusim.run(name, hw="edge-128", timing_only=True).cycles
    assert run.outputs[0].dtype == np.int8


@pytest.mark.slow
@pytest.mark.parametrize("name", TRIED)
def test_convolutions_of_a_built_in_model(name: str) -> None:
    delegate = npusim.litert.Delegate(operators=["CONV_2D"])
    compared(models.path_or_bytes(name), delegate)
    assert len(delegate.runs) == BUILT_IN[name]
    assert {layer.op for run in delegate.runs for layer in run.layers} == {"conv_2d"}


@pytest.mark.slow
@pytest.mark.cases(1)
@pytest.mark.parametrize("name", SHARED)
def test_a_network(shared: Path, name: str) -> None:
    path = str(shared / "models" / name)
    whole, convolutions = npusim.litert.Delegate(), npusim.litert.Delegate(operators=["CONV_2D"])
    compared(path, whole)
    compared(path, convolutions)
    assert len(whole.runs) == 1
    assert len(convolutions.runs) == SHARED[name]
    assert whole.runs[0].cycles == npusim.run(path, timing_only=True).cycles


def test_runs_are_those_of_the_last_invoke() -> None:
    delegate = npusim.litert.Delegate(operators=["CONV_2D"])
    runner = interpreter(models.path_or_bytes(KWS), delegate)
    for seed in range(3):
        invoked(runner, random_inputs(runner, seed))
        assert len(delegate.runs) == BUILT_IN[KWS]
    before = delegate.runs[0].outputs[0]
    invoked(runner, random_inputs(runner, 9))
    assert not np.array_equal(before, delegate.runs[0].outputs[0])


def test_with_all_tensors_kept_every_operator_is_a_partition() -> None:
    delegate = npusim.litert.Delegate()
    compared(models.path_or_bytes(KWS), delegate, experimental_preserve_all_tensors=True)
    assert len(delegate.runs) == len(npusim.load(KWS).nodes)


def test_operators_that_the_model_has_not_are_no_mistake() -> None:
    delegate = npusim.litert.Delegate(operators=["SVDF"])
    compared(models.path_or_bytes("digits_cnn"), delegate)
    assert delegate.runs == []


def test_each_call_of_a_signature_is_an_invoke() -> None:
    delegate = npusim.litert.Delegate()
    without, with_it = interpreter(two_signatures()), interpreter(two_signatures(), delegate)
    for key, op in (
        ("twice", "add"),
        ("twice", "add"),
        ("squared", "mul"),
        ("squared", "mul"),
        ("twice", "add"),
    ):
        x = np.array([[-128, -3, 4, 100]], np.int8)
        expected = without.get_signature_runner(key)(x=x)
        assert np.array_equal(with_it.get_signature_runner(key)(x=x)["y"], expected["y"])
        assert [layer.op for run in delegate.runs for layer in run.layers] == [op]


@pytest.mark.slow
def test_two_delegates_share_a_model() -> None:
    convolutions = npusim.litert.Delegate(hw="edge-32", operators=["CONV_2D"])
    rest = npusim.litert.Delegate(hw="edge-128")
    data = models.path_or_bytes(KWS)
    without, with_both = interpreter(data), interpreter(data, convolutions, others=[rest])
    inputs = random_inputs(without, 0)
    assert same(invoked(with_both, inputs), invoked(without, inputs))
    assert {layer.op for run in convolutions.runs for layer in run.layers} == {"conv_2d"}
    operators = [layer.op for run in rest.runs for layer in run.layers]
    assert len(operators) == len(npusim.load(KWS).nodes) - BUILT_IN[KWS]


def test_a_device_that_only_times_leaves_outputs_as_they_are() -> None:
    delegate = npusim.litert.Delegate(hw=npusim.hal.Device("edge-128", timing_only=True))
    runner = interpreter(models.path_or_bytes("digits_cnn"), delegate)
    inputs = random_inputs(runner, 0)
    runner.allocate_tensors()
    [detail] = runner.get_output_details()
    left = runner.tensor(detail["index"])()  # LiteRT's own memory: what it holds before, nobody says
    left[:] = 42
    del left
    assert (invoked(runner, inputs)[0] == 42).all()
    assert delegate.runs[0].cycles == npusim.run("digits_cnn", timing_only=True).cycles
    assert delegate.runs[0].outputs == []


# Shapes


def test_other_sizes_are_compiled_anew(shared: Path) -> None:
    path = str(shared / "models" / "mlperf_resnet8_int8.tflite")
    delegate = npusim.litert.Delegate()
    without, with_it = interpreter(path), interpreter(path, delegate)
    [one] = random_inputs(without, 0)
    cycles = []
    for batch in (1, 3, 1):
        inputs = [np.repeat(one, batch, axis=0)]
        expected = invoked(without, inputs)
        assert expected[0].shape[0] == batch
        assert same(invoked(with_it, inputs), expected)
        cycles.append(delegate.runs[0].cycles)
    assert cycles[0] == cycles[2] < cycles[1]


def test_sizes_that_do_not_fit_are_refused_by_the_interpreter_in_our_words() -> None:
    delegate = npusim.litert.Delegate()
    runner = interpreter(models.path_or_bytes(KWS), delegate)
    shape = runner.get_input_details()[0]["shape"]
    runner.resize_tensor_input(runner.get_input_details()[0]["index"], [1, 2, *shape[2:]])
    with pytest.raises(RuntimeError) as refused:
        runner.allocate_tensors()
    with pytest.raises(npusim.NpusimError) as ours:
        delegate.check()
    assert str(ours.value) in str(refused.value)


@pytest.mark.slow
def test_a_process_ends_well_whose_interpreter_ends_after_the_modules() -> None:
    # The frames that pytest keeps of a refused call hold the interpreter until Python has cleared its modules.
    test = test_sizes_that_do_not_fit_are_refused_by_the_interpreter_in_our_words.__name__
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", f"{__file__}::{test}"]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_shape_from_shapes_follows_the_batch() -> None:
    delegate = npusim.litert.Delegate()
    without, with_it = interpreter(open_batch()), interpreter(open_batch(), delegate)
    for batch in (1, 3, 2):
        inputs: list[Array] = [np.arange(batch * 24).astype(np.int8).reshape(batch, 4, 6)]
        expected = invoked(without, inputs)
        assert expected[0].shape == (batch, 24)
        assert same(invoked(with_it, inputs), expected)
        assert [layer.op for layer in delegate.runs[0].layers] == ["add", "reshape"]


@pytest.mark.parametrize("shape", [(6, 4), (8, 3), (2, 12)])
def test_a_shape_that_is_an_input_is_left_to_litert(shape: tuple[int, int]) -> None:
    delegate = npusim.litert.Delegate()
    inputs: list[Array] = [np.arange(24, dtype=np.int8).reshape(4, 6), np.array(shape, np.int32)]
    expected = invoked(interpreter(reshaping()), inputs)
    assert expected[0].shape == shape
    assert same(invoked(interpreter(reshaping(), delegate), inputs), expected)
    assert [run.layers[0].op for run in delegate.runs] == ["add", "add"]


# Where it runs


def test_a_device_of_the_hal() -> None:
    delegate = npusim.litert.Delegate(hw=npusim.hal.Device("edge-64"))
    compared(models.path_or_bytes("digits_cnn"), delegate)
    assert delegate.runs[0].cycles == npusim.run("digits_cnn", hw="edge-64").cycles
    closed = npusim.hal.Device("edge-64")
    closed.close()
    with pytest.raises(npusim.NpusimError, match="hw: the device is closed"):
        npusim.litert.Delegate(hw=closed)


@pytest.mark.usefixtures("one_figure")
@pytest.mark.slow
def test_devices_of_nnadapter(tmp_path: Path) -> None:
    with nna.Context([nna.Device.acquire("npusim"), nna.Device.acquire("npusim_host")]) as context:
        delegate = npusim.litert.Delegate(hw=context, operators=["CONV_2D", "MAX_POOL_2D"])
        compared(models.path_or_bytes("digits_cnn"), delegate)
        assert len(delegate.runs) > 1
        assert delegate.runs[0].devices[0].name == "npusim"
        assert delegate.report(tmp_path / "page").read_text("utf-8")


@pytest.mark.usefixtures("one_figure")
@pytest.mark.slow
def test_the_report_is_a_page_of_all_partitions(tmp_path: Path) -> None:
    delegate = npusim.litert.Delegate(operators=["CONV_2D"])
    with pytest.raises(npusim.NpusimError, match="no partition has run yet"):
        delegate.report(tmp_path)
    compared(models.path_or_bytes(KWS), delegate)
    page = delegate.report(tmp_path / "page")
    assert page == tmp_path / "page" / "report.html"
    numbers = json.loads((tmp_path / "page" / "result.json").read_text("utf-8"))
    assert numbers["cycles"]["total"] == sum(run.cycles for run in delegate.runs)


# Mistakes


@pytest.mark.parametrize(
    ("operators", "text"),
    [
        (["CONV2D"], "operators: 'CONV2D' is no operator of TFLite that npusim has; did you mean CONV_2D?"),
        (["conv_2d"], "operators: 'conv_2d' is no operator of TFLite that npusim has; did you mean CONV_2D?"),
        (
            ["ADD", 3],
            "operators: 3 is no operator of TFLite that npusim has; npusim ops --format tflite lists them",
        ),
        ("CONV_2D", "operators 'CONV_2D': must be names of TFLite's operators, such as ['CONV_2D']"),
    ],
)
def test_operators_that_are_none(operators: Any, text: str) -> None:
    with pytest.raises(npusim.NpusimError) as refused:
        npusim.litert.Delegate(operators=operators)
    assert str(refused.value) == text


@pytest.mark.parametrize("hw", ["edge-12", 3, None])
def test_hardware_that_is_none(hw: Any) -> None:
    with pytest.raises(npusim.NpusimError, match=r"edge-12|hw: is"):
        npusim.litert.Delegate(hw=hw)


def test_a_second_interpreter_is_refused() -> None:
    delegate = npusim.litert.Delegate()
    compared(models.path_or_bytes("digits_cnn"), delegate)
    with pytest.raises(npusim.NpusimError, match="a delegate serves one interpreter"):
        interpreter(models.path_or_bytes("digits_cnn"), delegate)
    assert len(delegate.runs) == 1


def test_another_version_is_refused_with_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "version", lambda package: "3.1.4")
    with pytest.raises(npusim.NpusimError, match=r"ai-edge-litert 3\.1\.4 is installed, .* knows .* of 2\.x"):
        interpreter(models.path_or_bytes("digits_cnn"), npusim.litert.Delegate())


def test_without_litert_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delegates, "find_spec", lambda name: None)
    with pytest.raises(npusim.NpusimError) as refused:
        npusim.litert.Delegate()
    assert str(refused.value) == str(extras.missing("npusim.litert", "litert"))


def test_a_model_that_the_interpreter_does_not_show_is_given() -> None:
    data = models.path_or_bytes("digits_cnn")
    assert npusim.litert.Delegate(model=data)._get_native_delegate_pointer()
    with pytest.raises(npusim.NpusimError, match="cannot see the model of the interpreter"):
        npusim.litert.Delegate()._get_native_delegate_pointer()


def test_a_model_that_is_not_the_interpreters_is_refused() -> None:
    delegate = npusim.litert.Delegate(model=gathering())
    with pytest.raises(RuntimeError, match=r"npusim\.litert: model is not the interpreter's"):
        interpreter(models.path_or_bytes("digits_cnn"), delegate)
    with pytest.raises(npusim.NpusimError, match=r"is not the interpreter's: tensor 0: is not called x"):
        delegate.check()


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="memory is read where the system lets it")
def test_a_model_that_differs_in_weights_only_is_refused() -> None:
    data = bytes(models.path_or_bytes("digits_cnn"))
    record = decode(data)
    weights = record.buffers[record.tensors[record.operators[0].inputs[1] or 0].buffer]
    assert weights is not None
    at = data.index(weights.tobytes())
    other = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
    assert interpreter(data, npusim.litert.Delegate(model=data))
    with pytest.raises(RuntimeError, match=r"model is not the interpreter's: tensor .* has other values"):
        interpreter(data, npusim.litert.Delegate(model=other))


def test_data_that_an_operator_refuses_fails_that_invoke_only() -> None:
    delegate = npusim.litert.Delegate()
    runner = interpreter(gathering(), delegate)
    x: Array = np.arange(24, dtype=np.int8).reshape(4, 6)
    for rows, fails in (([0, 3], False), ([0, 9], True), ([1, 2], False)):
        inputs: list[Array] = [x, np.array(rows, np.int32)]
        if not fails:
            assert same(invoked(runner, inputs), [x[rows]])
            assert len(delegate.runs) == 1
            continue
        with pytest.raises(RuntimeError, match="index 1 of the list is 9"):
            invoked(runner, inputs)
        with pytest.raises(npusim.NpusimError, match="index 1 of the list is 9"):
            _ = delegate.runs
