"""Vectors of one number per channel: their rule, and how they broadcast with what has the channels."""

from __future__ import annotations

from npusim.kernels.operator.axes import Along, axis_of
from npusim.kernels.operator.operands import input_type
from npusim.kernels.operator.operator import Call


def per_channel(call: Call[Along]) -> bool:
    """every operand but the first has one number per channel"""
    channels = (input_type(call).shape[axis_of(call)],)
    return all(input_type(call, i).shape == channels for i in range(1, len(call.inputs)))


def along_channels(call: Call[Along]) -> tuple[int, ...]:
    """The shape under which such a vector broadcasts with the first operand."""
    shape, axis = input_type(call).shape, axis_of(call)
    return (shape[axis],) + (1,) * (len(shape) - 1 - axis)
