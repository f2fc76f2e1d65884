"""Sizes that a model leaves open, by every way to a model: the command line, Python, devices, tables, searches."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import npusim
from npusim import hal
from npusim.isa.base.errors import NpusimError
from npusim.nnadapter import model_run
from npusim.session.options import parse_sizes as parse
from npusim.session.options import texts_of as texts

from ...command_line import command
from ...litert.live import by_litert, needs_litert
from ..frontends.tflite_builder import Builder, int32
from ..litert.interpreters import open_batch

SIZES = {"x": (3, 4, 6)}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """x [-1, 4, 6] + x as rows of 24; its shape, without further ado, is [1, 4, 6]."""
    (tmp_path / "open.tflite").write_bytes(open_batch())
    return tmp_path / "open.tflite"


@pytest.fixture
def document(tmp_path: Path) -> Path:
    (tmp_path / "net.nnef").write_text(
        "version 1.0;\ngraph net( x ) -> ( y )\n{ x = external(shape = [0,4,8,0]); y = relu(x); }\n"
    )
    return tmp_path / "net.nnef"


def test_texts() -> None:
    given = ["image=1,3,224,224", "batch=2", "a=b=0, 5"]
    assert parse(given) == {"image": (1, 3, 224, 224), "batch": 2, "a=b": (0, 5)}
    assert texts(parse(given)) == ["image=1,3,224,224", "batch=2", "a=b=0,5"]


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        (["image"], "--shape image: may be the shape of an input, such as image=1,3,224,224, or a size by its"),
        (["=3"], "--shape =3: may be the shape"),
        (["x=1,a"], '--shape x=1,a: "a" is no whole number'),
        (["x="], '--shape x=: "" is no whole number'),
        (["x=-1"], '--shape x=-1: "-1" is no whole number'),
        (["x=1.5"], '"1.5" is no whole number'),
        (["x=1", "x=2"], "--shape x=2: x is given twice"),
        (["x=2147483648"], "2147483648 is more than a size may be, 2147483647"),
        (["x=" + "9" * 5000], "9999999999 is more than a size may be"),
    ],
)  # fmt: skip
def test_texts_that_are_none(given: list[str], fault: str) -> None:
    with pytest.raises(NpusimError) as raised:
        parse(given)
    assert fault in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_signature_of_tflite_says_what_may_change(model: Path) -> None:
    assert npusim.load(model).tensors[0].type.shape == (1, 4, 6)
    values = np.arange(72, dtype=np.int8).reshape(3, 4, 6) - 36
    result = npusim.run(model, inputs=[values], sizes=SIZES)
    assert np.array_equal(result.outputs[0], (2 * values).reshape(3, 24))
    for sizes, fault in (
        ({"x": (3, 4, 7)}, 'input "x": shape [-1, 4, 6] in the file, [3, 4, 7] was given'),
        ({"x": (3, 4)}, 'input "x": shape [-1, 4, 6] in the file, [3, 4] was given'),
        ({"y": (3, 4)}, 'no input and no size is named "y"; there are "x"'),
    ):
        with pytest.raises(NpusimError) as raised:
            npusim.load(model, sizes)
        assert str(raised.value) == f"{model}: {fault}"


@needs_litert
def test_it_is_what_litert_computes_with_these_sizes(model: Path) -> None:
    values = np.random.default_rng(3).integers(-128, 128, (3, 4, 6)).astype(np.int8)
    result = npusim.run(model, inputs=[values], sizes=SIZES)
    assert result.outputs[0].tobytes() == by_litert(open_batch(), [values])[0].tobytes()
    found = npusim.verify(model, sizes=SIZES)
    assert found.equal
    assert found.compared_bytes >= 2 * 72


def test_a_shape_that_values_say_cannot_be_resized(tmp_path: Path) -> None:
    builder = Builder()
    x = builder.tensor("x", [1, 4, 6], ShapeSignature=int32(-1, 4, 6))
    shape = builder.tensor("shape", [2], "INT32", scales=None, zero_points=None)
    y = builder.tensor("y", [1, 24])
    builder.operator("RESHAPE", [x, shape], [y])
    (tmp_path / "values.tflite").write_bytes(builder.file([x, shape], [y]))
    assert npusim.load(tmp_path / "values.tflite").tensors[y].type.shape == (1, 24)
    with pytest.raises(
        NpusimError,
        match=r"operand 1 \(shape\) is computed while running, and the file's shape \[\] does not say it",
    ):
        npusim.load(tmp_path / "values.tflite", SIZES)


@pytest.mark.slow
def test_every_way_to_run_takes_sizes(model: Path, tmp_path: Path) -> None:
    expected = npusim.run(model, timing_only=True, sizes=SIZES)
    over = model_run.run(model, ["edge-128"], timing_only=True, sizes=SIZES)
    assert over.outputs == []
    assert int(expected.cycles) != int(npusim.run(model, timing_only=True).cycles)
    option = ("--shape", "x=3,4,6")
    json_file = tmp_path / "run.json"
    assert command("run", model, *option, "--json", json_file)[0] == 0
    found = json.loads(json_file.read_text())
    assert found["cycles"]["total"] == int(expected.cycles)
    assert found["provenance"]["shapes"] == "x=3,4,6"
    assert found["provenance"]["command"] == "npusim run open.tflite --shape x=3,4,6"
    assert command("run", model, *option, "--device", "edge-128", "--json", json_file)[0] == 0
    assert json.loads(json_file.read_text())["cycles"]["total"] == int(over.cycles)
    assert command("run", model, *option, "--hw", "edge-128", "--hw", "edge-64", "--json", json_file)[0] == 0
    assert json.loads(json_file.read_text())["runs"][0]["cycles"]["total"] == int(expected.cycles)
    assert command("compile", model, *option, "-o", tmp_path / "open.npu")[0] == 0
    assert npusim.load_program(tmp_path / "open.npu").inputs[0].type.shape == (3, 4, 6)
    assert command("convert", model, *option, "-o", tmp_path / "open.tgz")[0] == 0
    converted = npusim.load(tmp_path / "open.tgz")
    assert converted.tensors[converted.inputs[0]].type.shape == (3, 4, 6)
    assert command("run", model, *option, "--dot", tmp_path / "open.dot")[0] == 0
    assert command("run", model, *option, "--print-partition")[0] == 0


@pytest.mark.slow
def test_what_if_of_a_result_has_its_sizes(model: Path) -> None:
    result = npusim.run(model, timing_only=True, sizes=SIZES)
    assert result.what_if(jobs=1).latency_ms == result.latency_ms
    assert npusim.what_if(model, sizes=SIZES, jobs=1).latency_ms == result.latency_ms


@pytest.mark.slow
def test_a_search_takes_sizes_and_says_them_in_its_commands(model: Path, tmp_path: Path) -> None:
    space = tmp_path / "space.toml"
    space.write_text(
        'extends = "edge-64"\n'
        'objectives = ["latency"]\n[parameters]\nclock_mhz = [100, 200]\n[sampler]\nkind = "grid"\n'
    )
    words = ["explore", model, space, "--study", tmp_path / "found.study", "--jobs", "1"]
    assert command(*words, "--shape", "x=3,4,6")[::2] == (0, "")
    from npusim.study.study import Study

    study = Study.open(tmp_path / "found.study")
    assert study.models[0].command == "open.tflite --shape x=3,4,6"
    assert "open.tflite --shape x=3,4,6" in (tmp_path / "found.study" / "study.html").read_text()
    assert command(*words)[0] == 2  # another network
    said = command("explore", model, "digits_cnn", space, "--shape", "x=3,4,6")
    assert (said[0], said[2]) == (2, "npusim: --shape: goes with one model; these are 2\n")


def test_open_sizes_are_asked_for_with_the_option_that_gives_them(document: Path) -> None:
    for words in (
        ("run",),
        ("compile", "-o", "never.npu"),
        ("convert", "-o", "never.tgz"),
        ("run", "--device", "edge-64"),
    ):
        assert command(words[0], document, *words[1:])[::2] == (
            2,
            f'npusim: {document}: input "x": has shape [-1, 4, 8, -1] with an unknown size; give --shape x=N,4,8,N, in '
            'Python sizes={"x": [N, 4, 8, N]}\n',
        )
    assert command("run", document, "--shape", "x=2,4,8,3")[0] == 0
    assert command("run", document, "--shape", "x=2,4,8,3", "--shape", "z=1")[::2] == (
        2,
        f'npusim: {document}: no input and no size is named "z"; there are "x"\n',
    )


def test_a_model_of_the_hal_is_named_by_its_operands(tmp_path: Path) -> None:
    from ..hal.hal_models import addition

    hal.save(addition(hal.HalVersion.V1_2, [0, 3]), tmp_path / "model.hal")
    said = command("run", tmp_path / "model.hal")
    assert said[0] == 0
    assert "batch = 1, which the file leaves open; --shape 'operands[0]=N,3' gives another" in said[2]
    result = npusim.run(tmp_path / "model.hal", sizes={"operands[0]": (2, 3)})
    assert result.outputs[0].shape == (2, 3)


def test_a_model_of_the_hal_whose_request_says_the_number_of_sizes(tmp_path: Path) -> None:
    from ..hal.hal_models import Maker

    maker, kind = Maker(), hal.OperandType.TENSOR_QUANT8_ASYMM
    x, y = maker.input(kind, [], scale=0.5), maker.output(kind, [], scale=0.5)
    maker.operation(hal.OperationType.RELU, [x], [y])
    hal.save(maker.model(hal.HalVersion.V1_2), tmp_path / "model.hal")
    said = command("run", tmp_path / "model.hal")
    assert said[0] == 2
    assert "give --shape 'operands[0]=N,...'" in said[2]
    assert command("run", tmp_path / "model.hal", "--shape", "operands[0]=2,3")[0] == 0
    values = np.zeros((4, 5), np.uint8)
    assert npusim.run(tmp_path / "model.hal", inputs=[values]).outputs[0].shape == (4, 5)


def test_what_has_no_open_sizes_refuses_them(model: Path, tmp_path: Path) -> None:
    npusim.save_program(npusim.compile(npusim.load(model)), tmp_path / "open.npu")
    said = command("run", tmp_path / "open.npu", "--shape", "x=3,4,6")
    assert said[::2] == (
        2,
        f"npusim: {tmp_path / 'open.npu'}: is compiled already, its sizes are known; give the model\n",
    )
    said = command("run", "digits_cnn", "--shape", "digits=1")
    assert said[0] == 2
    assert 'no input and no size is named "digits"; there are "' in said[2]
    said = command("run", model, "digits_cnn", "--shape", "x=3,4,6")
    assert said[::2] == (2, "npusim: --shape: goes with one model; these are 2\n")
