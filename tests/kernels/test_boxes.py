"""Boxes and regions: suppression against a simple model, regions against loops over single numbers, errors."""

from __future__ import annotations

from math import ceil, exp, floor
from typing import Any

import numpy as np
import pytest
from hypothesis import example
from hypothesis import given as for_any
from hypothesis import strategies as st

from npusim.isa.base.errors import OperandFault
from npusim.isa.base.tensor import Array, Quantization, TensorType
from npusim.kernels.operator.operator import Call
from npusim.kernels.table import operator

from .calls import given

Values = list[Array]


def reals(value: Any) -> Array:
    return np.array(value, np.float32)


def whole(value: Any) -> Array:
    return np.array(value, np.int32)


def results(name: str, values: Values, *outputs: str, **parameters: Any) -> list[Any]:
    """The outputs of an operator on float32 and int32 arrays."""
    entry = operator(name)
    inputs = tuple(TensorType(str(value.dtype), value.shape) for value in values)
    unshaped = Call(given(name, **parameters), inputs, tuple(TensorType(dtype, ()) for dtype in outputs), {})
    shapes = entry.infer(unshaped)
    types = tuple(TensorType(dtype, shape) for dtype, shape in zip(outputs, shapes, strict=True))
    call = Call(unshaped.parameters, inputs, types, {})
    assert entry.broken_rule(call) is None
    assert entry.workload(call).elements >= 0
    found = entry.reference(call, values)
    assert [(array.dtype, array.shape) for array in found] == [(t.numpy_dtype, t.shape) for t in types]
    return list(found)


# Suppression


def overlap(a: list[float], b: list[float]) -> float:
    width = max(min(a[2], b[2]) - max(a[0], b[0]), 0.0)
    height = max(min(a[3], b[3]) - max(a[1], b[1]), 0.0)
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (a, b)]
    union = sum(areas) - width * height
    return width * height / union if union > 0 else 0.0


def suppressed_by_hand(
    boxes: list[list[float]], scores: list[float], kernel: str, threshold: float, sigma: float, least: float
) -> list[tuple[int, float]]:
    """Indexes and scores in the order of choice."""
    left = dict(enumerate(scores))
    chosen = []
    while left:
        best = max(left, key=lambda index: (left[index], -index))
        chosen.append((best, left.pop(best)))
        for index in list(left):
            share = overlap(boxes[best], boxes[index])
            if kernel == "gaussian":
                left[index] *= exp(-share * share / sigma)
            elif share >= threshold:
                left[index] *= 0.0 if kernel == "hard" else 1 - share
            if left[index] < least or (kernel == "hard" and share >= threshold):
                del left[index]
    return chosen


corner = st.integers(0, 8)
boxes_and_scores = st.lists(
    st.tuples(corner, corner, corner, corner, st.integers(0, 32)), min_size=0, max_size=12
)


@for_any(
    boxes_and_scores,
    st.sampled_from(["hard", "linear", "gaussian"]),
    st.sampled_from([0.25, 0.5, 0.75]),
    st.integers(-1, 6),
)
@example([(0, 0, 4, 2, 32), (0, 0, 2, 2, 16)], "hard", 0.5, -1)  # they overlap by exactly the threshold
def test_suppression_is_that_of_a_simple_model(
    rows: list[tuple[int, int, int, int, int]], kernel: str, threshold: float, most: int
) -> None:
    boxes = [
        [float(min(a, c)), float(min(b, d)), float(max(a, c)), float(max(b, d))] for a, b, c, d, _ in rows
    ]
    scores = [row[4] / 32 for row in rows]
    both = [[0.0] * 4 + box for box in boxes]
    found = results(
        "box_with_nms_limit",
        [
            reals([[0.0, score] for score in scores]).reshape(-1, 2),
            reals(both).reshape(-1, 8),
            whole([7] * len(rows)),
        ],
        *("float32", "float32", "int32", "int32", "int32"),
        score_threshold=0.1,
        most=most,
        kernel=kernel,
        iou_threshold=threshold,
        sigma=0.5,
        nms_score_threshold=0.05,
    )
    candidates = [index for index, score in enumerate(scores) if score > 0.1]
    wanted = suppressed_by_hand(
        [boxes[index] for index in candidates],
        [scores[index] for index in candidates],
        kernel,
        threshold,
        0.5,
        0.05,
    )[: most if most >= 0 else None]
    count = int(found[4][0])
    assert count == len(wanted)
    assert np.allclose(found[0][:count], [score for _, score in wanted], atol=1e-6)
    assert found[1][:count].tolist() == [boxes[candidates[index]] for index, _ in wanted]
    assert set(found[2][:count].tolist()) <= {1}
    assert set(found[3][:count].tolist()) <= {7}
    assert not any(column[count:].any() for column in found[:4])


