"""`npusim run` of models that decide."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import npusim
from npusim.cli.typer_app import app

from ...litert.test_control import X, looping


def run(*words: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["run", *(str(word) for word in words)], env={"COLUMNS": "120"})
    return result.exit_code, result.output


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "looping.tflite"
    path.write_bytes(looping())
    return path


def test_the_summary_has_the_sums_and_the_programs(file: Path, tmp_path: Path) -> None:
    inputs = tmp_path / "in.npz"
    np.savez(inputs, in0=X, in1=np.arange(10) < 3)
    status, text = run(
        file, "--input", inputs, "--json", tmp_path / "r.json", "--output", tmp_path / "out.npz"
    )
    assert status == 0, text
    result = npusim.run(file, inputs=[X, np.arange(10) < 3])
    assert result.decisions == (("looping/y", 3),)
    assert "looping/y 3" in text
    assert "by the data" in text
    for program in result.programs:
        assert program.name in text
    numbers = json.loads((tmp_path / "r.json").read_text())
    expected = result.to_dict()
    assert {key: numbers[key] for key in ("cycles", "energy_uj", "dram_bytes", "decisions", "programs")} == {
        key: json.loads(json.dumps(expected[key]))
        for key in ("cycles", "energy_uj", "dram_bytes", "decisions", "programs")
    }
    with np.load(tmp_path / "out.npz") as written:
        np.testing.assert_array_equal(written["out0"], result.outputs[0])


def test_without_data_the_turns_are_said(file: Path) -> None:
    status, text = run(file, "--timing-only", "--decide", "looping/y=10")
    assert status == 0, text
    assert "looping/y 10" in text
    assert "as stated" in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--timing-only",), 'what "looping/y" decides depends on data; without data, decisions must say it'),
        (("--decide", "lo\x1bop"), "npusim: --decide lo\\x1bop: may be NAME=N, such as model/loop=10"),
        (("--decide", "a=1", "--decide", "a=2"), "npusim: --decide a=2: a is decided twice"),
        (("--decide", "looping/x=1"), 'nothing named "looping/x" is decided, did you mean "looping/y"?'),
        (
            ("--csv", "layers.csv"),
            "npusim: --csv: looping decides (looping/y), so it is several programs; --csv takes one",
        ),
    ],
)
def test_what_cannot_be_asked(file: Path, words: tuple[str, ...], message: str) -> None:
    status, text = run(file, *words)
    assert status == 2
    assert message in text
    assert text.count("\n") == 1


def test_a_model_that_decides_nothing() -> None:
    assert run("digits_cnn", "--decide", "x=1") == (2, "npusim: --decide x=1: digits_cnn decides nothing\n")
