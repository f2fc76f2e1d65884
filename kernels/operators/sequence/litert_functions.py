"""Logistic function, hyperbolic tangent and sums with the bits of LiteRT's recurrent kernels on x86-64.

A cell whose next input is quantized by its own range turns one wrong bit into another int8 value. So these are the
approximations of Eigen that LiteRT is built with (SSE, no fused multiply-add), evaluated in the same order. The
coefficients are Eigen's (GenericPacketMathFunctions.h and UnaryFunctors.h); both functions are off by up to 5 units in
the last place. Single values go through expf of the C library, here that of glibc since 2.27 (e_expf.c).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from npusim.isa.base.tensor import Float32Array
from npusim.kernels.operators.sequence import recurrence

_PACKET = 4
"""Number of values in an SSE register."""
_LARGEST_TANH = 7.90738964080810547
"""From this argument on the quotient is 1."""
_TANH_NUMERATOR = (1.394553628e-8, 2.102733560e-5, 3.520756727e-3, 1.340216100e-1)
_TANH_DENOMINATOR = (8.015776984e-7, 3.326951409e-4, 2.597254514e-2, 4.673548340e-1, 1.0)
_LARGEST_EXPONENT, _SMALLEST_EXPONENT = 16.6355324, -104.0
"""Beyond them the logistic function is 1 or 0."""
_LOG2_E = 1.4426950408889634
_LN_2 = (0.693359375, -2.12194440e-4)
"""ln 2 in two parts, the first of few bits: multiples of it are exact."""
_EXP_EVEN = (4.1898667812347412109375e-2, 0.49999141693115234375)
_EXP_ODD = (8.33471305668354034423828125e-3, 0.16666877269744873046875)
_PARTS = 32
"""Number of table steps into which expf divides a power of two."""
_EXPF = (0.05550361559341535, 0.2402284522445722, 0.6931471806916203)
"""Coefficients of 2^r - 1 for a small r, from the third power down."""


def _polynomial(x: Float32Array, coefficients: Sequence[float]) -> Float32Array:
    """Evaluate by Horner's rule, the coefficient of the highest power first."""
    result: Any = np.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        result = result * x + np.float32(coefficient)
    return np.asarray(result)


def tanh(x: Float32Array) -> Float32Array:
    """Return a quotient of polynomials: x + x^3 P(x^2) over Q(x^2)."""
    near = np.clip(x, np.float32(-_LARGEST_TANH), np.float32(_LARGEST_TANH))
    square = near * near
    numerator = square * near * _polynomial(square, _TANH_NUMERATOR) + near
    return np.asarray(numerator / _polynomial(square, _TANH_DENOMINATOR))


def activated(name: recurrence.Function, x: Float32Array) -> Float32Array:
    """Apply the activation of a cell: the tanh of this file, others as in all cells."""
    return tanh(x) if name == "tanh" else recurrence.activated(name, x)


def logistic(x: Float32Array, first: int) -> Float32Array:
    """Return the logistic function of a vector that begins `first` values behind an aligned address.

    Eigen computes whole packets at aligned addresses by a polynomial, and the values before and behind them by expf.
    """
    before = min(-first % _PACKET, x.size)
    end = before + (x.size - before) // _PACKET * _PACKET
    near = np.minimum(x, np.float32(_LARGEST_EXPONENT))
    power = _expf(near)
    power[before:end] = _exponential(near[before:end])
    with np.errstate(over="ignore"):
        result = power / (np.float32(1) + power)
    result[before:end][x[before:end] < _SMALLEST_EXPONENT] = 0
    return np.asarray(result)


def _expf(x: Float32Array) -> Float32Array:
    """Return exp(x) in float64, rounded once: 2^(k / 32) from a table, times 2^r by a polynomial."""
    steps = x.astype(np.float64) * (_LOG2_E * _PARTS)
    whole = np.clip(np.nan_to_num(np.rint(steps)), -(1 << 16), 1 << 16)
    cubic, square, linear = (
        coefficient / _PARTS**power for power, coefficient in zip((3, 2, 1), _EXPF, strict=True)
    )
    r = steps - whole
    power = np.ldexp(np.exp2(whole % _PARTS / _PARTS), (whole // _PARTS).astype(np.int32))
    with np.errstate(all="ignore"):
        return np.asarray(((cubic * r + square) * (r * r) + (linear * r + 1)) * power).astype(np.float32)


def _exponential(x: Float32Array) -> Float32Array:
    """Return exp(x) as the square of exp(x / 2), which is 2^m exp(r) with r near 0."""
    half = np.maximum(x, np.float32(_SMALLEST_EXPONENT)) * np.float32(0.5)
    m = np.floor(half * np.float32(_LOG2_E) + np.float32(0.5))
    r = half - m * np.float32(_LN_2[0]) - m * np.float32(_LN_2[1])
    square = r * r
    inner = r * _polynomial(square, _EXP_ODD) + _polynomial(square, _EXP_EVEN)
    root = np.ldexp(square * inner + (r + np.float32(1)), m.astype(np.int32)).astype(np.float32)
    return np.asarray(root * root)


def added_up(rows: Float32Array, block: int = _PACKET) -> Float32Array:
    """Add along the last axis in the order of LiteRT's vectors: blocks, then the lanes of a block, then the rest.

    block: values that are added at a time: one vector of 4, or 4 vectors, of which the first and third are added first.
    """
    end = rows.shape[-1] // block * block
    lanes = np.zeros((*rows.shape[:-1], block), np.float32)
    for first in range(0, end, block):
        lanes = lanes + rows[..., first : first + block]
    while lanes.shape[-1] > _PACKET:
        half = lanes.shape[-1] // 2
        lanes = lanes[..., :half] + lanes[..., half:]
    total = lanes[..., 0]
    for values in (lanes[..., 1:], rows[..., end:]):
        for position in range(values.shape[-1]):
            total = total + values[..., position]
    return np.asarray(total)
