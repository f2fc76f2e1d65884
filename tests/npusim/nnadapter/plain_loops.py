"""Operations on images as their definitions say, element by element: what the door's operations are tried against.

Images are [n, c, h, w], numbers float64. Nothing here is from the operators of npusim.
"""

from __future__ import annotations

from itertools import product
from math import ceil, exp, floor
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[Any]


def convolution(
    x: Numbers, w: Numbers, b: Numbers, pads: Any, strides: Any, group: int, dilations: Any
) -> Numbers:
    """CONV_2D; pads are top, bottom, left, right."""
    top, bottom, left, right = pads
    padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    (n, c, h, wide), (o, each, kh, kw) = padded.shape, w.shape
    rows = (h - (kh - 1) * dilations[0] - 1) // strides[0] + 1
    columns = (wide - (kw - 1) * dilations[1] - 1) // strides[1] + 1
    y = np.zeros((n, o, rows, columns))
    for image, channel, row, column in np.ndindex(y.shape):
        first = channel // (o // group) * each
        for depth, down, across in np.ndindex(each, kh, kw):
            at = row * strides[0] + down * dilations[0], column * strides[1] + across * dilations[1]
            y[image, channel, row, column] += (
                padded[image, first + depth, *at] * w[channel, depth, down, across]
            )
    assert c == each * group
    return y + b.reshape(1, -1, 1, 1)


def transposed_convolution(
    x: Numbers, w: Numbers, b: Numbers, pads: Any, strides: Any, group: int, dilations: Any, size: Any
) -> Numbers:
    """CONV_2D_TRANSPOSE; filters are [c_in, c_out / group, h, w]."""
    (n, c, _, _), (_, each, kh, kw) = x.shape, w.shape
    y = np.zeros((n, each * group, *size))
    for image, depth, row, column in np.ndindex(x.shape):
        first = depth // (c // group) * each
        for channel, down, across in np.ndindex(each, kh, kw):
            at_y = row * strides[0] + down * dilations[0] - pads[0]
            at_x = column * strides[1] + across * dilations[1] - pads[2]
            if 0 <= at_y < size[0] and 0 <= at_x < size[1]:
                y[image, first + channel, at_y, at_x] += (
                    x[image, depth, row, column] * w[depth, channel, down, across]
                )
    return y + b.reshape(1, -1, 1, 1)


def pool(
    x: Numbers, pads: Any, kernel: Any, strides: Any, size: Any, what: str, include: bool = False
) -> tuple[Numbers, Numbers]:
    """AVERAGE_POOL_2D ("mean") or MAX_POOL_2D ("max") of an output of some size, and the positions of the maxima."""
    n, c, h, w = x.shape
    y, positions = np.zeros((n, c, *size)), np.zeros((n, c, *size), np.int64)
    for image, channel, row, column in np.ndindex(y.shape):
        top, left = row * strides[0] - pads[0], column * strides[1] - pads[2]
        rows = range(max(top, 0), min(top + kernel[0], h))
        columns = range(max(left, 0), min(left + kernel[1], w))
        seen = [(x[image, channel, i, j], -(i * w + j)) for i in rows for j in columns]
        counted = (min(top + kernel[0], h + pads[1]) - top) * (min(left + kernel[1], w + pads[3]) - left)
        best = max(seen)
        positions[image, channel, row, column] = -best[1]
        total = sum(value for value, _ in seen) / (counted if include else len(seen))
        y[image, channel, row, column] = best[0] if what == "max" else total
    return y, positions


def bins(x: Numbers, size: Any, what: str) -> tuple[Numbers, Numbers]:
    """ADAPTIVE_AVERAGE_POOL_2D ("mean") or ADAPTIVE_MAX_POOL_2D ("max"), and the positions of the maxima."""
    n, c, h, w = x.shape
    y, positions = np.zeros((n, c, *size)), np.zeros((n, c, *size), np.int64)
    for image, channel, row, column in np.ndindex(y.shape):
        rows = range(floor(row * h / size[0]), ceil((row + 1) * h / size[0]))
        columns = range(floor(column * w / size[1]), ceil((column + 1) * w / size[1]))
        seen = [(x[image, channel, i, j], -(i * w + j)) for i in rows for j in columns]
        positions[image, channel, row, column] = -max(seen)[1]
        mean = sum(value for value, _ in seen) / len(seen)
        y[image, channel, row, column] = max(seen)[0] if what == "max" else mean
    return y, positions


