"""Short ways to write a call of an operator in a test."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from npusim.isa.base.tensor import Quantization, TensorType
from npusim.kernels.operator.operator import Call, Operator
from npusim.kernels.operator.parameters import NONE, Parameters
from npusim.kernels.table import operator


def codes(*shape: int, dtype: str = "int8", scale: float = 1.0, zero_point: int = 0) -> TensorType:
    """The type of a tensor with one scale and zero point."""
    return TensorType(dtype, shape, Quantization((scale,), (zero_point,)))


def reals(*shape: int) -> TensorType:
    """The type of a float32 tensor."""
    return TensorType("float32", shape)


def given(name: str, **values: Any) -> Parameters:
    """Parameters of the operator of a name."""
    return operator(name).parameters(**values)


def call_with(
    inputs: Sequence[TensorType | None], outputs: Sequence[TensorType], parameters: Parameters = NONE
) -> Call:
    """A call without constants."""
    return Call(parameters, tuple(inputs), tuple(outputs), {})


def results(entry: Operator, call: Call, *values: Any) -> list[Any]:
    """The outputs of an operator for nested lists of numbers, as nested lists."""
    assert entry.broken_rule(call) is None
    arrays = [
        None if tensor is None else np.array(value, tensor.dtype).reshape(tensor.shape)
        for tensor, value in zip(call.inputs, values, strict=True)
    ]
    found = entry.reference(call, arrays)
    assert [(array.dtype, array.shape) for array in found] == [
        (output.numpy_dtype, output.shape) for output in call.outputs
    ]
    return [array.tolist() for array in found]
