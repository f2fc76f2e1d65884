"""Sequences, detection, hashing: one legal call of each operation, what spoils it, and what it becomes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npusim
import npusim.hal as hal
from npusim.frontends.nn_hal.enumerations import HalVersion
from npusim.isa.base.errors import GraphError
from npusim.kernels.operators.detection.proposals import BoxWithNmsLimitParameters
from npusim.kernels.operators.detection.region_pools import RoiAlignParameters
from npusim.kernels.operators.detection.single_shot import DetectionPostprocessingParameters
from npusim.kernels.operators.sequence import svdf
from tests.npusim.frontends.nn_hal.single import Spec, fault, graph, model, tensor

Value = Spec | bool | int | float
Case = tuple[list[Value], list[Spec]]

NO = Spec(tensor("F32", (1,)).type, (4,), omitted=True)


def f(*sizes: int) -> Spec:
    return tensor("F32", sizes)


def w(*sizes: int) -> Spec:
    """A constant: nobody can omit it."""
    return tensor("F32", sizes, value=np.zeros(sizes))


def cell(inputs: int, units: int, outputs: int, *extras: str) -> list[Value]:
    """The arguments of an LSTM between input and states; extras: coupled, peephole, projection."""
    first: list[Value] = [NO if "coupled" in extras else w(units, inputs)]
    recurrent: list[Value] = [NO if "coupled" in extras else w(units, outputs)]
    peepholes: list[Value] = [NO] * 3
    if "peephole" in extras:
        peepholes = [NO if "coupled" in extras else w(units), w(units), w(units)]
    projection = [w(outputs, units), w(outputs)] if "projection" in extras else [NO, NO]
    bias = NO if "coupled" in extras else w(units)
    return [
        *first,
        *[w(units, inputs)] * 3,
        *recurrent,
        *[w(units, outputs)] * 3,
        *peepholes,
        bias,
        *[w(units)] * 3,
        *projection,
    ]


def bidirectional(*, auxiliary: bool = False, weights: bool = False, merge: bool = False) -> list[Value]:
    """The arguments of a bidirectional LSTM: 2 batches, 5 steps of 3 numbers, cells of 4 and 6 units."""
    depth = 7 if auxiliary and not weights else 3
    linked: list[Value] = [NO] * 8
    if weights:
        linked = [*[w(4, 7)] * 4, *[w(6, 7)] * 4]
    return [
        f(2, 5, 3),
        *cell(3, 4, 4),
        *cell(depth, 6, 6),
        f(2, 4),
        f(2, 4),
        f(2, 6),
        f(2, 6),
        f(2, 5, 7) if auxiliary else NO,
        *linked,
        4,
        0.0,
        0.0,
        merge,
        False,
        *[NO] * 8,
    ]


STATES = [f(2, 4), f(2, 4), f(2, 6), f(2, 6)]
RNN = [f(4, 3), f(4, 4), f(4), f(2, 4)]
BACKWARD_RNN = [f(6, 3), f(6, 6), f(6), f(2, 6)]
WEIGHT, RECURRENT = tensor("Q8", (4, 3), 0.1, 100), tensor("Q8", (4, 4), 0.1, 100)
UNIT = {"scale": 1 / 128, "zero_point": 128}
CELL_STATE = tensor("Q16S", (2, 4), 2.0**-11)
BOXES = tensor("Q16A", (3, 4), 0.125)
ANY_ROWS = (0,)

LEGAL: dict[str, Case] = {
    "LSTM": (
        [f(2, 3), *cell(3, 4, 5, "projection", "peephole"), f(2, 5), f(2, 4), 4, 0.0, 0.0],
        [f(2, 16), f(2, 5), f(2, 4), f(2, 5)],
    ),
    "LSTM coupled": (
        [f(2, 3), *cell(3, 4, 4, "coupled", "peephole"), f(2, 4), f(2, 4), 0, 0.0, 0.0, NO, w(4), w(4), w(4)],
        [f(2, 12), f(2, 4), f(2, 4), f(2, 4)],
    ),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": (
        [f(2, 5, 3), *cell(3, 4, 4), f(2, 4), f(2, 4), 4, 0.0, 0.0, False, *[NO] * 4],
        [f(2, 5, 4), f(2, 4), f(2, 4)],
    ),
    "BIDIRECTIONAL_SEQUENCE_LSTM": (bidirectional(), [f(2, 5, 4), f(2, 5, 6), *STATES]),
    "BIDIRECTIONAL_SEQUENCE_LSTM merged": (bidirectional(merge=True), [f(2, 5, 10), *STATES]),
    "BIDIRECTIONAL_SEQUENCE_LSTM parallel": (bidirectional(auxiliary=True), [f(2, 5, 4), f(2, 5, 6)]),
    "BIDIRECTIONAL_SEQUENCE_LSTM crossed": (
        bidirectional(auxiliary=True, weights=True),
        [f(2, 5, 4), f(2, 5, 6)],
    ),
    "RNN": ([f(2, 3), *RNN, 1], [f(2, 4), f(2, 4)]),
    "UNIDIRECTIONAL_SEQUENCE_RNN": ([f(5, 2, 3), *RNN, 0, 1], [f(5, 2, 4), f(2, 4)]),
    "BIDIRECTIONAL_SEQUENCE_RNN": (
        [f(2, 5, 3), *RNN, *BACKWARD_RNN, NO, NO, NO, 0, False, False],
        [f(2, 5, 4), f(2, 5, 6)],
    ),
    "SVDF": (
        [f(2, 3), f(8, 3), f(8, 5), f(4), f(2, 40), 2, 0],
        [f(2, 40), f(2, 4)],
    ),
    "QUANTIZED_16BIT_LSTM": (
        [
            tensor("Q8", (2, 3), **UNIT),
            *[WEIGHT] * 4,
            *[RECURRENT] * 4,
            *[tensor("I32", (4,), 0.1 / 128)] * 4,
            CELL_STATE,
            tensor("Q8", (2, 4), **UNIT),
        ],
        [CELL_STATE, tensor("Q8", (2, 4), **UNIT)],
    ),
    "QUANTIZED_LSTM": (
        [
            tensor("Q8S", (2, 3)),
            *[tensor("Q8SY", (4, 3))] * 4,
            *[tensor("Q8SY", (4, 4))] * 4,
            *[Spec(tensor("Q16S", ()).type, (4,), scale=1.0, omitted=True)] * 3,
            *[tensor("I32", (4,))] * 4,
            Spec(tensor("Q8SY", ()).type, (4, 4), scale=1.0, omitted=True),
            Spec(tensor("I32", ()).type, (4,), omitted=True),
            tensor("Q8S", (2, 4)),
            CELL_STATE,
            *[tensor("Q16S", (4,))] * 4,
            0.0,
            0.0,
            *[0.01] * 4,
            0,
            0.01,
        ],
        [tensor("Q8S", (2, 4)), CELL_STATE, tensor("Q8S", (2, 4))],
    ),
    "AXIS_ALIGNED_BBOX_TRANSFORM": (
        [BOXES, tensor("Q8", (3, 8), 0.05, 128), tensor("I32", (3,)), tensor("Q16A", (2, 2), 0.125)],
        [tensor("Q16A", (3, 8), 0.125)],
    ),
    "BOX_WITH_NMS_LIMIT": (
        [f(3, 2), f(3, 8), tensor("I32", (3,)), 0.5, -1, 2, 0.5, 0.5, 0.125],
        [f(*ANY_ROWS), f(0, 4), tensor("I32", ANY_ROWS), tensor("I32", ANY_ROWS)],
    ),
    "GENERATE_PROPOSALS": (
        [f(1, 3, 2, 2), f(1, 3, 2, 8), f(2, 4), f(1, 2), 8.0, 8.0, -1, -1, 0.5, 1.0, False],
        [f(*ANY_ROWS), f(0, 4), tensor("I32", ANY_ROWS)],
    ),
    "DETECTION_POSTPROCESSING": (
        [f(1, 6, 3), f(1, 6, 7), f(6, 4), 10.0, 10.0, 5.0, 5.0, True, 3, 0, 2, 0.5, 0.5, False],
        [f(1, 3), f(1, 3, 4), tensor("I32", (1, 3)), tensor("I32", (1,))],
    ),
    "HEATMAP_MAX_KEYPOINT": (
        [tensor("Q8", (3, 5, 5, 2)), BOXES, False],
        [tensor("Q8", (3, 2), 0.1), tensor("Q16A", (3, 2, 2), 0.125)],
    ),
    "ROI_ALIGN": (
        [tensor("Q8", (2, 4, 6, 5)), BOXES, tensor("I32", (3,)), 2, 3, 2.0, 4.0, 0, 2, False],
        [tensor("Q8", (3, 2, 3, 5), 0.1)],
    ),
    "ROI_POOLING": (
        [f(2, 5, 4, 6), f(3, 4), tensor("I32", (3,)), 2, 3, 2.0, 4.0, True],
        [f(3, 5, 2, 3)],
    ),
    "LSH_PROJECTION": ([f(3, 2), tensor("I32", (4, 5)), f(4), 2], [tensor("I32", (6,))]),
    "RANDOM_MULTINOMIAL": ([f(2, 5), 7, tensor("I32", (2,))], [tensor("I32", (2, 7))]),
}


@pytest.mark.parametrize("name", LEGAL)
def test_legal_calls_break_nothing_and_become_nodes(name: str) -> None:
    kind, (inputs, outputs) = name.split()[0], LEGAL[name]
    assert fault(kind, inputs, outputs) == ""
    made = graph(kind, inputs, outputs)
    wanted = [spec.dimensions for spec in outputs]
    found = [made.tensors[number].type.shape for number in made.outputs]
    same = [
        len(one) == len(other) and all(a in (0, b) for a, b in zip(one, other, strict=True))
        for one, other in zip(wanted, found, strict=True)
    ]
    assert all(same), found


SPOILED: list[tuple[str, str, int, Any, str]] = [
    # operation, side, position, what stands there instead, message
    (
        "LSTM",
        "in",
        20,
        2,
        "(activation) is 2; the activation is 0 (none), 1 (relu), 3 (relu6), 4 (tanh) or 6",
    ),
    ("LSTM", "in", 3, f(4, 2), "(input_to_cell) has dimensions [4, 2]; input_to_cell has dimensions [units,"),
    (
        "LSTM",
        "in",
        16,
        f(4, 5),
        "(projection) has dimensions [4, 5]; projection has dimensions [outputs, uni",
    ),
    (
        "LSTM",
        "in",
        1,
        NO,
        "(input_to_input) has dimensions [4]; input weights, recurrent weights and bias of",
    ),
    (
        "LSTM",
        "in",
        10,
        NO,
        "(cell_to_forget) has dimensions [4]; all cell_to weights have values or none has",
    ),
    ("LSTM", "in", 6, NO, "(recurrent_to_forget) has no value, which this argument must have"),
    (
        "LSTM coupled",
        "in",
        24,
        NO,
        "(forget_norm) has dimensions [4]; all norm weights have values or none h",
    ),
    (
        "LSTM coupled",
        "out",
        0,
        f(2, 16),
        "(scratch) has dimensions [2, 16]; scratch has dimensions [batch, 4",
    ),
    (
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        "in",
        23,
        True,
        "(input) has dimensions [2, 5, 3]; input has dimensions",
    ),
    (
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        "out",
        0,
        f(2, 5, 3),
        "(output) has dimensions [2, 5, 3]; output has di",
    ),
    ("BIDIRECTIONAL_SEQUENCE_LSTM", "in", 51, True, "(merge_outputs) is True; there is a backward output if"),
    ("BIDIRECTIONAL_SEQUENCE_LSTM parallel", "in", 39, w(2, 5, 3), "(bw_input_to_forget) has dimensions [6,"),
    ("BIDIRECTIONAL_SEQUENCE_LSTM", "in", 41, w(4, 7), "(fw_auxiliary_to_cell) has dim"),
    ("BIDIRECTIONAL_SEQUENCE_LSTM merged", "out", 0, f(2, 5, 4), "(output) has dimensions [2, 5, 4]; merged"),
    (
        "RNN",
        "in",
        5,
        4,
        "(activation) is 4; the fused activation is 0 (NONE), 1 (RELU), 2 (RELU1) or 3 (RELU",
    ),
    (
        "RNN",
        "in",
        2,
        f(4, 3),
        "(recurrent) has dimensions [4, 3]; recurrent has dimensions [units, units], u",
    ),
    ("UNIDIRECTIONAL_SEQUENCE_RNN", "in", 6, 2, "(time_major) is 2; time_major is 0 or 1"),
    (
        "BIDIRECTIONAL_SEQUENCE_RNN",
        "out",
        0,
        f(2, 5, 6),
        "(output) has dimensions [2, 5, 6]; output is as de",
    ),
    ("SVDF", "in", 5, 0, "(rank) is 0; rank is 1 or more"),
    ("SVDF", "in", 5, 3, "(weights_feature) has dimensions [8, 3]; weights_feature and weights_time have as"),
    (
        "SVDF",
        "in",
        4,
        f(2, 32),
        "(state) has dimensions [2, 32]; state has dimensions [batch, memory_size*filters]",
    ),
    ("QUANTIZED_16BIT_LSTM", "in", 0, tensor("Q8", (2, 3), 0.5, 128), "(input) has scale 0.5 and zero point"),
    (
        "QUANTIZED_16BIT_LSTM",
        "in",
        7,
        tensor("Q8", (4, 4), 0.2, 100),
        "(recurrent_to_cell) has scale 0.20000",
    ),
    (
        "QUANTIZED_LSTM",
        "in",
        31,
        0.0,
        "(hidden_scale) is 0.0; input_scale, forget_scale, cell_scale, output_",
    ),
    ("AXIS_ALIGNED_BBOX_TRANSFORM", "in", 0, tensor("Q16A", (3, 4), 0.25), "(boxes) has scale 0.25 and zero"),
    (
        "AXIS_ALIGNED_BBOX_TRANSFORM",
        "in",
        1,
        tensor("Q8", (3, 6), 0.05, 128),
        "(deltas) has dimensions [3, 6",
    ),
    (
        "AXIS_ALIGNED_BBOX_TRANSFORM",
        "in",
        2,
        tensor("I32", (3,), value=[0, 2, 0]),
        "(images) is [0, 2, 0]; i",
    ),
    ("BOX_WITH_NMS_LIMIT", "in", 5, 3, "(kernel) is 3; kernel is 0 (hard), 1 (linear) or 2 (gaussian)"),
    ("BOX_WITH_NMS_LIMIT", "in", 7, 0.0, "(sigma) is 0.0; sigma of the gaussian kernel is above 0"),
    (
        "BOX_WITH_NMS_LIMIT",
        "in",
        1,
        f(3, 4),
        "(boxes) has dimensions [3, 4]; boxes has dimensions [boxes, 4*",
    ),
    (
        "GENERATE_PROPOSALS",
        "in",
        1,
        f(1, 3, 2, 4),
        "(deltas) has dimensions [1, 3, 2, 4]; deltas has dimensions [batch, rows, columns, 4*anchors]",
    ),
    (
        "GENERATE_PROPOSALS",
        "in",
        4,
        0.0,
        "(height_stride) is 0.0; height_stride and width_stride are above 0",
    ),
    (
        "DETECTION_POSTPROCESSING",
        "in",
        10,
        0,
        "(detections_per_class) is 0; max_classes_per_detection withou",
    ),
    (
        "DETECTION_POSTPROCESSING",
        "in",
        1,
        f(1, 6, 3),
        "(deltas) has dimensions [1, 6, 3]; deltas have 4 or m",
    ),
    (
        "HEATMAP_MAX_KEYPOINT",
        "in",
        0,
        tensor("Q8", (3, 5, 4, 2)),
        "(heatmaps) has dimensions [3, 5, 4, 2]; h",
    ),
    ("ROI_ALIGN", "in", 7, -1, "(height_samples) is -1; height_samples and width_samples are 0 or more"),
    ("ROI_ALIGN", "in", 3, 0, "(height) is 0; height and width are 1 or more"),
    (
        "ROI_POOLING",
        "out",
        0,
        f(3, 2, 3, 5),
        "(output) has dimensions [3, 2, 3, 5]; output has dimensions [r",
    ),
    (
        "LSH_PROJECTION",
        "in",
        3,
        4,
        "(type) is 4; type is 1 (sparse, deprecated), 2 (dense) or, from V1_2 on,",
    ),
    (
        "LSH_PROJECTION",
        "in",
        2,
        f(5),
        "(weight) has dimensions [5]; weight has one dimension, an element per",
    ),
    (
        "LSH_PROJECTION",
        "out",
        0,
        tensor("I32", (3,)),
        "(output) has dimensions [3]; output has an element pe",
    ),
    (
        "RANDOM_MULTINOMIAL",
        "in",
        2,
        tensor("I32", (3,)),
        "(seeds) has dimensions [3]; seeds has dimensions [",
    ),
    (
        "RANDOM_MULTINOMIAL",
        "out",
        0,
        tensor("I32", (2, 8)),
        "(output) has dimensions [2, 8]; output has dime",
    ),
]


@pytest.mark.parametrize(("name", "side", "position", "value", "message"), SPOILED)
def test_spoiled_calls_say_what_would_be_right(
    name: str, side: str, position: int, value: Any, message: str
) -> None:
    inputs, outputs = (list(group) for group in LEGAL[name])
    (inputs if side == "in" else outputs)[position] = value
    assert message in fault(name.split()[0], inputs, outputs)


def test_layer_normalization_and_sparse_projections_came_later() -> None:
    inputs, outputs = LEGAL["LSTM coupled"]
    text = "operations[0]: LSTM has 27 inputs and 4 outputs, takes 23 and gives 4"
    assert fault("LSTM", inputs, outputs, HalVersion.V1_1) == text
    assert fault("LSTM", inputs, outputs, HalVersion.V1_2) == ""
    inputs = [f(3, 2), tensor("I32", (4,)), NO, 3]
    assert "(type) is 3" in fault("LSH_PROJECTION", inputs, [tensor("I32", (3,))], HalVersion.V1_1)
    assert fault("LSH_PROJECTION", inputs, [tensor("I32", (3,))], HalVersion.V1_2) == ""


def test_states_came_in_the_next_version() -> None:
    inputs, outputs = LEGAL["BIDIRECTIONAL_SEQUENCE_LSTM merged"]
    assert "takes 61 and gives 1 or 2" in fault(
        "BIDIRECTIONAL_SEQUENCE_LSTM", inputs, outputs, HalVersion.V1_2
    )
    assert fault("BIDIRECTIONAL_SEQUENCE_LSTM", inputs, outputs[:1], HalVersion.V1_2) == ""


def test_width_stands_behind_height_and_stride_is_of_the_image() -> None:
    inputs, outputs = LEGAL["ROI_ALIGN"]
    assert graph("ROI_ALIGN", inputs, outputs).nodes[0].parameters == RoiAlignParameters(
        size=(2, 3), height_stride=2.0, width_stride=4.0, samples=(0, 2)
    )


def test_channels_first_is_turned_on_both_sides() -> None:
    inputs, outputs = LEGAL["ROI_POOLING"]
    made = graph("ROI_POOLING", inputs, outputs)
    assert [node.op for node in made.nodes] == ["transpose", "roi_pooling", "transpose"]


def test_suppression_has_one_result_more_that_counts() -> None:
    inputs, outputs = LEGAL["BOX_WITH_NMS_LIMIT"]
    [node] = graph("BOX_WITH_NMS_LIMIT", inputs, outputs).nodes
    assert len(node.outputs) == 5
    assert node.parameters == BoxWithNmsLimitParameters(
        score_threshold=0.5,
        most=-1,
        kernel="gaussian",
        iou_threshold=0.5,
        sigma=0.5,
        nms_score_threshold=0.125,
    )


def test_parameters_that_do_not_count_may_be_anything() -> None:
    inputs, outputs = LEGAL["DETECTION_POSTPROCESSING"]
    parameters = graph("DETECTION_POSTPROCESSING", inputs, outputs).nodes[0].parameters
    assert parameters == DetectionPostprocessingParameters(
        scales=(10.0, 10.0, 5.0, 5.0),
        regular=True,
        max_detections=3,
        detections_per_class=2,
        score_threshold=0.5,
        iou_threshold=0.5,
    )


def test_the_memory_of_svdf_moves_on_at_the_end() -> None:
    inputs, outputs = LEGAL["SVDF"]
    made = graph("SVDF", inputs, outputs)
    assert made.nodes[0].parameters == svdf.Parameters(rank=2, shift="after")
    assert made.outputs == tuple(reversed(made.nodes[0].outputs))


def test_what_a_request_omits_may_be_needed_by_other_sizes() -> None:
    """The model has weights for sparse bits, and scratch without an input gate: only requests without are legal."""
    device = hal.Device()
    sparse: list[Value] = [f(3, 2), tensor("I32", (4,)), f(4), 3]
    prepared = device.prepareModel(model("LSH_PROJECTION", sparse, [tensor("I32", (3,))])).unwrap()
    memory = bytearray(64)
    arguments = [
        hal.RequestArgument(location=hal.DataLocation(0, 0, 24)),
        hal.RequestArgument(location=hal.DataLocation(0, 24, 16)),
        hal.RequestArgument(hasNoValue=True),
    ]
    outputs = [hal.RequestArgument(location=hal.DataLocation(0, 40, 12))]
    done = prepared.execute(hal.Request(arguments, outputs, [memory]))
    assert done.status is hal.ErrorStatus.NONE, done.message
    arguments[2] = hal.RequestArgument(location=hal.DataLocation(0, 24, 16))
    done = prepared.execute(hal.Request(arguments, outputs, [memory]))
    assert done.status is hal.ErrorStatus.INVALID_ARGUMENT
    assert done.message == (
        "operations[0].inputs[2]: operands[2] (weight) has another value; only dense projections have weights"
    )


def suppression_and_what_follows() -> hal.Model:
    """Suppression of 3 boxes, and the logistic function of the scores that are left, of which the model says 2."""
    inputs, outputs = LEGAL["BOX_WITH_NMS_LIMIT"]
    made = model("BOX_WITH_NMS_LIMIT", inputs, [*outputs])
    scores = made.operations[0].outputs[0]
    made.operands[scores].lifetime = hal.OperandLifeTime.TEMPORARY_VARIABLE
    made.operands[scores].numberOfConsumers = 1
    made.operands.append(
        hal.Operand(hal.OperandType.TENSOR_FLOAT32, [2], lifetime=hal.OperandLifeTime.MODEL_OUTPUT)
    )
    made.operations.append(hal.Operation(hal.OperationType.LOGISTIC, [scores], [len(made.operands) - 1]))
    made.outputIndexes = [*made.outputIndexes[1:], len(made.operands) - 1]
    return made


def test_what_follows_counted_rows_is_open_when_a_model_is_prepared() -> None:
    """There may be 0 to 3 rows; the model that says 2 is legal for requests with 2."""
    made = suppression_and_what_follows()
    assert hal.Device().prepareModel(made).status is hal.ErrorStatus.NONE


def test_a_file_has_no_operation_on_rows_that_are_counted(tmp_path: Path) -> None:
    hal.save(suppression_and_what_follows(), tmp_path / "model.hal")
    with pytest.raises(
        GraphError, match=r"operations\[1\]\.inputs\[0\]: operands\[9\] must be known before it is"
    ):
        npusim.load(tmp_path / "model.hal")
    inputs, outputs = LEGAL["BOX_WITH_NMS_LIMIT"]
    hal.save(model("BOX_WITH_NMS_LIMIT", inputs, outputs), tmp_path / "model.hal")
    graph = npusim.load(tmp_path / "model.hal")
    assert [graph.tensors[number].type.shape for number in graph.outputs] == [(3,), (3, 4), (3,), (3,)]
