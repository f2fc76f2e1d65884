"""Quantized values of Paddle: every way in which a file can say them gives the same codes as the definition."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npusim
from tests.npusim.frontends.paddle.programs import model

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

F = np.float32
X = np.random.default_rng(0).standard_normal((1, 3, 6, 6)).astype(F)
W = np.random.default_rng(1).standard_normal((4, 3, 3, 3)).astype(F)
LARGEST, BY_CHANNEL = F(3.0), np.abs(W).max((1, 2, 3))
CODES = np.rint(W / (BY_CHANNEL / F(127)).reshape(4, 1, 1, 1)).astype(np.int8)
STATE = {"s": np.array([LARGEST]), "ws": BY_CHANNEL}


def quantized(x: Any, step: Any) -> Any:
    return np.clip(np.rint(x / step), -128, 127)


def sums() -> Any:
    """The exact sums of products of quantized values."""
    codes = np.pad(quantized(X[0], LARGEST / F(127)), ((0, 0), (1, 1), (1, 1)))
    seen = np.lib.stride_tricks.sliding_window_view(codes, (3, 3), axis=(1, 2))
    return np.einsum("crskl,dckl->drs", seen, CODES.astype(np.int64))


def wanted() -> Any:
    """f32(f32(sum) * f32(sx * sw)) for each channel."""
    return (sums().astype(F) * (LARGEST / F(127) * (BY_CHANNEL / F(127))).reshape(4, 1, 1))[None]


CONV = "strides=[1,1] paddings=[1,1] dilations=[1,1] groups=1"
WAYS = {
    "quantize_linear": (
        "q:Y = quantize_linear(X=x, Scale=s, ZeroPoint=z) bit_length=8 quant_axis=-1\n"
        "r:Y = dequantize_linear(X=q, Scale=s, ZeroPoint=z) bit_length=8 quant_axis=-1\n"
        "v:Y = dequantize_linear(X=w, Scale=ws) bit_length=8 quant_axis=0\n"
        f"y:Output = conv2d(Input=r, Filter=v) {CONV}",
        {"w": CODES, "z": np.zeros(1, F)},
    ),
    "weights as float32": (
        "q:Y = quantize_linear(X=x, Scale=s) quant_axis=-1\nr:Y = dequantize_linear(X=q, Scale=s) quant_axis=-1\n"
        f"v:Y = dequantize_linear(X=w, Scale=ws) quant_axis=0\ny:Output = conv2d(Input=r, Filter=v) {CONV}",
        {"w": CODES.astype(F)},
    ),
    "fake_quantize_dequantize": (
        "r = fake_quantize_dequantize_moving_average_abs_max(X=x, InScale=s) bit_length=8\n"
        "v = fake_channel_wise_quantize_dequantize_abs_max(X=w) bit_length=8 quant_axis=0\n"
        f"y:Output = conv2d(Input=r, Filter=v) {CONV}",
        {"w": W},
    ),
    "attributes": (
        f"y:Output = conv2d(Input=x, Filter=w) {CONV} enable_int8=True Input0_scale=[{LARGEST / F(127)!r}]"
        f" Filter0_scale={[float(each) for each in BY_CHANNEL / F(127)]}".replace("np.float32(", "").replace(
            ")]", "]"
        ),
        {"w": CODES},
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_convolution_is_exact_on_the_array(way: str, tmp_path: Path) -> None:
    lines, parameters = WAYS[way]
    path = model(tmp_path, lines, {**STATE, **parameters}, {"x": ("float32", X.shape)}, ["y"])
    result = npusim.run(path, inputs={"x": X})
    assert np.array_equal(result.outputs[0], wanted())
    assert [layer.unit for layer in result.layers if layer.op == "conv_2d"] == ["mac"]


def test_older_files_multiply_sums_by_scales(tmp_path: Path) -> None:
    """`fake_quantize_*` gives whole numbers, and an operator behind the sums has all scales."""
    for name in ("fake_quantize_moving_average_abs_max", "fake_quantize_range_abs_max"):
        lines = (
            f"q:Out, s:OutScale = {name}(X=x, InScale=s) bit_length=8\nt:Output = conv2d(Input=q, Filter=w) {CONV}\n"
            "y = fake_channel_wise_dequantize_max_abs(X=t, Scales=ws+s) quant_bits=[8,8] quant_axis=0 x_num_col_dims=1"
        )
        inputs = {"x": ("float32", X.shape)}
        path = model(tmp_path, lines, {**STATE, "w": CODES.astype(F)}, inputs, ["y", "t"])
        result = npusim.run(path, inputs={"x": X})
        factor = BY_CHANNEL / F(127) * LARGEST / F(127)
        assert np.array_equal(result.outputs[1][0], sums())
        assert np.array_equal(result.outputs[0], (sums().astype(F) * factor.reshape(4, 1, 1))[None])
        assert [layer.unit for layer in result.layers if layer.op == "conv_2d"] == ["mac"]


def test_one_scale_for_all_sums(tmp_path: Path) -> None:
    w = np.random.default_rng(2).integers(-127, 128, (108, 5)).astype(F)
    lines = (
        "q = fake_quantize_dequantize_range_abs_max(X=x, InScale=s)\nv = fake_quantize_dequantize_abs_max(X=w)\n"
        "t = mul(X=q, Y=v)\nu = fake_dequantize_max_abs(X=t, Scale=s) max_range=127.0\n"
        "y = moving_average_abs_max_scale(X=u)"
    )
    path = model(tmp_path, lines, {**STATE, "w": w}, {"x": ("float32", X.shape)}, ["y"])
    codes = quantized(X.reshape(1, 108), LARGEST / F(127)).astype(np.int64)
    real = (codes @ w.astype(np.int64)).astype(F) * (LARGEST / F(127) * F(np.abs(w).max() / F(127)))
    np.testing.assert_allclose(
        npusim.run(path, inputs={"x": X}).outputs[0], real * (LARGEST / F(127)), rtol=1e-6
    )


def test_observers_change_nothing(tmp_path: Path) -> None:
    lines = "q:Y = quantize_linear(X=x, Scale=s) only_observer=True\n"
    lines += "y:Y = dequantize_linear(X=q, Scale=s) only_observer=True"
    path = model(tmp_path, lines, STATE, {"x": ("float32", X.shape)}, ["y"])
    assert np.array_equal(npusim.run(path, inputs={"x": X}).outputs[0], X)


def test_function_between_quantized_values_is_a_table(tmp_path: Path) -> None:
    """Several operators of one quantized value, whose result is quantized: 256 entries."""
    lines = (
        "q:Y = quantize_linear(X=x, Scale=s)\nr:Y = dequantize_linear(X=q, Scale=s)\n"
        "a = scale(X=r) scale=0.5 bias=0.25\nb = hard_sigmoid(X=a) slope=0.2 offset=0.5\n"
        "c:Y = quantize_linear(X=b, Scale=s)\ny:Y = dequantize_linear(X=c, Scale=s)"
    )
    path = model(tmp_path, lines, STATE, {"x": ("float32", X.shape)}, ["y"])
    result = npusim.run(path, inputs={"x": X})
    step = LARGEST / F(127)
    real = (quantized(X, step) * step).astype(F)
    gate = np.clip(F(0.2) * (real * F(0.5) + F(0.25)) + F(0.5), 0, 1)
    assert np.array_equal(result.outputs[0], (quantized(gate, step) * step).astype(F))
    assert "look_up" in [layer.op for layer in result.layers]


def test_what_is_no_quantization_of_8_bits(tmp_path: Path) -> None:
    cases = {
        "y:Y = quantize_linear(X=x, Scale=s) bit_length=16": "symmetric quantization to 8 bits",
        "y:Y = quantize_linear(X=x, Scale=x)": "Scale must be a parameter of the file",
        "y:Y = dequantize_linear(X=h, Scale=s)": "other than whole numbers of 8 bits",
        "y:Y = quantize_linear(X=x, Scale=s, ZeroPoint=one)": "symmetric quantization",
        "y:Y = quantize_linear(X=x, Scale=nan)": "scales must be finite and 0 or more",
        "y = fake_channel_wise_quantize_dequantize_abs_max(X=ws) quant_axis=3": "quant_axis is 3, X has 1 axes",
    }
    more = {"h": np.full(3, 0.5, F), "one": np.ones(1, F), "nan": np.full(1, np.nan, F)}
    for line, message in cases.items():
        path = model(tmp_path, line, {**STATE, **more}, {"x": ("float32", X.shape)}, ["y"])
        with pytest.raises(npusim.NpusimError, match=message):
            npusim.load(path)
