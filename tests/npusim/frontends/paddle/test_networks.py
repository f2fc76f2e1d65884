"""Networks as Paddle programs beside the same networks in ONNX: ONNX Runtime, and npusim's own reading of the twin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npusim
from tests.npusim.frontends.paddle.networks import NETWORKS, Pair, quantized_lcnet
from tests.npusim.frontends.paddle.programs import program, saved

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from tests.npusim.frontends.onnx import small_models

TOLERANCE = 1e-5


def twin(network: Pair) -> Any:
    """The ONNX model of a network, of batch 1."""
    inputs = {name: (dtype, [abs(size) for size in sizes]) for name, (dtype, sizes) in network.inputs.items()}
    constants = {**network.constants, **network.onnx_constants}
    return small_models.model("\n".join(network.onnx), constants, inputs, network.outputs)


def written(network: Pair, folder: Path, *, apart: bool = False) -> Path:
    """The Paddle file, or folder, of a network."""
    made = program("\n".join(network.paddle), network.constants, network.inputs, network.outputs)
    return saved(folder, made, network.constants, apart=apart)


def image(network: Pair) -> Any:
    sizes = network.inputs["x"][1]
    return np.random.default_rng(9).standard_normal([abs(size) for size in sizes]).astype(np.float32)


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_network_is_the_one_of_onnx(name: str, tmp_path: Path) -> None:
    network = NETWORKS[name]()
    x = image(network)
    outputs = npusim.run(written(network, tmp_path), inputs={"x": x}).outputs
    expected = small_models.beside(twin(network), [x])
    for found, wanted in zip(outputs, expected, strict=True):
        assert found.shape == wanted.shape
        assert np.ptp(wanted) > 0.01  # the network tells images apart
        np.testing.assert_allclose(found, wanted, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_quantized_network_has_the_values_that_its_nodes_define(tmp_path: Path) -> None:
    """Exact sums, each operation rounded once: the bytes of the ONNX twin, and ONNX Runtime's within the float sums."""
    network = quantized_lcnet()
    x, model = image(network), twin(network)
    result = npusim.run(written(network, tmp_path), inputs={"x": x})
    there = npusim.run(small_models.saved(model, tmp_path), inputs={"x": x})
    assert np.array_equal(result.outputs[0], there.outputs[0])
    assert result.cycles == there.cycles
    [expected] = small_models.beside(model, [x])
    np.testing.assert_allclose(result.outputs[0], expected, rtol=TOLERANCE, atol=TOLERANCE)
    sums = [
        layer for layer in result.layers if layer.op in ("conv_2d", "depthwise_conv_2d", "fully_connected")
    ]
    assert len(sums) == 4
    assert all(layer.unit == "mac" for layer in sums)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_one_file_or_one_for_each_parameter(tmp_path: Path) -> None:
    network = NETWORKS["lcnet"]()
    x = image(network)
    together = npusim.run(written(network, tmp_path), inputs={"x": x})
    for path in (written(network, tmp_path / "apart", apart=True), tmp_path / "apart" / "__model__"):
        assert np.array_equal(npusim.run(path, inputs={"x": x}).outputs[0], together.outputs[0])


def test_open_batch_is_one_unless_it_is_given(tmp_path: Path) -> None:
    path = written(NETWORKS["lcnet"](), tmp_path)
    with pytest.warns(
        UserWarning, match="batch = 1, which the file leaves open; --shape x=N,3,32,32 gives another"
    ):
        graphs = [npusim.load(path)]
    graphs.append(npusim.load(path, sizes={"x": (2, 3, 32, 32)}))
    assert [graph.tensors[graph.inputs[0]].type.shape[0] for graph in graphs] == [1, 2]