def test_classes_and_images_are_suppressed_apart_and_share_the_limit() -> None:
    # three equal boxes: two of image 0, one of image 1; class 0 is the background
    scores = reals([[9, 0.5, 0.6], [9, 0.7, 0.4], [9, 0.2, 0.3]])
    boxes = reals([[0, 0, 4, 4] * 3] * 3)
    common = {"score_threshold": 0.0, "iou_threshold": 0.5, "nms_score_threshold": 0.0}
    types = ("float32", "float32", "int32", "int32", "int32")
    found = results("box_with_nms_limit", [scores, boxes, whole([0, 0, 1])], *types, most=-1, **common)
    assert [found[i][:4].tolist() for i in (2, 3)] == [[1, 2, 1, 2], [0, 0, 1, 1]]
    assert np.allclose(found[0][:4], [0.7, 0.6, 0.2, 0.3])
    assert found[4].tolist() == [4]
    found = results("box_with_nms_limit", [scores, boxes, whole([0, 0, 1])], *types, most=1, **common)
    assert [found[i][:2].tolist() for i in (2, 3)] == [[1, 2], [0, 1]]
    assert found[0].shape == (3,)  # a box of every row at most


def test_quantized_boxes_are_suppressed_as_what_they_stand_for() -> None:
    entry = operator("box_with_nms_limit")
    scores = TensorType("int8", (2, 2), Quantization((1 / 64,), (-64,)))
    boxes = TensorType("uint16", (2, 8), Quantization((0.125,), (0,)))
    images = TensorType("int32", (2,))
    parameters = given("box_with_nms_limit", score_threshold=0.5, iou_threshold=0.5)
    outputs = (
        TensorType("int8", (2,), scores.quantization),
        TensorType("uint16", (2, 4), boxes.quantization),
        *(TensorType("int32", shape) for shape in ((2,), (2,), (1,))),
    )
    call = Call(parameters, (scores, boxes, images), outputs, {})
    assert entry.broken_rule(call) is None
    values = [
        np.array([[0, -32], [0, -31]], np.int8),  # -32 is 0.5, which is not above the threshold
        np.tile(np.array([8, 8, 80, 96], np.uint16), (2, 2)),
        np.zeros(2, np.int32),
    ]
    found = entry.reference(call, values)
    assert entry.defined is not None
    assert [array.tolist() for array in entry.defined(found)] == [[-31], [[8, 8, 80, 96]], [1], [0], [1]]


def test_proposals_are_anchors_moved_limited_and_suppressed() -> None:
    # a map of 1 x 2 places, 10 pixels apart, two anchors: the second is wholly covered by the first
    anchors = reals([[0, 0, 8, 8], [0, 0, 8, 7]])
    scores = reals([0.9, 0.8, 0.3, 0.7]).reshape(1, 1, 2, 2)
    deltas = np.zeros((1, 1, 2, 8), np.float32)
    types = ("float32", "float32", "int32", "int32")
    common = {"height_stride": 10.0, "width_stride": 10.0, "iou_threshold": 0.5, "min_size": 1.0}
    sizes = reals([[20, 40]])
    found = results("generate_proposals", [scores, deltas, anchors, sizes], *types, **common)
    assert found[3].tolist() == [2]
    assert found[1][:2].tolist() == [[0, 0, 8, 8], [10, 0, 18, 7]]
    assert np.allclose(found[0][:2], [0.9, 0.7])
    # only the best two go in: both anchors of the first place
    found = results("generate_proposals", [scores, deltas, anchors, sizes], *types, most_before=2, **common)
    assert (found[3].tolist(), found[0].shape) == ([1], (2,))
    # an image that ends where the second place begins: its boxes have no width
    found = results("generate_proposals", [scores, deltas, anchors, reals([[20, 10]])], *types, **common)
    assert found[3].tolist() == [1]


