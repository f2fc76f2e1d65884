"""Layers on channels-first tensors [N, C, ...], and rearrangements of their axes and filters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from npusim.frontends.forms.conversion import Conversion
from npusim.isa.base.tensor import Quantization


def without(shape: Sequence[int], axis: int) -> tuple[int, ...]:
    """Return a shape with the size of one axis set to 1."""
    return (*shape[:axis], 1, *shape[axis + 1 :])


def response(c: Conversion, x: int, size: int, **parameters: Any) -> int:
    """Add a local response normalization over `size` channels. An even window has one more after the centre."""
    window: dict[str, Any] = {"axis": 1, "radius": (size - 1) // 2, "one_more": size % 2 == 0}
    return c.node("local_response_normalization", [x], **window, **parameters)


def region_means(
    c: Conversion,
    operands: Sequence[int],
    size: tuple[int, int],
    *,
    scale: float = 1.0,
    samples: tuple[int, int],
    centers: bool,
) -> int:
    """Add ROI align: split each region of an image into bins, and average the points sampled in each bin.

    operands: the images, the regions, which may reach beyond their image, and the index of each region's image.
    size:     bins of a region along height and width.
    scale:    pixels of the image per unit of the regions' coordinates.
    samples:  points of a bin along height and width; 0 for as many as the bin has pixels.
    """
    c.require(min(size) > 0, f"height and width of the output are {list(size)}, must be above 0")
    c.require(scale > 0, f"spatial_scale is {scale}, must be above 0")
    parameters: dict[str, Any] = {"height_stride": 1 / scale, "width_stride": 1 / scale, "samples": samples}
    return c.node("roi_align", operands, size=size, **parameters, anywhere=True, centers=centers)


def on_images(c: Conversion, tensor: int, axes: Sequence[int], function: Callable[[int], int]) -> int:
    """Apply a function of images [N, C, H, W] to a tensor, one or two axes of which serve as height and width."""
    shape = c.shape(tensor)
    if len(shape) == 4 and list(axes) == [2, 3]:
        return function(tensor)
    others = [axis for axis in range(len(shape)) if axis not in axes]
    order = [*others, *axes]
    sizes = [shape[axis] for axis in others]
    outer = sizes if len(sizes) == 2 else [1, prod(sizes)]
    inner = [*(1,) * (2 - len(axes)), *(shape[axis] for axis in axes)]
    image = c.reshaped(c.transposed(tensor, order), (*outer, *inner))
    computed = function(image)
    result = (*sizes, *c.shape(computed)[4 - len(axes) :])
    return c.transposed(c.reshaped(computed, result), [order.index(axis) for axis in range(len(shape))])


def by_pairs(axes: Sequence[int]) -> list[list[int]]:
    """Split axes into pairs from the back: 0, 1, 2 becomes [[1, 2], [0]]."""
    return [list(axes[max(end - 2, 0) : end]) for end in range(len(axes), 0, -2)]


def filters_by_group(c: Conversion, weights: int, groups: int) -> int:
    """Rearrange a transposed convolution's filter [D, C / groups, H, W] to [D / groups, C, H, W], group after group."""
    if groups == 1:
        return weights
    depth, channels, *kernel = c.shape(weights)
    held = c.builder.tensors[weights]
    scaling = held.type.quantization
    c.require(
        held.array is not None or scaling is None or scaling.axis is None,
        "a filter in groups with a scale per channel must be a constant",
    )
    apart, order = (groups, depth // groups, channels, *kernel), (1, 0, 2, 3, 4)
    shape = (depth // groups, groups * channels, *kernel)
    if held.array is not None:
        if scaling is not None and scaling.axis is not None:
            c.require(scaling.axis == 1, "scales of a filter are along its output channels, axis 1")
            scaling = Quantization(scaling.scales * groups, scaling.zero_points * groups, 1)
        return c.constant(held.array.reshape(apart).transpose(order).reshape(shape), scaling)
    return c.reshaped(c.transposed(c.reshaped(weights, apart), order), shape)
