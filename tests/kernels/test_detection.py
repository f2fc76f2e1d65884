"""Detection post-processing: a model's bytes from LiteRT, suppression by hand, order of equal scores, rules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npusim.frontends.frontend import read
from npusim.isa.base.errors import GraphError, SimulationError
from npusim.isa.base.tensor import Array, TensorType
from npusim.kernels.graph.graph import call_of
from npusim.kernels.operator.operator import Call
from npusim.kernels.operators.detection.single_shot import (
    DETECTION_POST_PROCESS,
    DetectionPostProcessParameters,
)
from npusim.kernels.operators.reduction.extremes import largest
from npusim.kernels.table import operator

from .calls import call_with, codes, reals, results

DETECTION = DETECTION_POST_PROCESS


def output_types(parameters: DetectionPostProcessParameters) -> tuple[TensorType, ...]:
    """Outputs with the shapes that the parameters give them."""
    return tuple(TensorType("float32", shape) for shape in DETECTION.infer(Call(parameters, (), (), {})))


@pytest.mark.parametrize("sample", [0, 1, 2])
def test_a_detection_head_gives_the_bytes_of_litert(shared: Path, sample: int) -> None:
    graph = read(shared / "models" / "edgetpu_ssd_mnv1_head.tflite")
    with (
        np.load(shared / "golden" / "edgetpu_ssd_mnv1_head.npz") as golden,
        np.load(shared / "golden" / "edgetpu_ssd_mnv1_head.mid.npz") as between,
    ):
        values: dict[int | None, Array | None] = {i: t.data for i, t in enumerate(graph.tensors)}
        values |= {tensor: golden[f"in{sample}_{i}"] for i, tensor in enumerate(graph.inputs)}
        for node in graph.nodes:
            call, entry = call_of(graph, node), operator(node.op)
            assert entry.broken_rule(call) is None, node.name
            outputs = entry.reference(call, [values[index] for index in node.inputs])
            for index, found in zip(node.outputs, outputs, strict=True):
                values[index] = found
                if sample == 0:
                    assert found.tobytes() == between[f"t{index}"].tobytes(), node.name
        for i, tensor in enumerate(graph.outputs):
            assert np.asarray(values[tensor]).tobytes() == golden[f"out{sample}_{i}"].tobytes()


# Small vectors

PARAMETERS = DetectionPostProcessParameters(
    max_detections=3,
    max_classes_per_detection=1,
    nms_score_threshold=0.25,
    nms_iou_threshold=0.5,
    num_classes=2,
    y_scale=1.0,
    x_scale=1.0,
    h_scale=1.0,
    w_scale=1.0,
)

ANCHORS = [  # centre y and x, height, width
    [1.0, 1.0, 2.0, 2.0],
    [1.0, 1.5, 2.0, 2.0],  # shares 3 of 5 with the first
    [1.0, 3.0, 2.0, 2.0],  # shares 1 of 7 with the second
]
CORNERS = [[0.0, 0.0, 2.0, 2.0], [0.0, 0.5, 2.0, 2.5], [0.0, 2.0, 2.0, 4.0]]
NOTHING = [0.0, 0.0, 0.0, 0.0]


def detect(scores: list[list[float]], **changes: Any) -> tuple[list[Any], list[float], list[float], int]:
    """Boxes, classes, scores and number of detections; boxes are the anchors themselves."""
    parameters = PARAMETERS.changed(**changes)
    types = [reals(1, 3, 4), reals(1, 3, len(scores[0])), reals(3, 4)]
    call = call_with(types, output_types(parameters), parameters)
    [boxes], [classes], [found], [count] = results(DETECTION, call, np.zeros((1, 3, 4)), scores, ANCHORS)
    return boxes, classes, found, int(count)


def test_a_box_that_overlaps_a_better_one_is_dropped() -> None:
    boxes, classes, scores, count = detect([[0.5, 0.25], [0.25, 0.75], [0.5, 0.375]])
    assert boxes == [CORNERS[1], CORNERS[2], NOTHING]
    assert (classes, scores, count) == ([1, 0, 0], [0.75, 0.5, 0], 2)


def test_overlap_at_the_threshold_is_kept() -> None:
    scores = [[0.5, 0.0], [0.75, 0.0], [0.25, 0.0]]
    threshold = float(np.float32(3) / np.float32(5))
    assert detect(scores, nms_iou_threshold=threshold)[3] == 3
    assert detect(scores, nms_iou_threshold=threshold * 0.999)[3] == 2


def test_scores_below_the_threshold_do_not_count() -> None:
    assert detect([[0.2, 0.1], [0.25, 0.1], [0.2, 0.2]])[1:] == ([0, 0, 0], [0.25, 0, 0], 1)


def test_equal_scores_stay_in_order() -> None:
    boxes, *_ = detect([[0.5, 0.5]] * 3)
    assert boxes == [CORNERS[0], CORNERS[2], NOTHING]


def test_the_background_is_left_out() -> None:
    _, classes, scores, count = detect([[0.9, 0.1, 0.5], [0.9, 0.0, 0.0], [0.9, 0.0, 0.0]])
    assert (classes, scores, count) == ([1, 0, 0], [0.5, 0, 0], 1)


def test_several_classes_of_one_box() -> None:
    boxes, classes, scores, count = detect(
        [[0.5, 0.75], [0.0, 0.0], [0.25, 0.0]], max_classes_per_detection=2
    )
    assert boxes == [CORNERS[0], CORNERS[0], CORNERS[2], CORNERS[2], NOTHING, NOTHING]
    assert (classes, scores, count) == ([1, 0, 0, 1, 0, 0], [0.75, 0.5, 0.25, 0, 0, 0], 2)


def test_regular_suppression_works_class_by_class() -> None:
    scores = [[0.5, 0.25], [0.625, 0.75], [0.5, 0.375]]
    boxes, classes, found, count = detect(scores, use_regular_nms=True, max_detections=4)
    assert boxes == [CORNERS[1], CORNERS[1], CORNERS[2], CORNERS[2]]
    assert (classes, found, count) == ([1, 0, 0, 1], [0.75, 0.625, 0.5, 0.375], 4)
    assert detect(scores, use_regular_nms=True, detections_per_class=1)[1:] == (
        [1, 0, 0],
        [0.75, 0.625, 0],
        2,
    )


def test_boxes_are_decoded_from_their_anchors() -> None:
    parameters = PARAMETERS.changed(max_detections=1, num_classes=1, y_scale=10.0, h_scale=5.0)
    types = [reals(1, 1, 4), reals(1, 1, 1), reals(1, 4)]
    call = call_with(types, output_types(parameters), parameters)
    # centre 10 / 10 * 2 + 3 = 5 and 1 * 4 + 1 = 5, half sizes exp(0) * 2 / 2 = 1 and exp(ln 2) * 4 / 2 = 4
    [[box]], *_ = results(DETECTION, call, [10, 1, 0, np.log(2)], [1.0], [3, 1, 2, 4])
    assert box == pytest.approx([4, 1, 6, 9], rel=1e-6)


def test_codes_count_as_what_they_stand_for() -> None:
    parameters = PARAMETERS.changed(max_detections=1, num_classes=1)
    boxes = codes(1, 1, 4, dtype="uint8", scale=0.5, zero_point=128)
    scores, anchors = codes(1, 1, 1, dtype="uint8", scale=1 / 256), codes(1, 4, dtype="uint8", scale=0.25)
    call = call_with([boxes, scores, anchors], output_types(parameters), parameters)
    [[box]], _, [[score]], _ = results(DETECTION, call, [130, 126, 128, 128], [192], [4, 4, 8, 8])
    assert (box, score) == ([2, -2, 4, 0], 0.75)  # centre 1 * 2 + 1 and -1 * 2 + 1, size 2


def test_an_anchor_of_negative_size_is_refused() -> None:
    parameters = PARAMETERS.changed(max_detections=1, num_classes=1)
    types = [reals(1, 1, 4), reals(1, 1, 1), reals(1, 4)]
    call = call_with(types, output_types(parameters), parameters)
    with pytest.raises(SimulationError) as caught:
        results(DETECTION, call, [0, 0, 0, 0], [1.0], [0, 0, -1, 1])
    assert str(caught.value) == (
        "detection_post_process: box 0 has its minimum above its maximum;"
        " anchors may not have negative height or width"
    )


# Order of the largest


@pytest.mark.parametrize(
    ("values", "count", "expected"),
    [
        ([1, 3, 2], 1, [1]),
        ([1, 3, 2], 3, [1, 2, 0]),
        ([4, 4], 1, [0]),
        # as LiteRT orders the classes of a box; a stable sort would give 1 2, 0 1 3 and 0 1 2 3
        ([1, 2, 2], 2, [2, 1]),
        ([2, 2, 1, 2], 3, [3, 1, 0]),
        ([2, 2, 2, 2], 4, [1, 3, 0, 2]),
    ],
)
def test_the_largest_values(values: list[float], count: int, expected: list[int]) -> None:
    assert largest(values, count) == expected


def test_the_largest_values_are_those_of_a_full_sort() -> None:
    rng = np.random.default_rng(0)
    for size in range(1, 30):
        values = rng.permutation(size).tolist()
        for count in range(1, size + 1):
            assert [values[position] for position in largest(values, count)] == sorted(values)[::-1][:count]


# Rules


def call_of_three_boxes(**changes: Any) -> Call:
    parameters = PARAMETERS.changed(**changes)
    types = [reals(1, 3, 4), reals(1, 3, 2), reals(3, 4)]
    return call_with(types, output_types(PARAMETERS), parameters)


def call_of_types(boxes: Any, scores: Any, anchors: Any) -> Call:
    return call_with([boxes, scores, anchors], output_types(PARAMETERS), PARAMETERS)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            call_of_types(reals(1, 3, 4), reals(1, 3, 2), codes(3, 4, dtype="uint8")),
            "element types are (float32, float32|uint8, float32 -> float32)"
            " or (uint8, float32|uint8, uint8 -> float32)",
        ),
        (
            call_of_types(reals(1, 3, 4), reals(1, 4, 2), reals(3, 4)),
            "boxes are [1, n, 4 or more], scores [1, n, classes], anchors [n, 4], with n of 1 or more",
        ),
        (
            call_of_three_boxes(num_classes=4),
            "scores have num_classes columns, or one more for the background",
        ),
        (
            call_of_three_boxes(nms_iou_threshold=1.5),
            "the box scales are not 0, and nms_iou_threshold is above 0 and at most 1",
        ),
        (
            call_of_three_boxes(max_detections=5),
            "outputs are [1, n, 4], [1, n], [1, n], [1] with n = max_detections * max_classes_per_detection",
        ),
    ],
)
def test_rules(call: Call, message: str) -> None:
    assert DETECTION.broken_rule(call) == message


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_classes": 0}, "num_classes: 0 is not a whole number from 1 to 2147483647"),
        ({"y_scale": float("inf")}, "y_scale: inf is not a finite number"),
    ],
)
def test_parameters(change: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphError) as caught:
        PARAMETERS.changed(**change)
    assert str(caught.value) == message


def test_work_is_bounded_by_all_comparisons() -> None:
    work = DETECTION.workload(call_of_three_boxes())
    # 3 boxes: 2 scores and 12 operations each to decode; 3 detections against 3 boxes, 12 operations each
    assert (work.kind, work.elements) == ("elementwise", 3 * (2 + 12) + 3 * 3 * 12)
