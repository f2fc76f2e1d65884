"""Windows that slide over height and width: their attributes and what size of output they give."""

from __future__ import annotations

from collections.abc import Sequence

from npusim.kernels.operator.operands import input_type
from npusim.kernels.operator.operator import Call, Rule

Pair = tuple[int, int]


def positions(size: int, kernel: int, stride: int, dilation: int, padding: Sequence[int]) -> int:
    """How many windows fit along one axis; 0 or less if not one does."""
    extent = (kernel - 1) * dilation + 1
    return (size + sum(padding) - extent) // stride + 1


def image_ranks(call: Call) -> bool:
    """input and output have four dimensions: batch, height, width, channels, and only the batch may be empty"""
    shapes = (input_type(call).shape, call.outputs[0].shape)
    return all(len(shape) == 4 and min(shape[1:]) > 0 for shape in shapes)


def window_attributes(call: Call) -> bool:
    """strides, dilations and filter are pairs of numbers from 1 on, padding is two pairs from 0 on"""
    attributes = call.attributes
    sizes = [attributes[name] for name in ("strides", "dilations", "filter") if name in attributes]
    padding = attributes["padding"]
    return (
        all(len(pair) == 2 and min(pair) > 0 for pair in sizes)
        and len(padding) == 2
        and all(len(pair) == 2 and min(pair) >= 0 for pair in padding)
    )


def window_shape(kernel: Sequence[int], call: Call) -> Pair:
    """Height and width of the output of a window of `kernel` (height, width)."""
    attributes, shape = call.attributes, input_type(call).shape
    dilations = attributes.get("dilations", (1, 1))
    height, width = (
        positions(*axis)
        for axis in zip(
            shape[1:3], kernel, attributes["strides"], dilations, attributes["padding"], strict=True
        )
    )
    return height, width


def limited(names: Sequence[str], most: int) -> Rule:
    """The NPU rule that the pairs of these attributes lie in 1..most."""

    def rule(call: Call) -> bool:
        return all(1 <= number <= most for name in names for number in call.attributes[name])

    rule.__doc__ = f"on the NPU {' and '.join(names)} are 1..{most}"
    return rule


def padding_on_npu(call: Call) -> bool:
    """on the NPU padding is 0..255 on each side"""
    return all(side <= 255 for pair in call.attributes["padding"] for side in pair)


def maps_on_npu(call: Call) -> bool:
    """on the NPU feature maps are at most 65535 high and wide"""
    return max(*input_type(call).shape[1:3], *call.outputs[0].shape[1:3]) <= 65535
