"""Boxes: where detectors begin, what they say, and which of it is kept; regions of feature maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from npusim.frontends.nnadapter.codes import OperationType
from npusim.frontends.nnadapter.operations.conversion import Conversion
from npusim.frontends.nnadapter.operations.row import Row
from npusim.frontends.nnadapter.operations.windows import image_size
from npusim.kernels.graph.builder import unshaped

_NO_SAMPLES = 0


def _roi_align(c: Conversion) -> Sequence[int]:
    image_size(c)
    scale, samples = c.real("spatial_scale"), max(c.whole("sampling_ratio"), _NO_SAMPLES)
    size = c.whole("output_height"), c.whole("output_width")
    c.require(scale > 0, f"spatial_scale is {scale}, must be above 0")
    c.require(min(size) > 0, f"output_height and output_width are {list(size)}, must be above 0")
    return c.node(
        "roi_align",
        [c.tensor("input"), c.tensor("rois"), c.tensor("batch_indices")],
        size=size,
        height_stride=1 / scale,
        width_stride=1 / scale,
        samples=(samples, samples),
        anywhere=True,
        centers=c.flag("aligned"),
    )


def _yolo_box(c: Conversion) -> Sequence[int]:
    image_size(c)
    numbers = c.wholes("anchors")
    c.require(
        len(numbers) % 2 == 0 and min(numbers, default=0) > 0, f"anchors are {numbers}, must be pairs above 0"
    )
    return c.node(
        "yolo_box",
        [c.tensor("input"), c.tensor("imgsize")],
        anchors=tuple(zip(numbers[::2], numbers[1::2], strict=True)),
        classes=c.whole("class_num"),
        threshold=c.real("conf_thresh"),
        stride=c.whole("downsample_ratio"),
        clip=c.flag("clip_bbox"),
        scale=c.real("scale_x_y"),
        overlap_share=c.real("iou_aware_factor") if c.flag("iou_aware") else None,
    )


def _prior_box(c: Conversion) -> Sequence[int]:
    image_size(c)
    image_size(c, "image")
    variances, steps = c.reals("variances"), (c.real("step_h"), c.real("step_w"))
    c.require(len(variances) == 4, f"variances are {variances}, must be 4")
    return c.node(
        "prior_box",
        [c.tensor("input"), c.tensor("image")],
        least=tuple(c.reals("min_sizes")),
        most=tuple(c.reals("max_sizes")),
        aspects=tuple(c.reals("aspect_ratios")),
        variances=tuple(variances),
        flip=c.flag("flip"),
        clip=c.flag("clip"),
        steps=None if 0 in steps else steps,
        offset=c.real("offset"),
        means_first=c.flag("min_max_aspect_ratios_order"),
        spatial=(2, 3),
    )


def _non_max_suppression(c: Conversion) -> Sequence[int]:
    """The rows that there can be, of which only as many hold a detection as the images have together."""
    by_class = len(c.shape("scores")) == 2
    c.require(not by_class or c.has("rois_num"), "scores are [boxes, classes], so rois_num must be there")
    counts = [c.tensor("rois_num")] if by_class else []
    whole = unshaped("int32")
    detections, numbers, by_image, _ = c.node(
        "multiclass_nms",
        [c.tensor("bboxes"), c.tensor("scores"), *counts],
        c.result("box"),
        whole,
        c.result("out_rois_num"),
        whole,
        score_threshold=c.real("score_threshold"),
        iou_threshold=c.real("nms_threshold"),
        background=c.whole("background_label"),
        most_looked_at=c.whole("nms_top_k"),
        most_kept=c.whole("keep_top_k"),
        shrink=c.real("nms_eta"),
        normalized=c.flag("normalized"),
    )
    results: dict[str, Any] = {"box": detections, "out_rois_num": by_image, "index": numbers}
    return [tensor for name, tensor in results.items() if c.has(name)]


ROWS: tuple[Row, ...] = (
    Row(
        OperationType.ROI_ALIGN,
        "input rois batch_indices output_height:i output_width:i sampling_ratio:i=-1 spatial_scale:f=1.0"
        " aligned:b=False > output=input",
        _roi_align,
        ("roi_align",),
    ),
    Row(
        OperationType.YOLO_BOX,
        "input imgsize anchors:I class_num:i conf_thresh:f downsample_ratio:i clip_bbox:b=True scale_x_y:f=1.0"
        " iou_aware:b=False iou_aware_factor:f=0.5 > boxes=input scores=input",
        _yolo_box,
        ("yolo_box",),
    ),
    Row(
        OperationType.PRIOR_BOX,
        "input image min_sizes:F max_sizes:F? aspect_ratios:F? variances:F flip:b=False clip:b=False step_w:f=0.0"
        " step_h:f=0.0 offset:f=0.5 min_max_aspect_ratios_order:b=False > boxes:FLOAT32 variances:FLOAT32",
        _prior_box,
        ("prior_box",),
    ),
    Row(
        OperationType.NON_MAX_SUPPRESSION,
        "bboxes scores rois_num? background_label:i=-1 score_threshold:f nms_top_k:i nms_threshold:f nms_eta:f=1.0"
        " keep_top_k:i normalized:b=True return_index:b=False"
        " > box=bboxes out_rois_num:INT32 index?(return_index):INT32",
        _non_max_suppression,
        ("multiclass_nms",),
        counted="out_rois_num",
    ),
)
