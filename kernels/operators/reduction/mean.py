"""Mean over some dimensions."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from npusim.isa.arithmetic.integer import requantise
from npusim.isa.base.tensor import Array
from npusim.isa.base.workload import Workload
from npusim.kernels.lowering.vector import adjacent_axes, lower_mean
from npusim.kernels.operator import parameters, rules
from npusim.kernels.operator.element_types import alike
from npusim.kernels.operator.operands import (
    by_type,
    code_range,
    elementwise,
    input_type,
    input_value,
    quantization,
)
from npusim.kernels.operator.operator import Call, Lowering, Operator, Shapes, Values
from npusim.kernels.operator.parameters import Sizes
from npusim.kernels.operator.rescale import Multiplier, mean_multiplier, moved_in_32_bits, sound_scales

MOST_CODES = 1 << 23
"""So many 8-bit codes always add up within the 32 bits of an accumulator."""


class Parameters(parameters.Parameters):
    """axes: the averaged dimensions, counted from the front; keep_dims: they stay, with one element each."""

    axes: Sizes
    keep_dims: bool = False


def averaged(call: Call[Parameters]) -> int:
    """How many elements make up one mean."""
    shape = input_type(call).shape
    return prod(shape[axis] for axis in call.parameters.axes)


def _axes(call: Call[Parameters]) -> bool:
    """axes are different dimensions of the input, in ascending order"""
    axes = list(call.parameters.axes)
    return axes == sorted(set(axes)) and all(axis < len(input_type(call).shape) for axis in axes)


def _infer(call: Call[Parameters]) -> Shapes:
    shape, axes = input_type(call).shape, call.parameters.axes
    if call.parameters.keep_dims:
        return (tuple(1 if axis in axes else size for axis, size in enumerate(shape)),)
    return (tuple(size for axis, size in enumerate(shape) if axis not in axes),)


def _output_shape(call: Call) -> bool:
    """the output has the input's shape without the averaged dimensions (with keep_dims: as ones)"""
    return _infer(call) == (call.outputs[0].shape,)


def _count(call: Call) -> bool:
    """at least 1 and at most 2**23 elements are averaged"""
    return 1 <= averaged(call) <= MOST_CODES


def _codes(call: Call[Parameters], values: Values) -> list[Array]:
    x: Any = input_value(values)
    ofm, count = call.outputs[0], averaged(call)
    sums = np.asarray(x.sum(axis=call.parameters.axes, dtype=np.int32))
    codes = requantise(
        sums - count * quantization(input_type(call)).zero_point,
        *_multiplier(call),
        quantization(ofm).zero_point,
        *code_range(ofm.dtype),
        ofm.numpy_dtype,
    )
    return [codes.reshape(ofm.shape)]


def _reals(call: Call[Parameters], values: Values) -> list[Array]:
    x: Any = input_value(values)
    return [np.asarray(x.mean(axis=call.parameters.axes, dtype=np.float32)).reshape(call.outputs[0].shape)]


def _multiplier(call: Call) -> Multiplier:
    return mean_multiplier(input_type(call), call.outputs[0], averaged(call))


def _workload(call: Call) -> Workload:
    return elementwise(call, input_type(call).elements)


REFERENCES = {"int8": _codes, "uint8": _codes, "float32": _reals}

OPERATOR = Operator(
    name="mean",
    parameters=Parameters,
    types=alike(*REFERENCES),
    rules=(
        rules.operands(1),
        rules.per_tensor,
        _axes,
        _output_shape,
        _count,
        sound_scales,
        moved_in_32_bits("input scale / output scale", _multiplier),
    ),
    infer=_infer,
    reference=by_type(REFERENCES),
    workload=_workload,
    lowerings=(Lowering("vector", (rules.eight_bit, adjacent_axes), lower_mean),),
)
