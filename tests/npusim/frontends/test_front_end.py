"""A front end is one row: a tiny format of batch, channels, height, width that only this test knows."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
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
from npusim.kernels.operators.convolution import conv_2d
from npusim.nnadapter import model_run
from npusim.reports.run import html

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
