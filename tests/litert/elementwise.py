"""Random models of operators that compute element by element, over windows and along axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from npusim.isa.base.tensor import Quantization, TensorType
from npusim.models.writer import per_tensor

from .sample import ACTIVATION_CODES, CODES, EIGHT_BIT, PADDINGS, Sample, values

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
        # LiteRT adds and subtracts int16 values whose scales are powers of two by a shift of one of them.
        by_shift = sample.dtype == "int16" and sample.code != "MUL" and sample.chance(3)
        if by_shift and sample.code == "ADD":
            second_shape = first_shape  # LiteRT aborts where other shapes would broadcast
        result = 2.0 ** sample.pick(-20, -12) if by_shift else 0.0
        places = sample.one([(0, 0), (0, sample.pick(1, 6)), (sample.pick(1, 6), 0)]) if by_shift else (0, 0)
        a = sample.input(first_shape, result / 2 ** places[0] if by_shift else None)
        scale = result / 2 ** places[1] if by_shift else sample.near(sample.scale_of(a))
        b = (
            sample.constant(second_shape, sample.quantization(scale), sample.dtype)
            if sample.chance(3)
            else sample.input(second_shape, scale)
        )
        product = sample.code == "MUL"
        scales = sample.scale_of(a), sample.scale_of(b)
        result = result or sample.near(scales[0] * scales[1] * 60 if product else max(scales))
        shape = np.broadcast_shapes(first_shape, second_shape)
        return [
            sample.writer.operator(
                sample.code,
                (a, b),
                sample.type(shape, result),
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


def pair(result: str | None = None, scales_below_1: bool = False) -> Draw:
    """Two operands that broadcast, of any two scales; `result`: the element type of the output, if it has no scale."""

    def draw(sample: Sample) -> list[int]:
        first_shape, second_shape = _broadcast(sample)
        scale = min(sample.scale(), 0.1) if scales_below_1 else sample.scale()
        a = sample.input(first_shape, scale)
        near = sample.near(scale)
        b = sample.input(second_shape, min(near, 0.99) if scales_below_1 else near)
        shape = np.broadcast_shapes(first_shape, second_shape)
        output = sample.type(shape, sample.near(near)) if result is None else TensorType(result, shape)
        return [sample.writer.operator(sample.code, (a, b), output)]

    return draw


comparison = pair("bool", scales_below_1=True)
"""Scales are below 1: LiteRT's kernels are made for no others."""


def squared_difference(sample: Sample) -> list[int]:
    first_shape, second_shape = _broadcast(sample)
    a = sample.input(first_shape)
    b = sample.input(second_shape, sample.near(sample.scale_of(a)))
    square = max(sample.scale_of(a), sample.scale_of(b)) ** 2
    scale = max(sample.near(square * 100), square / 4000)  # LiteRT's process ends where results are scaled up
    output = sample.type(np.broadcast_shapes(first_shape, second_shape), float(np.float32(scale)))
    return [sample.writer.operator(sample.code, (a, b), output)]


def prelu(sample: Sample) -> list[int]:
    """alpha has the shape of x or of its last axes."""
    shape = sample.shape(sample.pick(1, 4))
    x = sample.input(shape)
    alpha_shape = shape if sample.chance(2) else (1,) * (len(shape) - 1) + shape[-1:]
    kind = "int8" if sample.dtype == "int16" else sample.dtype
    alpha = sample.constant(alpha_shape, sample.quantization(dtype=kind), kind)
    output = sample.type(shape, sample.near(sample.scale_of(x)))
    return [sample.writer.operator(sample.code, (x, alpha), output)]


def quotient(sample: Sample) -> list[int]:
    """DIV, FLOOR_DIV, FLOOR_MOD: by a constant without zeros, at which LiteRT stops.

    And without -1 for remainders: with the smallest number the processor's division ends the process.
    """
    shape, divisors = _broadcast(sample)
    a = sample.input(shape)
    quantization = sample.quantization(sample.near(sample.scale_of(a)))
    data: Any = values(sample.rng, sample.dtype, divisors)
    zero = 0 if quantization is None else quantization.zero_point
    if sample.code == "FLOOR_MOD":
        data = np.where(data == -1, 1, data)
    b = sample.writer.constant(
        "divisor", np.where(data == zero, zero + 1 - 2 * (zero > 0), data).astype(sample.dtype), quantization
    )
    output = np.broadcast_shapes(shape, divisors)
    if sample.code != "DIV":
        return [sample.writer.operator(sample.code, (a, b), sample.kept(a, output))]
    scale = sample.scale_of(a) / sample.scale_of(b)
    fields = {"FusedActivationFunction": ACTIVATION_CODES[sample.activation()]}
    return [
        sample.writer.operator(
            "DIV", (a, b), sample.type(output, sample.near(scale)), options="DivOptions", fields=fields
        )
    ]