def test_detections_by_class_and_by_box() -> None:
    scores = reals([[[0.1, 0.9, 0.8], [0.2, 0.85, 0.1], [0.9, 0.3, 0.6]]])
    deltas = np.zeros((1, 3, 5), np.float32)
    anchors = reals([[2, 2, 4, 4], [2, 2, 4, 3], [9, 9, 2, 2]])
    types = ("float32", "float32", "int32", "int32")
    common = {
        "scales": [10.0, 10.0, 5.0, 5.0],
        "max_detections": 4,
        "score_threshold": 0.2,
        "iou_threshold": 0.5,
    }
    operands = [scores, deltas, anchors]
    found = results(
        "detection_postprocessing", operands, *types, regular=True, detections_per_class=2, **common
    )
    assert np.allclose(found[0], [[0.9, 0.8, 0.6, 0.3]])
    assert found[2].tolist() == [[0, 1, 1, 0]]
    assert found[1][0, 0].tolist() == [0, 0, 4, 4]
    found = results(
        "detection_postprocessing",
        operands,
        *types,
        max_classes_per_detection=1,
        background=True,
        **common,
    )
    assert np.allclose(found[0], [[0.9, 0.6, 0, 0]])
    assert found[2].tolist() == [[1, 2, 0, 0]]
    assert found[3].tolist() == [2]


def test_deltas_move_and_grow_a_box_within_its_image() -> None:
    boxes = reals([[10, 20, 30, 60]])
    deltas = reals([[0.5, -0.25, 0, np.log(2), 5, 0, 0, 0]])
    [found] = results(
        "axis_aligned_bbox_transform", [boxes, deltas, whole([1]), reals([[1, 1], [70, 50]])], "float32"
    )
    assert np.allclose(found, [[20, 0, 40, 70, 50, 20, 50, 60]])


# Regions


def aligned_by_hand(image: Array, box: list[float], size: tuple[int, int], samples: tuple[int, int]) -> Array:
    """Mean of the points of each bin, point by point."""
    height, width, depth = image.shape
    x1, y1, x2, y2 = box
    steps = max(y2 - y1, 1.0) / size[0], max(x2 - x1, 1.0) / size[1]
    counts = [n if n > 0 else ceil(step) for n, step in zip(samples, steps, strict=True)]
    result = np.zeros((*size, depth))
    for row in range(size[0]):
        for column in range(size[1]):
            total = np.zeros(depth)
            for down in range(counts[0]):
                for right in range(counts[1]):
                    y = y1 + row * steps[0] + (down + 0.5) * steps[0] / counts[0]
                    x = x1 + column * steps[1] + (right + 0.5) * steps[1] / counts[1]
                    top, left = min(floor(y), height - 1), min(floor(x), width - 1)
                    dy = y - top if top < height - 1 else 0.0
                    dx = x - left if left < width - 1 else 0.0
                    for i, v in ((top, 1 - dy), (min(top + 1, height - 1), dy)):
                        for j, h in ((left, 1 - dx), (min(left + 1, width - 1), dx)):
                            total += v * h * image[i, j]
            result[row, column] = total / (counts[0] * counts[1])
    return result


def pooled_by_hand(image: Array, box: list[float], size: tuple[int, int]) -> Array:
    """Maximum of each bin, pixel by pixel."""
    height, width, depth = image.shape
    x1, y1, x2, y2 = (floor(edge + 0.5) for edge in box)
    result = np.zeros((*size, depth))
    for row in range(size[0]):
        for column in range(size[1]):
            down, right = max(y2 - y1 + 1, 1) / size[0], max(x2 - x1 + 1, 1) / size[1]
            rows = range(floor(y1 + row * down), min(ceil(y1 + (row + 1) * down), height))
            columns = range(floor(x1 + column * right), min(ceil(x1 + (column + 1) * right), width))
            pixels = [image[i, j] for i in rows for j in columns]
            if pixels:
                result[row, column] = np.max(pixels, axis=0)
    return result


edge = st.integers(0, 24).map(lambda number: number / 4)


