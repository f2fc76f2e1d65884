"""What relu and its relatives share: codes rescaled to the output's scale and limited."""

from __future__ import annotations

import numpy as np

from npusim.isa.arithmetic import multiply_by_quantized_multiplier, quantize_multiplier
from npusim.kernels.lookup import Int64Array, Table, round_half_away, tabulate
from npusim.kernels.operands import input_type, quantization
from npusim.kernels.operator import Call


def rescale(values: Int64Array, real: float) -> Int64Array:
    """values * real, rounded twice like a convolution's accumulators; int64 in and out."""
    multiplier, shift = quantize_multiplier(real)
    return multiply_by_quantized_multiplier(values.astype(np.int32), multiplier, shift).astype(np.int64)


def tabulate_rectifier(ceiling: float | None) -> Table:
    """The table of max(x, 0), limited to `ceiling` if there is one.

    The limits are codes of the output: its zero point, and zero point + round(ceiling / scale) in float32.
    """

    def codes_of(call: Call, codes: Int64Array) -> Int64Array:
        source, target = quantization(input_type(call)), quantization(call.outputs[0])
        real = float(np.float32(source.scale) / np.float32(target.scale))
        rescaled = rescale(codes - source.zero_point, real) + target.zero_point
        limited: Int64Array = np.maximum(rescaled, target.zero_point)
        if ceiling is None:
            return limited
        top = round_half_away(np.asarray(ceiling, np.float32) / np.float32(target.scale))
        return np.minimum(limited, top + target.zero_point)

    return tabulate(codes_of)
