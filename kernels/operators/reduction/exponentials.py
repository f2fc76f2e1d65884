"""What softmax and log_softmax share: their numbers in fixed point and their rules."""

from __future__ import annotations

import numpy as np

from npusim.kernels.operator.axes import Along, axis_of
from npusim.kernels.operator.operands import input_type, quantization
from npusim.kernels.operator.operator import Call

DIFFERENCE_INTEGER_BITS = 5  # of x - max(x), scaled by beta and the input scale: 0 down to -32
SUM_INTEGER_BITS = 12  # of the sum of exponentials: 4096 terms of at most 1


class WithBeta(Along):
    """beta: what elements are multiplied by in front of the exponential."""

    beta: float = 1.0


def real_multiplier(call: Call[WithBeta]) -> float:
    """What a difference of codes is worth, times beta, in words with `DIFFERENCE_INTEGER_BITS` integer bits."""
    scale = quantization(input_type(call)).scale
    return float(np.float32(call.parameters.beta)) * scale * 2.0 ** (31 - DIFFERENCE_INTEGER_BITS)


def positive_beta(call: Call[WithBeta]) -> bool:
    """beta is a positive number"""
    return call.parameters.beta > 0


def representable_scale(call: Call[WithBeta]) -> bool:
    """beta times the scale of an 8-bit input is more than 2**-26"""
    return input_type(call).real or real_multiplier(call) > 1


def short_axis(call: Call[WithBeta]) -> bool:
    """an 8-bit input has at most 4096 elements along the axis, which is what the accumulator holds"""
    tensor = input_type(call)
    return tensor.real or tensor.shape[axis_of(call)] <= 1 << SUM_INTEGER_BITS
