"""Products of matrices that are both activations, in batches.

x [..., m, k], y [..., k, n] -> [..., m, n]; with adj_x, x is [..., k, m]; with adj_y, y is [..., n, k]. Batches
broadcast.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from npusim.isa.arithmetic.convolution import convolve
from npusim.isa.arithmetic.integer import requantise
from npusim.isa.base.elements import Workload
from npusim.isa.base.tensor import Array, Int32Array
from npusim.isa.hardware.hardware import Hardware
from npusim.kernels.lowering.float_lanes import columns, floats
from npusim.kernels.lowering.product import Factors, lower_products
from npusim.kernels.lowering.work import Parts, deferred
from npusim.kernels.operator import dynamic_range, parameters, rules
from npusim.kernels.operator.element_types import alike
from npusim.kernels.operator.expansion import Expansion
from npusim.kernels.operator.float_steps import FloatSteps
from npusim.kernels.operator.operands import (
    by_type,
    code_range,
    input_type,
    input_value,
    quantization,
    with_halves,
)
from npusim.kernels.operator.operator import Arithmetic, Call, Lowering, Operator, Shapes, Values, need
from npusim.kernels.operator.rescale import batch_matmul_multiplier, moved_in_32_bits, sound_scales
from npusim.kernels.operators.convolution import exact_sum, fully_connected, weighted_sum
from npusim.kernels.operators.movement.permuting import TransposeParameters


class Parameters(parameters.Parameters):
    """adj_x, adj_y: whether the last two dimensions of an operand are swapped."""

    adj_x: bool = False
    adj_y: bool = False


def _two_operands(call: Call) -> bool:
    """multiplies two operands of 2 to 8 dimensions"""
    present = len(call.inputs) == 2 and None not in call.inputs and len(call.outputs) == 1
    return present and all(2 <= len(input_type(call, position).shape) <= 8 for position in (0, 1))


def _factors(call: Call[Parameters]) -> Factors:
    adj_x, adj_y = call.parameters.adj_x, call.parameters.adj_y
    x, y = input_type(call).shape[-2:], input_type(call, 1).shape[-2:]
    return Factors(x[adj_x], x[not adj_x], y[not adj_y], (adj_x, adj_y))


def _matching(call: Call[Parameters]) -> bool:
    """rows of the first operand are as long as columns of the second, and their batches broadcast"""
    y = input_type(call, 1).shape[-2:]
    if y[call.parameters.adj_y] != _factors(call).inner:
        return False
    try:
        _infer(call)
    except ValueError:
        return False
    return True


def _infer(call: Call) -> Shapes:
    """Return the broadcast batches, then rows of the first operand by columns of the second."""
    batch = np.broadcast_shapes(input_type(call).shape[:-2], input_type(call, 1).shape[:-2])
    factors = _factors(call)
    return ((*batch, factors.rows, factors.columns),)


_output_shape = rules.inferred(
    _infer, "the output has the batches of both, the rows of the first and the columns of the second"
)


_MOST_ROWS, _MOST = 65535, (1 << 20) - 1


def _sizes_on_npu(call: Call) -> bool:
    """on the NPU a product has at most 65535 rows in all its batches, and 1048575 columns and values summed"""
    factors = _factors(call)
    rows = call.outputs[0].elements // max(factors.columns, 1)
    return rows <= _MOST_ROWS and max(factors.columns, factors.inner) <= _MOST and factors.inner > 0


def _multiplier(call: Call) -> tuple[Any, Any]:
    return batch_matmul_multiplier(input_type(call), input_type(call, 1), call.outputs[0])


def _ordered(call: Call[Parameters], values: Values) -> tuple[Any, Any]:
    """Return the operands as [..., m, k] and [..., n, k]."""
    x, y = input_value(values), input_value(values, 1)
    return (
        np.swapaxes(x, -1, -2) if call.parameters.adj_x else x,
        y if call.parameters.adj_y else np.swapaxes(y, -1, -2),
    )


def _floats(call: Call[Parameters], values: Values) -> list[Array]:
    """Multiply floats: sums in float64, rounded once to float32."""
    x, y = _ordered(call, values)
    with np.errstate(over="ignore"):  # Values beyond float32 become infinite
        product = np.matmul(x.astype(np.float64), np.swapaxes(y, -1, -2).astype(np.float64))
        return [product.astype(np.float32)]


def _integers(call: Call[Parameters], values: Values) -> list[Array]:
    """Multiply int32 values: sums wrap to 32 bits."""
    x, y = _ordered(call, values)
    with np.errstate(over="ignore"):
        return [np.matmul(x, np.swapaxes(y, -1, -2))]


def _codes(call: Call[Parameters], values: Values) -> list[Array]:
    ofm = call.outputs[0]
    multiplier, shift = batch_matmul_multiplier(input_type(call), input_type(call, 1), ofm)
    result = requantise(
        _sums(call, *_ordered(call, values)),
        np.array([multiplier]),
        np.array([shift]),
        quantization(ofm).zero_point,
        *code_range(ofm.dtype),
        ofm.numpy_dtype,
        "double",
    )
    return [result]


def _sums(call: Call[Parameters], x: Any, y: Any) -> Int32Array:
    """Return the sums of ordered 8-bit operands, in the shape of the output."""
    factors, batch = _factors(call), call.outputs[0].shape[:-2]
    count = prod(batch)
    xs = np.broadcast_to(x, (*batch, *x.shape[-2:])).reshape(count, 1, *x.shape[-2:])
    ys = np.broadcast_to(y, (*batch, *y.shape[-2:])).reshape(count, y.shape[-2], 1, 1, y.shape[-1])
    zeros = quantization(input_type(call)).zero_point, quantization(input_type(call, 1)).zero_point
    sums = np.empty((count, factors.rows, factors.columns), np.int32)
    for number in range(count):
        sums[number] = convolve(xs[number], ys[number], *zeros, output_shape=(1, factors.rows))[0]
    return sums.reshape(call.outputs[0].shape)


def _exactly(call: Call[Parameters], values: Values) -> list[Array]:
    """Multiply quantized values for the rescale "float32": exact sums, requantized in float32."""

    def of_codes(x: Any, y: Any) -> Any:
        return _sums(call, *_ordered(call, [x, y]))

    def of_floats(x: Any, y: Any) -> Any:
        first, second = _ordered(call, [x, y])
        return np.matmul(first, np.swapaxes(second, -1, -2))

    simple = _one_row_scale(call) and _FITS(call)
    sums = exact_sum.exact_sums(call, values, of_floats, of_codes if simple else None)
    return [exact_sum.finish(call, sums, None)]


def _folds(call: Call[Parameters]) -> bool:
    """Return True if LiteRT takes the last dimension of the batches for rows: the second operand has 1 there."""
    x, y = input_type(call).shape, input_type(call, 1).shape
    return not call.parameters.adj_x and len(x) > 2 < len(y) and y[-3] == 1


def _dynamic_range(call: Call[Parameters], values: Values) -> list[Array]:
    """Multiply rows that are quantized at run time.

    LiteRT's kernel finds scales and sums of weights by adding up the indices of a product, which is wrong if an operand
    has more than one dimension of batches. Its bytes are what counts here.
    """
    x, y = _ordered(call, values)
    if _folds(call):
        x, y = x.reshape(*x.shape[:-3], -1, x.shape[-1]), y.reshape(*y.shape[:-3], *y.shape[-2:])
    batch, rows, columns = np.broadcast_shapes(x.shape[:-2], y.shape[:-2]), x.shape[-2], y.shape[-2]
    quantized = dynamic_range.quantized_rows(
        np.ascontiguousarray(x).reshape(-1, x.shape[-1]), dynamic_range.asymmetric(call)
    )
    row = _found_at(x.shape[:-2], batch)[..., None] * rows + np.arange(rows)
    column = _found_at(y.shape[:-2], batch)[..., None] * columns + np.arange(columns)
    of_weights = y.reshape(-1, y.shape[-1]).sum(axis=1, dtype=np.int64).astype(np.float32)
    offsets = quantized.zero_points.astype(np.float32)[row][..., None] * of_weights[column][..., None, :]
    wide = quantized.values.reshape(x.shape).astype(np.float64), np.swapaxes(y, -1, -2).astype(np.float64)
    sums = np.trunc(np.matmul(*wide).astype(np.float32) - offsets)  # LiteRT subtracts in float32, too
    factors = quantized.scales[row][..., None] * dynamic_range.scales_of(input_type(call, 1))
    return [(sums * factors).reshape(call.outputs[0].shape)]


def _found_at(own: tuple[int, ...], batch: tuple[int, ...]) -> Any:
    """Return for each product the number of the matrix whose scales or sums LiteRT takes."""
    sizes = (1,) * (len(batch) - len(own)) + own
    counted = [index for index, size in zip(np.indices(batch), sizes, strict=True) if size != 1]
    return sum(counted, np.zeros(batch, np.int64))


def _in_steps(call: Call[Parameters]) -> Expansion | None:
    """Expand to fully_connected, if the second operand is one matrix and LiteRT finds the right scales."""
    weights, shape = dynamic_range.known_weights(call), input_type(call).shape
    if weights is None or call.parameters.adj_x or weights.ndim > 2 or len(shape) > 3:
        return None
    weights = weights if call.parameters.adj_y else weights.T
    product = "fully_connected", (*shape[:-1], len(weights)), fully_connected.Parameters(keep_num_dims=True)
    return dynamic_range.in_steps(
        call, (len(shape) - 1,), np.ascontiguousarray(weights), product, dynamic_range.asymmetric(call)
    )


def _products(call: Call) -> int:
    return _factors(call).inner


_FITS = exact_sum.sums_in_32_bits(_products, None)


def _scaled(call: Call[Parameters]) -> bool:
    """the first operand has one scale and zero point or one per row, the second one or one per column"""
    parameters = call.parameters
    return exact_sum.scaled(
        call, row_axis=-1 if parameters.adj_x else -2, channel_axis=-2 if parameters.adj_y else -1
    )


def _one_row_scale(call: Call) -> bool:
    """on the NPU the first operand has one scale and zero point"""
    return quantization(input_type(call)).axis is None


def _weights_by_column(call: Call[Parameters]) -> bool:
    """int8 weights beside float32 activations have zero point 0 and one scale, or one per column"""
    return dynamic_range.symmetric_weights(-2 if call.parameters.adj_y else -1)(call)


def _sums_of_weights(call: Call[Parameters]) -> bool:
    """with asymmetric rows int8 weights have at most 5 dimensions, the first of five 1: LiteRT sums up no others"""
    shape = input_type(call, 1).shape
    dimensions = len(shape) - _folds(call)
    return not dynamic_range.asymmetric(call) or dimensions < 5 or (dimensions == 5 and shape[0] == 1)


def _workload(call: Call) -> Workload:
    ofm, inner = call.outputs[0], _factors(call).inner
    sizes = {position: input_type(call, position).size_bytes for position in (0, 1)}
    weights = sum(size for position, size in sizes.items() if position in call.constants)
    return Workload(
        kind="gemm",
        dtype=ofm.element.rates,
        macs=ofm.elements * inner,
        inner_k=inner,
        weight_bytes=weights,
        input_bytes=sum(sizes.values()) - weights,
        output_bytes=ofm.size_bytes,
    )


def _lower(call: Call, hardware: Hardware) -> Parts:
    return lower_products(call, _factors(call), hardware)


def _wide_codes(call: Call[Parameters], values: Values) -> list[Array]:
    """Multiply int16 values: sums in float64, which holds them exactly, and a multiplier of 15 bits."""
    x, y = (matrix.astype(np.float64) for matrix in _ordered(call, values))
    sums = np.matmul(x, np.swapaxes(y, -1, -2)).astype(np.int64)
    multiplier, shift = _multiplier(call)
    ofm = call.outputs[0]
    return [requantise(sums, multiplier, shift, 0, *code_range(ofm.dtype), ofm.numpy_dtype, "reduced")]


def _as_stored(call: Call[Parameters]) -> bool:
    """Return whether the operands are [rows, inner] and [columns, inner], as the float columns take them."""
    return call.parameters.adj_y and not call.parameters.adj_x


@need("mac_array.{dtype}_columns")
def _columns(call: Call[Parameters], hardware: Hardware) -> bool:
    """float columns (mac_array.float16_columns, mac_array.float32_columns)"""
    # Other operands are transposed first: `_transposed_first` applies where no lowering does.
    return columns.holds(call, hardware) and _as_stored(call)


def _transposed_first(call: Call[Parameters]) -> Expansion | None:
    """Expand a product of floats to transposes, which the DMA computes, and a product of operands as stored."""
    if _as_stored(call) or not input_type(call).real:
        return None
    steps = FloatSteps(call)

    def stored(number: int, swapped: bool) -> int:
        shape = input_type(call, number).shape
        if not swapped:
            return number
        axes = [*range(len(shape))]
        axes[-2:] = reversed(axes[-2:])
        perm = TransposeParameters(perm=tuple(axes))
        return steps.step("transpose", [number], tuple([shape[axis] for axis in axes]), perm)

    factors = stored(0, call.parameters.adj_x), stored(1, not call.parameters.adj_y)
    return steps.result(steps.step("batch_matmul", factors, call.outputs[0].shape, Parameters(adj_y=True)))


REFERENCES = with_halves(
    {"int8": _codes, "uint8": _codes, "int16": _wide_codes, "int32": _integers, "float32": _floats}
)

_SHAPES = (_two_operands, _matching, _output_shape)
_MAC = Lowering("mac", (rules.eight_bit, _sizes_on_npu), _lower)

BATCH_MATMUL = Operator(
    name="batch_matmul",
    parameters=Parameters,
    types=alike(*REFERENCES),
    rules=(
        _two_operands,
        rules.per_tensor,
        rules.wide_codes_scaled,
        rules.symmetric,
        _matching,
        _output_shape,
        sound_scales,
        moved_in_32_bits("the product of the input scales over the output scale", _multiplier),
    ),
    infer=_infer,
    reference=by_type(REFERENCES),
    workload=_workload,
    lowerings=(
        _MAC,
        Lowering(
            "mac",
            (floats, _sizes_on_npu),
            deferred("float_columns", "lower_float_products"),
            (_columns, weighted_sum.room_for_computed_weights),
        ),
    ),
    expand=_transposed_first,
    arithmetics=(
        Arithmetic(
            ("float32",),
            exact_sum.PRODUCT_TYPES,
            (*_SHAPES, _scaled, exact_sum.sound_scales, exact_sum.sums_in_53_bits(_products)),
            _exactly,
            (exact_sum.with_room(exact_sum.on_npu(_MAC, _FITS, _one_row_scale)),),
        ),
        dynamic_range.arithmetic(
            ("float32, int8 -> float32",),
            (*_SHAPES, _weights_by_column, _sums_of_weights),
            _dynamic_range,
            _in_steps,
        ),
    ),
)

OPERATORS = (BATCH_MATMUL,)
