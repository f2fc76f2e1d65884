"""Convolutions along one to three axes, and transposed ones along one or two, with channels before the image axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from npusim.frontends.forms.axes import filters_by_group
from npusim.frontends.forms.conversion import Conversion
from npusim.frontends.forms.windows import NO_BORDER, Window

OPERATORS = "conv_2d depthwise_conv_2d reshape transpose pad pack strided_slice"
TRANSPOSED = "transpose_conv reshape transpose"
"""The operators that convolutions become, the main one first."""

_ONE = Window((1,), (1,), (1,), (NO_BORDER,), (NO_BORDER,))


def check_filter(c: Conversion, shape: Sequence[int], filter_: Sequence[int], groups: int) -> None:
    """Raise GraphError for a filter [D, C / groups, ...] that does not fit an image [N, C, ...]."""
    c.require(
        3 <= len(shape) == len(filter_) <= 5 and 0 not in filter_,
        f"image {list(shape)} and filter {list(filter_)} are not of one rank, 3 to 5, with sizes above 0",
    )
    c.require(
        groups > 0 and filter_[1] * groups == shape[1] and filter_[0] % groups == 0,
        f"filter {list(filter_)} does not fit {shape[1]} channels in {groups} groups, which must divide its axis 0 and "
        "take as many channels each as axis 1 has",
    )


def check_transposed_filter(c: Conversion, shape: Sequence[int], filter_: Sequence[int], groups: int) -> None:
    """Raise GraphError for a filter [C, D / groups, ...] of a transposed convolution that does not fit its image."""
    c.require(
        3 <= len(shape) == len(filter_) <= 4 and 0 not in filter_,
        f"image {list(shape)} and filter {list(filter_)} are not of one rank, 3 or 4, with sizes above 0: npusim has "
        "transposed convolutions along one or two axes",
    )
    c.require(
        groups > 0 and filter_[0] == shape[1] and shape[1] % groups == 0,
        f"filter {list(filter_)} does not fit {shape[1]} channels in {groups} groups: axis 0 must have the channels, "
        "which the groups divide",
    )


def convolution(
    c: Conversion, image: int, weights: int, bias: int | None, window: Window, groups: int, **more: Any
) -> int:
    """Add a convolution of [N, C, W], [N, C, H, W] or [N, C, D, H, W] and return its result.

    An image [N, C, W] is one row of [N, C, 1, W]. Along D, each output position becomes an image of its own, whose
    channels are the taps along D.
    """
    shape, filter_ = c.shape(image), c.shape(weights)
    if len(shape) == 3:
        image, weights = (c.reshaped(tensor, _as_image(c.shape(tensor))) for tensor in (image, weights))
        window = window.after(_ONE)
    elif len(shape) == 5:
        image, weights = _by_taps(c, image, weights, window)
    steps = window.along([-2, -1]).steps
    op, kind = "conv_2d", more.get("kind")
    # The MAC array writes int32 sums of whole groups only, so a depthwise convolution of them stays a grouped one.
    sums = kind.dtype == "int32" if kind is not None else c.sums_stay
    if c.shape(weights)[1] == 1 < groups and not sums:
        op, steps["depth_multiplier"] = "depthwise_conv_2d", filter_[0] // groups
    result = c.node(op, [image, weights, bias], **steps, **more)
    if len(shape) == 4:
        return result
    if len(shape) == 3:
        return c.reshaped(result, _as_row(c.shape(result)))
    apart = c.reshaped(result, (shape[0], c.shape(result)[0] // shape[0], *c.shape(result)[1:]))
    return c.transposed(apart, (0, 2, 1, 3, 4))


def transposed(
    c: Conversion,
    image: int,
    weights: int,
    bias: int | None,
    window: Window,
    extents: Sequence[int],
    groups: int,
    **more: Any,
) -> int:
    """Add a transposed convolution of [N, C, H, W] or [N, C, W] with a result of these extents, and return it.

    The window leads from the result back to the input (`unwound`).
    """
    short = len(c.shape(image)) == 3
    if short:
        image, weights = (c.reshaped(tensor, _as_image(c.shape(tensor))) for tensor in (image, weights))
        extents, window = [1, *extents], window.after(_ONE)
    result = c.node(
        "transpose_conv",
        [image, filters_by_group(c, weights, groups), bias],
        size=tuple(extents),
        **window.steps,
        **more,
    )
    return c.reshaped(result, _as_row(c.shape(result))) if short else result


def _as_image(shape: Sequence[int]) -> tuple[int, ...]:
    return (*shape[:2], 1, *shape[2:])


def _as_row(shape: Sequence[int]) -> tuple[int, ...]:
    return (*shape[:2], *shape[3:])


def _by_taps(c: Conversion, image: int, weights: int, window: Window) -> tuple[int, int]:
    """Return image and filter of [N, C, D, H, W] as images [N * positions, C * taps, H, W] and a filter over these."""
    shape, filter_ = c.shape(image), c.shape(weights)
    kind = c.like(image)
    borders = (NO_BORDER, NO_BORDER, window.padding[0], NO_BORDER, NO_BORDER)
    if window.padding[0] != NO_BORDER:
        [image] = c.nodes("pad", [image], [kind], paddings=borders)
    count = window.positions(shape[2:])[0]
    taps: list[int] = []
    for tap in range(filter_[2]):
        parameters: dict[str, Any] = {"begin": (0, 0, tap * window.dilation[0], 0, 0)}
        parameters |= {"size": (*shape[:2], count, *shape[3:]), "strides": (1, 1, window.stride[0], 1, 1)}
        taps += c.nodes("strided_slice", [image], [kind], **parameters)
    [stacked] = c.nodes("pack", taps, [kind], axis=2)  # [N, C, taps, D, H, W]
    turned = c.transposed(stacked, (0, 3, 1, 2, 4, 5))
    image = c.reshaped(turned, (shape[0] * count, shape[1] * filter_[2], *shape[3:]))
    return image, c.reshaped(weights, (filter_[0], filter_[1] * filter_[2], *filter_[3:]))
