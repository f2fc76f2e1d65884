"""Paddle's operators on images: convolutions, pools, resizing, and boxes of detectors."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from npusim.frontends.forms import convolutions as forms
from npusim.frontends.forms import detectors, interpolation
from npusim.frontends.forms.interpolation import MOST_SIDE, NEAREST, Axis, Places, nearest, weighted
from npusim.frontends.forms.node_conversion import NodeConversion
from npusim.frontends.forms.node_rows import Row
from npusim.frontends.forms.pools import MOVES, in_bins, pooled
from npusim.frontends.forms.windows import NO_BORDER, Window, fitted, rounded_up, same, unwound
from npusim.frontends.onnx.operations.onnx_windows import per_axis
from npusim.frontends.paddle.operations import paddle_arguments as given
from npusim.frontends.paddle.operations.paddle_arguments import op, renamed
from npusim.kernels.graph.builder import unshaped
from npusim.kernels.operator.parameters import Border


def _window(
    c: NodeConversion, extents: Sequence[int], size: Sequence[int], *, dilated: bool = False
) -> Window:
    """Return the window of an operator; padding SAME ignores the dilation, as Paddle does."""
    rank, paddings = len(extents), given.numbers(c, "paddings")
    rule = c.attribute("padding_algorithm", "EXPLICIT")
    c.require(rule in ("EXPLICIT", "SAME", "VALID"), f"padding_algorithm is {rule!r}")
    stride = per_axis(c, "strides", rank)
    dilation = per_axis(c, "dilations", rank) if dilated and rule != "SAME" else (1,) * rank
    padding: tuple[Border, ...] = (NO_BORDER,) * rank
    if rule == "SAME":
        padding = same(extents, size, stride, dilation)
    elif rule == "EXPLICIT" and paddings:
        fits = len(paddings) in (rank, 2 * rank) and min(paddings) >= 0
        c.require(fits, f"paddings {paddings} are not {rank} or {2 * rank} numbers, 0 or more")
        befores, behinds = (paddings, paddings) if len(paddings) == rank else (paddings[::2], paddings[1::2])
        padding = tuple(zip(befores, behinds, strict=True))
    return Window(tuple(size), stride, dilation, padding, padding)


def _conv(c: NodeConversion) -> Sequence[int]:
    given.channels_first(c)
    fused = c.flag("fuse_relu") or c.attribute("fuse_activation", "") or c.has("ResidualData")
    c.require(not fused, "was fused for one processor; give the original model")
    image, weights, groups = c.tensor("Input"), c.tensor("Filter"), c.parameter("groups", 1)
    forms.check_filter(c, c.shape(image), c.shape(weights), groups)
    extents = c.shape(image)[2:]
    window = fitted(c, extents, _window(c, extents, c.shape(weights)[2:], dilated=True))
    return [forms.convolution(c, image, weights, c.optional("Bias"), window, groups)]


def _transposed(c: NodeConversion) -> Sequence[int]:
    """Add a transposed convolution; `output_size` and `output_padding` add elements behind."""
    given.channels_first(c)
    image, weights, groups = c.tensor("Input"), c.tensor("Filter"), c.parameter("groups", 1)
    forms.check_transposed_filter(c, c.shape(image), c.shape(weights), groups)
    extents, size = c.shape(image)[2:], c.shape(weights)[2:]
    window, rank = _window(c, extents, size, dilated=True), len(extents)
    more = given.numbers(c, "output_padding") or [0] * rank
    target = given.numbers(c, "output_size", "OutputSizeTensor")
    c.require(len(more) == rank and min(more) >= 0, f"output_padding {more} is not {rank} numbers, 0 or more")
    c.require(len(target) in (0, rank), f"output_size {target} is not {rank} numbers")
    sizes, _ = unwound(extents, window, extents=target, more=more)
    for axis, (chosen, least) in enumerate(zip(sizes, unwound(extents, window)[0], strict=True)):
        most = least + window.stride[axis] - 1
        fits = chosen > 0 and (not target or least <= chosen <= most)
        c.require(fits, f"axis {axis + 2} would have {chosen} elements, may have {least} to {most}")
    c.small([*c.shape(image)[:1], *sizes])
    return [forms.transposed(c, image, weights, c.optional("Bias"), window, sizes, groups)]


def _pool(c: NodeConversion) -> Sequence[int | None]:
    """Add a pool of windows, of the whole image, or into bins; max pools may return places in the plane."""
    given.channels_first(c)
    x, size = c.tensor("X"), given.numbers(c, "ksize")
    places, kind = c.source.operation != "pool2d", c.attribute("pooling_type", "max")
    c.require(kind in ("max", "avg"), f"pooling_type is {kind!r}, must be 'max' or 'avg'")
    image, name = given.image_shape(c)[2:], "max_pool_2d" if kind == "max" else "average_pool_2d"
    whole = c.flag("global_pooling") or (c.flag("adaptive") and size == [1, 1])
    if whole and not places:
        return [c.node("reduce_max" if kind == "max" else "mean", [x], axes=(2, 3), keep_dims=True)]
    size = list(image) if whole else size
    c.require(len(size) == 2 and min(size) > 0, f"ksize {size} is not two numbers, 1 or more")
    kinds = [c.like(x), unshaped("int32")]
    if whole or c.flag("adaptive"):
        name, steps = in_bins(name, image, (1, 1) if whole else size)
        return (
            c.nodes(f"{name}_with_positions", [x], kinds, **steps) if places else [c.node(name, [x], **steps)]
        )
    window = _window(c, image, size)
    if c.flag("ceil_mode"):
        window = rounded_up(image, window, within=False)
        last = np.subtract(window.positions(image), 1) * window.stride
        inside = last < np.add(image, [before for before, _ in window.counted_padding])
        c.require(bool(inside.all()), f"ceil_mode gives windows outside of an image of {list(image)}")
    window = fitted(c, image, window)
    if places:
        return c.nodes("max_pool_2d_with_positions", [x], kinds, **window.pool)
    return [pooled(c, name, x, window, counted=kind == "avg" and not c.flag("exclusive", True))]


_CONV = "Input Filter Bias? ResidualData?"
_NAMES, _TRANSPOSED = "conv2d_transpose depthwise_conv2d_transpose", "Input Filter Bias? OutputSizeTensor?"
_POOLS = f"average_pool_2d max_pool_2d mean reduce_max adaptive_average_pool_2d adaptive_max_pool_2d {MOVES}"


def _sides(c: NodeConversion) -> dict[int, Axis]:
    """Return the axes to resize among height and width, by stated sizes or else scales."""
    given.channels_first(c)
    shape, target = given.image_shape(c), [c.parameter(name, -1) for name in ("out_h", "out_w")]
    stated = c.value("Scale").reshape(-1).tolist() if c.has("Scale") else c.attribute("scale")
    scales = [float(scale) for scale in (stated if isinstance(stated, list) else [stated or 0.0])] or [0.0]
    scales = (scales * 2)[-2:]
    if c.has("SizeTensor") or c.has("OutSize"):
        target, scales = given.numbers(c, "", "OutSize", "SizeTensor"), [0.0, 0.0]
    elif min(scales) > 0 and np.isfinite(scales).all():
        target = [int(size * np.float32(scale)) for size, scale in zip(shape[2:], scales, strict=True)]
    c.require(len(target) == 2, f"the size {target} is not of height and width")
    sides = {}
    for axis, count, scale in zip((2, 3), target, scales, strict=True):
        c.require(0 < count <= MOST_SIDE and shape[axis] > 0, f"axis {axis} would have {count:,} elements")
        ratio = np.float32(scale) if scale > 0 else np.float32(count) / np.float32(shape[axis])
        sides[axis] = Axis(shape[axis], count, ratio)
    c.small([*shape[:2], *(side.length for side in sides.values())])
    return {axis: side for axis, side in sides.items() if side.length != side.size}


def _nearest(c: NodeConversion) -> Sequence[int]:
    """Resize to the element at floor(ratio * place), or to the nearest one between corners."""
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


def _weighted(c: NodeConversion) -> Sequence[int]:
    """Resize by two elements along each axis, or four (bicubic)."""
    linear, rule = c.source.operation.startswith("bilinear"), "half_pixel"
    if c.flag("align_corners", True):
        rule = "align_corners"
    elif linear and c.parameter("align_mode", 1) == 1:
        rule = "asymmetric"
    sides = _sides(c).items()
    taps = {axis: interpolation.linear(side, rule) for axis, side in sides}
    if not linear:
        taps = {axis: interpolation.cubic(side, rule, -0.75, False) for axis, side in sides}
    return [weighted(c, c.tensor("X"), taps, together=linear) if taps else c.tensor("X")]


_RESIZE = "X OutSize? Scale? SizeTensor*"
_INTERPOLATED = "bilinear_interp bilinear_interp_v2 bicubic_interp bicubic_interp_v2"


def _yolo_box(c: NodeConversion) -> Sequence[int]:
    x, parameters = c.real("X"), detectors.yolo_box(c, given.numbers(c, "anchors"))
    given.image_shape(c)
    return c.nodes("yolo_box", [x, c.real("ImgSize")], [c.like(x), c.like(x)], **parameters)


def _prior_box(c: NodeConversion) -> Sequence[int]:
    given.image_shape(c, "Input"), given.image_shape(c, "Image")
    images = [c.real("Input"), c.real("Image")]
    return c.nodes("prior_box", images, [unshaped("float32")] * 2, **detectors.prior_box(c))


def _decoded(c: NodeConversion) -> Sequence[int]:
    """Decode boxes (x1, y1, x2, y2) of prior boxes; variances are attributes or a tensor."""
    code, axis = c.attribute("code_type", "encode_center_size"), c.parameter("axis", 0)
    fits = code == "decode_center_size" and axis in (0, 1)
    c.require(fits, f"code_type {code!r} along axis {axis} is not decoding")
    factors = c.real("PriorBoxVar") if c.has("PriorBoxVar") else c.attribute("variance", ()) or (1.0,) * 4
    normalized = c.flag("box_normalized", True)
    return [detectors.decoded(c, c.real("TargetBox"), c.real("PriorBox"), factors, axis, normalized)]


def _suppressed(c: NodeConversion) -> Sequence[int]:
    """Add non-maximum suppression with as many rows as possible; the last output counts the valid ones."""
    c.require(not c.has("RoisNum"), "npusim has boxes of all classes together, without RoisNum")
    boxes, whole = c.real("BBoxes"), unshaped("int32")
    kinds, parameters = [c.like(boxes), whole, whole, whole], detectors.suppression(c)
    kept, places, counts, _ = c.nodes("multiclass_nms", [boxes, c.real("Scores")], kinds, **parameters)
    return [kept, c.reshaped(places, (*c.shape(places), 1)), counts]


_NMS, _BOXES = "multiclass_nms multiclass_nms2 multiclass_nms3", "BBoxes Scores RoisNum?"
_DECODED = "concatenation split mul add sub exp"
_GRID: dict[str, Any] = {"mode": ("mode", "bilinear"), "padding_mode": ("padding_mode", "zeros")}
_GRID |= {"align_corners": ("align_corners", 1)}


ROWS: tuple[Row, ...] = tuple(
    chain(
        op("conv2d depthwise_conv2d conv3d", _CONV, _conv, forms.OPERATORS, "Output", "Conv"),
        op(
            _NAMES, _TRANSPOSED, _transposed, forms.TRANSPOSED, "Output", "ConvTranspose", group=("groups", 1)
        ),
        op("pool2d", "X", _pool, _POOLS, role=given.either("pooling_type", "avg", "AveragePool", "MaxPool")),
        op("max_pool2d_with_index", "X", _pool, "max_pool_2d_with_positions", "Out Mask", groups=False),
        op("nearest_interp nearest_interp_v2", _RESIZE, _nearest, f"{NEAREST} gather", role="Resize"),
        op(_INTERPOLATED, _RESIZE, _weighted, "interpolate"),
        renamed("grid_sampler", "GridSample", "X=X grid=Grid", "Output", **_GRID),
        op("yolo_box", "X ImgSize", _yolo_box, "yolo_box", "Boxes Scores", groups=False),
        op("prior_box", "Input Image", _prior_box, "prior_box", "Boxes Variances", groups=False),
        op("box_coder", "TargetBox PriorBox PriorBoxVar?", _decoded, _DECODED, "OutputBox", groups=False),
        op(_NMS, _BOXES, _suppressed, "multiclass_nms", "Out Index NmsRoisNum", groups=False),
    )
)
