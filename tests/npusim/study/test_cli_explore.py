"""The command: what it prints, writes and refuses."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest

from npusim import models
from npusim.cli.study import Watch
from npusim.study.evaluate import Record

from ...command_line import command
from .spaces import space_file

pytestmark = pytest.mark.usefixtures("one_figure")

SPACE = """
objectives = ["latency", { key = "inferences_per_s" }, "area"]
[parameters]
mac_array.rows = [8, 16]
clock_mhz = [100, 200, 400]
technology.dram = ["lpddr4", "psram"]
[limits]
latency = "< 0.1"
[models]
digits_cnn = 2
"""


@pytest.fixture
def space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "chips.toml").write_text(SPACE)
    return tmp_path / "chips.toml"


@pytest.mark.slow
def test_a_search_from_the_command_line(space: Path) -> None:
    status, out, err = command("explore", space, "-j", "1")
    assert (status, err) == (0, "")
    first, second = out.splitlines()[:2]
    assert first == "technology.dram changes no objective: all of its values give equal ones."
    assert second.startswith("digits_cnn on edge-128: 12 points, ")
    assert "Pareto front:\npoint  rows  clock_mhz" in out
    assert "inferences_per_s (max)" in out
    assert re.search(r"clock_mhz +\d+\.\d %", out)
    assert "chips.study: points.csv, front.csv, points.parquet" in out
    assert json.loads(Path("chips.study/study.json").read_text())["models"][0]["weight"] == 2.0
    before = Path("chips.study/points.jsonl").read_bytes()
    assert command("explore", space, "-j", "1") == (0, out, "")
    assert Path("chips.study/points.jsonl").read_bytes() == before


def test_options_go_before_the_file(space: Path) -> None:
    options = [
        "--sampler",
        "random",
        "--points",
        "3",
        "--seed",
        "5",
        "--objective",
        "energy",
        "--programs",
        "shared",
    ]
    status, out, err = command("explore", "digits_cnn", space, "--study", "mine", "-j", "1", *options)
    assert (status, err) == (0, "")
    assert "3 points" in out
    assert "Programs are shared between points that differ in timing, energy or clock only." in out
    plain = json.loads(Path("mine/study.json").read_text())
    assert plain["sampler"] == {"kind": "random", "seed": 5, "batch": None}
    assert plain["space"]["objectives"] == [{"key": "energy_uj.total", "goal": "min"}]


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["none.toml"], "none.toml: no such file"),
        (["no_such_model", "chips.toml"], "no_such_model: neither a file nor a built-in model"),
        (["chips.toml", "--dask", "tcp://127.0.0.1:9", "-j", "2"], "--jobs: the cluster decides with --dask"),
        (["chips.toml", "--objective", "speed"], 'chips.toml: 1 fault: objectives[0]: "speed": no such key'),
        (["chips.toml", "--points", "3"], "--points: a grid has all its points; choose another --sampler"),
        (["digits_cnn"], "digits_cnn: no such file"),
        (["chips.toml", "--study", "chips.toml"], "chips.toml: is a file; give the name of a folder"),
    ],
)
def test_mistakes(words: list[str], fault: str, space: Path) -> None:
    status, out, err = command("explore", *words)
    assert (status, out) == (2, "")
    assert err.startswith(f"npusim: {fault}")
    assert err.count("\n") == 1


def test_without_a_model(space: Path) -> None:
    space.write_text(SPACE.partition("[models]")[0])
    assert command("explore", space)[2] == "npusim: no model: name one before the space, or in its [models]\n"


@pytest.mark.slow
def test_models_lie_beside_the_space(space: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = models.path_or_bytes("ds_cnn")
    content = made if isinstance(made, bytes) else Path(made).read_bytes()
    (space.parent / "mine.tflite").write_bytes(content)
    space.write_text(SPACE.replace("digits_cnn", '"mine.tflite"'))
    (space.parent / "elsewhere").mkdir()
    monkeypatch.chdir(space.parent / "elsewhere")
    status, out, _ = command("explore", space, "-j", "1")
    assert status == 0
    assert "\nmine on edge-128: 12 points" in out
    assert str(space.parent) not in Path("chips.study/study.html").read_text()
    assert '"commands":["mine.tflite"]' in Path("chips.study/study.html").read_text()


@pytest.mark.slow
def test_models_of_one_name_are_told_apart(space: Path) -> None:
    made = models.path_or_bytes("digits_cnn")
    content = made if isinstance(made, bytes) else Path(made).read_bytes()
    for folder in ("old", "new"):
        (space.parent / folder).mkdir()
        (space.parent / folder / "net.tflite").write_bytes(content)
    status, out, _ = command("explore", "old/net.tflite", "new/net.tflite", "digits_cnn", space, "-j", "1")
    assert status == 0
    assert "\nold/net x 1, new/net x 1, digits_cnn x 2 on edge-128: 12 points" in out


@pytest.mark.slow
def test_nothing_feasible(space: Path) -> None:
    space.write_text(SPACE.replace("< 0.1", "< 0.000001"))
    status, out, _ = command("explore", space, "-j", "1")
    assert status == 0
    assert "12 points, 0 feasible, 0 on the front" in out
    assert "12 points are not feasible:\n  12 x breaks latency_ms < 1e-06" in out


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_bar_tells_the_front_and_the_best() -> None:
    space = space_file(objectives=["latency", "area"], limits={"area": "<= 4"}).space
    records = [
        Record(0, {"latency_ms": 2.0, "area_mm2.total": 1.0}),
        Record(1, reason="no"),
        Record(2, {"latency_ms": 1.0, "area_mm2.total": 9.0}),
        Record(3, {"latency_ms": 1.5, "area_mm2.total": 3.0}),
        Record(4, {"latency_ms": 2.0, "area_mm2.total": 3.0}),
    ]
    shown = Terminal()
    with Watch(space, shown) as watch:
        for record in records:
            watch(record, 5)
    assert "5/5 points, " in shown.getvalue()
    assert "2 on the front, best latency_ms 1.5" in shown.getvalue()
    quiet = io.StringIO()
    with Watch(space, quiet) as watch:
        watch(records[0], 5)
    assert quiet.getvalue() == ""
