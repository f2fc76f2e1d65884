"""Matrix product of feature vectors with weights.

ifm of n * k elements in any shape, weights [units, k], optional bias [units] -> ofm of n * units elements,
the units last.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from npusim.isa.arithmetic.convolution import convolve
from npusim.isa.base.elements import Workload
from npusim.isa.base.tensor import Array, Int32Array
from npusim.kernels.lowering.float_lanes import columns, floats, on_float_columns
from npusim.kernels.lowering.mac_work import lower_matrix_product
from npusim.kernels.lowering.work import deferred
from npusim.kernels.operator import dynamic_range, rules
from npusim.kernels.operator.expansion import Expansion
from npusim.kernels.operator.operands import (
    by_type,
    input_type,
    input_value,
    optional_type,
    quantization,
    weight_zero,
    with_halves,
)
from npusim.kernels.operator.operator import Arithmetic, Call, Lowering, Operator, Shapes, Values
from npusim.kernels.operator.parameters import Activated
from npusim.kernels.operator.rescale import activation_in_32_bits, fully_connected_multipliers, sound_scales
from npusim.kernels.operators.convolution import exact_sum, weighted_sum
from npusim.kernels.operators.convolution.weighted_sum import WEIGHTS


class Parameters(Activated):
    """keep_num_dims: the output has the input's shape with the units last, instead of [vectors, units]."""

    keep_num_dims: bool = False


def _matrix(call: Call) -> bool:
    """weights are [units, k] and the feature map holds vectors of k elements"""
    shape = input_type(call, WEIGHTS).shape
    return len(shape) == 2 and min(shape) > 0 and input_type(call).elements % shape[1] == 0


