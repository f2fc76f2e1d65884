"""Windows that slide along axes: size, strides, dilations and padding of convolutions and pools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from npusim.frontends.forms.conversion import Conversion
from npusim.kernels.operator.geometry import covered, positions, same_padding
from npusim.kernels.operator.parameters import Border

NO_BORDER: Border = (0, 0)


class Window(NamedTuple):
    """A window that slides along axes of a tensor: one entry per axis, outermost first.

    size:     elements that it takes.
    stride:   elements from one window to the next.
    dilation: elements from one of its taps to the next.
    padding:  elements around the tensor, before and behind.
    counted_padding: the padding that counts in averages; `padding` may have more behind, for a last partial window.
    """

    size: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    padding: tuple[Border, ...]
    counted_padding: tuple[Border, ...]

    @property
    def dilated(self) -> bool:
        """Whether any two neighbouring taps of the window are more than one element apart."""
        return any(size > 1 and step > 1 for size, step in zip(self.size, self.dilation, strict=True))

    @property
    def active(self) -> list[int]:
        """The axes along which the window has an effect."""
        axes = enumerate(zip(self.size, self.stride, self.padding, strict=True))
        return [axis for axis, taps in axes if taps != (1, 1, NO_BORDER)]

    @property
    def pool(self) -> dict[str, Any]:
        """The parameters of a pool along height and width."""
        return {"filter": self.size, "strides": self.stride, "padding": self.padding}

    @property
    def steps(self) -> dict[str, Any]:
        """The parameters of a convolution along height and width."""
        return {"strides": self.stride, "dilations": self.dilation, "padding": self.padding}

    def positions(self, extents: Sequence[int]) -> list[int]:
        """Return the number of windows along each axis."""
        return [positions(*axis) for axis in zip(extents, *self[:4], strict=True)]

    def after(self, outer: Window) -> Window:
        """Join two windows: the axes of `outer` come first, then those of this window."""
        return Window(*(first + own for first, own in zip(outer, self, strict=True)))  # type: ignore[arg-type]

    def along(self, axes: Sequence[int]) -> Window:
        """Return the part of the window along some of its axes."""
        return Window(*(tuple([whole[axis] for axis in axes]) for whole in self))  # type: ignore[arg-type]

    def unpadded(self) -> Window:
        """Return the same window without padding."""
        none = (NO_BORDER,) * len(self.size)
        return self._replace(padding=none, counted_padding=none)


def fitted(c: Conversion, extents: Sequence[int], window: Window) -> Window:
    """Return a window after a check of its size and position. Raises the front end's error if it does not fit."""
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
    """Return the window with more padding behind, so that a last window that is cut off counts too.

    within: only if that window begins within the image or the padding before it.
    """
    filled = []
    for axis, extent in enumerate(extents):
        stride, border = window.stride[axis], window.padding[axis]
        taps = window.size[axis], stride, window.dilation[axis]
        count = -(-(extent + sum(border) - covered(1, *taps)) // stride) + 1
        if within and (count - 1) * stride >= extent + border[0]:
            count -= 1
        filled.append((border[0], max(covered(count, *taps) - extent - border[0], 0)))
    return window._replace(padding=tuple(filled))


def unwound(
    inputs: Sequence[int],
    window: Window,
    *,
    extents: Sequence[int] = (),
    more: Sequence[int] = (),
    less_first: bool = True,
) -> tuple[list[int], Window]:
    """Return the extents of a transposed convolution's result, and the window with its padding.

    The window leads from the result to the input: without padding it spans stride * (input - 1) + reach elements.

    inputs:     the extents of the input.
    window:     its padding is cut from that span; () cuts what exceeds the result, on both sides.
    extents:    the extents of the result, if the model states them; otherwise they follow from the padding, or are
                input * stride without any.
    more:       elements behind the span, for extents that strides leave open.
    less_first: whether an odd element is cut behind the span.
    """
    result, padding = [], []
    for axis in range(len(inputs)):
        span = covered(inputs[axis], window.size[axis], window.stride[axis], window.dilation[axis])
        span += more[axis] if more else 0
        if extents:
            extent = extents[axis]
        elif window.padding:
            extent = span - sum(window.padding[axis])
        else:
            extent = inputs[axis] * window.stride[axis]
        over = max(span - extent, 0)
        half = (over // 2, over - over // 2)
        padding.append(window.padding[axis] if window.padding else half if less_first else half[::-1])
        result.append(extent)
    return result, window._replace(padding=tuple(padding), counted_padding=tuple(padding))


def positive(c: Conversion, extents: Sequence[int]) -> None:
    """Raise the front end's error if a transposed convolution's result would have no elements."""
    for axis, extent in enumerate(extents):
        c.require(extent > 0, f"the output would have {extent} elements along axis {axis} of the window")
