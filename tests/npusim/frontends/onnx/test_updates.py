"""Updates of caches in ONNX files: on a machine with float lanes the DMA writes them, and lanes compute the places."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import npusim
from npusim.kernels.graph.reference import evaluate

RNG = np.random.default_rng(0)
CACHE = RNG.normal(size=(2, 4, 16, 8)).astype(np.float32)
TABLE = RNG.normal(size=(6, 8)).astype(np.float32)
STARTS = np.array([5, 14])
ANYWHERE = RNG.integers(-6, 6, (3, 8))


def rows(*shape: int) -> Any:
    return RNG.normal(size=shape).astype(np.float32)


@pytest.mark.parametrize(
    ("op", "operands", "attributes", "layers"),
    [
        ("TensorScatter", (CACHE, rows(2, 4, 1, 8), STARTS), {}, ["scatter_nd"]),
        ("TensorScatter", (CACHE, rows(2, 4, 2, 8), STARTS), {}, ["add", "scatter_nd"]),
        (
            "TensorScatter",
            (CACHE, rows(2, 4, 3, 8), STARTS),
            {"mode": "circular"},
            ["add", "floor_mod", "scatter_nd"],
        ),
        ("ScatterND", (TABLE, np.array([[-1], [2], [0]]), rows(3, 8)), {}, ["scatter_nd"]),
        (
            "ScatterElements",
            (TABLE, ANYWHERE, rows(3, 8)),
            {"axis": 0},
            ["less", "add", "select_v2", "mul", "add", "scatter_nd"],
        ),
        (
            "GatherElements",
            (TABLE, ANYWHERE),
            {"axis": 0},
            ["less", "add", "select_v2", "mul", "add", "gather"],
        ),
    ],
)
def test_places_that_a_run_gives(
    op: str, operands: tuple[Any, ...], attributes: dict[str, Any], layers: list[str], tmp_path: Path
) -> None:
    names = [f"x{place}" for place in range(len(operands))]
    types = [helper.np_dtype_to_tensor_dtype(each.dtype) for each in operands]
    shape = operands[1].shape if op == "GatherElements" else operands[0].shape
    graph = helper.make_graph(
        [helper.make_node(op, names, ["y"], **attributes)],
        op,
        [
            helper.make_tensor_value_info(name, kind, each.shape)
            for name, kind, each in zip(names, types, operands, strict=True)
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=10),
        tmp_path / "m.onnx",
    )
    model = npusim.load(tmp_path / "m.onnx")
    run = npusim.simulate(npusim.compile(model, "edge-128-float"), operands)
    assert [layer.op for layer in run.layers if layer.unit != "none"] == layers
    assert {layer.unit for layer in run.layers} <= {"dma", "vector", "none"}
    assert run.outputs[0].tobytes() == evaluate(model, operands)[model.outputs[0]].tobytes()
