"""Weights beside an ONNX file: mapped, not copied, and with `--weights size` not read at all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import npusim
from npusim.isa.base.errors import NpusimError
from npusim.isa.base.tensor import SIZE_ONLY

from ....command_line import command

WIDE, NARROW = 2048, 640
"""1.3 million weights: more than are copied, and more bytes than are read instead of mapped."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with one product between QuantizeLinear and DequantizeLinear, its weights inside and beside."""
    made = tmp_path_factory.mktemp("models")
    draw = np.random.default_rng(5)
    weights = numpy_helper.from_array(draw.integers(-127, 128, (WIDE, NARROW), np.int8), "w")
    scales = numpy_helper.from_array(np.linspace(0.001, 0.002, NARROW, dtype=np.float32), "ws")
    small = [numpy_helper.from_array(np.float32(0.05), "s"), numpy_helper.from_array(np.int8(0), "z")]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["xq"]),
        helper.make_node("DequantizeLinear", ["xq", "s", "z"], ["xd"]),
        helper.make_node("DequantizeLinear", ["w", "ws"], ["wd"], axis=1),
        helper.make_node("MatMul", ["xd", "wd"], ["y"]),
        helper.make_node("QuantizeLinear", ["y", "s", "z"], ["yq"]),
    ]
    ends = (
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, WIDE])],
        [helper.make_tensor_value_info("yq", TensorProto.INT8, [4, NARROW])],
    )
    graph = helper.make_graph(nodes, "product", *ends, [weights, scales, *small])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, made / "inside.onnx")
    onnx.save(
        model, made / "beside.onnx", save_as_external_data=True, location="w.bin", size_threshold=1 << 20
    )
    return made


def test_weights_beside_the_model_are_mapped_and_mean_the_same(folder: Path) -> None:
    graphs = [npusim.load(folder / f"{name}.onnx") for name in ("inside", "beside")]
    assert graphs[0].nodes == graphs[1].nodes
    large = [
        tensor.array for tensor in graphs[1].tensors if tensor.constant and tensor.type.elements > 1 << 20
    ]
    assert [array is None or array.flags.owndata for array in large] == [False]
    x = np.random.default_rng(6).uniform(-5, 5, (4, WIDE)).astype(np.float32)
    inside, beside = (npusim.simulate(npusim.compile(graph, "mobile-1024"), [x]) for graph in graphs)
    np.testing.assert_array_equal(inside.outputs[0], beside.outputs[0])
    assert inside.cycles.total == beside.cycles.total


def test_a_model_is_timed_by_the_size_of_its_weights(folder: Path) -> None:
    """The bytes of the weights do not matter on hardware that does not pack them; nobody reads them."""
    (folder / "w.bin").write_bytes(bytes(WIDE * NARROW))
    sized = npusim.load(f"{folder / 'beside.onnx'}:size")
    assert {tensor.data for tensor in sized.tensors if tensor.constant and tensor.type.quantization} == {
        SIZE_ONLY
    }
    whole = npusim.load(folder / "inside.onnx")
    runs = [
        npusim.simulate(npusim.compile(graph, "mobile-1024"), timing_only=True) for graph in (sized, whole)
    ]
    assert runs[0].cycles.total == runs[1].cycles.total
    assert runs[0].dram_bytes == runs[1].dram_bytes


def test_sizes_are_for_models_of_every_format(tmp_path: Path) -> None:
    done = command("run", "ds_cnn", "--weights", "size", "--timing-only", "--no-lever")
    assert (done.status, "constants are known by their size only" in done.out) == (0, True)
    program = tmp_path / "m.npu"
    npusim.save_program(npusim.compile(npusim.load("digits_cnn")), program)
    with pytest.raises(NpusimError, match=r"m\.npu: is compiled already, with its weights; give the model"):
        npusim.run(f"{program}:size", timing_only=True)
