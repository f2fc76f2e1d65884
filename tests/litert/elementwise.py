"""Random models of operators that compute element by element, over windows and along axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from npusim.isa.base.tensor import Quantization, TensorType
from npusim.models.writer import per_tensor

from .sample import ACTIVATION_CODES, CODES, PADDINGS, Sample

Draw = Callable[[Sample], list[int]]


# Two operands


def _broadcast(sample: Sample) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Two shapes that broadcast: axes of one, missing axes, or the same."""
    shape = sample.shape(sample.pick(1, 4), 6, 600)
    kind = sample.pick(0, 3)
    if kind == 0:
        return shape, shape
    other = tuple(1 if sample.chance(2) else size for size in shape)
    if kind == 1:
        other = other[sample.pick(0, len(other) - 1) :]
    if kind == 2:
        shape = tuple(1 if size != o else size for size, o in zip(shape, other, strict=True))
        other = tuple(size if sample.chance(2) else o for size, o in zip(shape, other, strict=True))
    return (shape, other) if sample.chance(2) else (other, shape)


def arithmetic(options: str) -> Draw:
    """ADD, SUB or MUL."""

    def draw(sample: Sample) -> list[int]:
        first_shape, second_shape = _broadcast(sample)
        a = sample.input(first_shape)
        scale = sample.near(sample.scale_of(a))
        b = (
            sample.constant(second_shape, sample.quantization(scale), sample.dtype)
            if sample.chance(3)
            else sample.input(second_shape, scale)
        )
        product = sample.code == "MUL"
        scales = sample.scale_of(a), sample.scale_of(b)
        result = scales[0] * scales[1] * 60 if product else max(scales)
        shape = np.broadcast_shapes(first_shape, second_shape)
        return [
            sample.writer.operator(
                sample.code,
                (a, b),
                sample.type(shape, sample.near(result)),
                options=options,
                fields={"FusedActivationFunction": ACTIVATION_CODES[sample.activation()]},
            )
        ]

    return draw


def selection(sample: Sample) -> list[int]:
    first_shape, second_shape = _broadcast(sample)
    a = sample.input(first_shape)
    b = (
        sample.constant(second_shape, sample.writer.type(a).quantization, sample.dtype)
        if sample.chance(3)
        else sample.input_like(a, second_shape)
    )
    output = sample.kept(a, np.broadcast_shapes(first_shape, second_shape))
    return [sample.writer.operator(sample.code, (a, b), output, options="MaximumMinimumOptions")]


# One operand


def rescaled(sample: Sample) -> list[int]:
    """RELU, RELU6, HARD_SWISH: any scale to any other."""
    ifm = sample.input(sample.shape(sample.pick(1, 4)))
    output = sample.type(sample.writer.type(ifm).shape, sample.near(sample.scale_of(ifm)))
    return [sample.writer.operator(sample.code, (ifm,), output)]


def hard_swish(sample: Sample) -> list[int]:
    """LiteRT takes results whose scale is not finer than 1/128 of the input's."""
    scale = float(np.float32(2.0 ** sample.rng.uniform(-10, 0)))
    ifm = sample.input(sample.shape(sample.pick(1, 4)), scale)
    target = float(np.float32(scale * 2.0 ** sample.rng.uniform(-5, 5)))
    return [sample.writer.operator(sample.code, (ifm,), sample.type(sample.writer.type(ifm).shape, target))]


def leaky_relu(sample: Sample) -> list[int]:
    ifm = sample.input(sample.shape(sample.pick(1, 4)))
    output = sample.type(sample.writer.type(ifm).shape, sample.near(sample.scale_of(ifm)))
    alpha = float(np.float32(sample.one((0.0, 0.01, 0.1, 0.3, 1.0, 1.5, -0.5, sample.rng.uniform(-2, 2)))))
    return [
        sample.writer.operator(
            sample.code, (ifm,), output, options="LeakyReluOptions", fields={"Alpha": alpha}
        )
    ]


def fixed(sample: Sample, scale: float, middle: bool) -> Quantization | None:
    """The quantization that a kernel demands of its output."""
    if sample.dtype == "float32":
        return None
    low, high = CODES[sample.dtype]
    return per_tensor(scale, (low + high + 1) // 2 if middle else low)


def fixed_output(scale: float, middle: bool) -> Draw:
    """LOGISTIC and TANH, whose outputs have one scale in 8 bits."""

    def draw(sample: Sample) -> list[int]:
        ifm = sample.input(sample.shape(sample.pick(1, 4)))
        shape = sample.writer.type(ifm).shape
        output = TensorType(sample.dtype, shape, fixed(sample, scale, middle))
        return [sample.writer.operator(sample.code, (ifm,), output)]

    return draw


def softmax(sample: Sample) -> list[int]:
    ifm = sample.input((*sample.shape(sample.pick(0, 3), 5), sample.pick(1, 40)))
    shape = sample.writer.type(ifm).shape
    output = TensorType(sample.dtype, shape, fixed(sample, 1 / 256, False))
    beta = float(np.float32(sample.one((1.0, 0.5, 2.0, 10.0, 0.01))))
    return [
        sample.writer.operator("SOFTMAX", (ifm,), output, options="SoftmaxOptions", fields={"Beta": beta})
    ]


def quantize(sample: Sample) -> list[int]:
    ifm = sample.input(sample.shape(sample.pick(1, 4)))
    scale = sample.near(sample.scale_of(ifm)) if sample.dtype in CODES else sample.scale()
    output = sample.type(sample.writer.type(ifm).shape, scale, sample.one(("int8", "uint8")))
    return [sample.writer.operator("QUANTIZE", (ifm,), output)]


def dequantize(sample: Sample) -> list[int]:
    ifm = sample.input(sample.shape(sample.pick(1, 4)))
    return [
        sample.writer.operator("DEQUANTIZE", (ifm,), TensorType("float32", sample.writer.type(ifm).shape))
    ]


# Windows and axes


def pool(sample: Sample) -> list[int]:
    shape = sample.image()
    ifm = sample.input(shape)
    padding = sample.one(PADDINGS)
    window = [sample.pick(1, 5), sample.pick(1, 5)]
    if padding == "valid":
        window = [min(k, s) for k, s in zip(window, shape[1:3], strict=True)]
    make = sample.writer.average_pool_2d if sample.code == "AVERAGE_POOL_2D" else sample.writer.max_pool_2d
    strides = sample.pick(1, 4), sample.pick(1, 4)
    size = window[0], window[1]
    return [make(ifm, size, strides=strides, padding=padding, activation=sample.activation())]


def resize(options: str) -> Draw:
    """RESIZE_BILINEAR or RESIZE_NEAREST_NEIGHBOR."""

    def draw(sample: Sample) -> list[int]:
        batch, height, width, channels = sample.image(4)
        ifm = sample.input((batch, height, width, channels))
        size = sample.pick(1, 14), sample.pick(1, 14)
        flags = sample.one(((False, False), (True, False), (False, True)))
        fields: dict[str, Any] = {"AlignCorners": flags[0], "HalfPixelCenters": flags[1]}
        return [
            sample.writer.operator(
                sample.code,
                (ifm, sample.operand(*size)),
                sample.kept(ifm, (batch, *size, channels)),
                version=3,
                options=options,
                fields=fields,
            )
        ]

    return draw
