"""Parameters of object detection, under the names that Paddle and NNAdapter share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from npusim.frontends.forms.conversion import Conversion


def yolo_box(c: Conversion, sides: Sequence[int]) -> dict[str, Any]:
    """Return the parameters of the boxes of a YOLO head. `sides` alternates the widths and heights of its anchors."""
    fits = len(sides) % 2 == 0 and min(sides, default=0) > 0
    c.require(fits, f"anchors are {list(sides)}, must be pairs above 0")
    return {
        "anchors": tuple(zip(sides[::2], sides[1::2], strict=True)),
        "classes": c.said("class_num", 1),
        "threshold": c.said("conf_thresh", 0.01),
        "stride": c.said("downsample_ratio", 32),
        "clip": c.said("clip_bbox", True),
        "scale": c.said("scale_x_y", 1.0),
        "overlap_share": c.said("iou_aware_factor", 0.5) if c.said("iou_aware", False) else None,
    }


def prior_box(c: Conversion) -> dict[str, Any]:
    """Return the parameters of prior boxes of images with channels before height and width."""
    variances = c.said("variances", (0.1, 0.1, 0.2, 0.2))
    c.require(len(variances) == 4, f"variances are {list(variances)}, must be 4")
    steps = c.said("step_h", 0.0), c.said("step_w", 0.0)
    return {
        "least": c.said("min_sizes", ()),
        "most": c.said("max_sizes", ()),
        "aspects": c.said("aspect_ratios", (1.0,)),
        "variances": variances,
        "flip": c.said("flip", True),
        "clip": c.said("clip", True),
        "steps": None if 0 in steps else steps,
        "offset": c.said("offset", 0.5),
        "means_first": c.said("min_max_aspect_ratios_order", False),
        "spatial": (2, 3),
    }


def suppression(c: Conversion) -> dict[str, Any]:
    """Return the parameters of a non-maximum suppression by class."""
    return {
        "score_threshold": c.said("score_threshold", 0.0),
        "iou_threshold": c.said("nms_threshold", 0.3),
        "background": c.said("background_label", 0),
        "most_looked_at": c.said("nms_top_k", -1),
        "most_kept": c.said("keep_top_k", -1),
        "shrink": c.said("nms_eta", 1.0),
        "normalized": c.said("normalized", True),
    }
