"""Matrix product of feature vectors with weights.

ifm of n * k elements in any shape, weights [units, k], optional bias [units] -> ofm of n * units elements,
the units last. Attributes: activation; keep_num_dims only says which shape the output has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from npusim.isa.arithmetic.convolution import convolve
from npusim.isa.base.tensor import Array
from npusim.isa.base.workload import Workload
from npusim.kernels.lowering.mac import lower_matrix_product
from npusim.kernels.operator.activation import activation_in_32_bits, known_activation
from npusim.kernels.operator.operands import input_type, input_value, quantization, weight_zero
from npusim.kernels.operator.operator import Call, Operator, Shapes
from npusim.kernels.operator.rescale import fully_connected_multipliers, sound_scales
from npusim.kernels.operators.convolution import weighted_sum
from npusim.kernels.operators.convolution.weighted_sum import WEIGHTS


def _matrix(call: Call) -> bool:
    """weights are [units, k] and the feature map holds vectors of k elements"""
    shape = input_type(call, WEIGHTS).shape
    return len(shape) == 2 and min(shape) > 0 and input_type(call).elements % shape[1] == 0


def _infer(call: Call) -> Shapes:
    """Vectors by units, or with keep_num_dims the input's shape with the units last."""
    shape, (units, k) = input_type(call).shape, input_type(call, WEIGHTS).shape
    return (
        (*shape[:-1], units) if call.attributes["keep_num_dims"] else (input_type(call).elements // k, units),
    )


def _output_shape(call: Call) -> bool:
    """the output has one element per vector and unit, the units along the last dimension"""
    units, k = input_type(call, WEIGHTS).shape
    shape = call.outputs[0].shape
    return (
        len(shape) > 0
        and shape[-1] == units
        and call.outputs[0].elements == input_type(call).elements // k * units
    )


def _vectors_on_npu(call: Call) -> bool:
    """on the NPU there are at most 65535 vectors"""
    return input_type(call).elements // input_type(call, WEIGHTS).shape[1] <= 65535


def _reference(call: Call, values: Sequence[Array | None]) -> list[Array]:
    weights: Any = input_value(values, WEIGHTS)
    vectors: Any = input_value(values).reshape(-1, weights.shape[1])
    bias = weighted_sum.bias_value(values)
    ifm, ofm = input_type(call), call.outputs[0]
    if ifm.dtype == "float32":
        return [weighted_sum.finish_reals(call, vectors @ weights.T, bias).reshape(ofm.shape)]
    accumulators = convolve(  # one row of pixels, a filter of one by one
        vectors[None],
        weights[:, None, None],
        quantization(ifm).zero_point,
        weight_zero(call),
        output_shape=(1, len(vectors)),
    )
    multipliers = fully_connected_multipliers(ifm, input_type(call, WEIGHTS), ofm)
    return [weighted_sum.finish_codes(call, accumulators, bias, multipliers, "single").reshape(ofm.shape)]


def _workload(call: Call) -> Workload:
    return weighted_sum.workload(call, "gemm", input_type(call, WEIGHTS).shape[1])


OPERATOR = Operator(
    name="fully_connected",
    rules=(
        weighted_sum.three_operands,
        weighted_sum.one_kind_of_number,
        _matrix,
        _output_shape,
        weighted_sum.one_scale_per_map,
        weighted_sum.weights_scaled_by_channel(0),
        sound_scales,
        weighted_sum.bias_per_channel,
        known_activation,
        activation_in_32_bits,
    ),
    infer=_infer,
    npu_rules=(weighted_sum.quantized_maps, weighted_sum.constant_weights, _vectors_on_npu),
    reference=_reference,
    workload=_workload,
    lower=lower_matrix_product,
    unit="mac",
)
