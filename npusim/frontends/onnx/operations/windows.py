"""Windows over images: kernel, strides, dilations, padding of convolutions and pools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from npusim.frontends.onnx.operations.conversion import Conversion
from npusim.kernels.operator.parameters import Border

NO_BORDER: Border = (0, 0)


class Window(NamedTuple):
    """What slides over the axes of an image, outermost first.

    said: the padding of the file; `padding` may have more behind, for a last window that is not full.
    """

    size: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    padding: tuple[Border, ...]
    said: tuple[Border, ...] = ()

    def positions(self, extents: Sequence[int]) -> list[int]:
        """How many windows there are along each axis."""
        return [
            (extent + sum(border) - (size - 1) * dilation - 1) // stride + 1
            for extent, size, stride, dilation, border in zip(extents, *self[:4], strict=True)
        ]

    def after(self, outer: Window) -> Window:
        """The window along the axes of another one and then its own."""
        return Window(*(first + own for first, own in zip(outer, self, strict=True)))  # type: ignore[arg-type]


def window_of(c: Conversion, extents: Sequence[int], size: Sequence[int], *, ceil: bool = False) -> Window:
    """The window of a node over an image of these extents. Raises GraphError for attributes that are none.

    ceil: a last window that is not full counts, if it begins within the image or the padding before it.
    """
    rank = len(extents)
    stride, dilation = steps(c, "strides", rank), steps(c, "dilations", rank)
    c.require(min(size, default=1) > 0, f"the window {list(size)} has an extent below 1")
    padding = said = paddings(c, extents, size, stride, dilation)
    if ceil:
        padding = tuple(
            _filled(extent, (kernel - 1) * far + 1, step, border)
            for extent, kernel, far, step, border in zip(extents, size, dilation, stride, said, strict=True)
        )
    window = Window(tuple(size), stride, dilation, padding, said)
    c.require(
        min(window.positions(extents), default=1) > 0,
        f"the window {list(size)} does not fit into {list(extents)} with pads {[*map(list, padding)]}",
    )
    return window


def paddings(
    c: Conversion, extents: Sequence[int], size: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> tuple[Border, ...]:
    """The attributes `pads` and `auto_pad`."""
    rank = len(extents)
    pads = [int(number) for number in c.attribute("pads", ()) or (0,) * (2 * rank)]
    c.require(len(pads) == 2 * rank and min(pads) >= 0, f"pads {pads} are not {2 * rank} numbers, 0 or more")
    automatic = c.attribute("auto_pad", "NOTSET")
    c.require(automatic in ("NOTSET", "", "VALID", "SAME_UPPER", "SAME_LOWER"), f"auto_pad is {automatic!r}")
    if automatic == "VALID":
        return (NO_BORDER,) * rank
    if not automatic.startswith("SAME"):
        return tuple(zip(pads[:rank], pads[rank:], strict=True))
    padding = []
    for axis in range(rank):
        reach = (size[axis] - 1) * dilation[axis] + 1
        over = max((-(-extents[axis] // stride[axis]) - 1) * stride[axis] + reach - extents[axis], 0)
        less, more = over // 2, over - over // 2
        padding.append((less, more) if automatic == "SAME_UPPER" else (more, less))
    return tuple(padding)


def _filled(extent: int, reach: int, stride: int, border: Border) -> Border:
    """A border with so much more behind that the last window is full."""
    over = extent + sum(border) - reach
    count = -(-over // stride) + 1
    if (count - 1) * stride >= extent + border[0]:
        count -= 1
    return border[0], max((count - 1) * stride + reach - extent - border[0], 0)


def steps(c: Conversion, name: str, rank: int) -> tuple[int, ...]:
    """An attribute with a number of 1 or more for each axis, ones where it is not said."""
    numbers = tuple(int(number) for number in c.attribute(name, ()) or (1,) * rank)
    c.require(
        len(numbers) == rank and min(numbers, default=1) > 0,
        f"{name} {list(numbers)} are not {rank} numbers, 1 or more",
    )
    return numbers
