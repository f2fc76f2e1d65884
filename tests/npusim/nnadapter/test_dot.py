"""Models in the DOT language: yellow boxes with names, operands with values or shapes, edges with arguments."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npusim import models
from npusim.frontends.nnadapter.dot import COLORS
from npusim.frontends.nnadapter.model_building import Model
from npusim.frontends.nnadapter.nnadapter_codes import Precision
from npusim.frontends.nnadapter.operand_type import OperandType
from npusim.isa.base.errors import NpusimError
from npusim.session import api

from ...litert.test_control import looping
from .dot_reader import Drawn, read

IMAGE = OperandType(Precision.FLOAT32, (1, 3, 8, 8))


def a_model(name: str = "a model", label: str = "image") -> Model:
    """relu(image), then image + it with a fuse code."""
    model = Model(name)
    x = model.add_operand(IMAGE, label)
    y = model.relu(x)
    z = model.add(x, y, fuse_code=1)
    model.identify([x], [z])
    model.finish()
    return model


def labels(drawn: Drawn, kind: str) -> list[str]:
    """The labels of operations or of operands, in their order."""
    return [attributes["label"] for name, attributes in drawn.nodes.items() if name.startswith(f"{kind}_")]


def test_the_whole_text() -> None:
    """Checklist 9.1."""
    assert a_model().dot().splitlines() == [
        'digraph "a model" {',
        '  operand_0 [label="[1, 3, 8, 8]", tooltip="image: FLOAT32[1, 3, 8, 8]"];',
        '  operand_1 [label="[1, 3, 8, 8]", tooltip="operands[1]: FLOAT32[1, 3, 8, 8]"];',
        '  operand_2 [label="1", tooltip="operands[2]: INT32[1]"];',
        '  operand_3 [label="[1, 3, 8, 8]", tooltip="operands[3]: FLOAT32[1, 3, 8, 8]"];',
        '  operation_0 [label="RELU", shape=box, style=filled, fillcolor=yellow, tooltip="operations[0]"];',
        '  operand_0 -> operation_0 [label="0:input"];',
        '  operation_0 -> operand_1 [label="0:output"];',
        '  operation_1 [label="ADD", shape=box, style=filled, fillcolor=yellow, tooltip="operations[1]"];',
        '  operand_0 -> operation_1 [label="0:input0"];',
        '  operand_1 -> operation_1 [label="1:input1"];',
        '  operand_2 -> operation_1 [label="2:fuse_code"];',
        '  operation_1 -> operand_3 [label="0:output"];',
        "}",
    ]


def test_arguments_that_are_several_omitted_or_lists() -> None:
    model = Model()
    ends = [model.add_operand(IMAGE) for _ in range(3)]
    joined = model.concat(ends, axis=1)
    weights = model.add_constant(np.ones((2, 9, 1, 1), np.float32))
    bias = model.add_constant(np.ones(2, np.float32))
    result = model.conv_2d(joined, weights, bias, auto_pad=2, pads=None, strides=(1, 1))
    model.identify(ends, [result])
    drawn = read(model.dot())
    arguments = [label for _, end, label in drawn.edges if end == "operation_0"]
    assert arguments == ["0:input0", "1:input1", "2:input2", "3:axis"]
    arguments = [label for _, end, label in drawn.edges if end == "operation_1"]
    assert arguments[:5] == ["0:input", "1:filter", "2:bias", "3:auto_pad", "5:strides"]
    assert labels(drawn, "operand")[3] == "1"  # the axis
    assert "[2]" in labels(drawn, "operand")  # strides: more than one element


def test_devices_have_colors() -> None:
    drawn = read(a_model().dot({0: "npusim", 1: "host"}))
    assert labels(drawn, "operation") == ["RELU\nnpusim", "ADD\nhost"]
    assert [drawn.nodes[f"operation_{number}"]["fillcolor"] for number in (0, 1)] == list(COLORS[:2])


@pytest.mark.parametrize("name", models.names())
def test_models_of_other_doors(name: str) -> None:
    graph = api.load(name)
    drawn = read(Model.of(graph).dot())
    assert labels(drawn, "operation") == [node.op for node in graph.nodes]
    read_or_written = [
        end for node in graph.nodes for end in (*node.inputs, *node.outputs) if end is not None
    ]
    assert len(drawn.edges) == len(read_or_written)


def test_tensors_of_other_doors_are_called_as_nnadapter_does() -> None:
    drawn = read(Model.of(api.load("digits_cnn")).dot())
    called = {
        drawn.nodes[end]["label"]: [label for _, other, label in drawn.edges if other == end]
        for _, end, _ in drawn.edges
        if end.startswith("operation_")
    }
    assert called["depthwise_conv_2d"] == ["0:input", "1:filter", "2:bias"]
    assert called["fully_connected"] == ["0:input", "1:weight", "2:bias"]
    assert called["add"] == ["0:input0", "1:input1"]
    assert called["softmax"] == ["0:input"]


def test_a_model_that_decides(tmp_path: Path) -> None:
    """Test and turn of a WHILE stand in frames of their own."""
    path = tmp_path / "looping.tflite"
    path.write_bytes(looping())
    drawn = read(Model.of(api.load(path)).dot())
    assert "while" in labels(drawn, "operation")
    assert [frame.split("_")[-2] for frame in drawn.frames] == ["test", "turn"]
    assert any(
        name.startswith(frame.removeprefix("cluster_")) for name in drawn.nodes for frame in drawn.frames
    )


@pytest.mark.slow
@given(st.text(max_size=20), st.text(min_size=1, max_size=20))
def test_names_of_any_kind(name: str, label: str) -> None:
    """Quotes, line ends, braces, backslashes and what nobody can see break nothing."""
    drawn = read(a_model(name, label).dot({0: name, 1: label}))
    assert len(drawn.nodes) == 6
    assert len(drawn.edges) == 6


def test_a_name_with_signs_of_the_language() -> None:
    drawn = read(a_model('a "b"\n{c} -> \\d;').dot())
    assert drawn.name == 'a "b"\n{c} -> \\d;'


def test_saved(tmp_path: Path) -> None:
    model = a_model()
    model.save_dot(tmp_path / "model.dot")
    assert (tmp_path / "model.dot").read_text() == model.dot()
    with pytest.raises(NpusimError, match="cannot be written: No such file or directory"):
        model.save_dot(tmp_path / "none" / "model.dot")


@pytest.mark.skipif(shutil.which("dot") is None, reason="graphviz is not installed")
def test_graphviz_draws_it() -> None:
    for text in (a_model('a "b"\n{c} \\d').dot({0: 'x"', 1: "y"}), Model.of(api.load("digits_cnn")).dot()):
        drawn = subprocess.run(["dot", "-Tsvg"], input=text.encode(), capture_output=True, check=True)
        assert b"<svg" in drawn.stdout
