"""Operators of images and boxes compute on real numbers: codes become reals before, and results codes after."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from npusim.isa.base.tensor import Array, TensorType
from npusim.kernels.operator.operands import code_range, input_value, quantization
from npusim.kernels.operator.operator import Call, Reference, Values


def in_reals(compute: Reference) -> Reference:
    """The reference of codes and halves, from one that takes and gives float32; whole numbers stay what they are."""

    def reference(call: Call, values: Values) -> list[Array]:
        given = zip(call.inputs, values, strict=True)
        reals = [None if tensor is None or value is None else real(tensor, value) for tensor, value in given]
        of_reals = replace(
            call,
            inputs=tuple(None if tensor is None else _as_real(tensor) for tensor in call.inputs),
            outputs=tuple(_as_real(tensor) for tensor in call.outputs),
            constants={},
        )
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            results = compute(of_reals, reals)
            return [stored(tensor, result) for tensor, result in zip(call.outputs, results, strict=True)]

    return reference


def arrays(values: Values, count: int) -> list[Any]:
    """The values of the first inputs, which the operator's rules require to be there."""
    return [input_value(values, position) for position in range(count)]


def _as_real(tensor: TensorType) -> TensorType:
    return TensorType("float32", tensor.shape) if tensor.quantized or tensor.real else tensor


def real(tensor: TensorType, value: Array) -> Array:
    """Codes and halves as float32; what stands for itself as it is."""
    if tensor.real:
        return value.astype(np.float32, copy=False)
    if not tensor.quantized:
        return value
    code = quantization(tensor)
    steps = value.astype(np.float32) - np.float32(code.zero_point)
    numbers: Array = steps * np.float32(code.scale)
    return numbers


def stored(tensor: TensorType, value: Array) -> Array:
    """Float32 as the type of a tensor has it: codes are rounded, halves away from zero, and limited."""
    if not tensor.quantized:
        with np.errstate(over="ignore"):
            return value.astype(tensor.numpy_dtype)
    code = quantization(tensor)
    steps = value.astype(np.float32) / np.float32(code.scale)
    codes = np.trunc(steps + np.copysign(np.float32(0.5), steps)) + code.zero_point
    limited: Array = np.clip(codes, *code_range(tensor.dtype)).astype(tensor.numpy_dtype)
    return limited