def _infer(call: Call[Parameters]) -> Shapes:
    """Return [vectors, units], or with keep_num_dims the input's shape with the units last."""
    shape, (units, k) = input_type(call).shape, input_type(call, WEIGHTS).shape
    return (
        (*shape[:-1], units) if call.parameters.keep_num_dims else (input_type(call).elements // k, units),
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


def _codes(call: Call[Parameters], values: Values) -> list[Array]:
    weights: Any = input_value(values, WEIGHTS)
    vectors: Any = input_value(values).reshape(
        input_type(call).elements // weights.shape[1], weights.shape[1]
    )
    accumulators = _sums(call, vectors, weights)
    bias = weighted_sum.bias_value(values)
    codes = weighted_sum.finish_codes(call, accumulators, bias, _multipliers(call), "single")
    return [codes.reshape(call.outputs[0].shape)]


def _wide_codes(call: Call[Parameters], values: Values) -> list[Array]:
    """Multiply int16 values: sums in float64, which holds them exactly."""
    bias = weighted_sum.bias_value(values)
    codes = weighted_sum.finish_sums(
        call, _products_in_float64(call, values), bias, _multipliers(call), "single"
    )
    return [codes.reshape(call.outputs[0].shape)]


def _multipliers(call: Call) -> Any:
    return fully_connected_multipliers(input_type(call), input_type(call, WEIGHTS), call.outputs[0])


def _sums(call: Call[Parameters], vectors: Any, weights: Any) -> Int32Array:
    """Return sums by a convolution: one row of pixels, with filters of one by one."""
    zeros = quantization(input_type(call)).zero_point, weight_zero(call)
    return convolve(vectors[None], weights[:, None, None], *zeros, output_shape=(1, len(vectors)))


def _exactly(call: Call[Parameters], values: Values) -> list[Array]:
    """Multiply quantized values for the rescale "float32": exact sums, requantized in float32."""
    size = input_type(call, WEIGHTS).shape[1]

    def of_codes(x: Any, w: Any) -> Any:
        return _sums(call, x.reshape(-1, size), w)

    def of_floats(x: Any, w: Any) -> Any:
        return np.matmul(x.reshape(-1, size), w.T)

    sums = exact_sum.exact_sums(call, values, of_floats, of_codes if _FITS(call) else None)
    return [exact_sum.finish(call, sums, weighted_sum.bias_value(values)).reshape(call.outputs[0].shape)]


def _dynamic_range(call: Call[Parameters], values: Values) -> list[Array]:
    """Multiply float vectors that are quantized at run time."""
    weights: Any = input_value(values, WEIGHTS)
    vectors = input_value(values).reshape(-1, weights.shape[1])
    scales = dynamic_range.scales_of(input_type(call, WEIGHTS))
    products = dynamic_range.product(vectors, weights, scales, dynamic_range.asymmetric(call))
    return dynamic_range.finish(call, products, weighted_sum.bias_value(values))


def _in_steps(call: Call[Parameters]) -> Expansion | None:
    weights, shape = dynamic_range.known_weights(call), input_type(call).shape
    if weights is None or shape[-1:] != weights.shape[1:]:
        return None
    product = "fully_connected", (*shape[:-1], len(weights)), Parameters(keep_num_dims=True)
    return dynamic_range.in_steps(call, (len(shape) - 1,), weights, product, dynamic_range.asymmetric(call))


def _products(call: Call) -> int:
    return input_type(call, WEIGHTS).shape[1]


_FITS = exact_sum.sums_in_32_bits(_products, 0)


def _floats(call: Call[Parameters], values: Values) -> list[Array]:
    products = _products_in_float64(call, values)
    sums = weighted_sum.finish_floats(call, products, weighted_sum.bias_value(values))
    return [sums.reshape(call.outputs[0].shape)]


def _products_in_float64(call: Call, values: Values) -> Any:
    """Multiply vectors with quantized weights less their zero point."""
    weights: Any = input_value(values, WEIGHTS)
    vectors: Any = input_value(values).reshape(-1, weights.shape[1])
    centred = weights.astype(np.float64) - (0 if input_type(call, WEIGHTS).real else weight_zero(call))
    return vectors.astype(np.float64) @ centred.T


def _workload(call: Call) -> Workload:
    return weighted_sum.workload(call, "gemm", input_type(call, WEIGHTS).shape[1])


def _constant_weights(call: Call) -> bool:
    """on the NPU the weights are constants"""
    return WEIGHTS in call.constants


def _computed_weights(call: Call) -> bool:
    """on the NPU the weights are 8-bit quantized values"""
    return input_type(call, WEIGHTS).quantized8


def _floats_computed(call: Call) -> bool:
    """in the float mode computed weights go with no bias, or with a constant one"""
    return WEIGHTS not in call.constants and (optional_type(call, 2) is None or 2 in call.constants)


_NPU_RULES = (weighted_sum.quantized_maps, weighted_sum.vectors_on_npu)
_SHAPES = (weighted_sum.three_operands, _matrix, _output_shape)
_CONSTANT = Lowering("mac", (*_NPU_RULES, _constant_weights), lower_matrix_product)
_COMPUTED = Lowering(
    "mac", (*_NPU_RULES, _computed_weights), deferred("product", "lower_with_computed_weights")
)

FULLY_CONNECTED = Operator(
    name="fully_connected",
    parameters=Parameters,
    types=weighted_sum.TYPES,
    rules=(
        *_SHAPES,
        weighted_sum.one_scale_per_map,
        rules.symmetric,
        weighted_sum.weights_scaled_by_channel(0),
        sound_scales,
        weighted_sum.bias_per_channel,
        weighted_sum.shifted_in_64_bits(_multipliers),
        activation_in_32_bits,
    ),
    infer=_infer,
    reference=by_type(
        with_halves({"int8": _codes, "uint8": _codes, "int16": _wide_codes, "float32": _floats})
    ),
    workload=_workload,
    lowerings=(
        _CONSTANT,
        _COMPUTED,
        weighted_sum.on_int16(_CONSTANT, weighted_sum.wide_sums_fit(0, _multipliers)),
        on_float_columns("lower_float_product", *_NPU_RULES[1:]),
        Lowering(
            "mac",
            (floats, _floats_computed, *_NPU_RULES[1:]),
            deferred("float_columns", "lower_float_computed_weights"),
            (columns, weighted_sum.room_for_computed_weights),
        ),
    ),
    arithmetics=(
        Arithmetic(
            ("float32",),
            exact_sum.TYPES,
            (*_SHAPES, *exact_sum.rules(_products, 0)),
            _exactly,
            (
                exact_sum.on_npu(_CONSTANT, _FITS),
                exact_sum.on_int16(_CONSTANT, _products),
                exact_sum.with_room(exact_sum.on_npu(_COMPUTED, _FITS)),
            ),
        ),
        dynamic_range.arithmetic(
            weighted_sum.DYNAMIC_RANGE_TYPES,
            (*_SHAPES, dynamic_range.symmetric_weights(0), weighted_sum.bias_per_channel),
            _dynamic_range,
            _in_steps,
        ),
    ),
)

OPERATORS = (FULLY_CONNECTED,)
