"""The cast operator: the same numbers in another element type.

Quantized values are cast as plain integers, without their scale.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from npusim.isa.base.elements import names
from npusim.isa.base.tensor import Array
from npusim.isa.hardware.hardware import Hardware
from npusim.kernels.lowering.float_lanes import float32_lanes, lower_float_convert, wide_to_float
from npusim.kernels.lowering.move import lower_copy
from npusim.kernels.lowering.vector_work import lower_table
from npusim.kernels.lowering.work import Parts
from npusim.kernels.operator import parameters, rules
from npusim.kernels.operator.operands import elementwise, input_type, input_value, like_input
from npusim.kernels.operator.operator import Alias, Call, Lowering, Operator, Values
from npusim.kernels.operators.movement.shape_changes import alias


class Parameters(parameters.Parameters):
    """saturating: integers beyond the output's type become its nearest one (NNAPI); otherwise they wrap.

    wrapping: floats beyond types of less than 32 bits wrap, too, as in compiled C (NNAdapter); otherwise they
    become the nearest number.
    """

    saturating: bool = False
    wrapping: bool = False


def _reference(call: Call[Parameters], values: Values) -> list[Array]:
    x: Any = input_value(values)
    output = call.outputs[0]
    whole = output.element.kind in _WHOLE
    with np.errstate(all="ignore"):
        if whole and x.dtype.kind == "f" and call.parameters.wrapping and output.element.bits < 32:
            return [_whole(x.astype(np.float64), "int32").astype(output.numpy_dtype)]
        if whole and x.dtype.kind == "f":
            return [_whole(x.astype(np.float64), output.dtype)]
        if whole and call.parameters.saturating and x.dtype.kind in "iu":
            limits = np.iinfo(output.dtype)
            least, most = max(limits.min, np.iinfo(x.dtype).min), min(limits.max, np.iinfo(x.dtype).max)
            x = np.clip(x, least, most)
        return [x.astype(output.numpy_dtype)]


def _whole(floats: Any, dtype: str) -> Array:
    """Convert to integers toward zero; values beyond the type become its nearest number, NaN its largest."""
    limits = np.iinfo(dtype)
    inside = np.where((floats > limits.min) & (floats < limits.max), floats, 0).astype(dtype)
    outside = np.where(floats <= limits.min, np.array(limits.min, dtype), np.array(limits.max, dtype))
    result: Array = np.where((floats > limits.min) & (floats < limits.max), inside, outside)
    return result


def _same_bytes(call: Call[Parameters]) -> bool:
    """the output has the bytes of the input: the same type, or integers of the same width that wrap"""
    before, after = input_type(call).element, call.outputs[0].element
    if before.kind == after.kind and before.bits == after.bits:
        return True
    whole = after.kind in _WHOLE and before.bits == after.bits
    return whole and (before.kind == "truth" or (before.kind in _WHOLE and not call.parameters.saturating))


def _alias(call: Call[Parameters]) -> tuple[Alias, ...] | None:
    return alias(call) if _same_bytes(call) else None


def _of_bytes(call: Call) -> bool:
    """on the NPU the input has 8 bits and the output at most 32"""
    return input_type(call).element.bits == 8 and call.outputs[0].element.bits <= 32


def _lower(call: Call[Parameters], hardware: Hardware) -> Parts:
    source = input_type(call)
    every = np.arange(256, dtype=np.uint8)
    values = every != 0 if source.dtype == "bool" else every.view(source.numpy_dtype)
    [table] = _reference(call, [values])
    return lower_table(call, table)


_WHOLE = ("signed", "unsigned")
_TYPES = "|".join(name for name in names() if not name.startswith("complex"))

CAST = Operator(
    name="cast",
    parameters=Parameters,
    types=(f"{_TYPES} -> {_TYPES}",),
    rules=(rules.operands(1), rules.same_shape),
    infer=like_input,
    reference=_reference,
    workload=elementwise,
    lowerings=(
        Lowering("dma", (_same_bytes,), lower_copy),
        Lowering("vector", (_of_bytes,), _lower),
        Lowering(
            "vector",
            (wide_to_float,),
            lambda call, hardware: lower_float_convert(call, scaled=False),
            (float32_lanes,),
        ),
    ),
    alias=_alias,
)

OPERATORS = (CAST,)
