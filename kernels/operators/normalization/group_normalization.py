"""group_normalization: channels of every image in groups, each group brought to mean 0 and variance 1, then scaled."""

from __future__ import annotations

from npusim.kernels.operator import rules
from npusim.kernels.operator.axes import Along, an_axis, axis_of
from npusim.kernels.operator.operands import input_type
from npusim.kernels.operator.operator import Call
from npusim.kernels.operator.parameters import Count
from npusim.kernels.operators.normalization.channels import along_channels, per_channel
from npusim.kernels.operators.normalization.moments import moments_operator


class Parameters(Along):
    """scale * (x - mean) / sqrt(variance + epsilon) + bias, scale and bias per channel.

    axis: that of the channels; the first axis is that of the images. groups: how many, of neighbouring channels.
    """

    groups: Count = 1
    epsilon: float = 1e-5


def _images(call: Call[Parameters]) -> bool:
    """the axis of the channels is not the first one"""
    return axis_of(call) > 0


def _whole_groups(call: Call[Parameters]) -> bool:
    """groups divides the number of channels"""
    return input_type(call).shape[axis_of(call)] % call.parameters.groups == 0


def _sizes(call: Call[Parameters]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The axis of the channels as one of groups and one within a group: all but images and groups are averaged."""
    shape, axis, groups = input_type(call).shape, axis_of(call), call.parameters.groups
    grouped = (*shape[:axis], groups, shape[axis] // groups, *shape[axis + 1 :])
    return grouped, tuple(at for at in range(1, len(grouped)) if at != axis)


OPERATOR = moments_operator(
    "group_normalization",
    Parameters,
    (rules.operands(3), rules.same_shape, an_axis, _images, per_channel, _whole_groups),
    _sizes,
    along_channels,
)
