"""Operators that npusim does not have: all named at once, or timed as host layers and marked wherever numbers stand."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import npusim
from npusim.cli.typer_app import app
from npusim.frontends.tflite.operators import COMPILED
from npusim.isa.base.elements import Workload
from npusim.isa.base.errors import FormatError, GraphError, NpusimError
from npusim.isa.base.tensor import TensorType
from npusim.isa.hardware.cpu import host_cycles
from npusim.kernels.graph.graph import Graph, Node, Tensor
from npusim.models.writer import ModelWriter, per_tensor

SCALE = per_tensor(0.05, 3)
KIND = TensorType("int8", (1, 8, 8, 4), SCALE)
BYTES = 256
NAMED = "3 operators are not known to npusim: ATAN2 (1), BUCKETIZE (4), UNIQUE (1)"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """relu, four BUCKETIZE, ATAN2, UNIQUE, relu."""
    writer = ModelWriter("unknown")
    x = writer.input("x", KIND)
    y = writer.unary("RELU", x, SCALE, name="first")
    for number in range(4):
        y = writer.operator("BUCKETIZE", (y,), KIND, version=1, name=f"cast_{number}")
    y = writer.operator("ATAN2", (y, x), KIND, version=1, name="div")
    y = writer.operator("UNIQUE", (y,), KIND, version=1, name="round")
    path = tmp_path / "model.tflite"
    path.write_bytes(writer.finish([writer.unary("RELU", y, SCALE, name="last")]))
    return path


def command(*words: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(word) for word in words])
    return result.exit_code, result.output


@pytest.mark.parametrize("name", ["run", "compile"])
def test_all_are_named_in_one_line(file: Path, name: str) -> None:
    more = ["-o", file.with_suffix(".npu")] if name == "compile" else []
    status, text = command(name, file, *more)
    assert (status, text) == (
        2, f"npusim: model: {NAMED}; npusim run --unknown host times them as host layers\n"
    )  # fmt: skip
    assert not file.with_suffix(".npu").exists()


def test_names_of_graphs_and_custom_operators() -> None:
    tensors = (Tensor("x", KIND), Tensor("y", KIND), Tensor("z", KIND))
    nodes = (Node("a", 'custom "Foo"', (0,), (1,)), Node("b", 'custom "Foo"', (1,), (2,)))
    with pytest.raises(GraphError) as fault:
        npusim.compile(Graph("net", tensors, nodes, (0,), (2,)))
    assert str(fault.value) == (
        'net: 1 operator is not known to npusim: custom "Foo" (2); npusim run --unknown host times them as host layers'
    )


def test_they_are_timed_by_their_bytes(file: Path) -> None:
    result = npusim.run(file, unknown="host")
    assert not result.outputs
    program = result.program
    assert program.unknown_operators == {"BUCKETIZE": 4, "ATAN2": 1, "UNIQUE": 1}
    ops = [(layer.op, layer.unit) for layer in result.layers]
    assert ops[0] == ops[-1] == ("relu", "vector")
    assert ops[1:-1] == [("unknown BUCKETIZE", "host")] * 4 + [
        ("unknown ATAN2", "host"),
        ("unknown UNIQUE", "host"),
    ]
    calls = {call.name: call.workload for call in program.host_calls}
    # What is read and what is written, each 256 bytes; ATAN2 reads two tensors.
    assert calls["cast_0"] == calls["round"] == Workload("move", output_bytes=2 * BYTES)
    assert calls["div"] == Workload("move", output_bytes=3 * BYTES)
    expected = sum(host_cycles(workload, program.hardware) for workload in calls.values())
    assert result.cycles.host == expected
    assert npusim.run(file, unknown="host", effort=3).cycles <= result.cycles


@pytest.mark.usefixtures("one_figure")
@pytest.mark.slow
def test_they_are_marked_wherever_numbers_stand(file: Path, tmp_path: Path) -> None:
    outputs = {"--json": tmp_path / "r.json", "--csv": tmp_path / "r.csv", "--report": tmp_path / "page"}
    words = [word for pair in outputs.items() for word in pair]
    status, text = command("run", file, "--unknown", "host", *words)
    assert status == 0
    assert f"ESTIMATE: {NAMED}." in " ".join(text.split())
    assert text.index("ESTIMATE") < text.index("Latency")
    numbers = json.loads((tmp_path / "r.json").read_text())
    assert numbers["unknown_operators"] == {"BUCKETIZE": 4, "ATAN2": 1, "UNIQUE": 1}
    assert (tmp_path / "r.csv").read_text().count(",unknown BUCKETIZE,host,") == 4
    page = (tmp_path / "page" / "report.html").read_text()
    assert page.count("ESTIMATE: 3") == 1
    assert "BUCKETIZE (4)" in page


def test_a_program_file_keeps_the_mark(file: Path, tmp_path: Path) -> None:
    program = tmp_path / "p.npu"
    status, text = command("compile", file, "-o", program, "--unknown", "host")
    assert status == 0
    assert f"ESTIMATE: {NAMED}." in text
    assert npusim.run(program).cycles == npusim.run(file, unknown="host").cycles
    status, text = command("run", program, "--output", tmp_path / "o.npz")
    assert status == 2
    assert "unknown operators (ATAN2, BUCKETIZE, UNIQUE) are timed only, there are no outputs" in text
    with pytest.raises(NpusimError, match="there are no outputs, so inputs cannot be given"):
        npusim.simulate(npusim.load_program(program), [np.zeros(KIND.shape, np.int8)])


@pytest.mark.parametrize("option", ["--input", "--output"])
def test_there_is_no_data(file: Path, tmp_path: Path, option: str) -> None:
    status, text = command("run", file, "--unknown", "host", option, tmp_path / "x.npz")
    assert (status, text) == (
        2, f"npusim: {option}: --unknown host executes no data; give one or the other\n"
    )  # fmt: skip


def test_what_may_be_said(file: Path) -> None:
    status, text = command("run", file, "--unknown", "gpu")
    assert (status, text) == (
        2, "npusim: unknown 'gpu': may be 'host', which times unknown operators as host layers\n"
    )  # fmt: skip


@pytest.mark.slow
def test_what_if_takes_them_too(file: Path) -> None:
    result = npusim.run(file, unknown="host")
    found = npusim.what_if(file, unknown="host", jobs=1)
    assert found.latency_ms == result.latency_ms == result.what_if(jobs=1).latency_ms


@pytest.mark.parametrize("code", COMPILED)
@pytest.mark.parametrize("words", [(), ("--unknown", "host"), ("--device", "npusim")])
def test_a_compiled_file_asks_for_the_original(tmp_path: Path, code: str, words: tuple[str, ...]) -> None:
    writer = ModelWriter("compiled")
    path = tmp_path / "model.tflite"
    path.write_bytes(writer.finish([writer.operator(code, (writer.input("x", KIND),), KIND, version=1)]))
    status, text = command("run", path, *words)
    assert (status, text) == (2, f"npusim: {path}: already compiled {COMPILED[code]}; give the original\n")


def test_a_file_of_vela_asks_for_the_original(shared: Path) -> None:
    path = shared / "corpus" / "person_detect_vela.tflite"
    with pytest.raises(FormatError, match=r"already compiled for an Ethos-U by Vela; give the original$"):
        npusim.load(path)


def test_a_decoder_of_poses_is_timed_if_asked_for(tmp_path: Path) -> None:
    writer = ModelWriter("poses")
    poses = writer.operator(
        "CUSTOM PosenetDecoderOp",
        (writer.input("heat", KIND),),
        TensorType("float32", (1, 10, 17, 2)),
        version=1,
    )
    path = tmp_path / "model.tflite"
    path.write_bytes(writer.finish([poses]))
    status, text = command("run", path)
    assert status == 2
    assert 'custom "PosenetDecoderOp" (1); npusim run --unknown host times them as host layers' in text
    assert command("run", path, "--unknown", "host")[0] == 0
