"""Local response normalization and ROI align, which several front ends build alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from npusim.frontends.forms.conversion import Conversion


def without(shape: Sequence[int], axis: int) -> tuple[int, ...]:
    """Return a shape with one element along an axis."""
    return (*shape[:axis], 1, *shape[axis + 1 :])


def response(c: Conversion, x: int, size: int, **parameters: Any) -> int:
    """Add a local response normalization over `size` channels, of which an even size has one more behind the centre."""
    how: dict[str, Any] = {"axis": 1, "radius": (size - 1) // 2, "one_more": size % 2 == 0}
    return c.node("local_response_normalization", [x], **how, **parameters)


def region_means(
    c: Conversion,
    operands: Sequence[int],
    size: tuple[int, int],
    *,
    scale: float = 1.0,
    samples: tuple[int, int],
    centers: bool,
) -> int:
    """Add ROI align: each bin of a region is the mean of sampled points. Regions may reach beyond the image.

    operands: the image, the regions, and the number of the image that each region is in.
    scale: pixels for a unit of the regions' coordinates.
    samples: points along height and width of a bin; 0 for as many as it has pixels.
    """
    c.require(min(size) > 0, f"height and width of the output are {list(size)}, must be above 0")
    c.require(scale > 0, f"spatial_scale is {scale}, must be above 0")
    how: dict[str, Any] = {"height_stride": 1 / scale, "width_stride": 1 / scale, "samples": samples}
    return c.node("roi_align", operands, size=size, **how, anywhere=True, centers=centers)
