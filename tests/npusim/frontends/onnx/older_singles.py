"""One node of operations as versions 7 to 10 have them, which ONNX Runtime has still."""

from __future__ import annotations

from typing import Any

from tests.npusim.frontends.onnx.models import fixed, single, w, x

IMAGE = (1, 3, 6, 8)
PLANES = x(*IMAGE)


def scales(*numbers: float) -> Any:
    return fixed(*numbers, of="float32")


OLDER = (
    single("Clip", PLANES, opset=7, min=-0.5, max=0.7),
    single("Clip", PLANES, opset=9, max=0.7),
    single("Clip", PLANES, opset=10),
    single("Pad", PLANES, opset=9, pads=[0, 0, 1, 2, 0, 0, 2, 1], value=0.5),
    single("Pad", PLANES, opset=10, pads=[0, 0, 1, 2, 0, 0, 2, 1], mode="reflect"),
    single("Slice", PLANES, opset=9, starts=[1, -3], ends=[5, 100_000], axes=[2, 3]),
    single("Slice", PLANES, opset=7, starts=[0, 1], ends=[1, 2]),
    single("Slice", PLANES, fixed(1), fixed(4), fixed(2), opset=10),
    single("TopK", PLANES, opset=9, outputs=2, k=3, axis=-1),
    single("TopK", PLANES, fixed(3), opset=10, outputs=2, axis=3),
    single("Upsample", PLANES, opset=7, scales=[1.0, 1.0, 2.0, 2.0], mode="nearest"),
    single("Upsample", PLANES, opset=8, scales=[1.0, 1.0, 2.0, 3.0], mode="linear"),
    single("Upsample", PLANES, scales(1, 1, 1.5, 2), opset=9, mode="nearest"),
    single("Upsample", PLANES, scales(1, 1, 1.5, 2), opset=9, mode="linear"),
    single("Resize", PLANES, scales(1, 1, 2, 2), opset=10),
    single("Resize", PLANES, scales(1, 1, 0.5, 0.4), opset=10),
    single("Resize", PLANES, scales(1, 1, 1.7, 0.6), opset=10),
    single("Resize", PLANES, scales(1, 1, 1.7, 0.6), opset=10, mode="linear"),
    single("BatchNormalization", PLANES, *[w(3, low=0.5, high=1.5)] * 4, opset=7),
    single("Dropout", PLANES, opset=7, ratio=0.3),
    single("Conv", PLANES, w(4, 3, 3, 3), opset=7, pads=[1] * 4),
    single("ConvTranspose", PLANES, w(3, 4, 2, 2), opset=7, strides=[2, 2]),
    single("MaxPool", PLANES, opset=8, outputs=2, kernel_shape=[2, 2], strides=[2, 2]),
    single("AveragePool", PLANES, opset=7, kernel_shape=[3, 3], pads=[1] * 4),
    single("AveragePool", PLANES, opset=10, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
    single("Gemm", x(6, 24), w(24, 5), w(5), opset=7),
    single("Softmax", PLANES, opset=7),
    single("Hardmax", PLANES, opset=7, axis=2),
    single("Split", PLANES, opset=8, outputs=2, axis=3),
    single("Squeeze", PLANES, opset=7, axes=[0]),
    single("ReduceMean", PLANES, opset=7, axes=[2, 3]),
    single("ArgMax", PLANES, opset=7, axis=1),
    single("Sum", PLANES, PLANES, PLANES, opset=7),
    single("LSTM", x(3, 6, 8), w(1, 16, 8), w(1, 16, 4), opset=7, outputs=3, hidden_size=4),
    single("GRU", x(3, 6, 8), w(1, 12, 8), w(1, 12, 4), opset=7, outputs=2, hidden_size=4),
    single("Scatter", PLANES, fixed([[[0]]]), w(1, 1, 1, 1), opset=9),
)
