"""abs: the magnitude of x, element by element."""

from __future__ import annotations

import numpy as np

from npusim.isa.arithmetic.integer import quantize_multiplier
from npusim.kernels.operator import rules
from npusim.kernels.operator.operands import input_type, quantization
from npusim.kernels.operator.operator import Call
from npusim.kernels.operator.rescale import moved_in_32_bits
from npusim.kernels.operators.tables.lookup import (
    Int64Array,
    beyond_tables,
    of_whole_numbers,
    tabulate,
    unary_operator,
)
from npusim.kernels.operators.tables.rectifier import factor, rescale


def _codes(call: Call, codes: Int64Array) -> Int64Array:
    """The distance of a code from the zero point, brought to the scale of the output."""
    source, target = quantization(input_type(call)), quantization(call.outputs[0])
    return rescale(np.abs(codes - source.zero_point), factor(call)) + target.zero_point


table = tabulate(_codes)
"""The output code of each of a call's 256 input codes, in raw byte order."""

OPERATOR = unary_operator(
    "abs",
    table,
    rules.wide_codes_scaled,
    moved_in_32_bits("input scale / output scale", lambda call: quantize_multiplier(factor(call))),
    whole={"int16": beyond_tables(_codes), **dict.fromkeys(("int32", "int64"), of_whole_numbers(np.abs))},
)