def between(plane: Numbers, y: float, x: float, *, edge: bool = False) -> float:
    """A plane [h, w] between its pixels; outside it is 0, or as its edge."""
    total = 0.0
    for i, j in product((floor(y), floor(y) + 1), (floor(x), floor(x) + 1)):
        share = (1 - abs(y - i)) * (1 - abs(x - j))
        if edge:
            i, j = min(max(i, 0), plane.shape[0] - 1), min(max(j, 0), plane.shape[1] - 1)
        if 0 <= i < plane.shape[0] and 0 <= j < plane.shape[1]:
            total += share * plane[i, j]
    return total


def deformable(
    x: Numbers,
    offsets: Numbers,
    masks: Numbers,
    w: Numbers,
    b: Numbers,
    pads: Any,
    strides: Any,
    group: int,
    parts: int,
    dilations: Any,
) -> Numbers:
    """DEFORMABLE_CONV_2D."""
    (n, c, _, _), (o, each, kh, kw) = x.shape, w.shape
    y = np.zeros((n, o, *offsets.shape[2:]))
    for image, channel, row, column in np.ndindex(y.shape):
        first = channel // (o // group) * each
        for depth, down, across in np.ndindex(each, kh, kw):
            part = (first + depth) // (c // parts)
            tap = (part * kh + down) * kw + across
            at_y = row * strides[0] - pads[0] + down * dilations[0] + offsets[image, 2 * tap, row, column]
            at_x = (
                column * strides[1]
                - pads[2]
                + across * dilations[1]
                + offsets[image, 2 * tap + 1, row, column]
            )
            seen = between(x[image, first + depth], at_y, at_x) * masks[image, tap, row, column]
            y[image, channel, row, column] += seen * w[channel, depth, down, across]
    return y + b.reshape(1, -1, 1, 1)


def resized(x: Numbers, size: Any, steps: Any, mode: str) -> Numbers:
    """RESIZE_LINEAR: "halves" (align_mode 0), "plain" (1) or "corners"; RESIZE_NEAREST: "floor" or "round"."""
    n, c, h, w = x.shape
    y = np.zeros((n, c, *size))
    for image, channel, row, column in np.ndindex(y.shape):
        if mode == "halves":
            at = [max(step * (i + 0.5) - 0.5, 0) for step, i in zip(steps, (row, column), strict=True)]
        else:
            at = [step * i for step, i in zip(steps, (row, column), strict=True)]
        plane = x[image, channel]
        if mode in ("floor", "round"):
            place = [floor(here + (0.5 if mode == "round" else 0)) for here in at]
            y[image, channel, row, column] = plane[min(place[0], h - 1), min(place[1], w - 1)]
        else:
            y[image, channel, row, column] = between(plane, *at, edge=True)
    return y


def sampled(x: Numbers, grid: Numbers, corners: bool, nearest: bool, outside: str) -> Numbers:
    """GRID_SAMPLE."""
    n, c, *sides = x.shape
    y = np.zeros((n, c, *grid.shape[1:3]))

    def place(at: float, size: int) -> float:
        pixel = (at + 1) / 2 * (size - 1) if corners else ((at + 1) * size - 1) / 2
        low, high = (0.0, size - 1.0) if corners else (-0.5, size - 0.5)
        while outside == "reflection" and not low <= pixel <= high and high > low:
            pixel = 2 * low - pixel if pixel < low else 2 * high - pixel
        return pixel if outside == "zeros" else min(max(pixel, 0), size - 1)

    for image, channel, row, column in np.ndindex(y.shape):
        at_y, at_x = (place(grid[image, row, column, 1 - axis], sides[axis]) for axis in (0, 1))
        if nearest:
            i, j = (floor(abs(at) + 0.5) * (1 if at >= 0 else -1) for at in (at_y, at_x))
            inside = 0 <= i < sides[0] and 0 <= j < sides[1]
            y[image, channel, row, column] = x[image, channel, i, j] if inside else 0
        else:
            y[image, channel, row, column] = between(x[image, channel], at_y, at_x)
    return y


