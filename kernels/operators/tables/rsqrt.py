"""rsqrt: 1 / the square root of x, element by element."""

from __future__ import annotations

import math

import numpy as np

from npusim.isa.arithmetic.integer import multiply_by_quantized_multiplier, quantize_multiplier
from npusim.kernels.operator.fixed_point import inverse_square_root
from npusim.kernels.operator.operands import code_range, input_type, quantization
from npusim.kernels.operator.operator import Call
from npusim.kernels.operator.rescale import Multiplier, moved_in_32_bits
from npusim.kernels.operators.tables.lookup import Float64Array, Int64Array, tabulate, unary_operator

_FRACTION_BITS = 20


def _multiplier(call: Call) -> Multiplier:
    """1 / (root of the input scale * output scale): the root and the product in float32, the quotient in float64."""
    root = np.sqrt(np.float32(quantization(input_type(call)).scale))
    with np.errstate(over="ignore", under="ignore"):
        product = float(root * np.float32(quantization(call.outputs[0]).scale))
    multiplier, shift = quantize_multiplier(1 / product if product else math.inf)
    return multiplier, shift - _FRACTION_BITS


def _codes(call: Call, codes: Int64Array) -> Int64Array:
    """The root of each code in fixed point. Zero gives the largest code, and so does what has no real root."""
    target, output = quantization(call.outputs[0]), call.outputs[0]
    multiplier, shift = _multiplier(call)
    centred = codes - quantization(input_type(call)).zero_point
    results = np.full(codes.shape, code_range(output.dtype)[1], np.int64)
    for position in np.flatnonzero(centred > 0):
        root, root_shift = inverse_square_root(int(centred[position]))
        one = np.ones((), np.int64)
        inverse = multiply_by_quantized_multiplier(one, root, root_shift + _FRACTION_BITS)
        scaled = multiply_by_quantized_multiplier(inverse, multiplier, max(shift, -31))
        results[position] = int(scaled) + target.zero_point
    return results


def _once(call: Call, x: Float64Array) -> Float64Array:
    result: Float64Array = 1.0 / np.sqrt(x)
    return result


table = tabulate(_codes)
"""The output code of each of a call's 256 input codes, in raw byte order."""

OPERATOR = unary_operator(
    "rsqrt",
    table,
    moved_in_32_bits("2**-20 / (root of input scale * output scale)", _multiplier),
    once=_once,
)
