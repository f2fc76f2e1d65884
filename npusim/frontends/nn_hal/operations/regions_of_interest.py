"""Operations on boxes and regions of interest: proposals, suppression, detections, pools of regions, keypoints."""

from __future__ import annotations

from collections.abc import Sequence

from npusim.frontends.nn_hal.enumerations import OperandType, OperationType
from npusim.frontends.nn_hal.operations import constraints
from npusim.frontends.nn_hal.operations.constraints import dimensions, finite, positive
from npusim.frontends.nn_hal.operations.named_arguments import Call
from npusim.frontends.nn_hal.operations.operation_row import Conversion, Row, Rule
from npusim.frontends.nn_hal.operations.signatures import FLOATS, Choice, Words

_T = OperationType
_KERNELS = Choice("kernel", {0: "hard", 1: "linear", 2: "gaussian"})
_EIGHTHS = {OperandType.TENSOR_QUANT16_ASYMM: (0.125, 0), OperandType.TENSOR_QUANT16_SYMM: (0.125, 0)}
_WITH_BOXES = "F16,F16@1.2 F32,F32@1.2 Q8,Q16A@1.2 Q8S,Q16A@1.3"


def _eighths(*names: str) -> tuple[Rule, ...]:
    """Return the rules that 16-bit coordinates are eighths of a pixel."""
    return tuple(constraints.prescribed(name, _EIGHTHS) for name in names)


def _inside(images: str, of: str) -> Rule:
    """Return the rule that the image number of every box is that of an image of the batch."""

    def rule(call: Call) -> str | None:
        numbers, count = call.wholes(images), call.size(of, 0)
        if numbers is None or count is None:
            return None
        return None if all(0 <= number < count for number in numbers) else images

    rule.__doc__ = f"{images} are in [0, n) for the first dimension n of {of}"
    return rule


# Boxes


def _suppression(c: Conversion) -> Sequence[int]:
    """Add the node with the sigma of a gaussian kernel; for other kernels it is not used and 1."""
    is_gaussian = _KERNELS.values[c.whole("kernel")] == "gaussian"
    return c.add(sigma=c.real("sigma") if is_gaussian else 1.0)


def _sigma(call: Call) -> str | None:
    """sigma of the gaussian kernel is above 0"""
    sigma = call.number("sigma")
    return "sigma" if call.whole("kernel") == 2 and sigma is not None and not sigma > 0 else None


def _detections(c: Conversion) -> Sequence[int]:
    """Add the node with one of the two limits, by the kind of suppression; the other is not used and 1."""
    is_regular = c.flag("regular")
    return c.add(
        max_classes_per_detection=1 if is_regular else c.whole("max_classes_per_detection"),
        detections_per_class=c.whole("detections_per_class") if is_regular else 1,
    )


def _counts(call: Call) -> str | None:
    """max_classes_per_detection without regular NMS, detections_per_class with it, is 1 or more"""
    regular = call.whole("regular")
    if regular is None:
        return None
    name = "detections_per_class" if regular else "max_classes_per_detection"
    value = call.whole(name)
    return name if value is not None and value < 1 else None


def _encoded(call: Call) -> str | None:
    """deltas have 4 or more values per anchor"""
    length = call.size("deltas", 2)
    return "deltas" if length is not None and length < 4 else None


# Regions


_REGIONS = dimensions(
    {
        "input": "? ? ? channels",
        "regions": "regions 4",
        "images": "regions",
        "output": "regions height width channels",
    },
    images=("input", "output"),
    scalars=("height", "width"),
)
_REGION = "input:T regions:B images:I32 height:i width:i height_stride:s width_stride:s"
_STRIDES = ("height_stride", "width_stride")
_REGION_PARAMETERS = (
    constraints.at_least(1, "height", "width"),
    positive(*_STRIDES),
    finite(*_STRIDES),
    _inside("images", "input"),
)


# Keypoints


def _large_heatmaps(call: Call) -> str | None:
    """heatmaps have 2 or more pixels a side"""
    image = call.image("heatmaps")
    return "heatmaps" if image is not None and image[1] is not None and image[1] < 2 else None


_KEYPOINT_SIZES = {
    "heatmaps": "boxes side side keypoints",
    "boxes": "boxes 4",
    "scores": "boxes keypoints",
    "keypoints": "boxes keypoints 2",
}
_TRANSFORM_SIZES = {
    "boxes": "boxes 4",
    "deltas": "boxes 4*classes",
    "images": "boxes",
    "sizes": "images 2",
    "output": "boxes 4*classes",
}
_SUPPRESSION_SIZES = {
    "scores": "boxes classes",
    "boxes": "boxes 4*classes",
    "images": "boxes",
    "scores_out": "rows",
    "boxes_out": "rows 4",
    "classes": "rows",
    "images_out": "rows",
}
_PROPOSAL_SIZES = {
    "anchors": "anchors 4",
    "scores": "batch rows columns anchors",
    "deltas": "batch rows columns 4*anchors",
    "sizes": "batch 2",
    "scores_out": "boxes",
    "boxes_out": "boxes 4",
    "images_out": "boxes",
}
_DETECTION_SIZES = {
    "scores": "batches anchors classes",
    "deltas": "batches anchors encoding",
    "anchors": "anchors 4",
    "scores_out": "batches max_detections",
    "boxes": "batches max_detections 4",
    "classes": "batches max_detections",
    "valid": "batches",
}
_DETECTION_SCALES = ("dy_scale", "dx_scale", "dh_scale", "dw_scale")
_THRESHOLDS = ("score_threshold", "iou_threshold")

