"""Arithmetic of floating-point lanes: float32 operands and results, each step rounded to float32.

float16 operands are widened to float32 before the step, and its result is rounded to float16.

Functions are those of IEEE 754 where it defines them, and otherwise composed of float32 steps as in LiteRT's kernels.
Exponentials, logarithms, sines and similar functions are computed in float64 and rounded once. On a C library whose
functions are not correctly rounded, one result in a million differs in its last bit. The operators' reference models
use the same functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from npusim.isa.arithmetic.integer import clamp, quantized_steps
from npusim.isa.base.tensor import Float32Array

Effort = Literal["simple", "multiply", "divide", "function"]
"""Work of a lane for one element: add or compare; multiply; divide or take a root; evaluate a series."""


class RealFunction(NamedTuple):
    """A function of one or two floating-point operands: its name, its meaning and its computation.

    compute: (operands..., alpha) -> result; `alpha` is a parameter of some functions of one operand.
    """

    name: str
    doc: str
    effort: Effort
    compute: Callable[..., Any]


def _exact(function: Callable[[Any], Any]) -> Callable[[Float32Array, np.float32], Float32Array]:
    """Wrap a float64 function so that it takes float32 and rounds its result once."""

    def compute(x: Float32Array, alpha: np.float32) -> Float32Array:
        result: Float32Array = function(x.astype(np.float64)).astype(np.float32)
        return result

    return compute


def _relu(x: Float32Array, alpha: np.float32) -> Float32Array:
    """Return x where it is not below 0, else 0, as LiteRT does: -0 stays -0."""
    return np.where(x < 0, np.float32(0), x)


def _rounded_half_even(x: Float32Array, alpha: np.float32) -> Float32Array:
    """Round halves to even as LiteRT does: a negative number that rounds to zero gives +0."""
    floor, nearest = np.floor(x), np.rint(x)
    return np.where(nearest > floor, floor + np.float32(1), nearest)


def _clipped(low: float, high: float) -> Callable[[Float32Array, np.float32], Float32Array]:
    def compute(x: Float32Array, alpha: np.float32) -> Float32Array:
        return np.clip(x, np.float32(low), np.float32(high))

    return compute


def _elu(x: Float32Array, alpha: np.float32) -> Float32Array:
    below = alpha * np.expm1(x.astype(np.float64)).astype(np.float32)
    return np.where(x < 0, below, x)


def _hard_swish(x: Float32Array, alpha: np.float32) -> Float32Array:
    result: Float32Array = x * np.clip(x + np.float32(3), np.float32(0), np.float32(6)) / np.float32(6)
    return result


def _logistic(x: Float32Array, alpha: np.float32) -> Float32Array:
    """Return 1 / (1 + exp(-x)).

    The exponential is rounded to float32 before the sum and the quotient, as by LiteRT's `std::exp(float)`.
    """
    exponential = np.exp(np.minimum(-x.astype(np.float64), 88.0)).astype(np.float32)
    result: Float32Array = np.float32(1) / (np.float32(1) + exponential)
    return result


def _error_function(x: Float32Array, alpha: np.float32) -> Float32Array:
    """Return the error function, in float64 rounded once."""
    result: Float32Array = np.vectorize(math.erf, otypes=[np.float64])(x.astype(np.float64)).astype(
        np.float32
    )
    return result


def _gelu(x: Float32Array, alpha: np.float32) -> Float32Array:
    """Return GELU by the error function in float32 as LiteRT does; far below zero the probability rounds to 0."""
    tail = _error_function(x * np.float32(math.sqrt(0.5)), alpha)
    result: Float32Array = np.float32(0.5) * x * (np.float32(1) + tail)
    return result


def _gelu_by_tanh(x: Float32Array, alpha: np.float32) -> Float32Array:
    """Return GELU by its tanh approximation in float32 as LiteRT does."""
    inner = np.float32(math.sqrt(2 / math.pi)) * (x + np.float32(0.044715) * x * x * x)
    tail = np.tanh(inner.astype(np.float64)).astype(np.float32)
    result: Float32Array = np.float32(0.5) * x * (np.float32(1) + tail)
    return result


def _prelu(x: Float32Array, alpha: Float32Array) -> Float32Array:
    return np.where(x >= 0, x, x * alpha)


def _squared_difference(a: Float32Array, b: Float32Array) -> Float32Array:
    difference = a - b
    return difference * difference


def _power(a: Float32Array, b: Float32Array) -> Float32Array:
    result: Float32Array = np.power(a.astype(np.float64), b.astype(np.float64)).astype(np.float32)
    return result


def _floor_mod(a: Float32Array, b: Float32Array) -> Float32Array:
    """Return the remainder with the sign of b: C's remainder has the sign of a, and b is added where they differ."""
    rest = np.fmod(a, b)
    return np.where((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest)


# fmt: off
UNARY: tuple[RealFunction, ...] = (
    RealFunction("copy", "x, in the type of the output", "simple", lambda x, alpha: x),
    RealFunction("abs", "the absolute value", "simple", lambda x, alpha: np.abs(x)),
    RealFunction("neg", "-x", "simple", lambda x, alpha: np.negative(x)),
    RealFunction("square", "x * x", "multiply", lambda x, alpha: x * x),
    RealFunction("floor", "the largest whole number not above", "simple", lambda x, alpha: np.floor(x)),
    RealFunction("ceil", "the smallest whole number not below", "simple", lambda x, alpha: np.ceil(x)),
    RealFunction("round", "the nearest whole number, halves to even", "simple", _rounded_half_even),
    RealFunction("sign", "-1, 0 or 1", "simple", lambda x, alpha: np.sign(x)),
    RealFunction("relu", "max(x, 0)", "simple", _relu),
    RealFunction("relu6", "x clamped to 0..6", "simple", _clipped(0, 6)),
    RealFunction("relu_n1_to_1", "x clamped to -1..1", "simple", _clipped(-1, 1)),
    RealFunction("relu_0_to_1", "x clamped to 0..1", "simple", _clipped(0, 1)),
    RealFunction("leaky_relu", "alpha * x where x is below 0", "multiply",
                 lambda x, alpha: np.where(x > 0, x, x * alpha)),
    RealFunction("elu", "alpha * (exp(x) - 1) where x is below 0", "function", _elu),
    RealFunction("hard_swish", "x * min(max(x + 3, 0), 6) / 6", "divide", _hard_swish),
    RealFunction("sqrt", "square root", "divide", lambda x, alpha: np.sqrt(x)),
    RealFunction("rsqrt", "1 / square root", "divide", lambda x, alpha: np.reciprocal(np.sqrt(x))),
    RealFunction("exp", "e to the power of x", "function", _exact(np.exp)),
    RealFunction("log", "natural logarithm", "function", _exact(np.log)),
    RealFunction("sin", "sine", "function", _exact(np.sin)),
    RealFunction("cos", "cosine", "function", _exact(np.cos)),
    RealFunction("tanh", "hyperbolic tangent", "function", _exact(np.tanh)),
    RealFunction("logistic", "1 / (1 + exp(-x))", "function", _logistic),
    RealFunction("gelu", "x times the cumulative normal distribution at x", "function", _gelu),
    RealFunction("gelu_by_tanh", "the same by its approximation with tanh", "function", _gelu_by_tanh),
    RealFunction("erf", "the error function at x", "function", _error_function),
)
"""Functions of one operand, in the order of the field `function` of `vec.unary`."""

UNARY_BY_NAME = {row.name: row for row in UNARY}

BINARY: tuple[RealFunction, ...] = (
    RealFunction("add", "a + b", "simple", np.add),
    RealFunction("sub", "a - b", "simple", np.subtract),
    RealFunction("mul", "a * b", "multiply", np.multiply),
    RealFunction("div", "a / b", "divide", np.divide),
    RealFunction("max", "the larger", "simple", np.maximum),
    RealFunction("min", "the smaller", "simple", np.minimum),
    RealFunction("squared_difference", "(a - b) * (a - b)", "multiply", _squared_difference),
    RealFunction("prelu", "a, or a * b where a is below 0", "multiply", _prelu),
    RealFunction("pow", "a to the power of b", "function", _power),
    RealFunction("floor_div", "the largest whole number not above a / b", "divide",
                 lambda a, b: np.floor(np.divide(a, b))),
    RealFunction("floor_mod", "a - b * floor(a / b)", "divide", _floor_mod),
    RealFunction("equal", "a = b", "simple", np.equal),
    RealFunction("not_equal", "a != b", "simple", np.not_equal),
    RealFunction("greater", "a > b", "simple", np.greater),
    RealFunction("greater_equal", "a >= b", "simple", np.greater_equal),
    RealFunction("less", "a < b", "simple", np.less),
    RealFunction("less_equal", "a <= b", "simple", np.less_equal),
)
"""Functions of two operands."""

BINARY_BY_NAME = {row.name: row for row in BINARY}
# fmt: on

ACTIVATIONS = ("none", "relu", "relu6", "relu_n1_to_1")


def activated(values: Float32Array, activation: int) -> Float32Array:
    """Apply a fused activation, given by its position in `ACTIVATIONS`."""
    if not activation:
        return values
    result: Float32Array = UNARY_BY_NAME[ACTIVATIONS[activation]].compute(values, np.float32(0))
    return result


def softmax(rows: Float32Array, beta: np.float32, *, logarithm: bool = False) -> Float32Array:
    """Return softmax, or its logarithm, of beta * x along the last axis.

    The largest element of each row is subtracted first.
    """
    scaled = (rows - rows.max(-1, keepdims=True)) * beta
    exponentials = np.exp(scaled.astype(np.float64))
    sums = exponentials.sum(-1, keepdims=True)
    result: Float32Array = (scaled - np.log(sums) if logarithm else exponentials / sums).astype(np.float32)
    return result


def reduced(name: str, elements: Float32Array) -> Float32Array:
    """Reduce [terms, results] to [results]; sums and products run in float64, first term to last.

    name: "sum", "mean", "prod", "max" or "min". Of the equal extremes 0 and -0, the last one is the result.
    """
    step = {"max": np.maximum, "min": np.minimum, "prod": np.multiply}.get(name, np.add)
    wide = elements if name in ("max", "min") else elements.astype(np.float64)
    values = step.accumulate(wide, 0)[-1]  # numpy's `reduce` may add in another order
    if name in ("sum", "mean"):
        values = values + 0.0  # the sum starts from +0, so it is never -0
    return np.asarray(values / len(elements) if name == "mean" else values, np.float32)


def quantized(values: Float32Array, scale: np.float32, zero: int, dtype: Any) -> NDArray[Any]:
    """Quantize to an integer type: x / scale, rounded half away from zero, plus the zero point, clamped."""
    limits = np.iinfo(dtype)
    with np.errstate(all="ignore"):
        steps = values / scale
    result: NDArray[Any] = clamp(
        quantized_steps(steps, zero), int(limits.min), int(limits.max), np.dtype(dtype)
    )
    return result
