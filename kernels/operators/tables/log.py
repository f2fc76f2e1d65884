"""log: the natural logarithm of x, element by element."""

from __future__ import annotations

import numpy as np

from npusim.kernels.operator.operands import code_range, quantization
from npusim.kernels.operator.operator import Call
from npusim.kernels.operators.tables.lookup import Float32Array, real_function, tabulate_real, unary_operator


def _smallest_where_undefined(call: Call, x: Float32Array) -> Float32Array:
    """In 8 bits what has no logarithm becomes the smallest code."""
    output = call.outputs[0]
    target = quantization(output)
    least = np.float32(target.scale) * np.float32(code_range(output.dtype)[0] - target.zero_point)
    result: Float32Array = np.where(x > 0, real_function("log")(call, x), least)
    return result


table = tabulate_real(_smallest_where_undefined)
"""The output code of each of a call's 256 input codes, in raw byte order."""

OPERATOR = unary_operator("log", table, interpolates=_smallest_where_undefined)