_REGION_WORDS: dict[str, Words] = {
    "size": ("height", "width"),
    "samples": ("height_samples", "width_samples"),
}

ROWS: tuple[Row, ...] = (
    Row(
        _T.AXIS_ALIGNED_BBOX_TRANSFORM,
        ("boxes:T deltas:D images:I32 sizes:T > output:T",),
        "T D: F16,F16@1.2 F32,F32@1.2 Q16A,Q8@1.2 Q16A,Q8S@1.3",
        "axis_aligned_bbox_transform",
        (_inside("images", "sizes"),),
        dimensions(_TRANSFORM_SIZES),
        _eighths("boxes", "output"),
    ),
    Row(
        _T.BOX_WITH_NMS_LIMIT,
        (
            "scores:T boxes:B images:I32 score_threshold:s max_boxes:i kernel:i iou_threshold:s sigma:s "
            "nms_score_threshold:s > scores_out:T boxes_out:B classes:I32 images_out:I32",
        ),
        f"T B: {_WITH_BOXES}",
        "box_with_nms_limit",
        (
            constraints.one_of("kernel", 0, 2, "0 (hard), 1 (linear) or 2 (gaussian)"),
            finite(*_THRESHOLDS, "nms_score_threshold"),
            _sigma,
        ),
        dimensions(_SUPPRESSION_SIZES),
        (constraints.same_quantization("scores", "scores_out"), *_eighths("boxes", "boxes_out")),
        words={"most": "max_boxes", "kernel": _KERNELS},
        convert=_suppression,
        counted=True,
    ),
    Row(
        _T.GENERATE_PROPOSALS,
        (
            "scores:T deltas:T anchors:A sizes:S height_stride:s width_stride:s max_before:i max_after:i "
            "iou_threshold:s min_size:s nchw:b > scores_out:T boxes_out:S images_out:I32",
        ),
        "T A S: F16,F16,F16@1.2 F32,F32,F32@1.2 Q8,Q16S,Q16A@1.2 Q8S,Q16S,Q16A@1.3",
        "generate_proposals",
        (positive(*_STRIDES), finite(*_STRIDES, "iou_threshold", "min_size")),
        dimensions(_PROPOSAL_SIZES, images=("scores", "deltas")),
        (constraints.same_quantization("scores", "scores_out"), *_eighths("anchors", "sizes", "boxes_out")),
        words={"most_before": "max_before", "most_after": "max_after"},
        images=("scores", "deltas"),
        counted=True,
    ),
    Row(
        _T.DETECTION_POSTPROCESSING,
        (
            "scores:T deltas:T anchors:T dy_scale:s dx_scale:s dh_scale:s dw_scale:s regular:b max_detections:i "
            "max_classes_per_detection:i detections_per_class:i score_threshold:s iou_threshold:s background:b > "
            "scores_out:T boxes:T classes:I32 valid:I32",
        ),
        f"T: {FLOATS}",
        "detection_postprocessing",
        (
            constraints.at_least(1, "max_detections"),
            positive(*_DETECTION_SCALES),
            finite(*_DETECTION_SCALES, *_THRESHOLDS),
            _counts,
        ),
        (*dimensions(_DETECTION_SIZES, scalars=("max_detections",)), _encoded),
        words={"scales": _DETECTION_SCALES},
        convert=_detections,
    ),
    Row(
        _T.HEATMAP_MAX_KEYPOINT,
        ("heatmaps:T boxes:B nchw:b > scores:T keypoints:B",),
        f"T B: {_WITH_BOXES}",
        "heatmap_max_keypoint",
        (),
        (*dimensions(_KEYPOINT_SIZES, images=("heatmaps",)), _large_heatmaps),
        _eighths("boxes", "keypoints"),
        images=("heatmaps",),
    ),
    Row(
        _T.ROI_ALIGN,
        (f"{_REGION} height_samples:i width_samples:i nchw:b > output:T",),
        f"T B: {_WITH_BOXES}",
        "roi_align",
        (*_REGION_PARAMETERS, constraints.at_least(0, "height_samples", "width_samples")),
        _REGIONS,
        _eighths("regions"),
        words=_REGION_WORDS,
    ),
    Row(
        _T.ROI_POOLING,
        (f"{_REGION} nchw:b > output:T",),
        f"T B: {_WITH_BOXES}",
        "roi_pooling",
        _REGION_PARAMETERS,
        _REGIONS,
        (constraints.same_quantization("input", "output"), *_eighths("regions")),
        words=_REGION_WORDS,
    ),
)