def regions(
    x: Numbers, rois: Numbers, images: Numbers, size: Any, ratio: int, scale: float, aligned: bool
) -> Numbers:
    """ROI_ALIGN."""
    _, c, h, w = x.shape
    y = np.zeros((len(rois), c, *size))
    for roi, channel, row, column in np.ndindex(y.shape):
        x1, y1, x2, y2 = (side * scale - 0.5 * aligned for side in rois[roi])
        sides = [y2 - y1, x2 - x1] if aligned else [max(y2 - y1, 1), max(x2 - x1, 1)]
        counts = [ratio if ratio > 0 else ceil(side / bins) for side, bins in zip(sides, size, strict=True)]
        total = 0.0
        for i, j in np.ndindex(*counts):
            at_y = y1 + sides[0] / size[0] * (row + (i + 0.5) / counts[0])
            at_x = x1 + sides[1] / size[1] * (column + (j + 0.5) / counts[1])
            if -1 <= at_y <= h and -1 <= at_x <= w:
                inside = min(max(at_y, 0), h - 1), min(max(at_x, 0), w - 1)
                total += between(x[images[roi], channel], *inside)
        y[roi, channel, row, column] = total / max(counts[0] * counts[1], 1)
    return y


def yolo(
    x: Numbers, sizes: Numbers, anchors: Any, classes: int, threshold: float, stride: int, clip: bool, scale: float,
    overlap_share: float | None,
) -> tuple[Numbers, Numbers]:  # fmt: skip
    """YOLO_BOX."""
    n, _, h, w = x.shape
    count = len(anchors) // 2
    boxes, scores = np.zeros((n, count * h * w, 4)), np.zeros((n, count * h * w, classes))
    more = count if overlap_share is not None else 0

    def sure(number: float) -> float:
        return 1 / (1 + exp(-number))

    for image, anchor, row, column in np.ndindex(n, count, h, w):
        said = x[image, more + anchor * (5 + classes) : more + (anchor + 1) * (5 + classes), row, column]
        confidence = sure(said[4])
        if overlap_share is not None:
            overlap = sure(x[image, anchor, row, column])
            confidence = confidence ** (1 - overlap_share) * overlap**overlap_share
        if confidence < threshold:
            continue
        high, wide = sizes[image]
        middle_x = (column + sure(said[0]) * scale - 0.5 * (scale - 1)) * wide / w
        middle_y = (row + sure(said[1]) * scale - 0.5 * (scale - 1)) * high / h
        half_x = exp(said[2]) * anchors[2 * anchor] * wide / (stride * w) / 2
        half_y = exp(said[3]) * anchors[2 * anchor + 1] * high / (stride * h) / 2
        corners = [middle_x - half_x, middle_y - half_y, middle_x + half_x, middle_y + half_y]
        if clip:
            corners = [
                max(corners[0], 0),
                max(corners[1], 0),
                min(corners[2], wide - 1),
                min(corners[3], high - 1),
            ]
        place = (anchor * h + row) * w + column
        boxes[image, place] = corners
        scores[image, place] = [confidence * sure(one) for one in said[5:]]
    return boxes, scores


def kept_boxes(boxes: Numbers, scores: Numbers, how: dict[str, Any]) -> list[tuple[int, float, int]]:
    """NON_MAX_SUPPRESSION of one image, boxes [m, 4] and scores [classes, m]: (class, score, box), in order."""
    more = 0 if how["normalized"] else 1

    def area(box: Any) -> float:
        sides = box[2] - box[0], box[3] - box[1]
        return 0.0 if min(sides) < 0 else float((sides[0] + more) * (sides[1] + more))

    def overlap(one: Any, other: Any) -> float:
        low = [max(one[0], other[0]), max(one[1], other[1])]
        high = [min(one[2], other[2]), min(one[3], other[3])]
        if low[0] > high[0] or low[1] > high[1]:
            return 0.0
        shared = (high[0] - low[0] + more) * (high[1] - low[1] + more)
        return float(shared / (area(one) + area(other) - shared))

    found: list[tuple[int, float, int]] = []
    for label in range(len(scores)):
        if label == how["background"]:
            continue
        threshold, chosen = how["iou"], list[int]()
        order = sorted(range(len(boxes)), key=lambda box: (-scores[label, box], box))
        for box in [box for box in order if scores[label, box] > how["score"]][: how["looked_at"]]:
            if all(overlap(boxes[box], boxes[other]) <= threshold for other in chosen):
                chosen.append(box)
                if how["eta"] < 1 and threshold > 0.5:
                    threshold *= how["eta"]
        found += [(label, float(scores[label, box]), box) for box in chosen]
    best = sorted(found, key=lambda one: -one[1])[: how["kept"]]
    return sorted(best, key=lambda one: (one[0], -one[1]))
