"""NNAdapter operations on images [N, C, H, W] that are no windows: resizing, sampling, detection of objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from npusim.frontends.forms import detectors
from npusim.frontends.forms.axes import region_means
from npusim.frontends.nnadapter.nnadapter_codes import InterpolateMode, OperationType, PadMode
from npusim.frontends.nnadapter.operation_conversion import Conversion, Row
from npusim.frontends.nnadapter.window_rows import image_size, pair
from npusim.kernels.graph.builder import unshaped

_T = OperationType

_CHANNELS = 1
_HALF_PIXEL = 0
_LARGEST_SCALE = 1 << 20
_OUTSIDE = {
    PadMode.PAD_MODE_CONSTANT: "zeros",
    PadMode.PAD_MODE_REFLECT: "reflection",
    PadMode.PAD_MODE_REPLICATE: "edge",
    PadMode.PAD_MODE_EDGE: "edge",
}


# Images of another size


def _resizing(c: Conversion) -> dict[str, Any]:
    """Return the parameters of a resize: its size, and the distance of sampled pixels where scales state it."""
    image, corners = image_size(c), c.flag("align_corners")
    if c.has("shape"):
        return {"size": pair(c, "shape"), "align_corners": corners}
    scales = c.reals("scales")
    fits = len(scales) == 2 and all(0 < scale <= _LARGEST_SCALE for scale in scales)
    most = f"must be of height and width, above 0 and up to {_LARGEST_SCALE}"
    c.require(fits, f"shape or scales must be there; scales are {scales}, {most}")
    sizes = [int(np.float32(pixels) * np.float32(scale)) for pixels, scale in zip(image, scales, strict=True)]
    c.require(min(sizes) > 0, f"scales {scales} leave {sizes} of an image of {list(image)}")
    parameters: dict[str, Any] = {"size": tuple(sizes), "align_corners": corners}
    exact = all(size == pixels * scale for size, pixels, scale in zip(sizes, image, scales, strict=True))
    if not exact and not corners:  # Paddle samples at the distance that the scale says, not size / image
        parameters["steps"] = tuple(float(np.float32(1) / np.float32(scale)) for scale in scales)
    return parameters


def _linear(c: Conversion) -> int:
    parameters = _resizing(c)
    halves = c.has("align_mode") and c.whole("align_mode") == _HALF_PIXEL
    parameters["half_pixel_centers"] = halves and not parameters["align_corners"]
    return c.node("resize_bilinear", [c.tensor("input")], **parameters)


def _nearest(c: Conversion) -> int:
    return c.node("resize_nearest_neighbor", [c.tensor("input")], **_resizing(c))


def _grid_sample(c: Conversion) -> int:
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


def _channel_shuffle(c: Conversion) -> int:
    shape, groups = c.shape("input"), c.whole("group")
    fits = len(shape) > _CHANNELS and groups >= 1 and shape[_CHANNELS] % groups == 0
    c.require(
        fits, f"group is {groups}, must divide the channels of the input, which has shape {list(shape)}"
    )
    return c.node("channel_shuffle", [c.tensor("input")], groups=groups, axis=_CHANNELS)


# Detection


def _roi_align(c: Conversion) -> int:
    image_size(c)
    scale, samples = c.real("spatial_scale"), max(c.whole("sampling_ratio"), 0)
    size = c.whole("output_height"), c.whole("output_width")
    operands = [c.tensor(name) for name in ("input", "rois", "batch_indices")]
    aligned = c.flag("aligned")
    return region_means(c, operands, size, scale=scale, samples=(samples, samples), centers=aligned)


def _yolo_box(c: Conversion) -> Sequence[int]:
    image_size(c)
    operands = [c.tensor("input"), c.tensor("imgsize")]
    return c.nodes("yolo_box", operands, c.results(), **detectors.yolo_box(c, c.wholes("anchors")))


def _prior_box(c: Conversion) -> Sequence[int]:
    image_size(c)
    image_size(c, "image")
    operands = [c.tensor("input"), c.tensor("image")]
    return c.nodes("prior_box", operands, c.results(), **detectors.prior_box(c))


def _non_max_suppression(c: Conversion) -> Sequence[int]:
    """Add a suppression whose results have room for all boxes; `out_rois_num` says how many of an image are valid."""
    by_class = len(c.shape("scores")) == 2
    c.require(not by_class or c.has("rois_num"), "scores are [boxes, classes], so rois_num must be there")
    counts = [c.tensor("rois_num")] if by_class else []
    whole = unshaped("int32")
    detections, numbers, by_image, _ = c.nodes(
        "multiclass_nms",
        [c.tensor("bboxes"), c.tensor("scores"), *counts],
        [c.result("box"), whole, c.result("out_rois_num"), whole],
        **detectors.suppression(c),
    )
    results = {"box": detections, "out_rois_num": by_image, "index": numbers}
    return [tensor for name, tensor in results.items() if c.has(name)]


ROWS: tuple[Row, ...] = (
    Row(
        _T.RESIZE_LINEAR,
        "input shape:I? scales:F? align_corners:b=False align_mode:i?=1",
        _linear,
        "resize_bilinear",
    ),
    Row(
        _T.RESIZE_NEAREST,
        "input shape:I? scales:F? align_corners:b=False",
        _nearest,
        "resize_nearest_neighbor quantize",
    ),
    Row(_T.GRID_SAMPLE, "input grid align_corners:b=True mode:i=1 pad_mode:i=1", _grid_sample, "grid_sample"),
    Row(_T.CHANNEL_SHUFFLE, "input group:i", _channel_shuffle, "channel_shuffle quantize"),
    Row(
        _T.ROI_ALIGN,
        "input rois batch_indices output_height:i output_width:i sampling_ratio:i=-1 spatial_scale:f=1.0"
        " aligned:b=False",
        _roi_align,
        "roi_align",
    ),
    Row(
        _T.YOLO_BOX,
        "input imgsize anchors:I class_num:i conf_thresh:f downsample_ratio:i clip_bbox:b=True scale_x_y:f=1.0"
        " iou_aware:b=False iou_aware_factor:f=0.5 > boxes=input scores=input",
        _yolo_box,
        "yolo_box",
    ),
    Row(
        _T.PRIOR_BOX,
        "input image min_sizes:F max_sizes:F? aspect_ratios:F? variances:F flip:b=False clip:b=False step_w:f=0.0"
        " step_h:f=0.0 offset:f=0.5 min_max_aspect_ratios_order:b=False > boxes:FLOAT32 variances:FLOAT32",
        _prior_box,
        "prior_box",
    ),
    Row(
        _T.NON_MAX_SUPPRESSION,
        "bboxes scores rois_num? background_label:i=-1 score_threshold:f nms_top_k:i nms_threshold:f nms_eta:f=1.0"
        " keep_top_k:i normalized:b=True return_index:b=False"
        " > box=bboxes out_rois_num:INT32 index?(return_index):INT32",
        _non_max_suppression,
        "multiclass_nms",
        counted="out_rois_num",
    ),
)
