"""gate_sums: the matrix products of an integer recurrent cell, in words of 16 or 32 bits or in codes.

codes [rows, k], weights [units, k], parameters [9 * units] -> [rows, units]: the sums, each unit with bias, multiplier
and shift of its own, saturated. The parameters are the bytes that the output stage of the MAC array reads: all biases,
all multipliers (32 bits each), all shifts. Cells of all models become these (`lstm_parts`); no model has one.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np

from npusim.isa.arithmetic.integer import multiply_by_quantized_multiplier
from npusim.isa.base.plain_values import Between
from npusim.isa.base.tensor import Array
from npusim.isa.base.workload import Workload
from npusim.kernels.lowering.cell import lower_gate_sums, parameters_of
from npusim.kernels.operator import parameters, rules
from npusim.kernels.operator.operands import code_range, input_type, input_value
from npusim.kernels.operator.operator import Call, Lowering, Operator, Shapes, Values
from npusim.kernels.operators.convolution import weighted_sum

Code = Annotated[int, Between(-128, 255)]


class Parameters(parameters.Parameters):
    """weight_zero: what is subtracted from weights; of results that are codes also zero point and clamp. Inputs have no
    zero points here: the biases hold what they make of the weights.
    """

    weight_zero: Code = 0
    zero: Code = 0
    low: Code = 0
    high: Code = 0


def _matrix(call: Call) -> bool:
    """codes are [rows, k], weights [units, k], and there are 9 bytes of parameters for each unit"""
    (_, k), weights = input_type(call).shape[-2:], input_type(call, 1).shape
    if len(weights) != 2 or weights[1] != k or min(weights) == 0:
        return False
    return input_type(call, 2).shape == (9 * weights[0],) and call.outputs[0].shape == _infer(call)[0]


def _infer(call: Call[Parameters]) -> Shapes:
    return ((input_type(call).shape[0], input_type(call, 1).shape[0]),)


def _two_axes(call: Call) -> bool:
    """codes have two axes"""
    return len(input_type(call).shape) == 2


def _same_codes(call: Call) -> bool:
    """codes give words, or codes of their own type"""
    return call.outputs[0].dtype in ("int16", "int32", input_type(call).dtype)


def _constants(call: Call) -> bool:
    """on the NPU weights and parameters are constants"""
    return {1, 2} <= call.constants.keys()


def _rows_on_npu(call: Call) -> bool:
    """on the NPU there are at most 65535 rows"""
    return input_type(call).shape[0] <= 65535


def _reference(call: Call[Parameters], values: Values) -> list[Array]:
    codes, weights = (input_value(values, at).astype(np.float64) for at in (0, 1))
    numbers = parameters_of(input_value(values, 2), len(weights))
    # float64 holds these sums exactly and multiplies matrices fast
    sums = (codes @ (weights - call.parameters.weight_zero).T).astype(np.int64) + numbers.bias.astype(
        np.int64
    )
    words = multiply_by_quantized_multiplier(sums.astype(np.int32), numbers.multiplier, numbers.shift)
    chosen, ofm = call.parameters, call.outputs[0]
    low, high = (chosen.low, chosen.high) if ofm.dtype == input_type(call).dtype else code_range(ofm.dtype)
    return [np.clip(words.astype(np.int64) + chosen.zero, low, high).astype(ofm.numpy_dtype)]


def _workload(call: Call) -> Workload:
    return weighted_sum.workload(call, "gemm", input_type(call, 1).shape[1])


GATE_SUMS = Operator(
    name="gate_sums",
    parameters=Parameters,
    types=("int8|uint8, int8|uint8, uint8 -> int16|int32|int8|uint8",),
    rules=(rules.operands(3), _two_axes, _matrix, _same_codes),
    infer=_infer,
    reference=_reference,
    workload=_workload,
    lowerings=(Lowering("mac", (_constants, _rows_on_npu), lower_gate_sums),),
)

OPERATORS = (GATE_SUMS,)
