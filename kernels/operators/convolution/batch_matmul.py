"""Products of matrices that are both activations, in batches.

x [..., m, k], y [..., k, n] -> [..., m, n]; with adj_x, x is [..., k, m]; with adj_y, y is [..., n, k]. Batches
broadcast. Attributes: adj_x, adj_y.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from npusim.isa.arithmetic.convolution import convolve
from npusim.isa.arithmetic.integer import requantise
from npusim.isa.base.tensor import Array
from npusim.isa.base.workload import Workload
from npusim.isa.hardware.hardware import Hardware
from npusim.kernels.lowering.product import Factors, lower_product
from npusim.kernels.lowering.work import Lowering
from npusim.kernels.operator.operands import code_range, input_type, input_value, quantization
from npusim.kernels.operator.operator import Call, Operator, Shapes
from npusim.kernels.operator.rescale import batch_matmul_multiplier, moved_in_32_bits, sound_scales


def _two_operands(call: Call) -> bool:
    """multiplies two operands of 2 to 5 dimensions"""
    present = len(call.inputs) == 2 and None not in call.inputs and len(call.outputs) == 1
    return present and all(2 <= len(input_type(call, position).shape) <= 5 for position in (0, 1))


def _one_kind_of_number(call: Call) -> bool:
    """operands and output are all int8 with one scale and zero point each, or all float32"""
    tensors = (input_type(call), input_type(call, 1), call.outputs[0])
    if {tensor.dtype for tensor in tensors} == {"float32"}:
        return True
    return all(
        tensor.dtype == "int8" and tensor.quantization is not None and tensor.quantization.axis is None
        for tensor in tensors
    )


def _factors(call: Call) -> Factors:
    adj_x, adj_y = (bool(call.attributes[name]) for name in ("adj_x", "adj_y"))
    x, y = input_type(call).shape[-2:], input_type(call, 1).shape[-2:]
    return Factors(x[adj_x], x[not adj_x], y[not adj_y], (adj_x, adj_y))


def _matching(call: Call) -> bool:
    """rows of the first operand are as long as columns of the second, and their batches broadcast"""
    y = input_type(call, 1).shape[-2:]
    if y[bool(call.attributes["adj_y"])] != _factors(call).inner:
        return False
    try:
        _infer(call)
    except ValueError:
        return False
    return True


def _infer(call: Call) -> Shapes:
    """The batches broadcast, then rows of the first operand by columns of the second."""
    batch = np.broadcast_shapes(input_type(call).shape[:-2], input_type(call, 1).shape[:-2])
    factors = _factors(call)
    return ((*batch, factors.rows, factors.columns),)


def _output_shape(call: Call) -> bool:
    """the output has the batches of both, the rows of the first and the columns of the second"""
    return call.outputs[0].shape == _infer(call)[0]


def _quantized(call: Call) -> bool:
    """the NPU computes on 8-bit feature maps"""
    return call.outputs[0].quantized


_MOST_ROWS, _MOST = 65535, (1 << 20) - 1


def _sizes_on_npu(call: Call) -> bool:
    """on the NPU a product has at most 65535 rows in all its batches, and 1048575 columns and values summed"""
    factors = _factors(call)
    rows = call.outputs[0].elements // max(factors.columns, 1)
    return rows <= _MOST_ROWS and max(factors.columns, factors.inner) <= _MOST and factors.inner > 0


def _multiplier(call: Call) -> tuple[Any, Any]:
    return batch_matmul_multiplier(input_type(call), input_type(call, 1), call.outputs[0])


def _reference(call: Call, values: Sequence[Array | None]) -> list[Array]:
    x: Any = input_value(values)
    y: Any = input_value(values, 1)
    factors, ofm = _factors(call), call.outputs[0]
    x = np.swapaxes(x, -1, -2) if factors.transposed[0] else x
    y = y if factors.transposed[1] else np.swapaxes(y, -1, -2)
    if ofm.dtype == "float32":
        return [np.matmul(x, np.swapaxes(y, -1, -2))]
    batch = ofm.shape[:-2]
    xs = np.broadcast_to(x, (*batch, *x.shape[-2:])).reshape(-1, 1, *x.shape[-2:])
    ys = np.broadcast_to(y, (*batch, *y.shape[-2:])).reshape(-1, y.shape[-2], 1, 1, y.shape[-1])
    zeros = quantization(input_type(call)).zero_point, quantization(input_type(call, 1)).zero_point
    sums = np.empty((len(xs), factors.rows, factors.columns), np.int32)
    for number in range(len(xs)):
        sums[number] = convolve(xs[number], ys[number], *zeros, output_shape=(1, factors.rows))[0]
    multiplier, shift = batch_matmul_multiplier(input_type(call), input_type(call, 1), ofm)
    found = requantise(
        sums,
        np.array([multiplier]),
        np.array([shift]),
        quantization(ofm).zero_point,
        *code_range(ofm.dtype),
        ofm.numpy_dtype,
        "double",
    )
    return [found.reshape(ofm.shape)]


def _workload(call: Call) -> Workload:
    ofm, inner = call.outputs[0], _factors(call).inner
    sizes = {position: input_type(call, position).size_bytes for position in (0, 1)}
    weights = sum(size for position, size in sizes.items() if position in call.constants)
    return Workload(
        kind="gemm",
        dtype="float32" if ofm.dtype == "float32" else "int8",
        macs=ofm.elements * inner,
        inner_k=inner,
        weight_bytes=weights,
        input_bytes=sum(sizes.values()) - weights,
        output_bytes=ofm.size_bytes,
    )


def _lower(call: Call, hardware: Hardware) -> Lowering:
    return lower_product(call, _factors(call), hardware)


OPERATOR = Operator(
    name="batch_matmul",
    rules=(
        _two_operands,
        _one_kind_of_number,
        _matching,
        _output_shape,
        sound_scales,
        moved_in_32_bits("the product of the input scales over the output scale", _multiplier),
    ),
    infer=_infer,
    npu_rules=(_quantized, _sizes_on_npu),
    reference=_reference,
    workload=_workload,
    lower=_lower,
    unit="mac",
)
