"""Boxes: where detectors begin, what they say, and which of it is kept."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from npusim.frontends.forms.node_conversion import NodeConversion
from npusim.frontends.forms.row import Row
from npusim.frontends.paddle.operations.row import numbers, op
from npusim.kernels.graph.builder import unshaped


def _attributes(c: NodeConversion, **said: tuple[str, Any]) -> dict[str, Any]:
    """Parameters by their names, from attributes: each has a name and the value without it, which gives its kind."""
    return {ours: type(default)(c.attribute(name, default)) for ours, (name, default) in said.items()}


def _yolo_box(c: NodeConversion) -> Sequence[int]:
    x, sides = c.real("X"), numbers(c, "anchors")
    c.require(
        len(sides) % 2 == 0 and min(sides, default=0) > 0, f"anchors are {sides}, must be pairs above 0"
    )
    c.require(len(c.shape(x)) == 4, f"X has shape {list(c.shape(x))}, must be [N, C, H, W]")
    how = _attributes(
        c,
        classes=("class_num", 1),
        threshold=("conf_thresh", 0.01),
        stride=("downsample_ratio", 32),
        scale=("scale_x_y", 1.0),
    )
    how |= {"clip": c.flag("clip_bbox", True), "anchors": tuple(zip(sides[::2], sides[1::2], strict=True))}
    how |= {"overlap_share": float(c.attribute("iou_aware_factor", 0.5)) if c.flag("iou_aware") else None}
    return c.nodes("yolo_box", [x, c.real("ImgSize")], [c.like(x), c.like(x)], **how)


def _prior_box(c: NodeConversion) -> Sequence[int]:
    images = [c.real("Input"), c.real("Image")]
    c.require(all(len(c.shape(each)) == 4 for each in images), "Input and Image must be [N, C, H, W]")
    how = _attributes(
        c,
        least=("min_sizes", ()),
        most=("max_sizes", ()),
        aspects=("aspect_ratios", (1.0,)),
        variances=("variances", (0.1, 0.1, 0.2, 0.2)),
        offset=("offset", 0.5),
    )
    c.require(len(how["variances"]) == 4, f"variances are {list(how['variances'])}, must be 4")
    steps = (float(c.attribute("step_h", 0.0)), float(c.attribute("step_w", 0.0)))
    how |= {
        "flip": c.flag("flip", True),
        "clip": c.flag("clip", True),
        "steps": None if 0 in steps else steps,
    }
    how |= {"means_first": c.flag("min_max_aspect_ratios_order"), "spatial": (2, 3)}
    return c.nodes("prior_box", images, [unshaped("float32")] * 2, **how)


def _decoded(c: NodeConversion) -> Sequence[int]:
    """Boxes (x1, y1, x2, y2) from offsets to prior boxes: of the centre by their size, of the size by its logarithm."""
    how, axis = c.attribute("code_type", "encode_center_size"), int(c.attribute("axis", 0))
    c.require(
        how == "decode_center_size" and axis in (0, 1), f"code_type {how!r} along axis {axis} is not decoding"
    )
    target, priors, factors = (
        c.real("TargetBox"),
        c.real("PriorBox"),
        c.attribute("variance", ()) or (1.0,) * 4,
    )
    shape = c.shape(target)
    fits = len(shape) == 3 and shape[2] == len(factors) == 4 and c.shape(priors) == (shape[1 - axis], 4)
    c.require(
        fits, f"TargetBox {list(shape)} does not fit PriorBox {list(c.shape(priors))} along axis {axis}"
    )
    along = (1, shape[1], 1) if axis == 0 else (shape[0], 1, 1)
    one = 0.0 if c.flag("box_normalized", True) else 1.0

    def columns(tensor: int) -> list[int]:
        last = len(c.shape(tensor)) - 1
        return list(c.nodes("split", [tensor], [c.like(tensor)] * 4, axis=last, sizes=(1,) * 4))

    def plus(a: int, number: float) -> int:
        return c.step("add", [a, c.scalar(number, a)]) if number else a

    def half(a: int) -> int:
        return c.step("mul", [a, c.scalar(0.5, a)])

    sides = [c.reshaped(each, along) for each in columns(priors)]
    by = [c.scalar(number, target) for number in factors]
    if c.has("PriorBoxVar"):
        by = [c.reshaped(each, along) for each in columns(c.real("PriorBoxVar"))]
    offsets = [c.step("mul", [a, b]) for a, b in zip(columns(target), by, strict=True)]
    firsts, lasts = [], []
    for begin, end, move, grow in zip(sides[:2], sides[2:], offsets[:2], offsets[2:], strict=True):
        size = plus(c.step("sub", [end, begin]), one)
        middle = c.step("add", [c.step("mul", [move, size]), c.step("add", [begin, half(size)])])
        reach = half(c.step("mul", [c.step("exp", [grow]), size]))
        firsts.append(c.step("sub", [middle, reach]))
        lasts.append(plus(c.step("add", [middle, reach]), -one))
    return [c.node("concatenation", [*firsts, *lasts], axis=2)]


def _suppressed(c: NodeConversion) -> Sequence[int]:
    """As many rows as there can be, of which those hold a detection that the last output counts."""
    c.require(not c.has("RoisNum"), "npusim has boxes of all classes together, without RoisNum")
    how = _attributes(
        c,
        score_threshold=("score_threshold", 0.0),
        iou_threshold=("nms_threshold", 0.3),
        background=("background_label", 0),
        most_looked_at=("nms_top_k", -1),
        most_kept=("keep_top_k", -1),
        shrink=("nms_eta", 1.0),
    )
    boxes, whole = c.real("BBoxes"), unshaped("int32")
    kinds, how["normalized"] = [c.like(boxes), whole, whole, whole], c.flag("normalized", True)
    kept, places, counts, _ = c.nodes("multiclass_nms", [boxes, c.real("Scores")], kinds, **how)
    return [kept, c.reshaped(places, (*c.shape(places), 1)), counts]


_NMS = "multiclass_nms multiclass_nms2 multiclass_nms3"
_DECODED = "concatenation split mul add sub exp"

ROWS: tuple[Row, ...] = tuple(
    chain(
        op("yolo_box", "X ImgSize", _yolo_box, "yolo_box", "Boxes Scores", groups=False),
        op("prior_box", "Input Image", _prior_box, "prior_box", "Boxes Variances", groups=False),
        op("box_coder", "TargetBox PriorBox PriorBoxVar?", _decoded, _DECODED, "OutputBox", groups=False),
        op(
            _NMS,
            "BBoxes Scores RoisNum?",
            _suppressed,
            "multiclass_nms",
            "Out Index NmsRoisNum",
            groups=False,
        ),
    )
)
