"""CSV files: what a spreadsheet would compute is text, and numbers are numbers, in every table that is written."""

from __future__ import annotations

import csv
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from npusim.base.csv_text import cell, csv_text
from npusim.cli.typer_app import app
from npusim.isa.base.tensor import TensorType
from npusim.models.writer import ModelWriter

FORMULAS = ("=1+1", "+1", "-1+2", "@SUM(A1)", "\t=1", "\r=1", " =1", "=cmd|'/C calc'!A0")


@pytest.mark.parametrize("text", FORMULAS)
def test_text_that_begins_as_a_formula_does_gets_an_apostrophe(text: str) -> None:
    assert cell(text) == f"'{text}"


@pytest.mark.parametrize("value", [-1, -0.5, 0, 1e-9, "a-b", "conv=1", "'quoted", "", "1e5"])
def test_numbers_and_other_text_stay_what_they_are(value: Any) -> None:
    assert cell(value) == value


def test_a_table() -> None:
    text = csv_text(["name", "=head", "x"], [["=1", -2, None], ["a,b", True, -0.5]])
    assert text == "name,'=head,x\n'=1,-2,\n\"a,b\",true,-0.5\n"


def _model(names: tuple[str, ...]) -> bytes:
    writer = ModelWriter("formulas")
    kind = TensorType("float32", (1, 4, 4, 2))
    last = writer.input("=input", kind)
    for name in names:
        last = writer.operator("RELU", (last,), kind, name=name)
    return writer.finish([last])


@pytest.mark.usefixtures("one_figure")
@pytest.mark.slow
def test_every_table_that_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All CSV files of run, its report, compare and explore, with layers that are called like formulas."""
    monkeypatch.chdir(tmp_path)
    Path("=model.tflite").write_bytes(_model(("=HYPERLINK(A1)", "+cmd", "-cmd", "@cmd")))
    Path("space.toml").write_text("[parameters]\nvector.lanes = [4, 8]\n")
    for words in (
        ["run", "=model.tflite", "--csv", "layers.csv", "--json", "a.json", "--report", "report"],
        ["run", "=model.tflite", "digits_cnn", "--csv", "runs.csv", "--report", "table"],
        ["compare", "a.json", "a.json", "--csv", "compared.csv", "--report", "comparison"],
        ["explore", "=model.tflite", "digits_cnn", "space.toml", "--study", "study", "-j", "1"],
    ):
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, done.output
    files = sorted(Path().rglob("*.csv"))
    assert len(files) >= 14
    seen = ""
    for file in files:
        for row in csv.reader(StringIO(file.read_text("utf-8"))):
            for each in row:
                if each.lstrip(" ")[:1] in tuple("=+-@\t\r") and each:
                    float(each)  # only a number may begin like that
                seen += each if each.startswith("'") else ""
    for name in ("'=HYPERLINK(A1)", "'+cmd", "'-cmd", "'@cmd"):
        assert name in seen
