"""Arithmetic of plain numbers: integers and floats without scales."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Any

import numpy as np

from npusim.isa.arithmetic.real import BINARY_BY_NAME
from npusim.isa.base.tensor import Array
from npusim.kernels.lowering.float_lanes import float_binary_lowering, whole_binary_lowering
from npusim.kernels.operator import operands, rules
from npusim.kernels.operator.broadcast import Combine, of_numbers
from npusim.kernels.operator.element_types import alike
from npusim.kernels.operator.operands import by_type, elementwise, input_value, like_input, with_halves
from npusim.kernels.operator.operator import Call, Lowering, Operator, Values
from npusim.kernels.operators.elementwise.sums_and_products import floored


def numeric_operator(name: str, functions: Mapping[str, Combine], *more: Lowering) -> Operator:
    """Return the operator with a function for each element type; float16 is that of float32.

    more: lowerings beside that of floats.
    """
    references = with_halves({dtype: of_numbers(function) for dtype, function in functions.items()})
    return Operator(
        name=name,
        types=alike(*references),
        rules=(rules.operands(2), rules.broadcast_shapes),
        infer=operands.broadcast,
        reference=by_type(references),
        workload=elementwise,
        lowerings=(float_binary_lowering(name), *more),
    )


FLOOR_DIV = numeric_operator(
    "floor_div",
    {
        **dict.fromkeys(("int8", "int16", "int32", "int64"), floored),
        "float32": BINARY_BY_NAME["floor_div"].compute,
    },
)
"""The quotient rounded toward minus infinity; operands broadcast."""


FLOOR_MOD = numeric_operator(
    "floor_mod",
    {
        **dict.fromkeys(("int8", "int16", "int32", "int64"), np.mod),
        "float32": BINARY_BY_NAME["floor_mod"].compute,
    },
    whole_binary_lowering("floor_mod"),
)
"""The remainder of the quotient that `floor_div` gives, with the sign of the divisor; operands broadcast."""


_SMALLEST = -(1 << 31)


def _whole(a: Any, b: Any) -> Any:
    """Compute a power as LiteRT does.

    One exponent for many numbers is a product that wraps. Otherwise the power is a float value cut off toward zero, and
    what 32 bits cannot hold is -2**31, as the processor converts it. LiteRT refuses exponents below zero.
    """
    if b.size == 1 and a.shape != b.shape:
        shape = np.broadcast_shapes(a.shape, b.shape)
        return np.broadcast_to(_product(a, max(int(b.ravel()[0]), 0)), shape)
    power = np.power(a.astype(np.float64), b)
    return np.where(np.abs(power) < -_SMALLEST, np.trunc(power), _SMALLEST).astype(np.int64)


def _product(a: Any, times: int) -> Any:
    """Return a multiplied `times` times with itself, in 32 bits."""
    result, square = np.ones_like(a), a
    while times:
        if times & 1:
            result = result * square
        square = square * square
        times >>= 1
    return result


def _wide(a: Any, b: Any) -> Any:
    """Compute a power in 64 bits, which LiteRT does not have: products wrap.

    A negative power is 0 except for 1 and -1.
    """
    inverse = np.where(a == 1, 1, np.where(a == -1, 1 - 2 * (b & 1), 0))
    return np.where(b < 0, inverse, np.power(a, np.maximum(b, 0)))


POW = numeric_operator("pow", {"int32": _whole, "int64": _wide, "float32": BINARY_BY_NAME["pow"].compute})
"""The first operand to the power of the second; operands broadcast."""


def _one_shape(call: Call) -> bool:
    """takes 1 input or more, none absent, and gives 1 output; all have one shape"""
    shapes = {None if tensor is None else tensor.shape for tensor in call.inputs}
    return len(call.outputs) == 1 and shapes == {call.outputs[0].shape}


def _sum(call: Call, values: Values) -> list[Array]:
    """Add the operands from the first to the last."""
    with np.errstate(all="ignore"):
        return [np.asarray(reduce(np.add, [input_value(values, i) for i in range(len(values))]))]


REFERENCES = with_halves({"int32": _sum, "int64": _sum, "float32": _sum})

ADD_N = Operator(
    name="add_n",
    types=alike(*REFERENCES),
    rules=(_one_shape,),
    infer=like_input,
    reference=by_type(REFERENCES),
    workload=elementwise,
    on_host="has no quantized form, and instructions take two operands",
)
"""Sum of any number of tensors of one shape."""


OPERATORS = (
    FLOOR_DIV,
    FLOOR_MOD,
    POW,
    ADD_N,
)
