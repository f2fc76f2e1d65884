"""Object-detection layers that Paddle and NNAdapter define alike: YOLO heads, prior boxes, NMS and box decoding.

Both formats give the arguments of the first three the same names, so one function translates them into parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from npusim.frontends.forms.conversion import Conversion


def yolo_box(c: Conversion, sides: Sequence[int]) -> dict[str, Any]:
    """Return the parameters of a YOLO head. `sides` alternates the widths and heights of its anchor boxes."""
    fits = len(sides) % 2 == 0 and min(sides, default=0) > 0
    c.require(fits, f"anchors are {list(sides)}, must be pairs above 0")
    return {
        "anchors": tuple(zip(sides[::2], sides[1::2], strict=True)),
        "classes": c.parameter("class_num", 1),
        "threshold": c.parameter("conf_thresh", 0.01),
        "stride": c.parameter("downsample_ratio", 32),
        "clip": c.parameter("clip_bbox", True),
        "scale": c.parameter("scale_x_y", 1.0),
        "overlap_share": c.parameter("iou_aware_factor", 0.5) if c.parameter("iou_aware", False) else None,
    }


def prior_box(c: Conversion) -> dict[str, Any]:
    """Return the parameters of prior boxes (SSD anchors) for images [N, C, H, W]."""
    variances = c.parameter("variances", (0.1, 0.1, 0.2, 0.2))
    c.require(len(variances) == 4, f"variances are {list(variances)}, must be 4")
    steps = c.parameter("step_h", 0.0), c.parameter("step_w", 0.0)
    return {
        "least": c.parameter("min_sizes", ()),
        "most": c.parameter("max_sizes", ()),
        "aspects": c.parameter("aspect_ratios", (1.0,)),
        "variances": variances,
        "flip": c.parameter("flip", True),
        "clip": c.parameter("clip", True),
        "steps": None if 0 in steps else steps,
        "offset": c.parameter("offset", 0.5),
        "means_first": c.parameter("min_max_aspect_ratios_order", False),
        "spatial": (2, 3),
    }


def suppression(c: Conversion) -> dict[str, Any]:
    """Return the parameters of non-maximum suppression (NMS), applied class by class."""
    return {
        "score_threshold": c.parameter("score_threshold", 0.0),
        "iou_threshold": c.parameter("nms_threshold", 0.3),
        "background": c.parameter("background_label", 0),
        "most_looked_at": c.parameter("nms_top_k", -1),
        "most_kept": c.parameter("keep_top_k", -1),
        "shrink": c.parameter("nms_eta", 1.0),
        "normalized": c.parameter("normalized", True),
    }


def decoded(
    c: Conversion, target: int, priors: int, factors: int | Sequence[float], axis: int, normalized: bool
) -> int:
    """Decode the box regressions of a detector into boxes (x1, y1, x2, y2), [n, m, 4].

    target:     regressions: the offset of the centre in units of the prior box's size, and the logarithm of the size
                relative to it.
    priors:     prior boxes (x1, y1, x2, y2), one for each entry along the axis of the target that is not `axis`.
    factors:    variances, by which the regressions are multiplied: four numbers, or a tensor like `priors`.
    axis:       the axis of the target, 0 or 1, along which the prior boxes repeat.
    normalized: True if a box is x2 - x1 wide; False if it is one pixel wider, because x2 is its last pixel.
    """
    shape, count = c.shape(target), 4 if isinstance(factors, int) else len(factors)
    fits = len(shape) == 3 and shape[2] == count == 4 and c.shape(priors) == (shape[1 - axis], 4)
    c.require(fits, f"boxes {list(shape)} do not fit prior boxes {list(c.shape(priors))} along axis {axis}")
    along = (1, shape[1], 2) if axis == 0 else (shape[0], 1, 2)

    def halves(tensor: int) -> Sequence[int]:
        """Return the first two and the last two columns."""
        last = len(c.shape(tensor)) - 1
        return c.nodes("split", [tensor], [c.like(tensor)] * 2, axis=last, sizes=(2, 2))

    def plus(a: int, number: float) -> int:
        return a if normalized else c.step("add", [a, c.scalar(number, a)])

    def half(a: int) -> int:
        return c.step("mul", [a, c.scalar(0.5, a)])

    begin, end = (c.reshaped(side, along) for side in halves(priors))
    if isinstance(factors, int):
        by = [c.reshaped(side, along) for side in halves(factors)]
    else:
        by = [c.constant(np.array(numbers, np.float32)) for numbers in (factors[:2], factors[2:])]
    move, grow = (c.step("mul", [a, b]) for a, b in zip(halves(target), by, strict=True))
    size = plus(c.step("sub", [end, begin]), 1.0)
    middle = c.step("add", [c.step("mul", [move, size]), c.step("add", [begin, half(size)])])
    reach = half(c.step("mul", [c.step("exp", [grow]), size]))
    ends = c.step("sub", [middle, reach]), plus(c.step("add", [middle, reach]), -1.0)
    return c.node("concatenation", ends, axis=2)
