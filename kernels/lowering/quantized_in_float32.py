"""Lower operators on 8-bit values to instructions that compute in float32 and quantize the result, as ONNX defines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from npusim.isa.base.tensor import Array, TensorType
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.instructions.elementwise import NAMES, Binary
from npusim.isa.instructions.instruction import Instruction
from npusim.isa.instructions.lanes import FORMAT_NAMES, bits_of
from npusim.isa.instructions.windows import FUNCTIONS as POOLS
from npusim.isa.instructions.windows import Pool
from npusim.kernels.lowering.elementwise_work import Grid, broadcast_on_npu, strides, works
from npusim.kernels.lowering.vector_work import lower_table, pool_parts, signed
from npusim.kernels.lowering.work import Parts, Tile, TileAddresses
from npusim.kernels.operator.fused import bounds, one_scale, product_factor, sum_factors
from npusim.kernels.operator.operands import input_type, quantization
from npusim.kernels.operator.operator import Call, Lowering, Reference, compute_in_float32, need

AS_FLOAT32 = FORMAT_NAMES.index("as_float32")


@need("float32_rescale")
def float32_rescale(call: Call, hardware: Hardware) -> bool:
    """lanes that compute on quantized values in float32 (float32_rescale)"""
    return hardware.float32_rescale


def on_codes(call: Call) -> bool:
    """on the NPU operands and results are int8 or uint8 tensors with one scale and zero point"""
    return all(kind is not None and one_scale(kind) for kind in (*call.inputs, *call.outputs))


def scaling(name: str, kind: TensorType, factor: float | None = None, what: str = "scale") -> dict[str, Any]:
    """Return the fields for an operand's scale and zero point; `factor` replaces the scale."""
    scale_and_zero = quantization(kind)
    fields = {
        f"{name}_{what}": bits_of(scale_and_zero.scale if factor is None else factor),
        f"{name}_zero": scale_and_zero.zero_point,
    }
    return {**fields, "signed" if name == "output" else f"{name}_signed": signed(kind.dtype)}


def _factor(name: str, kind: TensorType, factor: float | None = None) -> dict[str, Any]:
    """Return the multiplier and zero point fields of an operand or the output of a binary instruction."""
    return scaling(name, kind, factor, "multiplier")


def lower_float_binary(call: Call, function: str, fields: dict[str, Any]) -> Parts:
    """Lower a function of two operands that is computed in float32; `fields` hold their scales and zero points."""
    number = NAMES.index(function)
    low, high = bounds(call)

    def make(tile: Tile, at: TileAddresses, grid: Grid) -> Instruction:
        return Binary(
            format=AS_FLOAT32,
            function=number,
            a=at.inputs[0],
            b=at.inputs[1],
            output=at.output,
            rows=tile.rows,
            columns=grid.columns,
            low=low,
            high=high,
            **strides(grid, "a", "b"),
            **fields,
        )

    return works(call, make)


def literal_binary_lowering(function: str) -> Lowering:
    """Return the lowering that dequantizes two operands to float32, computes a function, and quantizes the result."""

    def lower(call: Call, hardware: Hardware) -> Parts:
        fields = {
            **_factor("a", input_type(call)),
            **_factor("b", input_type(call, 1)),
            **_factor("output", call.outputs[0]),
        }
        return lower_float_binary(call, function, fields)

    return Lowering("vector", (on_codes, broadcast_on_npu), lower, (float32_rescale,))


def _lower_fused_sum(call: Call, hardware: Hardware) -> Parts:
    factors = sum_factors(call)
    fields = {
        **_factor("a", input_type(call), float(factors.first)),
        **_factor("b", input_type(call, 1), float(factors.second)),
        **_factor("output", call.outputs[0], float(factors.addend)),
    }
    return lower_float_binary(call, "fused_add", fields)


