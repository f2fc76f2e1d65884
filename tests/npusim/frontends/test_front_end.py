"""A front end is one row: a tiny format of batch, channels, height, width that only this test knows."""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import npusim
from npusim.cli.typer_app import app
from npusim.frontends import frontend
from npusim.isa.base.errors import FormatError, GraphError
from npusim.isa.base.tensor import Quantization, TensorType
from npusim.kernels.graph.builder import GraphBuilder, unshaped
from npusim.kernels.graph.graph import NCHW, Graph
from npusim.kernels.operator import registered
from npusim.kernels.operators.convolution import conv_2d
from npusim.nnadapter import model_run
from npusim.reports.run import html

from .tflite_builder import small_model

MAGIC = b"TINY"
CODES = Quantization((1.0,), (0,))

# The front end


def recognises(path: Path, head: bytes) -> bool:
    return head.startswith(MAGIC)


def read(path: Path, builder: GraphBuilder) -> Graph:
    """The file is MAGIC and a JSON table: the shape of the image, then filters [out, in, height, width] or "relu"."""
    try:
        table: dict[str, Any] = json.loads(path.read_bytes().removeprefix(MAGIC))
    except ValueError as fault:
        raise FormatError(f"is damaged: {fault}") from fault
    x = builder.input("image", TensorType("int8", tuple(table["image"]), CODES))
    for note in table.get("notes", ()):
        builder.note(note)
    for layer in table["layers"]:
        if layer == "relu":
            (x,) = builder.node("relu", (x,), [unshaped("int8", CODES)])
        else:
            weights = builder.constant("weights", np.array(layer, np.int8), CODES)
            (x,) = builder.node(
                "conv_2d", (x, weights, None), [unshaped("int8", CODES)], conv_2d.Parameters()
            )
    return builder.graph([x])


FRONT_END = frontend.FrontEnd("Tiny", (".tiny",), __name__, NCHW)

# What comes of it

FILTERS = np.array([[[[1, 2], [0, -1]], [[0, 0], [3, 0]]]], np.int8)


def written(path: Path, image: list[int], *layers: Any, notes: Sequence[str] = ()) -> Path:
    path.write_bytes(MAGIC + json.dumps({"image": image, "layers": layers, "notes": notes}).encode())
    return path


@pytest.fixture(autouse=True)
def _open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frontend, "FRONT_ENDS", (*frontend.FRONT_ENDS, FRONT_END))


def test_a_front_end_of_its_own_layout_runs(tmp_path: Path) -> None:
    path = written(tmp_path / "net.tiny", [1, 2, 3, 4], FILTERS.tolist(), "relu")
    image = np.random.default_rng(0).integers(-9, 10, (1, 2, 3, 4), np.int8)
    expected = np.zeros((1, 1, 2, 3), np.int64)
    for row, column in np.ndindex(2, 3):
        expected[0, 0, row, column] = max(
            0, (image[0, :, row : row + 2, column : column + 2] * FILTERS[0]).sum()
        )
    result = npusim.run(path, inputs=[image])
    assert np.array_equal(result.outputs[0], expected)
    assert [layer.name for layer in result.layers][1:3] == ["conv_2d_0", "relu_2"]


def test_its_graphs_are_checked_like_all_others(tmp_path: Path) -> None:
    path = written(tmp_path / "net.tiny", [1, 2, 1, 1], np.ones((1, 2, 3, 3)).tolist())
    with pytest.raises(GraphError) as fault:
        frontend.read(path)
    assert str(fault.value) == (
        f'{path}: layer "conv_2d_0" (conv_2d): output "conv_2d_0" would have shape [1, -1, -1, 1]'
    )


def test_sizes_that_a_file_leaves_open_are_given(tmp_path: Path) -> None:
    path = written(tmp_path / "net.tiny", [-1, 2, 3, 4], "relu")
    graph = frontend.read(path, {"image": (2, 2, 3, 4)})
    assert graph.tensors[graph.outputs[0]].type.shape == (2, 2, 3, 4)
    with pytest.warns(frontend.ModelWarning) as warned:
        graph = frontend.read(path)
    assert graph.tensors[graph.outputs[0]].type.shape == (1, 2, 3, 4)
    note = "batch = 1, which the file leaves open; --shape image=N,2,3,4 gives another"
    assert [str(each.message) for each in warned] == [f"{path}: {note}"]
    path = written(tmp_path / "net.tiny", [1, -1, 3, 4], "relu")
    with pytest.raises(GraphError) as fault:
        frontend.read(path)
    assert str(fault.value) == (
        f'{path}: input "image": has shape [1, -1, 3, 4] with an unknown size; give --shape image=1,N,3,4, in Python '
        'sizes={"image": [1, N, 3, 4]}'
    )


