"""`npusim run --cache`: compiled models that are kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from npusim.cli.typer_app import app

from ...litert.test_control import looping


def run(*words: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["run", *(str(word) for word in words)], env={"COLUMNS": "200"})
    return result.exit_code, result.output


def numbers(path: Path) -> dict[str, Any]:
    """The JSON of a run without what it took, and what the command and the devices are called.

    Runs over devices simulate no levers, so the answer is another one too.
    """
    plain: dict[str, Any] = json.loads(path.read_text())
    for key in ("wall_s", "provenance", "devices", "answer"):
        plain.pop(key, None)
    return plain


@pytest.mark.slow
@pytest.mark.cases(2)
@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--hw", "edge-64"),
        ("--hw", "edge-64", "--host", "softmax,max_pool_2d"),
        ("--hw", "edge-64", "--timing-only"),
        ("--device", "edge-64", "--device", "npusim_host", "--host", "max_pool_2d"),
    ],
    ids=" ".join,
)
def test_every_number_is_that_without_a_cache(options: tuple[str, ...], tmp_path: Path) -> None:
    """Compiled and kept, and restored; the outputs too."""
    outputs = "--timing-only" not in options
    found = []
    for turn in range(3):
        words = [*options, *(("--cache", tmp_path / "kept") if turn else ())]
        words += ["--output", tmp_path / f"{turn}.npz"] if outputs else []
        status, text = run("digits_cnn", *words, "--json", tmp_path / f"{turn}.json")
        assert status == 0, text
        assert ("Restored: without the cache, compile takes " in text) == (turn == 2)
        found.append(numbers(tmp_path / f"{turn}.json"))
        if outputs:
            with np.load(tmp_path / f"{turn}.npz") as first, np.load(tmp_path / "0.npz") as second:
                assert np.array_equal(first["out0"], second["out0"])
    assert found[1] == found[2]
    assert found[0] == found[1]
    (kept,) = (tmp_path / "kept").iterdir()
    assert kept.suffix == ".nnc"


@pytest.mark.slow
def test_what_is_refused_is_said_once_and_mended(tmp_path: Path) -> None:
    assert run("digits_cnn", "--cache", tmp_path)[0] == 0
    (kept,) = tmp_path.iterdir()
    kept.write_bytes(kept.read_bytes()[:-1])
    status, text = run("digits_cnn", "--cache", tmp_path)
    assert status == 0
    warnings = [line for line in text.splitlines() if "warning" in line]
    assert len(warnings) == 1
    assert warnings[0].startswith(f"npusim: warning: {kept}: checksum 0x")
    assert warnings[0].endswith("; the model is compiled anew")
    status, text = run("digits_cnn", "--cache", tmp_path)
    assert "warning" not in text
    assert "restore" in text


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("digits_cnn", "--set", "clock_mhz=400"), "--set: does not go with --cache"),
        (("digits_cnn", "--what-if"), "--what-if: does not go with --cache"),
        (("digits_cnn", "--unknown", "host"), "--unknown: does not go with --cache"),
        (
            ("digits_cnn", "--partition", "cost"),
            "--partition cost: does not go with --cache without --device",
        ),
        (
            ("digits_cnn", "ds_cnn"),
            "--cache: goes with one model on one machine; this is a table of 2 models by 1 machine",
        ),
        (("program.npu",), "program.npu: is a compiled program, not a model"),
        (("looping.tflite",), "looping: decides (IF, WHILE), NNAdapter has no such operation"),
    ],
)
def test_what_does_not_go_with_it(
    words: tuple[str, ...], text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("looping.tflite").write_bytes(looping())
    CliRunner().invoke(app, ["compile", "digits_cnn", "-o", "program.npu"])
    status, said = run(*words, "--cache", "kept")
    assert (status, said.startswith(f"npusim: {text}")) == (2, True), said
    assert not Path("kept").exists()
