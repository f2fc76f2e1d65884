"""add_n: sum of any number of tensors of one shape."""

from __future__ import annotations

from functools import reduce

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.kernels.operator.element_types import alike
from npusim.kernels.operator.operands import by_type, elementwise, input_value, like_input, with_halves
from npusim.kernels.operator.operator import Call, Operator, Values


def _one_shape(call: Call) -> bool:
    """takes 1 input or more, all there and of the shape of the only output"""
    shapes = {None if tensor is None else tensor.shape for tensor in call.inputs}
    return len(call.outputs) == 1 and shapes == {call.outputs[0].shape}


def _sum(call: Call, values: Values) -> list[Array]:
    """From the first to the last."""
    with np.errstate(all="ignore"):
        return [np.asarray(reduce(np.add, [input_value(values, i) for i in range(len(values))]))]


REFERENCES = with_halves({"int32": _sum, "int64": _sum, "float32": _sum})

OPERATOR = Operator(
    name="add_n",
    types=alike(*REFERENCES),
    rules=(_one_shape,),
    infer=like_input,
    reference=by_type(REFERENCES),
    workload=elementwise,
    on_host="has no quantized form, and instructions take two operands",
)