def power(sample: Sample) -> list[int]:
    """Whole exponents from 0 on: LiteRT refuses others."""
    shape, exponents = _broadcast(sample)
    a = sample.input(shape)
    data = sample.rng.integers(0, 8, exponents).astype(sample.dtype)
    b = sample.writer.constant("exponent", data)
    output = TensorType(sample.dtype, np.broadcast_shapes(shape, exponents))
    return [sample.writer.operator("POW", (a, b), output)]


def sum_of_many(sample: Sample) -> list[int]:
    shape = sample.shape(sample.pick(1, 4))
    operands = [sample.input(shape) for _ in range(sample.pick(2, 5))]
    return [sample.writer.operator("ADD_N", operands, TensorType(sample.dtype, shape))]


def _choices(sample: Sample, condition: tuple[int, ...], a: tuple[int, ...], b: tuple[int, ...]) -> list[int]:
    truth = sample.writer.input("condition", TensorType("bool", condition))
    first = sample.input(a)
    second = sample.input_like(first, b)
    shape = np.broadcast_shapes(condition, a, b) if sample.code == "SELECT_V2" else a
    output = sample.kept(first, shape)
    return [sample.writer.operator(sample.code, (truth, first, second), output)]


def select(sample: Sample) -> list[int]:
    """A condition for each element, each row or all."""
    shape = sample.shape(sample.pick(1, 4))
    return _choices(sample, sample.one((shape, shape[:1], ())), shape, shape)


def select_v2(sample: Sample) -> list[int]:
    first_shape, second_shape = _broadcast(sample)
    shape = np.broadcast_shapes(first_shape, second_shape)
    condition = sample.one((shape, shape[-1:], first_shape, ()))
    return _choices(sample, condition, first_shape, second_shape)


# One operand


def alike(sample: Sample) -> list[int]:
    """Functions whose output has the type of the input, its scale included."""
    ifm = sample.input(sample.shape(sample.pick(1, 4)))
    return [sample.writer.operator(sample.code, (ifm,), sample.writer.type(ifm))]


def root(sample: Sample) -> list[int]:
    """SQRT and RSQRT, which LiteRT has for numbers from 0 on: in 8 bits zero points are the smallest code, int16 values
    are magnitudes of others.
    """
    shape = sample.shape(sample.pick(1, 4))
    scale = sample.scale()
    quantization = per_tensor(scale, -128 if sample.dtype == "int8" else 0)
    if sample.dtype == "float32":
        quantization = None
    kind = TensorType(sample.dtype, shape, quantization)
    ifm = sample.writer.input("input", kind)
    if sample.dtype == "int16":
        ifm = sample.writer.operator("ABS", (ifm,), kind)
    steps = 32767 if sample.dtype == "int16" else 255
    most = (steps * scale) ** 0.5 if sample.code == "SQRT" else scale**-0.5
    return [sample.writer.operator(sample.code, (ifm,), sample.type(shape, sample.near(2.5 * most / steps)))]


def gelu(sample: Sample) -> list[int]:
    ifm = sample.input(sample.shape(sample.pick(1, 4)))
    output = sample.type(sample.writer.type(ifm).shape, sample.near(sample.scale_of(ifm)))
    fields = {"Approximate": sample.chance(2)}
    return [sample.writer.operator("GELU", (ifm,), output, options="GeluOptions", fields=fields)]


def cast(sample: Sample) -> list[int]:
    ifm = sample.input(sample.shape(sample.pick(1, 4)))
    kinds = ("int8", "uint8", "int16", "int32", "int64", "float16", "float32", "bool")
    output = TensorType(sample.one(kinds), sample.writer.type(ifm).shape)
    return [sample.writer.operator("CAST", (ifm,), output)]


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
    if sample.dtype == "int16":
        return per_tensor(2.0**-15, 0)
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
    if sample.dtype in EIGHT_BIT and sample.chance(3):  # converters write 1/65535 for 1/65536
        output = TensorType("int16", shape, per_tensor(float(sample.one((2.0**-16, 1 / 65535))), -32768))
    beta = float(np.float32(sample.one((1.0, 0.5, 2.0, 10.0, 0.01))))
    return [
        sample.writer.operator("SOFTMAX", (ifm,), output, options="SoftmaxOptions", fields={"Beta": beta})
    ]


def quantize(sample: Sample) -> list[int]:
    ifm = sample.input(sample.shape(sample.pick(1, 4)))
    scale = sample.near(sample.scale_of(ifm)) if sample.dtype in CODES else sample.scale()
    targets = ("int8", "uint8") if sample.dtype == "uint8" else ("int8", "uint8", "int16")
    if sample.dtype == "int16":
        targets = ("int8", "int16")
    output = sample.type(sample.writer.type(ifm).shape, scale, sample.one(targets))
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
