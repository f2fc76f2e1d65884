"""Float networks that ONNX Runtime's quantizer makes QOperator and dynamic models of: whole models beside it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npusim
from tests.npusim.frontends.onnx.small_models import beside, model

onnx = pytest.importorskip("onnx", reason="onnx is not installed: pip install 'npusim[onnx]'")
quantization = pytest.importorskip("onnxruntime.quantization", reason="onnxruntime is not installed")

CNN = """
c1 = Conv(x, w1, b1) pads=[1,1,1,1]
r1 = Relu(c1)
m1 = MaxPool(r1) kernel_shape=[2,2] strides=[2,2]
c2 = Conv(m1, w2, b2) pads=[1,1,1,1] group=8
k2 = Clip(c2, nothing, six)
c3 = Conv(k2, w3, b3)
a3 = Add(c3, m1)
l3 = LeakyRelu(a3) alpha=0.1
cc = Concat(l3, m1) axis=1
ap = AveragePool(cc) kernel_shape=[3,3] strides=[2,2] pads=[1,1,1,1]
sg = Sigmoid(ap)
ml = Mul(ap, sg)
g = GlobalAveragePool(ml)
f = Flatten(g)
ge = Gemm(f, w4, b4) transB=1
y = Softmax(ge) axis=1
"""
ATTENTION = """
m1 = MatMul(x, w5)
a1 = Add(m1, b5)
r1 = Relu(a1)
m2 = MatMul(r1, w6)
t2 = Transpose(m2) perm=[0,2,1]
m3 = MatMul(m2, t2)
s3 = Softmax(m3) axis=-1
m4 = MatMul(s3, m2)
p, q = Split(m4) axis=2 num_outputs=2
y = Add(p, q)
"""
ROWS = """
c1 = Conv(x, w7, b7) pads=[2,2] strides=[2]
r1 = Relu(c1)
c2 = Conv(r1, w8) dilations=[2]
rm = ReduceMean(c2, two) keepdims=0
y = Gemm(rm, w9, b9)
"""
NETWORKS: dict[str, tuple[str, tuple[int, ...]]] = {
    "cnn": (CNN, (1, 3, 16, 12)),
    "attention": (ATTENTION, (1, 7, 32)),
    "rows": (ROWS, (2, 4, 20)),
}
SHAPES = {
    "w1": (8, 3, 3, 3), "b1": (8,), "w2": (8, 1, 3, 3), "b2": (8,), "w3": (8, 8, 1, 1), "b3": (8,), "w4": (10, 16),
    "b4": (10,), "w5": (32, 64), "b5": (64,), "w6": (64, 32), "w7": (8, 4, 5), "b7": (8,), "w8": (6, 8, 3),
    "w9": (6, 5), "b9": (5,),
}  # fmt: skip
RUNS = 3


class Samples(quantization.CalibrationDataReader):  # type: ignore[misc]
    """A few inputs to calibrate with."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        random = np.random.default_rng(1)
        self._left: Iterator[dict[str, Any]] = iter(
            [{"x": random.normal(size=shape).astype(np.float32)} for _ in range(4)]
        )

    def get_next(self) -> dict[str, Any] | None:
        return next(self._left, None)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


def network(name: str, tmp_path: Path) -> Path:
    """The file of a float network."""
    random = np.random.default_rng(0)
    text, shape = NETWORKS[name]
    constants: dict[str, Any] = {"nothing": np.float32(0), "six": np.float32(6), "two": np.array([2])}
    constants |= {
        key: (random.normal(size=size) * (2 / max(np.prod(size[1:]), 8)) ** 0.5).astype(np.float32)
        for key, size in SHAPES.items()
    }
    constants = {key: value for key, value in constants.items() if key in text}
    proto = onnx.shape_inference.infer_shapes(
        model(text, constants, {"x": ("float32", shape)}, ["y"], opset=18)
    )
    path = tmp_path / "float.onnx"
    onnx.save(proto, path)
    return path


def compared(path: Path, shape: tuple[int, ...]) -> Iterator[tuple[Any, Any, Any]]:
    """Results of the machine with those of ONNX Runtime, and the run."""
    random, proto = np.random.default_rng(2), onnx.load(path)
    for _ in range(RUNS):
        x = random.normal(size=shape).astype(np.float32)
        result = npusim.run(path, inputs=[x])
        assert result.outputs is not None
        yield result.outputs[0], beside(proto, [x])[0], result


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize(
    ("activations", "weights", "by_channel"),
    [("QUInt8", "QUInt8", False), ("QUInt8", "QInt8", True), ("QInt8", "QInt8", True)],
)
def test_qoperator_models(
    tmp_path: Path, name: str, activations: str, weights: str, by_channel: bool
) -> None:
    """Outputs are equal bit by bit; the host only makes codes of the input."""
    shape, path = NETWORKS[name][1], tmp_path / "codes.onnx"
    quantization.quantize_static(
        str(network(name, tmp_path)),
        str(path),
        Samples(shape),
        quant_format=quantization.QuantFormat.QOperator,
        activation_type=getattr(quantization.QuantType, activations),
        weight_type=getattr(quantization.QuantType, weights),
        per_channel=by_channel,
        reduce_range=activations != weights,
    )
    for mine, theirs, result in compared(path, shape):
        np.testing.assert_array_equal(mine, theirs)
        assert {layer.op for layer in result.layers if layer.unit == "host"} <= {"quantize", "dequantize"}


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize(("weights", "by_channel"), [("QUInt8", False), ("QInt8", True)])
def test_dynamic_models(tmp_path: Path, name: str, weights: str, by_channel: bool) -> None:
    """Floats are equal but for the order of sums in operators that stay float; weighted sums are on the array."""
    shape, path = NETWORKS[name][1], tmp_path / "dynamic.onnx"
    quantization.quantize_dynamic(
        str(network(name, tmp_path)),
        str(path),
        weight_type=getattr(quantization.QuantType, weights),
        per_channel=by_channel,
        reduce_range=True,
    )
    for mine, theirs, result in compared(path, shape):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-4)
        assert "mac" in {layer.unit for layer in result.layers}
