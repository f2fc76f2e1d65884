"""Operations of ONNX on images: resizing, grid sampling, regions of interest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from npusim.frontends.forms import interpolation
from npusim.frontends.forms.axes import region_means
from npusim.frontends.forms.interpolation import MOST_SIDE, NEAREST, Axis, nearest, weighted
from npusim.frontends.forms.node_conversion import NodeConversion
from npusim.frontends.forms.node_rows import Row
from npusim.frontends.onnx.operations.onnx_axes import axes_of


def _roi_align(c: NodeConversion) -> Sequence[int]:
    """Add RoiAlign; before version 16, pixel centres are at whole numbers."""
    x, boxes = c.real("X"), c.real("rois")
    mode = c.attribute("mode", "avg")
    c.require(mode == "avg", f"mode is {mode!r}; npusim has 'avg'")
    c.require(len(c.shape(x)) == 4, f"the input has shape {list(c.shape(x))}, is no image [N, C, H, W]")
    older = "output_half_pixel"
    rule = c.attribute("coordinate_transformation_mode", older if c.opset < 16 else "half_pixel")
    c.require(rule in (older, "half_pixel"), f"coordinate_transformation_mode is {rule!r}")
    size = int(c.attribute("output_height", 1)), int(c.attribute("output_width", 1))
    samples, scale = int(c.attribute("sampling_ratio", 0)), float(c.attribute("spatial_scale", 1.0))
    c.require(samples >= 0, f"sampling_ratio is {samples}, must be 0 or more")
    operands, centers = [x, boxes, c.cast(c.real("batch_indices"), "int32")], rule == "half_pixel"
    return [region_means(c, operands, size, scale=scale, samples=(samples, samples), centers=centers)]


_ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")

_MOST_TAPS = 4096


def _resize(c: NodeConversion) -> Sequence[int]:
    rule = c.attribute("coordinate_transformation_mode", "asymmetric" if c.opset < 11 else "half_pixel")
    mode = c.attribute("mode", "nearest")
    c.require(rule in interpolation.TRANSFORMATIONS, f"coordinate_transformation_mode is {rule!r}")
    c.require(
        mode in ("nearest", "linear", "cubic"), f"mode is {mode!r}, must be 'nearest', 'linear' or 'cubic'"
    )
    x, sides = c.tensor("X"), _axes(c, rule)
    if not sides:
        return [c.node("reshape", [x], shape=c.shape(x))]
    if mode == "nearest":
        return [_outside(c, _by_nearest(c, x, sides, rule), sides, rule)]
    return [_outside(c, _by_weights(c, x, sides, rule, mode), sides, rule)]


def _axes(c: NodeConversion, rule: str) -> dict[int, Axis]:
    """Return the axes that change, by the sizes or scales of all axes or of those in `axes`."""
    shape = c.shape("X")
    rank = len(shape)
    axes = list(range(rank))
    if c.attribute("axes") is not None:
        axes_of(c, rank)  # refuses axes beyond the rank or named twice
        axes = [int(axis) % rank for axis in c.attribute("axes")]
    sized = c.has("sizes") and c.value("sizes").size > 0
    scaled = c.has("scales") and c.value("scales").size > 0
    c.require(sized != scaled, "needs either sizes or scales")
    given = c.value("sizes" if sized else "scales").reshape(-1)
    c.require(len(given) == len(axes), f"{given.tolist()} are not one number for each of {len(axes)} axes")
    policy = c.attribute("keep_aspect_ratio_policy", "stretch")
    c.require(policy in ("stretch", "not_larger", "not_smaller"), f"keep_aspect_ratio_policy is {policy!r}")
    region = (
        c.value("roi").reshape(-1).tolist() if rule == "tf_crop_and_resize" else [0.0] * rank + [1.0] * rank
    )
    if len(region) == 2 * len(axes) != 2 * rank:
        region = _spread(region, axes, rank)
    c.require(len(region) == 2 * rank, f"roi {region} is not two numbers for each of {rank} axes")
    scales = (
        [np.float32(size) / np.float32(shape[axis]) for axis, size in zip(axes, given, strict=True)]
        if sized
        else [np.float32(number) for number in given]
    )
    c.require(
        all(np.isfinite(scale) and scale > 0 for scale in scales) and 0 not in shape,
        f"{given.tolist()} are not above 0, or {list(shape)} has no elements",
    )
    if sized and policy != "stretch":
        one = min(scales) if policy == "not_larger" else max(scales)
        scales = [one] * len(axes)
        given = np.array([int(np.floor(np.float64(one) * shape[axis] + 0.5)) for axis in axes])
    sides = {}
    for axis, scale, number in zip(axes, scales, given.tolist(), strict=True):
        extent = (region[axis], region[rank + axis])
        count = int(number) if sized else _count(shape[axis], scale, extent, rule)
        c.require(
            0 < count <= MOST_SIDE, f"axis {axis} would have {count:,} elements, may have {MOST_SIDE:,}"
        )
        if count != shape[axis] or scale != 1 or (rule == "tf_crop_and_resize" and extent != (0, 1)):
            sides[axis] = Axis(shape[axis], count, scale, extent)
    c.small([sides[axis].length if axis in sides else size for axis, size in enumerate(shape)])
    return dict(sorted(sides.items()))


def _count(size: int, scale: np.float32, region: tuple[float, float], rule: str) -> int:
    if rule == "tf_crop_and_resize":
        return int(np.floor(np.float32(size) * np.float32(region[1] - region[0]) * scale))
    return int(np.floor(np.float32(size) * scale))


def _spread(region: Sequence[float], axes: Sequence[int], rank: int) -> list[float]:
    whole = [0.0] * rank + [1.0] * rank
    for place, axis in enumerate(axes):
        whole[axis], whole[rank + axis] = region[place], region[len(axes) + place]
    return whole


def _by_nearest(c: NodeConversion, x: int, sides: Mapping[int, Axis], rule: str) -> int:
    rounding = c.attribute("nearest_mode", "round_prefer_floor")
    c.require(rounding in _ROUNDINGS, f"nearest_mode is {rounding!r}")
    chosen = {}
    for axis, side in sides.items():
        if c.opset < 11:
            rounding = "floor" if side.scale >= 1 else "ceil"
        chosen[axis] = interpolation.nearest_places(side, rule, rounding)
    return nearest(c, x, chosen)


def _by_weights(c: NodeConversion, x: int, sides: Mapping[int, Axis], rule: str, mode: str) -> int:
    a, exclude = float(c.attribute("cubic_coeff_a", -0.75)), c.flag("exclude_outside")
    taps = {}
    for axis, side in sides.items():
        if c.flag("antialias"):
            c.require(
                4 * side.size <= _MOST_TAPS * side.length,
                f"{side.size} elements to {side.length} take too many taps",
            )
            taps[axis] = interpolation.smoothed(side, rule, None if mode == "linear" else a, exclude)
        elif mode == "linear":
            taps[axis] = interpolation.linear(side, rule)
        else:
            taps[axis] = interpolation.cubic(side, rule, a, exclude)
    return weighted(c, x, taps, together=mode == "linear" and not c.flag("antialias"))


def _outside(c: NodeConversion, image: int, sides: Mapping[int, Axis], rule: str) -> int:
    """Fill the part of a result that lies outside of the operand's region with a value."""
    if rule != "tf_crop_and_resize":
        return image
    shape = c.shape(image)
    inside: Any = np.ones((1,) * len(shape), bool)
    for axis, side in sides.items():
        at = interpolation.positions(side, rule)
        within = (at >= 0) & (at <= side.size - 1)
        inside = inside & within.reshape([-1 if place == axis else 1 for place in range(len(shape))])
    if inside.all():
        return image
    value = c.scalar(float(c.attribute("extrapolation_value", 0.0)), image)
    c.require(c.kind().quantization is None, "npusim has no quantized values outside of a region")
    return c.nodes("select_v2", [c.constant(inside), image, value], [c.like(image)])[0]


