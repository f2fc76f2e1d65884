"""`npusim run --device`: what it prints and writes, what goes with it, and what is refused in one line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from npusim.kernels.graph.placing import parse
from npusim.session import api

from ...command_line import command
from ...kernels.test_control import loop

CHIP = 'extends = "edge-128"\nlacks_operators = ["depthwise_conv_2d", "softmax"]\n'


@pytest.fixture
def chip(tmp_path: Path) -> Path:
    file = tmp_path / "chip.toml"
    file.write_text(CHIP)
    return file


@pytest.mark.usefixtures("one_figure")
@pytest.mark.slow
def test_bytes_are_those_of_one_machine_and_pieces_add_up(chip: Path, tmp_path: Path) -> None:
    alone, over, page = tmp_path / "alone.npz", tmp_path / "over.npz", tmp_path / "page"
    assert command("run", "digits_cnn", "--seed", "3", "--output", alone).status == 0
    asked = (
        "--device",
        chip,
        "--device",
        "npusim_host",
        "--seed",
        "3",
        "--output",
        over,
        "--json",
        tmp_path / "run.json",
    )
    done = command("run", "digits_cnn", *asked, "--report", page)
    assert (done.status, done.err) == (0, "")
    with np.load(alone) as one, np.load(over) as other:
        np.testing.assert_array_equal(one["out0"], other["out0"])
    plain = json.loads((tmp_path / "run.json").read_text())
    assert [piece["device"] for piece in plain["pieces"]] == ["chip", "npusim_host", "chip", "npusim_host"]
    boundaries = [piece["entered"]["cycles"] for piece in plain["pieces"] if piece["entered"]]
    assert sum(piece["cycles"] for piece in plain["pieces"]) + sum(boundaries) == plain["cycles"]["total"]
    assert plain["provenance"]["command"] == (
        "npusim run digits_cnn --device chip.toml --device npusim_host --seed 3"
    )
    assert (page / "report.html").stat().st_size > 10_000
    timed = command("run", "digits_cnn", "--device", chip, "--device", "npusim_host", "--timing-only")
    assert f"{plain['cycles']['total']:,}".replace(",", " ") in timed.out


@pytest.mark.slow
def test_given_inputs_are_executed(chip: Path, tmp_path: Path) -> None:
    image = np.zeros((1, 8, 8, 1), np.int8)
    np.savez(tmp_path / "in.npz", in0=image)
    for name, devices in (("one", ()), ("other", ("--device", chip, "--device", "npusim_host"))):
        done = command(
            "run",
            "digits_cnn",
            *devices,
            "--input",
            tmp_path / "in.npz",
            "--output",
            tmp_path / f"{name}.npz",
        )
        assert done.status == 0, done.err
    with np.load(tmp_path / "one.npz") as one, np.load(tmp_path / "other.npz") as other:
        np.testing.assert_array_equal(one["out0"], other["out0"])


@pytest.mark.slow
def test_the_partition_is_printed_in_the_format_of_its_file(chip: Path, tmp_path: Path) -> None:
    graph = api.load("digits_cnn")
    lines = command(
        "run", "digits_cnn", "--device", chip, "--device", "npusim_host", "--print-partition"
    ).out.splitlines()
    at = lines.index("subgraph operators:")
    end = lines.index("subgraph clusters: 4")
    file = tmp_path / "all.txt"
    file.write_text("\n".join(lines[at + 1 : end]))
    assert [entry.kind for entry in parse(file.read_text(), "file")] == [node.op for node in graph.nodes]
    assert lines[end + 1] == "digraph G {"
    assert lines.index("} // end G") > end
    everything = command(
        "run",
        "digits_cnn",
        "--device",
        chip,
        "--device",
        "npusim_host",
        "--partition",
        file,
        "--print-partition",
    )
    assert "subgraph clusters: 1" in everything.out.splitlines()
    shorter = command("run", "digits_cnn", "--print-partition", "--host", "max_pool_2d")
    assert "subgraph clusters: 3" in shorter.out.splitlines()
    assert "digits_cnn on edge-128" in shorter.out


@pytest.mark.slow
@pytest.mark.cases(1)
@pytest.mark.parametrize("way", ["FILE", "BUFFER"])
def test_lines_of_the_environment_are_forced(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lines.txt").write_text("softmax\n")
    monkeypatch.setenv(
        f"SUBGRAPH_PARTITION_CONFIG_{way}", str(tmp_path / "lines.txt") if way == "FILE" else "softmax"
    )
    how = ("run", "digits_cnn", "--timing-only", "--print-partition")
    for partition in ((), ("--partition", "order"), ("--partition", "cost")):
        over = command(*how, "--device", "npusim", "--device", "npusim_host", *partition)
        assert (over.status, over.err) == (0, "")
        assert over.out.count("npusim_host") > command(*how).out.count("npusim_host")


def test_by_cost_says_what_it_did(chip: Path) -> None:
    done = command("run", "digits_cnn", "--device", chip, "--device", "npusim_host", "--partition", "cost")
    assert done.status == 0, done.err
    said = next(line for line in done.out.splitlines() if line.startswith("Partition by cost: "))
    assert "others were timed; by order it takes" in said


def test_effort_and_drawing_go_with_devices(chip: Path, tmp_path: Path) -> None:
    done = command(
        "run",
        "digits_cnn",
        "--device",
        chip,
        "--device",
        "npusim_host",
        "--effort",
        "2",
        "--dot",
        tmp_path / "m.dot",
    )
    assert done.status == 0, done.err
    assert "npusim_host" in (tmp_path / "m.dot").read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--device npu", "device 'npu': does not exist, did you mean npusim? There are npusim, "),
        ("--device npusim --device npusim", "devices[1]: npusim is there already"),
        (
            "--device npusim --hw edge-64",
            "--hw: does not go with --device; a preset or hardware file is a device itself, so give --device once more",
        ),
        (
            "--device npusim --set clock_mhz=300",
            "--set: does not go with --device; give a hardware file with the change as a device",
        ),
        ("--device npusim --what-if", "--what-if: does not go with --device; it changes one machine"),
        (
            "--device npusim --unknown host",
            "--unknown: does not go with --device; each operator must be one that a device has",
        ),
        (
            "--device npusim --decide a=1",
            "--decide: does not go with --device; a model that decides is several ",
        ),
        ("--device npusim ds_cnn", "MODEL: does not go with --device; it takes one model"),
        (
            "--device npusim --partition cost --partition single",
            "partition: cost, single: may be one of them, beside files",
        ),
        ("--partition single", "--partition single: chooses among devices; give some with --device"),
        ("--partition order", "--partition order: chooses among devices; give some with --device"),
        (
            "--device npusim --host softmaxx",
            "--host: softmaxx: digits_cnn has no such operator; did you mean softmax?",
        ),
        ("--device npusim --host ,", "--host: an operator has no name; give some such as softmax,pad"),
        ("--device nothing.toml", "nothing.toml: no such file"),
        ("--device fake_device", "digits_cnn: npusim simulates none of its pieces on fake_device"),
        (
            "--device builtin_device",
            "digits_cnn: depthwise (depthwise_conv_2d) is supported by no device: builtin_device: depthwise_conv_2d is "
            "none of the 32 operations of builtin_device",
        ),
        (
            "--device npusim --timing-only --output out.npz",
            "--output: --timing-only executes no data; give one or the other",
        ),
        (
            "--print-partition --set clock_mhz=300",
            "--print-partition: does not go with --set without --device",
        ),
        ("--print-partition ds_cnn", "--print-partition: goes with one model on one machine"),
    ],
)
def test_what_does_not_go_is_refused_in_one_line(words: str, said: str) -> None:
    done = command("run", "digits_cnn", *words.split())
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith(f"npusim: {said}")
    assert done.err.count("\n") == 1


def test_a_model_that_decides_and_a_program_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "p.npu"
    assert command("compile", "digits_cnn", "-o", program).status == 0
    done = command("run", program, "--device", "npusim")
    assert (done.status, done.err) == (2, f"npusim: {program}: is a compiled program, not a model\n")
    monkeypatch.setattr("npusim.nnadapter.models.open_model", lambda path, sizes: loop())
    done = command("run", "loop", "--device", "npusim")
    assert (done.status, done.out) == (2, "")
    assert (
        done.err == "npusim: net: decides (IF, WHILE), NNAdapter has no such operation; npusim.run runs it\n"
    )


@pytest.mark.slow
def test_a_line_that_takes_nothing_is_said_once(tmp_path: Path) -> None:
    (tmp_path / "file.txt").write_text("softmux")
    for more in ((), ("--device", "npusim", "--device", "npusim_host")):
        done = command("run", "digits_cnn", "--print-partition", "--partition", tmp_path / "file.txt", *more)
        assert done.status == 0
        assert done.err.count("did you mean softmax?") == 1
