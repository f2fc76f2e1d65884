"""Models over several devices: bytes of one device, pieces and boundaries that add up, states, what is destroyed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

import npusim
from npusim import nnadapter as nna


@pytest.fixture(scope="module", autouse=True)
def _devices() -> Iterator[None]:
    for name, lacks in (("no_depthwise", "depthwise_conv_2d"), ("no_dense", "fully_connected")):
        nna.register_preset(name, npusim.hardware("edge-64", [f"lacks_operators=['{lacks}']"]))
    yield
    for name in ("no_depthwise", "no_dense"):
        nna.unregister(name)


def finished(model: nna.Model, names: Sequence[str], properties: str = "") -> nna.Compilation:
    """The model on devices."""
    compilation = nna.Compilation(
        model, nna.Context([nna.Device.acquire(name) for name in names], properties)
    )
    compilation.finish()
    return compilation


def run(compilation: nna.Compilation, seed: int = 0) -> nna.Result:
    """A run with codes at random."""
    execution = nna.Execution(compilation)
    (image,) = compilation.inputs
    execution.set_input(0, np.random.default_rng(seed).integers(-128, 128, image.shape).astype(np.int8))
    return execution.compute()


MODEL = "ds_cnn"
DEVICES = ["no_depthwise", "no_dense", "npusim_host"]


@pytest.mark.slow
@pytest.mark.cases(1)
@pytest.mark.parametrize("mode", ["order", "cost"])
def test_three_devices_give_the_bytes_of_one(mode: str) -> None:
    model = nna.from_file(MODEL)
    alone, several = finished(model, ["npusim"]), finished(model, DEVICES, f"NPUSIM_PARTITION={mode}")
    for seed in range(3):  # the first on the machine, the others on the interpreter
        assert np.array_equal(run(alone, seed).outputs[0], run(several, seed).outputs[0])


def test_pieces_and_boundaries_add_up_to_the_whole() -> None:
    result = run(finished(nna.from_file(MODEL), DEVICES))
    assert len(result.pieces) > 3
    assert {piece.device for piece in result.pieces} == {"no_depthwise", "no_dense"}
    whole = sum(piece.cycles or 0 for piece in result.pieces) + sum(one.cycles for one in result.boundaries)
    assert result.cycles == whole
    energy = sum(piece.energy or 0 for piece in result.pieces) + sum(
        one.energy_uj for one in result.boundaries
    )
    assert result.energy == pytest.approx(energy)
    assert all(one.tensors for one in result.boundaries)


@pytest.mark.slow
def test_what_pieces_take_is_known_before_a_run() -> None:
    compilation = finished(nna.from_file(MODEL), DEVICES)
    assert compilation.pieces == list(run(compilation).pieces)


@pytest.mark.slow
def test_cost_is_never_slower_than_order() -> None:
    model = nna.from_file(MODEL)
    cycles = {
        mode: run(finished(model, DEVICES, f"NPUSIM_PARTITION={mode}")).cycles for mode in ("order", "cost")
    }
    assert cycles["cost"] <= cycles["order"]


def test_one_device_takes_the_cycles_of_a_plain_run() -> None:
    result = run(finished(nna.from_file(MODEL), ["npusim"]))
    plain = npusim.run(MODEL, timing_only=True)
    assert isinstance(plain, npusim.RunResult)
    assert (result.cycles, result.energy) == (plain.cycles, plain.energy_uj)


def test_several_executions_share_a_compilation() -> None:
    compilation = finished(nna.from_file(MODEL), ["npusim"])
    first, second = nna.Execution(compilation), nna.Execution(compilation)
    shape = compilation.inputs[0].shape
    first.set_input(0, np.zeros(shape, np.int8))
    second.set_input(0, np.full(shape, 100, np.int8))
    before = first.compute().outputs[0]
    assert not np.array_equal(before, second.compute().outputs[0])
    assert np.array_equal(before, first.compute().outputs[0])


def test_outputs_of_a_run_are_its_own() -> None:
    compilation = finished(nna.from_file(MODEL), ["npusim"])
    first, second = run(compilation, 1), run(compilation, 2)
    kept = first.outputs[0].copy()
    second.outputs[0][:] = 0
    assert np.array_equal(first.outputs[0], kept)
    assert first.outputs[0].flags.writeable


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".html", ".json", ".csv", ".trace.json"])
def test_reports(suffix: str, tmp_path: Path) -> None:
    result = run(finished(nna.from_file(MODEL), DEVICES))
    path = result.report(tmp_path / f"run{suffix}")
    assert path.stat().st_size > 1000
    assert "no_depthwise" in path.read_text("utf-8")


def test_a_report_of_another_kind(tmp_path: Path) -> None:
    result = run(finished(nna.from_file(MODEL), ["npusim"]))
    with pytest.raises(nna.InvalidParameter, match=r"a report ends with \.html"):
        result.report(tmp_path / "run.pdf")


def test_what_is_destroyed_cannot_be_used() -> None:
    compilation = finished(nna.from_file(MODEL), ["npusim"])
    execution = nna.Execution(compilation)
    execution.destroy()
    with pytest.raises(nna.InvalidParameter, match="execution: is destroyed"):
        execution.compute()
    execution = nna.Execution(compilation)
    compilation.context.destroy()
    assert compilation.destroyed
    with pytest.raises(nna.InvalidParameter, match="compilation: is destroyed"):
        execution.compute()
    with pytest.raises(nna.InvalidParameter, match="context: is destroyed"):
        nna.Compilation(nna.from_file(MODEL), compilation.context)


def test_values_that_an_input_cannot_have() -> None:
    execution = nna.Execution(finished(nna.from_file(MODEL), ["npusim"]))
    for value, sentence in (
        (np.zeros((1, 2), np.float32), "input 0: has elements of float32, must be int8"),
        ([1.5, 2.5], "must be int8"),
        ([300], "has values that int8 does not"),
        ("text", "input 0: "),
        (None, "neither an array nor memory is given"),
    ):
        with pytest.raises(nna.InvalidParameter, match=sentence):
            execution.set_input(0, value)
    with pytest.raises(nna.InvalidParameter, match="access is missing"):
        execution.set_input(0, memory=5)
    frozen = np.zeros((1, 12), np.int8)
    frozen.setflags(write=False)
    with pytest.raises(nna.InvalidParameter, match="output 0: the array cannot be written"):
        execution.set_output(0, frozen)


def test_outputs_that_are_inputs_or_constants() -> None:
    model = nna.Model()
    x = model.add_operand(nna.OperandType(nna.FLOAT32, [2, 3]))
    constant = model.add_constant(np.arange(3, dtype=np.float32))
    y = model.abs(x)
    model.identify([x], [y, x, constant, y])  # type: ignore[list-item]
    model.finish()
    data = np.array([[1, -2, 3], [4, -5, 6]], np.float32)
    execution = nna.Execution(finished(model, ["npusim", "npusim_host"]))
    execution.set_input(0, data)
    outputs = execution.compute().outputs
    for got, wanted in zip(outputs, (np.abs(data), data, np.arange(3), np.abs(data)), strict=True):
        assert np.array_equal(got, wanted)


def test_states_go_on_from_run_to_run(shared: Path) -> None:
    file = shared / "models" / "tflm_mnist_lstm_int8.tflite"
    compilation = finished(nna.from_file(file), ["npusim", "npusim_host"])
    first, second = run(compilation), run(compilation)
    program = npusim.compile(npusim.load(file))
    (image,) = compilation.inputs
    data = np.random.default_rng(0).integers(-128, 128, image.shape).astype(np.int8)
    for result in (first, second):
        assert np.array_equal(npusim.simulate(program, [data]).outputs[0], result.outputs[0])