# What a reader has to say


def test_what_a_reader_has_to_say_goes_with_the_model(tmp_path: Path) -> None:
    path = written(
        tmp_path / "net.tiny", [1, 2, 3, 4], "relu", notes=["the first", "the <second>", "the first"]
    )
    with pytest.warns(frontend.ModelWarning) as warned:
        graph = npusim.load(path)
    assert [str(each.message) for each in warned] == [f"{path}: the first", f"{path}: the <second>"]
    assert graph.notes == ("the first", "the <second>")
    program = npusim.compile(graph)
    npusim.save_program(program, tmp_path / "net.npu")
    for result in (npusim.simulate(program), npusim.run(tmp_path / "net.npu")):
        assert result.notes == graph.notes
        assert result.to_dict()["notes"] == list(graph.notes)
        assert "<li>the &lt;second&gt;</li>" in html.render(result)
    with pytest.warns(frontend.ModelWarning):
        over = model_run.run(path, ["edge-64", "npusim_host"])
    assert over.notes == graph.notes


def test_a_program_of_a_model_without_notes_says_nothing_of_them(tmp_path: Path) -> None:
    path = written(tmp_path / "net.tiny", [1, 2, 3, 4], "relu")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = npusim.run(path)
    npusim.save_program(result.program, tmp_path / "net.npu")
    assert b"notes" not in (tmp_path / "net.npu").read_bytes()
    assert result.to_dict()["notes"] == []
    assert 'id="notes"' not in html.render(result)


@pytest.mark.slow
def test_a_command_says_each_note_once_on_stderr(tmp_path: Path) -> None:
    path = written(tmp_path / "net.tiny", [1, 2, 3, 4], "relu", notes=["odd"])
    for arguments in (
        ["run"],
        ["run", "--print-partition"],
        ["run", "--device", "edge-64"],
        ["run", "--what-if"],
    ):
        said = CliRunner().invoke(app, [*arguments, str(path)])
        assert said.exit_code == 0
        assert said.stderr.count("odd") == 1
        assert f"npusim: warning: {path}: odd\n" in said.stderr


def test_of_many_notes_the_first_are_said(tmp_path: Path) -> None:
    path = written(tmp_path / "net.tiny", [1, 2, 3, 4], "relu", notes=[f"note {i}" for i in range(12)])
    with pytest.warns(frontend.ModelWarning) as warned:
        result = npusim.run(path)
    assert len(result.notes) == 12
    assert [str(each.message) for each in warned][-2:] == [
        f"{path}: note 7",
        f"{path}: and 4 more notes; --json and result.notes have all of them",
    ]


# Graphs of files are remembered


def test_a_file_is_read_again_when_it_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Content and time of modification of the second file are set so that only the time of its last change tells."""
    path = tmp_path / "model.tflite"
    path.write_bytes(small_model())
    assert npusim.load(path) is not npusim.load(path)  # it was changed just now
    now = time.time_ns()
    monkeypatch.setattr("npusim.isa.base.user_file.time.time_ns", lambda: now + 10**10)
    first = npusim.load(path)
    assert npusim.load(path) is first
    assert npusim.run(path).provenance.model_sha256 == sha256(small_model()).hexdigest()
    stamps = path.stat()
    time.sleep(0.05)  # times of files have steps of some milliseconds
    other = small_model().replace(b"scores", b"points")
    path.write_bytes(other)
    os.utime(path, ns=(stamps.st_atime_ns, stamps.st_mtime_ns))
    second = npusim.load(path)
    assert [node.name for node in second.nodes].count("points") == 1
    assert npusim.run(path).provenance.model_sha256 == sha256(other).hexdigest()
    path.unlink()
    with pytest.raises(npusim.NpusimError, match="no such file"):
        npusim.load(path)


def test_a_remembered_graph_depends_on_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Formats of several files, operators of the user's, and more files than are remembered are read anew."""
    now = time.time_ns()
    monkeypatch.setattr("npusim.isa.base.user_file.time.time_ns", lambda: now + 10**10)
    paths = [tmp_path / f"{number}.tflite" for number in range(5)]
    for path in paths:
        path.write_bytes(small_model())
    first, *_ = graphs = [npusim.load(path) for path in paths]
    assert npusim.load(paths[4]) is graphs[4]
    assert npusim.load(paths[0]) is not first
    assert npusim.load(paths[0]).name == "0"
    monkeypatch.setitem(registered._operators, "custom", graphs)
    assert npusim.load(paths[4]) is not graphs[4]
