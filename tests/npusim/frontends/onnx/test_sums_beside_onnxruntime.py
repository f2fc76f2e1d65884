"""Sums that are quantised on the way, or added up in an order, give what ONNX Runtime gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.npusim.frontends.onnx.test_codes_beside_onnxruntime import BYTES, FEW, SEEDS, Draw, compare

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")


@pytest.mark.slow
@FEW
@given(SEEDS, BYTES, st.booleans(), st.booleans(), st.sampled_from(["1,1,1", "2,1,2", "1,2,3"]))
def test_averages_along_three_axes(
    tmp_path: Path, seed: int, dtype: str, last: bool, counted: bool, strides: str
) -> None:
    """Of the sums of all elements of a window, whose ties are common where scales are powers of two."""
    draw = Draw(seed)
    scales = {"sx": np.float32(2.0**-4), "sy": np.float32(2.0 ** draw.random.integers(-5, -2))}
    constants = scales | {"zx": draw.zero(dtype), "zy": draw.zero(dtype)}
    how = f"kernel_shape=[2,2,3] strides=[{strides}] pads=[1,0,1,0,1,2] count_include_pad={int(counted)}"
    x = {"x": draw.codes(dtype, *((1, 5, 6, 7, 3) if last else (1, 3, 5, 6, 7)))}
    compare(
        tmp_path,
        f"y = ms.QLinearAveragePool(x, sx, zx, sy, zy) channels_last={int(last)} {how}",
        constants,
        x,
    )
    x = {"x": draw.codes(dtype, 1, 3, 5, 6, 7)}
    group = f"a = DequantizeLinear(x, sx, zx)\nb = AveragePool(a) {how}\ny = QuantizeLinear(b, sy, zy)"
    for opset in (17, 21):  # columns are added up first before 19
        compare(tmp_path, group, constants, x, opset=opset)


@pytest.mark.slow
@FEW
@given(
    SEEDS,
    BYTES,
    st.sampled_from([(), (12,)]),
    st.sampled_from(["forward", "reverse", "bidirectional"]),
    st.sampled_from([1, 2, 9]),
    st.sampled_from(["", "b", "b,,h,c", "b,,h,c,p"]),
)
def test_dynamicquantizelstm(
    tmp_path: Path, seed: int, dtype: str, wide: tuple[int, ...], direction: str, batch: int, more: str
) -> None:
    """What comes in is quantised at once, hidden states of all sequences in each step.

    ONNX Runtime has no zero points by column.
    """
    draw = Draw(seed)
    count = 1 + (direction == "bidirectional")
    real = draw.random.normal
    constants = {
        "w": draw.weights(dtype, "uint8", count, 5, 12), "r": draw.weights(dtype, "uint8", count, 3, 12),
        "sw": draw.scale(count, *wide, about=0.01), "sr": draw.scale(count, *wide, about=0.01),
        "zw": draw.zero(dtype, count, *wide) * (not wide), "zr": draw.zero(dtype, count, *wide) * (not wide),
        "b": real(size=(count, 24)), "h": real(size=(count, batch, 3)), "c": real(size=(count, batch, 3)),
        "p": real(size=(count, 9)),
    }  # fmt: skip
    constants = {name: np.float32(data) if data.dtype == float else data for name, data in constants.items()}
    operands = [*more.split(","), "", "", "", "", ""][:5]
    text = (
        f"y, h2, c2 = ms.DynamicQuantizeLSTM(x, w, r, {', '.join(operands)}, sw, zw, sr, zr) "
        f"hidden_size=3 direction={direction}"
    )
    compare(tmp_path, text, constants, {"x": real(size=(4, batch, 5)).astype(np.float32)})
