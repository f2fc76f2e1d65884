"""Weights that ONNX files store in blocks of a few bits stay packed on machines that compute on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import npusim
from npusim.kernels.graph.graph import Graph
from npusim.kernels.graph.reference import evaluate
from npusim.kernels.graph.rewrite import without

from ....examples import examples
from .small_models import model, onnx

FLOAT = npusim.hardware("edge-128-float")
NONE = npusim.hardware(FLOAT.name, ["mac_array.weight_blocks=none"])


def _read(folder: Path, text: str, constants: dict[str, Any], width: int, narrow: tuple[str, ...]) -> Graph:
    file = folder / "m.onnx"
    made = model(text, constants, {"a": ("float32", (3, width))}, ["y"], four_bits=narrow)
    file.write_bytes(made.SerializeToString())
    return npusim.load(file)


def _outputs(graph: Graph, x: Any, hw: npusim.Hardware) -> tuple[Any, Any]:
    result = npusim.simulate(npusim.compile(graph, hw), [x])
    return result.outputs[0], result


@examples(8)
@given(
    seed=st.integers(0, 1000),
    dtype=st.sampled_from(["int8", "uint8"]),
    narrow=st.booleans(),
    zeros=st.booleans(),
    inner=st.integers(1, 70),
    block=st.sampled_from([16, 32]),
)
def test_dequantizelinear_in_blocks_before_matmul_is_one_product(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    dtype: str,
    narrow: bool,
    zeros: bool,
    inner: int,
    block: int,
) -> None:
    rng = np.random.default_rng(seed)
    blocks = -(-inner // block)
    low, high = (-8, 8) if dtype == "int8" else (0, 16)
    if not narrow:
        low, high = (-128, 128) if dtype == "int8" else (0, 256)
    constants = {
        "q": rng.integers(low, high, (inner, 11)).astype(dtype),
        "s": rng.uniform(0.01, 0.1, (blocks, 11)).astype(np.float32),
        "z": rng.integers(low, high, (blocks, 11)).astype(dtype),
    }
    text = f"w = DequantizeLinear(q, s{', z' if zeros else ''}) axis=0 block_size={block}\ny = MatMul(a, w)"
    folder = tmp_path_factory.mktemp("packed")
    graph = _read(folder, text, constants, inner, ("q", "z") if narrow else ())
    assert [node.op for node in graph.nodes if node.op in ("block_product", "fully_connected")] == [
        "block_product"
    ]
    x = rng.normal(size=(3, inner)).astype(np.float32)
    wide = {name: value.astype(np.float32) for name, value in constants.items()}
    zero = np.repeat(wide["z"], block, 0)[:inner] if zeros else np.float32(0)
    weights = (wide["q"] - zero) * np.repeat(wide["s"], block, 0)[:inner]
    outputs, result = _outputs(graph, x, FLOAT)
    assert np.array_equal(outputs, (x.astype(np.float64) @ weights.astype(np.float64)).astype(np.float32))
    assert [layer.unit for layer in result.layers if layer.op == "block_product"] == ["mac"]
    plain = without(graph, "block_product")
    assert outputs.tobytes() == evaluate(plain, [x])[plain.outputs[0]].tobytes()


def test_without_the_key_weights_are_dequantized_as_before(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    constants = {
        "b": rng.integers(0, 256, (96, 8, 16), np.uint8),
        "s": rng.uniform(0.01, 0.1, (96, 8)).astype(np.float32),
    }
    text = "y = ms.MatMulNBits(a, b, s) K=256 N=96 bits=4 block_size=32"
    graph = _read(tmp_path, text, constants, 256, ())
    x = rng.normal(size=(3, 256)).astype(np.float32)
    packed, one = _outputs(graph, x, FLOAT)
    whole, other = _outputs(graph, x, NONE)
    assert [layer.op for layer in one.layers] == ["block_product"]
    assert [(layer.op, layer.unit) for layer in other.layers] == [("fully_connected", "mac")]
    assert packed.tobytes() == whole.tobytes()
    # 4 bits and 4 bytes of scale for each 32 of them, instead of 4 bytes for each weight.
    saved = 96 * 256 * 4 - 96 * 8 * (16 + 4)
    assert abs(other.dram_bytes.read - one.dram_bytes.read - saved) < 0.02 * saved
    assert one.cycles < other.cycles
    assert one.energy_uj.total < other.energy_uj.total


def test_a_file_is_written_with_dequantized_weights(tmp_path: Path) -> None:
    from npusim.frontends.targets import TARGETS

    constants = {
        "b": np.arange(8 * 16, dtype=np.uint8).reshape(8, 1, 16),
        "s": np.full((8, 1), 0.5, np.float32),
    }
    graph = _read(tmp_path, "y = ms.MatMulNBits(a, b, s) K=32 N=8 bits=4 block_size=32", constants, 32, ())
    target = next(each for each in TARGETS if each.name == "onnx")
    written = onnx.load_from_string(target.written(graph, "m.onnx"))
    assert {node.op_type for node in written.graph.node} & {"MatMul", "Gemm"}
    x = np.ones((3, 32), np.float32)
    (tmp_path / "again.onnx").write_bytes(written.SerializeToString())
    again = npusim.run(tmp_path / "again.onnx", FLOAT, {graph.tensors[graph.inputs[0]].name: x})
    assert again.outputs[0].tobytes() == _outputs(graph, x, FLOAT)[0].tobytes()
