"""Mean over some dimensions. Attributes: axes (sorted, from 0), keep_dims."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from npusim.isa.arithmetic.integer import requantise
from npusim.isa.base.tensor import Array
from npusim.isa.base.workload import Workload
from npusim.kernels.lowering.vector import adjacent_axes, lower_mean
from npusim.kernels.operator import rules
from npusim.kernels.operator.operands import code_range, elementwise, input_type, input_value, quantization
from npusim.kernels.operator.operator import Call, Operator, Shapes
from npusim.kernels.operator.rescale import Multiplier, mean_multiplier, moved_in_32_bits, sound_scales

MOST_CODES = 1 << 23
"""So many 8-bit codes always add up within the 32 bits of an accumulator."""


def averaged(call: Call) -> int:
    """How many elements make up one mean."""
    shape = input_type(call).shape
    return prod(shape[axis] for axis in call.attributes["axes"])


def _axes(call: Call) -> bool:
    """axes are different dimensions of the input, in ascending order"""
    axes = list(call.attributes["axes"])
    return axes == sorted(set(axes)) and all(0 <= axis < len(input_type(call).shape) for axis in axes)


def _infer(call: Call) -> Shapes:
    shape, axes = input_type(call).shape, call.attributes["axes"]
    if call.attributes["keep_dims"]:
        return (tuple(1 if axis in axes else size for axis, size in enumerate(shape)),)
    return (tuple(size for axis, size in enumerate(shape) if axis not in axes),)


def _output_shape(call: Call) -> bool:
    """the output has the input's shape without the averaged dimensions (with keep_dims: as ones)"""
    return _infer(call) == (call.outputs[0].shape,)


def _count(call: Call) -> bool:
    """at least 1 and at most 2**23 elements are averaged"""
    return 1 <= averaged(call) <= MOST_CODES


def _reference(call: Call, values: Sequence[Array | None]) -> list[Array]:
    x: Any = input_value(values)
    ifm, ofm = input_type(call), call.outputs[0]
    axes = tuple(call.attributes["axes"])
    if ifm.dtype == "float32":
        return [np.asarray(x.mean(axis=axes, dtype=np.float32)).reshape(ofm.shape)]
    count = averaged(call)
    sums = np.asarray(x.sum(axis=axes, dtype=np.int32)) - count * quantization(ifm).zero_point
    codes = requantise(
        sums,
        *_multiplier(call),
        quantization(ofm).zero_point,
        *code_range(ofm.dtype),
        ofm.numpy_dtype,
    )
    return [codes.reshape(ofm.shape)]


def _multiplier(call: Call) -> Multiplier:
    return mean_multiplier(input_type(call), call.outputs[0], averaged(call))


def _workload(call: Call) -> Workload:
    return elementwise(call, input_type(call).elements)


OPERATOR = Operator(
    name="mean",
    rules=(
        rules.operands(1),
        rules.computes_on("int8", "uint8", "float32"),
        rules.same_type,
        _axes,
        _output_shape,
        _count,
        sound_scales,
        moved_in_32_bits("input scale / output scale", _multiplier),
    ),
    infer=_infer,
    npu_rules=(rules.eight_bit, adjacent_axes),
    reference=_reference,
    workload=_workload,
    lower=lower_mean,
    unit="vector",
)
