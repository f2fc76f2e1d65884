"""Images of other sizes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np

from npusim.frontends.forms import sampling
from npusim.frontends.forms.conversion import Conversion
from npusim.frontends.forms.resize import MOST_SIDE, NEAREST, nearest, weighted
from npusim.frontends.forms.row import Row
from npusim.frontends.forms.sampling import Axis, Places
from npusim.frontends.paddle.operations.row import channels_first, numbers, op, renamed


def _sides(c: Conversion) -> dict[int, Axis]:
    """Height and width, where they change: sizes that tensors or attributes say, else scales."""
    channels_first(c)
    shape, said = c.shape("X"), [int(c.attribute(name, -1)) for name in ("out_h", "out_w")]
    c.require(len(shape) == 4, f"X has shape {list(shape)}, must be [N, C, H, W]")
    given = c.value("Scale").reshape(-1).tolist() if c.has("Scale") else c.attribute("scale")
    scales = [float(scale) for scale in (given if isinstance(given, list) else [given or 0.0])] or [0.0]
    scales = (scales * 2)[-2:]
    if c.has("SizeTensor") or c.has("OutSize"):
        said, scales = numbers(c, "", "OutSize", "SizeTensor"), [0.0, 0.0]
    elif min(scales) > 0 and np.isfinite(scales).all():
        said = [int(size * np.float32(scale)) for size, scale in zip(shape[2:], scales, strict=True)]
    c.require(len(said) == 2, f"the size {said} is not of height and width")
    sides = {}
    for axis, count, scale in zip((2, 3), said, scales, strict=True):
        c.require(0 < count <= MOST_SIDE and shape[axis] > 0, f"axis {axis} would have {count:,} elements")
        ratio = np.float32(scale) if scale > 0 else np.float32(count) / np.float32(shape[axis])
        sides[axis] = Axis(shape[axis], count, ratio)
    c.small([*shape[:2], *(side.length for side in sides.values())])
    return {axis: side for axis, side in sides.items() if side.length != side.size}


def _nearest(c: Conversion) -> Sequence[int]:
    """The element at floor(ratio * place), or at the nearest place between corners."""
    corners = c.flag("align_corners", True)
    chosen = {axis: _places(side, corners) for axis, side in _sides(c).items()}
    return [nearest(c, c.tensor("X"), chosen) if chosen else c.tensor("X")]


def _places(side: Axis, corners: bool) -> Places:
    ratio = np.float32(1) / side.scale
    if corners:
        ratio = np.float32(side.size - 1) / np.float32(max(side.length - 1, 1))
    at = ratio * np.arange(side.length, dtype=np.float32) + np.float32(0.5 if corners else 0)
    places: Places = np.clip(at.astype(np.int64), 0, side.size - 1)
    return places


def _weighted(c: Conversion) -> Sequence[int]:
    """Of two elements along each axis, or of four (bicubic)."""
    linear, how = c.source.operation.startswith("bilinear"), "half_pixel"
    if c.flag("align_corners", True):
        how = "align_corners"
    elif linear and int(c.attribute("align_mode", 1)) == 1:
        how = "asymmetric"
    sides = _sides(c).items()
    taps = {axis: sampling.linear(side, how) for axis, side in sides}
    if not linear:
        taps = {axis: sampling.cubic(side, how, -0.75, False) for axis, side in sides}
    return [weighted(c, c.tensor("X"), taps, together=linear) if taps else c.tensor("X")]


_SAID = "X OutSize? Scale? SizeTensor*"
_GRID = {"mode": ("mode", "bilinear"), "padding_mode": ("padding_mode", "zeros")}

ROWS: tuple[Row, ...] = tuple(
    chain(
        op("nearest_interp nearest_interp_v2", _SAID, _nearest, f"{NEAREST} gather", role="Resize"),
        op(
            "bilinear_interp bilinear_interp_v2 bicubic_interp bicubic_interp_v2",
            _SAID,
            _weighted,
            "interpolate",
        ),
        renamed(
            "grid_sampler",
            "GridSample",
            "X=X grid=Grid",
            "Output",
            align_corners=("align_corners", 1),
            **_GRID,
        ),
    )
)
