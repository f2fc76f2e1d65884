"""Regions of feature maps."""

from __future__ import annotations

from collections.abc import Sequence

from npusim.frontends.forms.node_conversion import NodeConversion
from npusim.frontends.forms.row import Row


def _roi_align(c: NodeConversion) -> Sequence[int]:
    """Before version 16 of the operation pixels have their centres at whole numbers."""
    x, boxes = c.real("X"), c.real("rois")
    mode = c.attribute("mode", "avg")
    c.require(mode == "avg", f"mode is {mode!r}; npusim has 'avg'")
    c.require(len(c.shape(x)) == 4, f"the input has shape {list(c.shape(x))}, is no image [N, C, H, W]")
    older = "output_half_pixel"
    how = c.attribute("coordinate_transformation_mode", older if c.opset < 16 else "half_pixel")
    c.require(how in (older, "half_pixel"), f"coordinate_transformation_mode is {how!r}")
    size = int(c.attribute("output_height", 1)), int(c.attribute("output_width", 1))
    samples, scale = int(c.attribute("sampling_ratio", 0)), float(c.attribute("spatial_scale", 1.0))
    c.require(min(size) > 0, f"output_height and output_width are {list(size)}, must be above 0")
    c.require(samples >= 0, f"sampling_ratio is {samples}, must be 0 or more")
    c.require(scale > 0, f"spatial_scale is {scale}, must be above 0")
    made = c.node(
        "roi_align",
        [x, boxes, c.cast(c.real("batch_indices"), "int32")],
        size=size,
        height_stride=1 / scale,
        width_stride=1 / scale,
        samples=(samples, samples),
        anywhere=True,
        centers=how == "half_pixel",
    )
    return [made]


ROWS: tuple[Row, ...] = (
    Row("RoiAlign", "X rois batch_indices", _roi_align, ("roi_align", "cast"), groups=False),
)