@pytest.mark.slow
@for_any(
    st.lists(st.tuples(edge, edge, edge, edge, st.integers(0, 1)), max_size=4),
    st.tuples(st.integers(1, 3), st.integers(1, 4)),
    st.tuples(st.integers(0, 2), st.integers(0, 3)),
)
def test_regions_are_those_of_loops(
    regions: list[tuple[float, float, float, float, int]], size: tuple[int, int], samples: tuple[int, int]
) -> None:
    maps = np.random.default_rng(3).uniform(-1, 1, (2, 3, 6, 2)).astype(np.float32)
    boxes = [[min(a, c), min(b, d) / 2, max(a, c), max(b, d) / 2] for a, b, c, d, _ in regions]
    images = whole([region[4] for region in regions])
    # the image is twice as high and four times as wide as the map
    scaled = (reals(boxes).reshape(-1, 4) * [4, 2, 4, 2]).astype(np.float32)
    common: dict[str, Any] = {"size": size, "height_stride": 2.0, "width_stride": 4.0}
    [found] = results("roi_align", [maps, scaled, images], "float32", samples=samples, **common)
    wanted = [
        aligned_by_hand(maps[image], box, size, samples) for box, image in zip(boxes, images, strict=True)
    ]
    assert np.allclose(found, np.array(wanted).reshape(found.shape), atol=1e-5)
    [found] = results("roi_pooling", [maps, scaled, images], "float32", **common)
    wanted = [pooled_by_hand(maps[image], box, size) for box, image in zip(boxes, images, strict=True)]
    assert np.allclose(found, np.array(wanted).reshape(found.shape))


@pytest.mark.parametrize(
    ("box", "image", "message"),
    [
        ([0, 0, 1, 1], 2, "box 0 is in image 2, there are 2"),
        ([0, 0, 1, 1], -1, "box 0 is in image -1, there are 2"),
        ([0, 0, 9, 1], 0, "region 0 is outside its image"),
        ([2, 0, 1, 1], 0, "region 0 ends before it begins"),
    ],
)
@pytest.mark.parametrize("name", ["roi_align", "roi_pooling"])
def test_regions_that_are_none(name: str, box: list[float], image: int, message: str) -> None:
    maps = np.zeros((2, 4, 4, 1), np.float32)
    with pytest.raises(OperandFault) as caught:
        results(
            name,
            [maps, reals([box]), whole([image])],
            "float32",
            size=(2, 2),
            height_stride=2.0,
            width_stride=2.0,
        )
    assert str(caught.value) == message


def test_a_box_of_no_image_is_no_box() -> None:
    with pytest.raises(OperandFault) as caught:
        results(
            "axis_aligned_bbox_transform",
            [np.zeros((2, 4), np.float32), np.zeros((2, 4), np.float32), whole([0, 3]), reals([[1, 1]])],
            "float32",
        )
    assert str(caught.value) == "box 1 is in image 3, there are 1"


def test_keypoints_lie_between_pixels() -> None:
    # f = 5 - (x - 1.25)^2 - 2 (y - 2)^2 on a map of 4 x 4: the fit finds the top exactly
    x, y = np.meshgrid(np.arange(4), np.arange(4))
    heat = (5 - (x - 1.25) ** 2 - 2 * (y - 2) ** 2).astype(np.float32)
    score, place = results(
        "heatmap_max_keypoint", [heat.reshape(1, 4, 4, 1), reals([[10, 0, 50, 8]])], "float32", "float32"
    )
    assert np.allclose(score, 5)
    assert np.allclose(place, [[[10 + (1.25 + 0.5) / 4 * 40, (2 + 0.5) / 4 * 8]]])


def test_a_flat_map_has_its_keypoint_in_the_first_pixel() -> None:
    score, place = results(
        "heatmap_max_keypoint",
        [np.ones((1, 2, 2, 1), np.float32), reals([[0, 0, 4, 4]])],
        "float32",
        "float32",
    )
    assert (score.tolist(), place.tolist()) == ([[1.0]], [[[1.0, 1.0]]])


def test_no_boxes_give_no_results() -> None:
    none = np.zeros((0, 4), np.float32)
    maps = np.zeros((1, 4, 4, 3), np.float32)
    common: dict[str, Any] = {"size": (2, 2), "height_stride": 1.0, "width_stride": 1.0}
    for name in ("roi_align", "roi_pooling"):
        [found] = results(name, [maps, none, whole([])], "float32", **common)
        assert found.shape == (0, 2, 2, 3)
    sizes = reals([[4, 4]])
    [found] = results(
        "axis_aligned_bbox_transform", [none, np.zeros((0, 8), np.float32), whole([]), sizes], "float32"
    )
    assert found.shape == (0, 8)
    score, place = results(
        "heatmap_max_keypoint", [np.zeros((0, 2, 2, 3), np.float32), none], "float32", "float32"
    )
    assert (score.shape, place.shape) == ((0, 3), (0, 3, 2))
