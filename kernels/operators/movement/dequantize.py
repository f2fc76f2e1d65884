"""dequantize: integer codes to the real numbers that they stand for."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from npusim.isa.base.tensor import Array, Quantization
from npusim.isa.hardware.hardware import Hardware
from npusim.kernels.lowering.elementwise import MOST_PARTS
from npusim.kernels.lowering.vector import lower_table, lower_tables
from npusim.kernels.lowering.work import Parts
from npusim.kernels.operator import rules
from npusim.kernels.operator.in_reals import reals_of_codes
from npusim.kernels.operator.operands import (
    by_type,
    elementwise,
    input_type,
    input_value,
    like_input,
    quantization,
)
from npusim.kernels.operator.operator import Call, Lowering, Operator, Values


def _codes(call: Call, values: Values) -> list[Array]:
    reals = reals_of_codes(input_value(values), input_type(call))
    with np.errstate(over="ignore"):  # reals beyond the output's type become infinite
        return [reals.astype(call.outputs[0].numpy_dtype, copy=False)]


def _halves(call: Call, values: Values) -> list[Array]:
    return [input_value(values).astype(call.outputs[0].numpy_dtype)]


def _scaled_codes(call: Call) -> bool:
    """whole numbers have a scale and a zero point"""
    return input_type(call).quantized or input_type(call).real


def _bytes(call: Call) -> bool:
    """the NPU looks the reals of 8-bit codes up"""
    return input_type(call).quantized8


def _few_tables(call: Call) -> bool:
    """on the NPU codes with a scale per channel are in at most 64 runs of one channel"""
    tensor, axis = input_type(call), quantization(input_type(call)).axis
    return axis is None or prod(tensor.shape[: axis + 1]) <= MOST_PARTS


def _lower(call: Call, hardware: Hardware) -> Parts:
    """A look-up in the reals of all codes, of each channel its own."""
    source, scaling = input_type(call), quantization(input_type(call))
    every = np.arange(256, dtype=np.uint8).view(source.numpy_dtype)
    kinds = zip(scaling.scales, scaling.zero_points, strict=True)
    tables = []
    for scale, zero_point in kinds:
        one = replace(source, quantization=Quantization((scale,), (zero_point,)))
        [table] = _codes(replace(call, inputs=(one,)), [every])
        tables.append(table)
    return lower_table(call, tables[0]) if scaling.axis is None else lower_tables(call, tables, scaling.axis)


REFERENCES = {**dict.fromkeys(("int8", "uint8", "int16", "uint16", "int32"), _codes), "float16": _halves}

OPERATOR = Operator(
    name="dequantize",
    types=tuple(f"{dtype} -> float32|float16" for dtype in REFERENCES),
    rules=(rules.operands(1), _scaled_codes, rules.same_shape),
    infer=like_input,
    reference=by_type(REFERENCES),
    workload=elementwise,
    lowerings=(Lowering("vector", (_bytes, _few_tables), _lower),),
)
