"""Images in another size, read elsewhere, or with their channels in another order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from npusim.frontends.nnadapter.codes import InterpolateMode, OperationType, PadMode
from npusim.frontends.nnadapter.operations.conversion import Conversion
from npusim.frontends.nnadapter.operations.row import Row
from npusim.frontends.nnadapter.operations.windows import image_size, pair
from npusim.kernels.graph.builder import unshaped

_CHANNELS = 1
_HALF_PIXEL = 0
_LARGEST_SCALE = 1 << 20
_OUTSIDE = {
    PadMode.PAD_MODE_CONSTANT: "zeros",
    PadMode.PAD_MODE_REFLECT: "reflection",
    PadMode.PAD_MODE_REPLICATE: "edge",
    PadMode.PAD_MODE_EDGE: "edge",
}


def _resizing(c: Conversion) -> dict[str, Any]:
    """Size, and which pixels lie on each other; by scales it is these that say how far pixels are apart."""
    image, corners = image_size(c), c.flag("align_corners")
    if c.has("shape"):
        return {"size": pair(c, "shape"), "align_corners": corners}
    scales = c.reals("scales")
    fits = len(scales) == 2 and all(0 < scale <= _LARGEST_SCALE for scale in scales)
    most = f"must be of height and width, above 0 and up to {_LARGEST_SCALE}"
    c.require(fits, f"shape or scales must be there; scales are {scales}, {most}")
    sizes = [int(np.float32(pixels) * np.float32(scale)) for pixels, scale in zip(image, scales, strict=True)]
    c.require(min(sizes) > 0, f"scales {scales} leave {sizes} of an image of {list(image)}")
    how: dict[str, Any] = {"size": tuple(sizes), "align_corners": corners}
    exact = all(size == pixels * scale for size, pixels, scale in zip(sizes, image, scales, strict=True))
    if not exact and not corners:
        how["steps"] = tuple(float(np.float32(1) / np.float32(scale)) for scale in scales)
    return how


def _linear(c: Conversion) -> Sequence[int]:
    how, image = _resizing(c), c.tensor("input")
    halves = c.has("align_mode") and c.whole("align_mode") == _HALF_PIXEL
    how["half_pixel_centers"] = halves and not how["align_corners"]
    alike = c.builder.type(image).quantization == c.result().quantization
    return (c.node if alike else c.node_in_reals)("resize_bilinear", [image], **how)


def _nearest(c: Conversion) -> Sequence[int]:
    how, image, result = _resizing(c), c.tensor("input"), c.result()
    kind = c.builder.type(image)
    if kind.quantization == result.quantization:
        return c.node("resize_nearest_neighbor", [image], **how)
    same = unshaped(kind.dtype, kind.quantization)
    return c.node("quantize", c.node("resize_nearest_neighbor", [image], same, **how), result)


def _grid_sample(c: Conversion) -> Sequence[int]:
    image_size(c)
    mode = c.code("mode", InterpolateMode)
    outside = c.code("pad_mode", PadMode)
    c.require(mode is not InterpolateMode.INTERPOLATE_MODE_NONE, "mode must be bilinear (1) or nearest (2)")
    c.require(outside in _OUTSIDE, "pad_mode must be constant (1), reflect (2), replicate (3) or edge (4)")
    return c.node(
        "grid_sample",
        [c.tensor("input"), c.tensor("grid")],
        nearest=mode is InterpolateMode.INTERPOLATE_MODE_NEAREST,
        outside=_OUTSIDE[outside],
        align_corners=c.flag("align_corners"),
    )


def _channel_shuffle(c: Conversion) -> Sequence[int]:
    shape, groups = c.shape("input"), c.whole("group")
    fits = len(shape) > _CHANNELS and groups >= 1 and shape[_CHANNELS] % groups == 0
    c.require(
        fits, f"group is {groups}, must divide the channels of the input, which has shape {list(shape)}"
    )
    image, result = c.tensor("input"), c.result()
    kind = c.builder.type(image)
    if kind.quantization == result.quantization:
        return c.node("channel_shuffle", [image], groups=groups, axis=_CHANNELS)
    same = unshaped(kind.dtype, kind.quantization)
    return c.node("quantize", c.node("channel_shuffle", [image], same, groups=groups, axis=_CHANNELS), result)


ROWS: tuple[Row, ...] = (
    Row(
        OperationType.RESIZE_LINEAR,
        "input shape:I? scales:F? align_corners:b=False align_mode:i?=1 > output=input",
        _linear,
        ("resize_bilinear",),
    ),
    Row(
        OperationType.RESIZE_NEAREST,
        "input shape:I? scales:F? align_corners:b=False > output=input",
        _nearest,
        ("resize_nearest_neighbor", "quantize"),
    ),
    Row(
        OperationType.GRID_SAMPLE,
        "input grid align_corners:b=True mode:i=1 pad_mode:i=1 > output=input",
        _grid_sample,
        ("grid_sample",),
    ),
    Row(
        OperationType.CHANNEL_SHUFFLE,
        "input group:i > output=input",
        _channel_shuffle,
        ("channel_shuffle", "quantize"),
    ),
)
