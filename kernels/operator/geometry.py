"""Windows that slide over height and width: their parameters, and the size of the output."""

from __future__ import annotations

from collections.abc import Sequence

from npusim.kernels.operator.operands import input_type
from npusim.kernels.operator.operator import Call, Rule
from npusim.kernels.operator.parameters import NO_BORDERS, Activated, Border, Borders, Pair


class Window(Activated):
    """Parameters of operators that slide a window over an image: strides and padding, as (height, width)."""

    strides: Pair = (1, 1)
    padding: Borders = NO_BORDERS


def positions(size: int, kernel: int, stride: int, dilation: int, padding: Sequence[int]) -> int:
    """Return how many windows fit along one axis; 0 or less if none fits."""
    extent = (kernel - 1) * dilation + 1
    return (size + sum(padding) - extent) // stride + 1


def covered(count: int, kernel: int, stride: int, dilation: int = 1) -> int:
    """Return how many elements of one axis lie between the first and the last tap of `count` windows, both included."""
    return (count - 1) * stride + (kernel - 1) * dilation + 1


def same_padding(size: int, kernel: int, stride: int, dilation: int = 1) -> Border:
    """Return the padding before and after that gives ceil(size / stride) windows; an odd one goes after."""
    total = max(covered(-(-size // stride), kernel, stride, dilation) - size, 0)
    return total // 2, total - total // 2


def image_ranks(call: Call) -> bool:
    """input and output have four dimensions: batch, height, width, channels, and only the batch may be empty"""
    shapes = (input_type(call).shape, call.outputs[0].shape)
    return all(len(shape) == 4 and min(shape[1:]) > 0 for shape in shapes)


def window_shape(call: Call[Window], kernel: Sequence[int], dilations: Sequence[int] = (1, 1)) -> Pair:
    """Return height and width of the output of a window of `kernel` (height, width)."""
    strides, padding = call.parameters.strides, call.parameters.padding
    sizes = zip(input_type(call).shape[1:3], kernel, strides, dilations, padding, strict=True)
    height, width = (positions(*axis) for axis in sizes)
    return height, width


def limited(names: Sequence[str], most: int) -> Rule:
    """Return the NPU rule that the pairs of these parameters are within 1..most."""

    def rule(call: Call) -> bool:
        return all(number <= most for name in names for number in getattr(call.parameters, name))

    verb = "are" if names[-1].endswith("s") else "is"
    rule.__doc__ = f"on the NPU {' and '.join(names)} {verb} 1..{most}"
    return rule


def padding_on_npu(call: Call[Window]) -> bool:
    """on the NPU padding is 0..255 on each side"""
    return all(side <= 255 for pair in call.parameters.padding for side in pair)


def maps_on_npu(call: Call) -> bool:
    """on the NPU feature maps are at most 65535 high and wide"""
    return max(*input_type(call).shape[1:3], *call.outputs[0].shape[1:3]) <= 65535
