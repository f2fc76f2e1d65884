"""The attributes of windows: strides, dilations, pads, auto_pad."""

from __future__ import annotations

from collections.abc import Sequence

from npusim.frontends.forms.node_conversion import NodeConversion
from npusim.frontends.forms.windows import NO_BORDER, Window, fitted, rounded_up, same
from npusim.kernels.operator.parameters import Border


def window_of(
    c: NodeConversion, extents: Sequence[int], size: Sequence[int], *, ceil: bool = False
) -> Window:
    """The window of a node over an image of these extents. Raises GraphError for attributes that are none.

    ceil: a last window that is not full counts, if it begins within the image or the padding before it.
    """
    rank = len(extents)
    stride, dilation = steps(c, "strides", rank), steps(c, "dilations", rank)
    padding = paddings(c, extents, size, stride, dilation)
    window = Window(tuple(size), stride, dilation, padding, padding)
    return fitted(c, extents, rounded_up(extents, window) if ceil else window)


def paddings(
    c: NodeConversion,
    extents: Sequence[int],
    size: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
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
    padding = same(extents, size, stride, dilation)
    return padding if automatic == "SAME_UPPER" else tuple((more, less) for less, more in padding)


def steps(c: NodeConversion, name: str, rank: int) -> tuple[int, ...]:
    """An attribute with a number of 1 or more for each axis, ones where it is not said."""
    numbers = tuple(int(number) for number in c.attribute(name, ()) or (1,) * rank)
    c.require(
        len(numbers) == rank and min(numbers, default=1) > 0,
        f"{name} {list(numbers)} are not {rank} numbers, 1 or more",
    )
    return numbers
