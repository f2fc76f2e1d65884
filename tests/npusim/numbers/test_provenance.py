"""How a run came about: in the JSON, on the page, in figures, and in comparisons."""

from __future__ import annotations

import json
import re
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy
import pytest
import simpy

import npusim
from npusim import models
from npusim.isa.base.version import sources_digest
from npusim.isa.hardware import file as hardware_file
from npusim.numbers.provenance import digest_of_hardware

from ...command_line import command


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model file in a folder with a telling name."""
    folder = tmp_path_factory.mktemp("secret_project")
    made = models.path_or_bytes("digits_cnn")
    (folder / "net.tflite").write_bytes(made if isinstance(made, bytes) else Path(made).read_bytes())
    return folder / "net.tflite"


def result(folder: Path, *words: str | Path, name: str = "run.json") -> dict[str, Any]:
    """The JSON of a run, without wall times."""
    assert command("run", *words, "--json", folder / name)[0] == 0
    found: dict[str, Any] = json.loads((folder / name).read_text())
    assert found.pop("wall_s")
    return found


def test_the_block_says_how_to_have_the_run_again(model: Path, tmp_path: Path) -> None:
    hardware = tmp_path / "wide.toml"
    hardware.write_text('extends = "edge-64"\n')
    found = result(
        tmp_path, model, "--hw", hardware, "--set", "clock_mhz=250", "--effort", "2", "--seed", "7"
    )
    assert found["provenance"] == {
        "npusim": npusim.__version__,
        "sources_sha256": sources_digest(),
        "python": ".".join(map(str, sys.version_info[:3])),
        "numpy": numpy.__version__,
        "simpy": simpy.__version__,
        "command": "npusim run net.tflite --hw wide.toml --set clock_mhz=250 --effort 2 --seed 7",
        "effort": "2",
        "seed": 7,
        "inputs": "random",
        "model_sha256": sha256(model.read_bytes()).hexdigest(),
        "hardware_sha256": digest_of_hardware(hardware_file.from_dict(found["hardware"])),
        "shapes": None,
    }
    assert str(model.parent) not in json.dumps(found)


@pytest.mark.usefixtures("one_figure")
@pytest.mark.slow
def test_the_same_run_gives_the_same_file_wherever_it_is_written(model: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    there = tmp_path / "elsewhere" / "net.tflite"
    there.write_bytes(model.read_bytes())
    first = result(tmp_path, model, name="a.json")
    assert first == result(tmp_path, there, "--report", tmp_path / "out", name="b.json")
    in_folder = json.loads((tmp_path / "out" / "result.json").read_text())
    in_folder.pop("wall_s")
    assert in_folder == first


def test_python_and_the_command_agree(model: Path, tmp_path: Path) -> None:
    ours = npusim.run(model, "edge-64", timing_only=True, effort=1).to_dict()["provenance"]
    words = ("--hw", "edge-64", "--timing-only", "--effort", "1")
    theirs = result(tmp_path, model, *words)["provenance"]
    assert ours | {"effort": "1"} == theirs
    assert (theirs["seed"], theirs["inputs"]) == (None, "none")
    given = npusim.run(model, inputs=[numpy.zeros((1, 8, 8, 1), numpy.int8)]).provenance
    assert (given.seed, given.inputs) == (None, "given")


def test_a_program_has_no_effort_and_python_no_command(tmp_path: Path) -> None:
    program = npusim.compile(npusim.load("digits_cnn"))
    alone = npusim.simulate(program, seed=3).to_dict()["provenance"]
    assert (alone["command"], alone["effort"], alone["seed"], alone["model_sha256"]) == (None, None, 3, None)
    npusim.save_program(program, tmp_path / "p.npu")
    found = npusim.run(tmp_path / "p.npu").provenance
    assert (found.effort, found.command) == (None, "npusim run p.npu")
    assert found.model_sha256 == sha256((tmp_path / "p.npu").read_bytes()).hexdigest()


def test_names_of_hardware_do_not_change_its_digest() -> None:
    hardware = npusim.hardware("edge-128")
    renamed = hardware_file.change(hardware, {"name": "x", "description": "y"})
    assert digest_of_hardware(renamed) == digest_of_hardware(hardware)
    assert digest_of_hardware(npusim.hardware("edge-64")) != digest_of_hardware(hardware)


@pytest.mark.slow
def test_compare_shows_what_was_made_differently(model: Path, tmp_path: Path) -> None:
    result(tmp_path, model, name="a.json")
    result(tmp_path, model, "--effort", "3", "--seed", "9", name="b.json")
    runs = (tmp_path / "a.json", tmp_path / "b.json")
    status, out, _ = command("compare", *runs, "--json", tmp_path / "c.json", "--html", tmp_path / "c.html")
    assert status == 0
    assert "Hardware: the same" in out
    made = out.partition("Made, 2 differences")[2].split()
    assert made[:8] == ["A", "B", "effort", "fast", "3", "seed", "0", "9"]
    assert json.loads((tmp_path / "c.json").read_text())["provenance"] == [
        {"path": "effort", "values": ["fast", "3"]},
        {"path": "seed", "values": [0, 9]},
    ]
    assert 'id="made"' in (tmp_path / "c.html").read_text()
    assert "Made" not in command("compare", tmp_path / "a.json", tmp_path / "a.json")[1]


@pytest.mark.slow
def test_results_from_before_are_compared_too(model: Path, tmp_path: Path) -> None:
    new = result(tmp_path, model)
    old = {key: value for key, value in new.items() if key != "provenance"}
    (tmp_path / "old.json").write_text(json.dumps(old))
    (tmp_path / "new.json").write_text(json.dumps(new))
    status, out, _ = command("compare", tmp_path / "old.json", tmp_path / "new.json")
    assert status == 0
    assert "Made, 9 differences" in out
    (tmp_path / "odd.json").write_text(json.dumps(old | {"provenance": ["\x1b[31m", {"x": None}]}))
    status, out, _ = command("compare", tmp_path / "odd.json", tmp_path / "new.json")
    assert status == 0
    assert "\x1b" not in out


@pytest.mark.usefixtures("one_figure")
@pytest.mark.slow
def test_page_and_figures_say_it(model: Path, tmp_path: Path) -> None:
    found = result(tmp_path, model, "--seed", "5", "--report", tmp_path / "out")["provenance"]
    page = (tmp_path / "out" / "report.html").read_text()
    assert found["model_sha256"] in page
    assert "npusim run net.tflite --seed 5" in page
    assert str(model.parent) not in page
    vector = (tmp_path / "out" / "roofline.svg").read_text()
    description = re.search(r"<dc:description>(.*?)</dc:description>", vector, re.DOTALL)
    assert description is not None
    assert json.loads(description[1].replace("&quot;", '"')) == found
    image = pytest.importorskip("PIL.Image").open(tmp_path / "out" / "roofline.png")
    assert json.loads(image.text["Description"]) == found
