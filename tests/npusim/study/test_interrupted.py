"""Ctrl-C in the middle of a search leaves what was found; `npusim study` draws it again at any time."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

from npusim.study.folder import Folder
from npusim.study.study import Study

from ...command_line import command

SPACE = """
[parameters]
mac_array.rows = [8, 16, 32]
clock_mhz = { from = 100, to = 900, step = 1 }
dram.latency_ns = { from = 10, to = 20, step = 1 }
[sampler]
kind = "random"
points = 20000
"""
FEW = 25


def points_in(study: Path) -> int:
    """Whole lines of the file of points."""
    file = study / "points.jsonl"
    return file.read_bytes().count(b"\n") if file.exists() else 0


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """The folder of a search that got SIGINT after some points, as a terminal sends it; stdout and stderr."""
    folder = tmp_path_factory.mktemp("interrupted")
    (folder / "chips.toml").write_text(SPACE)
    words = ["explore", "digits_cnn", "chips.toml", "--jobs", "2"]
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "npusim", *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell that started the tests in the background has the signal ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    study = folder / "chips.study"
    while process.poll() is None and points_in(study) < FEW:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert process.returncode == 130, err
    return study, out, err


@pytest.mark.slow
def test_an_interrupted_search_leaves_front_page_and_figures(interrupted: tuple[Path, str, str]) -> None:
    study, out, err = interrupted
    kept = points_in(study)
    assert FEW <= kept < 1000
    assert err == (
        f"npusim: {kept} points are in chips.study, and the same command goes on from there; drawing them, "
        "Ctrl-C again leaves that to npusim study\nnpusim: interrupted\n"
    )
    assert out.startswith(f"digits_cnn on edge-128: {kept} points, ")
    front = Study.open(study).front
    assert (study / "points.csv").read_text().count("\n") == kept + 1
    assert (study / "front.csv").read_text().count("\n") == len(front) + 1
    assert {file.stem for file in (study / "front").iterdir()} == {str(record.point) for record in front}
    for name in ("study.html", "front.svg", "front.png", "parallel.svg", "sensitivity.svg"):
        assert (study / name).stat().st_size > 1000


@pytest.mark.slow
def test_study_draws_it_again(interrupted: tuple[Path, str, str]) -> None:
    study, said, _ = interrupted
    drawn = [
        file for file in sorted(study.rglob("*")) if file.is_file() and file.suffix not in (".json", ".jsonl")
    ]
    before = {file: file.read_bytes() for file in drawn}
    assert len(before) > 10
    for file in drawn:
        file.unlink()
    status, out, err = command("study", study)
    assert (status, err) == (0, "")
    assert out.replace(str(study), "chips.study") == said
    assert {file: file.read_bytes() for file in drawn} == before


@pytest.mark.usefixtures("one_figure")
@pytest.mark.slow
def test_a_study_is_drawn_while_a_search_goes_on(interrupted: tuple[Path, str, str]) -> None:
    study, _, _ = interrupted
    with Folder(study).writing():
        assert command("study", study)[0] == 0


@pytest.mark.parametrize("name", ["none", "file", "."])
def test_what_is_no_study_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    status, out, err = command("study", tmp_path / name)
    assert (status, out) == (2, "")
    assert err == f"npusim: {tmp_path / name}: is not a study: it has no study.json\n"


@pytest.mark.slow
def test_hardware_files_of_a_front_say_what_they_are(interrupted: tuple[Path, str, str]) -> None:
    study, _, _ = interrupted
    made = Study.open(study)
    names = set()
    for record in made.front:
        file = tomllib.loads((study / "front" / f"{record.point}.toml").read_text())
        point = made.space.point(record.point)
        assert file["name"] == f"chips point {record.point}"
        assert file["description"] == (
            f"searched for digits_cnn: edge-128 with mac_array.rows = {point['mac_array.rows']}, "
            f"clock_mhz = {point['clock_mhz']}, dram.latency_ns = {point['dram.latency_ns']}"
        )
        assert command("hw", "check", study / "front" / f"{record.point}.toml")[0] == 0
        names.add(file["name"])
    assert len(names) == len(made.front) > 0
