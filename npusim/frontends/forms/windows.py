"""Windows over images: size, strides, dilations and padding of convolutions and pools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from npusim.kernels.operator.geometry import same_padding
from npusim.kernels.operator.parameters import Border

NO_BORDER: Border = (0, 0)


class Window(NamedTuple):
    """What slides over the axes of an image, outermost first.

    said: the padding that counts in averages; `padding` may have more behind, for a last window that is not full.
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


class Requiring(Protocol):
    """A conversion as far as windows need one."""

    def require(self, holds: bool, text: str) -> None:
        """Raise the front end's error with a text where something does not hold."""


def fitted(c: Requiring, extents: Sequence[int], window: Window) -> Window:
    """Return a window that has an extent, and a position on every axis. Raises the front end's error for others."""
    c.require(min(window.size, default=1) > 0, f"the window {list(window.size)} has an extent below 1")
    c.require(
        min(window.positions(extents), default=1) > 0,
        f"the window {list(window.size)} does not fit into {list(extents)} with pads {[*map(list, window.padding)]}",
    )
    return window


def same(
    extents: Sequence[int], size: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> tuple[Border, ...]:
    """Return the padding that gives ceil(extent / stride) windows, the odd element behind the image."""
    return tuple(same_padding(*axis) for axis in zip(extents, size, stride, dilation, strict=True))


def rounded_up(extents: Sequence[int], window: Window, *, within: bool = True) -> Window:
    """Return the window with so much more padding behind that a last window that is not full counts, too.

    within: only if it begins within the image or the padding before it.
    """
    filled = []
    for axis, extent in enumerate(extents):
        stride, border = window.stride[axis], window.padding[axis]
        reach = (window.size[axis] - 1) * window.dilation[axis] + 1
        count = -(-(extent + sum(border) - reach) // stride) + 1
        if within and (count - 1) * stride >= extent + border[0]:
            count -= 1
        filled.append((border[0], max((count - 1) * stride + reach - extent - border[0], 0)))
    return window._replace(padding=tuple(filled))
