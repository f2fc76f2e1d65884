"""Windows that slide along axes: their steps, what lies around a tensor, and images of two of its axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from npusim.frontends.nnef.operations.call_conversion import CallConversion
from npusim.kernels.operator.geometry import positions, same_padding
from npusim.kernels.operator.parameters import Border

NO_BORDER: Border = (0, 0)

LOWEST = -3.4028234663852886e38
"""Of float32."""


@dataclass(frozen=True, slots=True)
class Window:
    """A window by its extents along each axis, the steps between windows and taps, and what lies before and behind."""

    size: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    padding: tuple[Border, ...]

    def axes(self) -> list[int]:
        """The axes along which it does anything."""
        return [
            axis
            for axis, (size, stride, border) in enumerate(
                zip(self.size, self.stride, self.padding, strict=True)
            )
            if size > 1 or stride > 1 or border != NO_BORDER
        ]

    def positions(self, extents: Sequence[int]) -> list[int]:
        """How many windows there are along each axis."""
        axes = zip(extents, self.size, self.stride, self.dilation, self.padding, strict=True)
        return [positions(*axis) for axis in axes]


def per_axis(c: CallConversion, name: str, rank: int) -> list[int]:
    """An attribute with a number of 1 or more for each axis; [] is ones."""
    numbers = c.wholes(name) or [1] * rank
    fits = len(numbers) == rank and min(numbers) >= 1
    c.require(fits, f"{name} {numbers} is not one number above 0 for each of {rank} axes")
    return numbers


def window_of(c: CallConversion, extents: Sequence[int], size: Sequence[int]) -> Window:
    """The window of a call over these extents; padding [] is automatic (rule S4)."""
    rank = len(extents)
    stride, dilation = per_axis(c, "stride", rank), per_axis(c, "dilation", rank)
    said: list[Border] = [tuple(pair) for pair in c.value("padding")]
    automatic = [same_padding(*axis) for axis in zip(extents, size, stride, dilation, strict=True)]
    c.require(
        len(said) in (0, rank) and min((min(pair) for pair in said), default=0) >= 0,
        f"padding {said} is not a pair of numbers, 0 or more, for each of {rank} axes",
    )
    window = Window(tuple(size), tuple(stride), tuple(dilation), tuple(said or automatic))
    c.require(
        min(window.positions(extents), default=1) > 0,
        f"the window {list(size)} does not fit into {list(extents)} with padding {[*map(list, window.padding)]}",
    )
    return window


def sized(c: CallConversion, extents: Sequence[int]) -> list[int]:
    """The attribute `size`."""
    size = c.wholes("size")
    fits = len(size) == len(extents) and min(size, default=1) >= 1
    c.require(fits, f"size {size} is not one number above 0 for each axis of {list(extents)}")
    return size


def padded(c: CallConversion, tensor: int, pairs: Sequence[Border], border: str, value: float = 0.0) -> int:
    """A tensor with what a border mode puts around it; 'ignore' has zeros here."""
    shape = c.shape(tensor)
    pairs = tuple(pairs)
    fits = len(pairs) == len(shape) and min((min(pair) for pair in pairs), default=0) >= 0
    c.require(
        fits,
        f"padding {[*map(list, pairs)]} is not a pair of numbers, 0 or more, for each axis of {list(shape)}",
    )
    if all(pair == NO_BORDER for pair in pairs):
        return tensor
    if border == "replicate":
        return c.moved("edge_pad", [tensor], paddings=pairs)[0]
    if border in ("reflect", "reflect-even"):
        even = border == "reflect-even"
        for extent, pair in zip(shape, pairs, strict=True):
            c.require(max(pair) < extent + even, f"padding {pair} mirrors more than extent {extent} has")
        return c.moved("mirror_pad", [tensor], paddings=pairs, mode="symmetric" if even else "reflect")[0]
    kind = c.builder.type(tensor)
    if value == 0.0:
        return c.moved("pad", [tensor], paddings=pairs)[0]
    if kind.quantization is not None:
        step = round(value / kind.quantization.scale) + kind.quantization.zero_point
        least, most = kind.element.limits
        return c.moved("pad", [tensor], paddings=pairs, pad_value=min(max(step, least), most))[0]
    return c.moved("pad", [tensor], paddings=pairs, pad_value=value)[0]
