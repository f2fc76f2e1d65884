"""pad: the input with borders of one value."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.isa.hardware.hardware import Hardware
from npusim.kernels.lowering.move import pad_moves
from npusim.kernels.lowering.work import Lowering
from npusim.kernels.operator import rules
from npusim.kernels.operator.operands import input_type, input_value, move
from npusim.kernels.operator.operator import Call, Operator, Shapes


def pad_value(call: Call) -> int | float:
    """What the borders hold: attribute `pad_value` (a code in integer tensors), by default real zero."""
    value: int | float | None = call.attributes.get("pad_value")
    if value is not None:
        return value
    quantization = call.outputs[0].quantization
    return 0 if quantization is None else quantization.zero_point


def _reference(call: Call, values: Sequence[Array | None]) -> list[Array]:
    padding = [tuple(pair) for pair in call.attributes["paddings"]]
    return [np.pad(input_value(values), padding, constant_values=pad_value(call))]


def _a_pair_per_axis(call: Call) -> bool:
    """paddings has two numbers, 0 or more, for each axis"""
    pairs = call.attributes.get("paddings", ())
    whole = all(len(pair) == 2 and min(pair) >= 0 for pair in pairs)
    return whole and len(pairs) == len(input_type(call).shape)


def _infer(call: Call) -> Shapes:
    sizes = zip(input_type(call).shape, call.attributes["paddings"], strict=True)
    return (tuple(size + before + after for size, (before, after) in sizes),)


def _padded_shape(call: Call) -> bool:
    """the output is the input's shape plus its paddings"""
    return _infer(call) == (call.outputs[0].shape,)


def _storable_value(call: Call) -> bool:
    """pad_value is a value of the output's element type"""
    dtype = call.outputs[0].dtype
    if "int" not in dtype:
        return True
    return bool(np.iinfo(dtype).min <= pad_value(call) <= np.iinfo(dtype).max)


def _lower(call: Call, hardware: Hardware) -> Lowering:
    """Fill the output, then copy the input into its middle."""
    return pad_moves(call, int(pad_value(call)))


OPERATOR = Operator(
    name="pad",
    rules=(rules.operands(1), rules.same_type, _a_pair_per_axis, _padded_shape, _storable_value),
    infer=_infer,
    npu_rules=(rules.eight_bit,),
    reference=_reference,
    workload=move,
    lower=_lower,
    unit="dma",
)
