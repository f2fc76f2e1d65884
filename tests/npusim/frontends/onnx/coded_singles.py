"""One node of every operation on codes: what is compared with ONNX Runtime, and what mutants are made of."""

from __future__ import annotations

import numpy as np

from tests.npusim.frontends.onnx.models import MICROSOFT, Fixed, Single, fixed, scalar, single, w, x


def _codes(*shape: int) -> object:
    return x(*shape, of="uint8", low=0.0, high=28.0)


def _weights(*shape: int) -> object:
    return w(*shape, of="uint8", low=0.0, high=28.0)


S, S2, S3 = (scalar(number, "float32") for number in (0.05, 0.03, 0.4))
Z, Z2 = scalar(7, "uint8"), scalar(120, "uint8")


def _ms(name: str, *operands: object, **attributes: object) -> Single:
    return Single(f"{MICROSOFT}::{name}", operands, attributes)


CODED: tuple[Single, ...] = (
    single("QuantizeLinear", x(2, 6), S, Z),
    single("QuantizeLinear", x(2, 6), fixed(*[0.1] * 6, of="float32"), axis=1),
    single("QuantizeLinear", x(2, 6), w(2, 2, low=0.1), axis=1, block_size=3),
    single("DequantizeLinear", _codes(2, 6), S, Z),
    single("DequantizeLinear", _codes(2, 6), w(1, 6, low=0.1), axis=0, block_size=2),
    single("DynamicQuantizeLinear", x(3, 5), outputs=3),
    single(
        "QLinearConv",
        _codes(1, 4, 6, 5),
        S,
        Z,
        _weights(6, 2, 3, 3),
        S2,
        Z2,
        S3,
        Z2,
        w(6, of="int32"),
        group=2,
    ),
    single("ConvInteger", _codes(1, 4, 6, 5), _weights(6, 4, 3, 3), Z, Z2, pads=[1, 0, 1, 1]),
    single("MatMulInteger", _codes(3, 5), _weights(5, 4), Z, fixed(1, 2, 3, 4, of="uint8")),
    single("QLinearMatMul", _codes(2, 3, 5), S, Z, _codes(2, 5, 4), S2, Z2, S3, Z),
    _ms("QGemm", _codes(3, 5), S, Z, _weights(4, 5), S2, Z2, w(4, of="int32"), S3, Z, transB=1),
    _ms("MatMulIntegerToFloat", _codes(3, 5), _weights(5, 4), S, S2, Z, Z2, w(4)),
    _ms("DynamicQuantizeMatMul", x(3, 5), _weights(5, 4), S2, Z2, w(4)),
    _ms(
        "DynamicQuantizeLSTM",
        x(3, 1, 5),
        _weights(1, 5, 8),
        _weights(1, 2, 8),
        w(1, 16),
        *[None] * 4,
        fixed(0.02, of="float32"),
        fixed(7, of="uint8"),
        fixed(0.03, of="float32"),
        fixed(9, of="uint8"),
        hidden_size=2,
    ),
    _ms("QAttention", _codes(2, 5, 8), _weights(8, 24), w(24), S, S2, np.int32([3, 5]), Z, Z2, num_heads=2),
    _ms(
        "QAttention",
        _codes(2, 5, 8),
        w(8, 24, of="int8", low=-7, high=7),
        w(24),
        S,
        w(24, low=0.01, high=0.03),
        None,
        Z,
        Fixed(np.zeros(24, np.int8)),
        num_heads=4,
        unidirectional=1,
    ),
    _ms("MatMulNBits", x(2, 32), w(5, 2, 8, of="uint8"), w(10), K=32, N=5, bits=4, block_size=16),
    _ms(
        "QMoE",
        x(3, 16),
        x(3, 4),
        w(4, 8, 8, of="uint8"),
        w(4, 8),
        None,
        w(4, 16, 4, of="uint8"),
        w(4, 16),
        k=2,
    ),
    _ms("QLinearAdd", _codes(2, 3, 4), S, Z, _codes(4), S2, Z2, S3, Z),
    _ms("QLinearMul", _codes(2, 3, 4), S, Z, _codes(4), S2, Z2, S3, Z),
    _ms("QLinearWhere", x(3, 4, of="bool"), _codes(3, 4), S, Z, _codes(4), S2, Z2, S3, Z),
    _ms("QLinearConcat", S3, Z, _codes(2, 3), S, Z, _codes(2, 4), S2, Z2, axis=1),
    _ms("QLinearLeakyRelu", _codes(3, 4), S, Z2, S3, Z, alpha=0.2),
    _ms("QLinearSigmoid", _codes(3, 4), S, Z2, S2, Z),
    _ms("QLinearAveragePool", _codes(1, 3, 6, 5), S, Z, S2, Z, kernel_shape=[3, 2], pads=[1, 0, 1, 1]),
    _ms("QLinearGlobalAveragePool", _codes(1, 6, 5, 3), S, Z, S2, Z, channels_last=1),
    _ms(
        "QLinearSoftmax", _codes(2, 5), S, Z, scalar(1 / 256, "float32"), scalar(0, "uint8"), axis=1, opset=13
    ),
    _ms("NhwcMaxPool", _codes(1, 6, 5, 3), kernel_shape=[2, 2], strides=[2, 1]),
    _ms("QLinearConv", _codes(1, 6, 5, 3), S, Z, _weights(4, 3, 2, 2), S2, Z2, S3, Z2, channels_last=1),
    _ms("MatMulInteger16", x(3, 5, of="int16"), x(5, 4, of="int16")),
    _ms("GatherBlockQuantized", w(6, 16, of="uint8"), fixed(1, 4), w(6, 2), block_size=16, quantize_axis=1),
)