def _lower_fused_product(call: Call, hardware: Hardware) -> Parts:
    fields = {
        **_factor("a", input_type(call)),
        **_factor("b", input_type(call, 1)),
        **_factor("output", call.outputs[0], float(product_factor(call))),
    }
    return lower_float_binary(call, "fused_mul", fields)


FUSED_SUM, FUSED_PRODUCT = (
    Lowering("vector", (on_codes, broadcast_on_npu), lower, (float32_rescale,))
    for lower in (_lower_fused_sum, _lower_fused_product)
)


def lower_float_average(call: Call, hardware: Hardware) -> Parts:
    """Lower averages over windows, literal or fused."""
    low, high = bounds(call)
    fields: dict[str, Any] = {
        "format": AS_FLOAT32,
        **scaling("input", input_type(call)),
        **scaling("output", call.outputs[0]),
        "low": low,
        "high": high,
        "fused": int(call.parameters.rescale == "fused"),
        "by_columns": int(call.parameters.rescale == "float32" and call.parameters.by_columns),
    }
    return pool_parts(call, lambda window: Pool(**window, **fields))


def lower_largest_code(call: Call, hardware: Hardware) -> Parts:
    """Lower the largest value of each window, for equal scales; the activation's bounds are those of float32."""
    low, high = bounds(call)
    fields: dict[str, Any] = {"low": low, "high": high, "signed": signed(call.outputs[0].dtype)}
    fields["function"] = POOLS.index("maximum")
    return pool_parts(call, lambda window: Pool(**window, **fields))


def varying(call: Call) -> int | None:
    """Return the position of the only operand that is not one constant number; None if there are several."""
    free = [position for position in range(len(call.inputs)) if not _one_number(call, position)]
    if len(free) != 1 or call.inputs[free[0]] is None:
        return None
    return free[0] if input_type(call, free[0]).shape == call.outputs[0].shape else None


def _one_number(call: Call, position: int) -> bool:
    data = call.constants.get(position)
    return isinstance(data, np.ndarray) and data.size == 1


def by_one_number(call: Call) -> bool:
    """on the NPU all operands but one are constants of one number"""
    return varying(call) is not None


def _bytes(call: Call) -> bool:
    """on the NPU the operand and the result are int8 or uint8 tensors with one scale and zero point"""
    position = varying(call)
    operands = [input_type(call, 0 if position is None else position), *call.outputs]
    return all(one_scale(kind) for kind in operands)


Compute = Callable[[Call, list[Array | None]], list[Array]]
"""Computes the results of a call from its values."""


def table_of(compute: Compute, call: Call) -> Array:
    """Return the result of a call for each of the 256 values of its varying operand, in the order of their bytes."""
    place = varying(call)
    assert place is not None
    codes = np.arange(256, dtype=np.uint8).view(input_type(call, place).numpy_dtype)
    constants = {
        position: data.reshape(1)
        for position, data in call.constants.items()
        if position != place and isinstance(data, np.ndarray)
    }
    values: list[Array | None] = [constants.get(position, codes) for position in range(len(call.inputs))]
    inputs = [
        None if kind is None else replace(kind, shape=(256,) if position == place else (1,))
        for position, kind in enumerate(call.inputs)
    ]
    outputs = tuple([replace(kind, shape=(256,)) for kind in call.outputs])
    small = replace(call, inputs=tuple(inputs), outputs=outputs, constants=constants)
    return compute(small, values)[0]


def literal_table_lowering(reference: Reference) -> Lowering:
    """Return the lowering of a function of one operand and numbers: a look-up in the table of `reference` on floats."""
    return table_lowering(lambda call, values: compute_in_float32(reference, call, values))


def table_lowering(compute: Compute) -> Lowering:
    """Return the lowering as a look-up in the table that `compute` gives for quantized values."""

    def lower(call: Call, hardware: Hardware) -> Parts:
        place = varying(call)
        assert place is not None
        return lower_table(call, table_of(compute, call), place)

    return Lowering("vector", (by_one_number, _bytes), lower)