_OUTSIDE = {"zeros": "zeros", "border": "edge", "reflection": "reflection"}


def _grid_sample(c: NodeConversion) -> Sequence[int]:
    """Add GridSample: pixels at the positions of a grid, interpolated linearly."""
    x, grid = c.real("X"), c.real("grid")
    mode, outside = c.attribute("mode", "linear"), c.attribute("padding_mode", "zeros")
    c.require(len(c.shape(x)) == len(c.shape(grid)) == 4, "npusim samples images [N, C, H, W]")
    c.require(mode in ("linear", "bilinear"), f"mode is {mode!r}; npusim has 'linear'")
    c.require(outside in _OUTSIDE, f"padding_mode is {outside!r}, must be one of {', '.join(_OUTSIDE)}")
    parameters: dict[str, Any] = {"align_corners": c.flag("align_corners")}
    return [c.node("grid_sample", [x, grid], outside=_OUTSIDE[outside], **parameters)]


ROWS: tuple[Row, ...] = (
    Row("RoiAlign", "X rois batch_indices", _roi_align, "roi_align cast", groups=False),
    Row("Resize", "X roi? scales? sizes?", _resize, f"{NEAREST} interpolate gather select_v2 reshape"),
    Row("Upsample", "X scales", _resize, f"{NEAREST} interpolate gather reshape"),
    Row("GridSample", "X grid", _grid_sample, "grid_sample", groups=False),
)
