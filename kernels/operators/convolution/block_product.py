"""Matrix product of feature vectors with weights that are quantized in blocks along the dot product.

ifm of n * k elements in any shape with k innermost; weights uint8 [units, bytes of a row of blocks]; scales [units,
blocks]; zero points uint8 [units, bytes] or None; optional bias [units] -> ofm with the units innermost. How weights
and zero points are stored is in `npusim.isa.base.block_format`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from npusim.isa.arithmetic.weight_blocks import unpacked
from npusim.isa.base.block_format import BITS
from npusim.isa.base.elements import Workload
from npusim.isa.base.tensor import Array
from npusim.kernels.lowering.block_columns import (
    BIAS,
    SCALES,
    WEIGHTS,
    ZERO_POINTS,
    form_of,
    lower_block_product,
)
from npusim.kernels.lowering.float_lanes import columns
from npusim.kernels.operator.element_types import quantize_results
from npusim.kernels.operator.expansion import Expansion
from npusim.kernels.operator.operands import (
    by_type,
    input_type,
    input_value,
    known,
    optional_type,
    optional_value,
    quantization,
)
from npusim.kernels.operator.operator import Call, Lowering, Operator, Shapes, Values, need
from npusim.kernels.operator.parameters import Activated, Count
from npusim.kernels.operator.rescale import limited
from npusim.kernels.operators.convolution import fully_connected, weighted_sum


class Parameters(Activated):
    """inner: values of a dot product. bits: bits of a weight. block: weights of a block."""

    inner: Count
    block: Count
    bits: Count = 4


def _operands(call: Call) -> bool:
    """takes feature vectors, weights, scales, and optional zero points and bias, and gives one output"""
    return 3 <= len(call.inputs) <= 5 and None not in call.inputs[:3] and len(call.outputs) == 1


def _bits(call: Call[Parameters]) -> bool:
    """a weight has 2, 4 or 8 bits"""
    return call.parameters.bits in BITS


def _stored(call: Call[Parameters]) -> bool:
    """weights are [units, bytes of whole blocks], scales [units, blocks], zero points [units, bytes]"""
    form, inner = form_of(call), call.parameters.inner
    units = input_type(call, WEIGHTS).shape[0] if len(input_type(call, WEIGHTS).shape) == 2 else 0
    zeros = optional_type(call, ZERO_POINTS)
    return (
        units > 0
        and input_type(call, WEIGHTS).shape == (units, form.weight_bytes(inner))
        and input_type(call, SCALES).shape == (units, form.blocks(inner))
        and (zeros is None or zeros.shape == (units, form.zero_point_bytes(inner)))
    )


def _vectors(call: Call[Parameters]) -> bool:
    """the innermost dimension of the feature map is that of the dot product, and that of the output has the units"""
    return input_type(call).shape[-1:] == (call.parameters.inner,) and call.output_shapes == _infer(call)


def _bias(call: Call) -> bool:
    """the bias has one value per unit"""
    bias = optional_type(call, BIAS)
    return bias is None or bias.elements == input_type(call, WEIGHTS).shape[0]


def _infer(call: Call[Parameters]) -> Shapes:
    """Return the shape of the feature map, with the units innermost."""
    return ((*input_type(call).shape[:-1], input_type(call, WEIGHTS).shape[0]),)


def _steps(call: Call[Parameters], values: Values) -> Any:
    """Return quantized weights less their zero points, float64 [units, blocks, block]; 0 behind the last weight."""
    form, inner = form_of(call), call.parameters.inner
    blocks = form.blocks(inner)
    packed: Any = input_value(values, WEIGHTS)
    zeros: Any = optional_value(values, ZERO_POINTS)
    points = (
        np.full((len(packed), blocks), 1 << form.bits - 1)
        if zeros is None
        else unpacked(zeros, form.bits, blocks)
    )
    whole = unpacked(packed, form.bits, blocks * form.block).reshape(len(packed), blocks, form.block)
    steps = whole.astype(np.float64) - points[..., None]
    behind = np.arange(blocks * form.block).reshape(blocks, form.block) >= inner
    steps[:, behind] = 0
    return steps


def _weights(call: Call[Parameters], values: Values) -> Any:
    """Return dequantized weights [units, inner]: float32 products, rounded to the type of the vectors."""
    scales: Any = input_value(values, SCALES)
    with np.errstate(all="ignore"):
        weights = _steps(call, values).astype(np.float32) * scales.astype(np.float32)[..., None]
        return weights.reshape(len(weights), -1)[:, : call.parameters.inner].astype(input_type(call).dtype)


def _floats(call: Call[Parameters], values: Values) -> list[Array]:
    """Multiply with dequantized weights."""
    bias = optional_value(values, BIAS)
    vectors: Any = input_value(values).reshape(-1, call.parameters.inner)
    with np.errstate(all="ignore"):
        products = vectors.astype(np.float64) @ _weights(call, values).astype(np.float64).T
        sums = weighted_sum.finish_floats(call, products, bias)
        return [sums.astype(call.outputs[0].numpy_dtype).reshape(call.outputs[0].shape)]


def _expanded(call: Call[Parameters]) -> Expansion | None:
    """Return a product of floats with weights that are dequantized before they are stored; None without their data."""
    data = known(call)
    needed = [at for at in (WEIGHTS, SCALES, ZERO_POINTS) if optional_type(call, at) is not None]
    if not input_type(call).real or any(data[at] is None for at in needed):
        return None
    body = Expansion(len(call.inputs))
    weights = body.constant(_weights(call, data))
    bias = BIAS if optional_type(call, BIAS) is not None else None
    parameters = fully_connected.Parameters(keep_num_dims=True, activation=call.parameters.activation)
    body.results += body.call("product", "fully_connected", (0, weights, bias), call.outputs, parameters)
    return body


def _codes(call: Call[Parameters], values: Values) -> list[Array]:
    """Add the scaled sums of blocks in float32, one block after the other, then rescale, add the bias and quantize."""
    form, inner = form_of(call), call.parameters.inner
    steps = _steps(call, values)
    scales: Any = input_value(values, SCALES).astype(np.float32)
    maps = quantization(input_type(call))
    vectors = input_value(values).reshape(-1, inner).astype(np.float64) - maps.zero_point
    spread = np.zeros((len(vectors), form.blocks(inner) * form.block))
    spread[:, :inner] = vectors
    sums = np.einsum("rbk,ubk->bru", spread.reshape(len(vectors), -1, form.block), steps, optimize=True)
    with np.errstate(all="ignore"):
        parts = sums.astype(np.float32) * scales.T[:, None, :]
        floats = np.add.accumulate(parts, axis=0)[-1] * np.float32(maps.scale)
        bias = optional_value(values, BIAS)
        floats = floats if bias is None else floats + bias.reshape(-1)
        floats = limited(call.parameters.activation, floats)
    return [quantize_results(floats, call.outputs[0]).reshape(call.outputs[0].shape)]


def _workload(call: Call[Parameters]) -> Workload:
    return weighted_sum.workload(call, "gemm", call.parameters.inner)


def _on_codes(call: Call) -> bool:
    """the NPU multiplies 8-bit feature maps with quantized weights, and gives the same type without activation"""
    maps = input_type(call), call.outputs[0]
    return all(kind.quantized8 for kind in maps) and call.parameters.activation == "none"


def _on_floats(call: Call) -> bool:
    """the NPU multiplies float feature maps with dequantized weights"""
    return input_type(call).dtype in ("float16", "float32")


def _constant_operands(call: Call) -> bool:
    """on the NPU weights, scales, zero points and bias are constants"""
    return all(at in call.constants for at, kind in enumerate(call.inputs) if at and kind is not None)


def _block_on_npu(call: Call) -> bool:
    """on the NPU a block has at most 32768 weights"""
    return bool(call.parameters.block <= 1 << 15)


@need("mac_array.weight_blocks")
def _quantized(call: Call, hardware: Any) -> bool:
    """an array that computes on quantized weights in blocks (mac_array.weight_blocks)"""
    return bool(hardware.mac_array.quantized_blocks)


@need("mac_array.weight_blocks")
def _dequantized(call: Call, hardware: Any) -> bool:
    """an array that dequantizes weights in blocks (mac_array.weight_blocks)"""
    return bool(hardware.mac_array.dequantized_blocks)


_RULES = (_constant_operands, weighted_sum.vectors_on_npu, _block_on_npu)

BLOCK_PRODUCT = Operator(
    name="block_product",
    parameters=Parameters,
    types=(
        *(f"{kind}, uint8, float16|float32, uint8, float32 -> {kind}" for kind in ("int8", "uint8")),
        *(f"{kind}, uint8, float16|float32, uint8, {kind} -> {kind}" for kind in ("float16", "float32")),
    ),
    rules=(_operands, _bits, _stored, _vectors, weighted_sum.one_scale_per_map, _bias),
    infer=_infer,
    reference=by_type({"int8": _codes, "uint8": _codes, "float16": _floats, "float32": _floats}),
    workload=_workload,
    expand=_expanded,
    lowerings=(
        Lowering("mac", (_on_codes, *_RULES), lower_block_product, (_quantized,)),
        Lowering("mac", (_on_floats, *_RULES), lower_block_product, (_dequantized, columns)),
    ),
)

OPERATORS = (BLOCK_PRODUCT,)
