"""A front door is one row: a tiny format of batch, channels, height, width that only this test knows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npusim
from npusim.frontends import frontend
from npusim.isa.base.errors import FormatError, GraphError
from npusim.isa.base.tensor import Quantization, TensorType
from npusim.kernels.graph.builder import GraphBuilder, unshaped
from npusim.kernels.graph.graph import Graph
from npusim.kernels.graph.layout import NCHW
from npusim.kernels.operators.convolution import conv_2d

MAGIC = b"TINY"
CODES = Quantization((1.0,), (0,))

# The door


def recognises(path: Path, head: bytes) -> bool:
    return head.startswith(MAGIC)


def read(path: Path, builder: GraphBuilder) -> Graph:
    """The file is MAGIC and a JSON table: the shape of the image, then filters [out, in, height, width] or "relu"."""
    try:
        table: dict[str, Any] = json.loads(path.read_bytes().removeprefix(MAGIC))
    except ValueError as fault:
        raise FormatError(f"is damaged: {fault}") from fault
    x = builder.input("image", TensorType("int8", tuple(table["image"]), CODES))
    for layer in table["layers"]:
        if layer == "relu":
            (x,) = builder.node("relu", (x,), [unshaped("int8", CODES)])
        else:
            weights = builder.constant("weights", np.array(layer, np.int8), CODES)
            (x,) = builder.node(
                "conv_2d", (x, weights, None), [unshaped("int8", CODES)], conv_2d.Parameters()
            )
    return builder.graph([x])


DOOR = frontend.Door("Tiny", (".tiny",), __name__, NCHW)

# What comes of it

FILTERS = np.array([[[[1, 2], [0, -1]], [[0, 0], [3, 0]]]], np.int8)


def written(path: Path, image: list[int], *layers: Any) -> Path:
    path.write_bytes(MAGIC + json.dumps({"image": image, "layers": layers}).encode())
    return path


@pytest.fixture(autouse=True)
def _open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frontend, "DOORS", (*frontend.DOORS, DOOR))


def test_a_door_of_its_own_layout_runs(tmp_path: Path) -> None:
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
    with pytest.raises(GraphError) as fault:
        frontend.read(path)
    assert str(fault.value) == (
        f'{path}: input "image": shape [-1, 2, 3, 4] has an unknown size; give every size, from 0 on'
    )
