"""What the texts say that operations compute, in small cases of our own: values that can be checked by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import npusim.hal as hal
from npusim.frontends.nn_hal.enumerations import row_of
from tests.npusim.frontends.nn_hal.calls import Value
from tests.npusim.frontends.nn_hal.single import Spec, model, pairs, tensor, vector
from tests.npusim.hal.runs import request


class Given:
    """A tensor that a request gives: its operand and its elements."""

    def __init__(self, values: Any, kind: str = "F32", scale: float = 0.0, zero_point: int = 0) -> None:
        spec = tensor(kind, np.shape(values), scale, zero_point)
        self.spec = spec
        self.data = np.array(values, row_of(spec.type).element)


def q(values: Any, scale: float = 0.5, zero_point: int = 0) -> Given:
    """A TENSOR_QUANT8_ASYMM."""
    return Given(values, "Q8", scale, zero_point)


def i(values: Any) -> Given:
    return Given(values, "I32")


def b(values: Any) -> Given:
    return Given(values, "B8")


IMAGE = np.arange(1, 17, dtype=np.float32).reshape(1, 4, 4, 1)
ROW = [[-2.0, -0.5, 0.0, 0.5, 1.5, 7.0]]
PAIR = [[1.0, 2.0], [3.0, 4.0]]
NO_PERMUTATION = Spec(hal.OperandType.TENSOR_INT32, (1,), omitted=True)

CASES: list[tuple[str, Sequence[Given | Value], Any]] = [
    # The example of the text: sizes {4, 1, 2} and {5, 4, 3, 1} make {5, 4, 3, 2}.
    ("ADD", [Given(np.ones((4, 1, 2))), Given(np.full((5, 4, 3, 1), 2.0)), 0], np.full((5, 4, 3, 2), 3.0)),
    ("ADD", [Given(ROW), Given(1.0 * np.ones((1, 6))), 1], [[0, 0.5, 1, 1.5, 2.5, 8]]),
    ("SUB", [Given([5.0]), Given([2.0]), 0], [3.0]),
    ("MUL", [Given([5.0]), Given([2.0]), 3], [6.0]),
    ("DIV", [Given([5.0]), Given([2.0]), 0], [2.5]),
    ("MAXIMUM", [Given([5.0, 1.0]), Given([2.0])], [5.0, 2.0]),
    ("MINIMUM", [Given([5.0, 1.0]), Given([2.0])], [2.0, 1.0]),
    ("POW", [Given([2.0, 3.0]), Given([3.0])], [8.0, 27.0]),
    ("AVERAGE_POOL_2D", [Given(IMAGE), 2, 2, 2, 2, 2, 0], [[[[3.5], [5.5]], [[11.5], [13.5]]]]),
    ("MAX_POOL_2D", [Given(IMAGE), 2, 2, 2, 2, 2, 0], [[[[6], [8]], [[14], [16]]]]),
    ("L2_POOL_2D", [Given([[[[3.0], [4.0]]]]), 2, 1, 1, 2, 1, 0], [[[[12.5**0.5]]]]),
    ("CONCATENATION", [Given([[1.0]]), Given([[2.0, 3.0]]), 1], [[1, 2, 3]]),
    # A filter of ones over 2 x 2 pixels, and a bias.
    (
        "CONV_2D",
        [Given(IMAGE), Given(np.ones((1, 2, 2, 1))), Given([0.5]), 2, 2, 2, 0],
        [[[[14.5], [22.5]], [[46.5], [54.5]]]],
    ),
    (
        "DEPTHWISE_CONV_2D",
        [Given([[[[1.0, 2.0]]]]), Given([[[[1.0, 10.0, 1.0, 10.0]]]]), Given([0.0, 0, 0, 1]), 2, 1, 1, 2, 0],
        [[[[1, 10, 2, 21]]]],
    ),
    (
        "GROUPED_CONV_2D",
        [Given([[[[1.0, 2.0]]]]), Given([[[[10.0]]], [[[100.0]]]]), Given([0.0, 0.0]), 2, 1, 1, 2, 0, False],
        [[[[10, 200]]]],
    ),
    (
        "TRANSPOSE_CONV_2D",
        [
            *(Given([[[[1.0], [2.0]]]]), Given(np.ones((1, 1, 2, 1))), Given([0.0])),
            *(vector(1, 1, 4, 1), 2, 2, 1, 0, False),
        ],
        [[[[1], [1], [2], [2]]]],
    ),
    ("FULLY_CONNECTED", [Given([[1.0, 2.0]]), Given([[3.0, 4.0]]), Given([5.0]), 0], [[16.0]]),
    ("BATCH_MATMUL", [Given([PAIR]), Given([PAIR]), False, True], [[[5.0, 11.0], [11.0, 25.0]]]),
    # Depth 4 becomes a block of 2 x 2: the first value left above.
    ("DEPTH_TO_SPACE", [Given([[[[1.0, 2, 3, 4]]]]), 2], [[[[1], [2]], [[3], [4]]]]),
    ("SPACE_TO_DEPTH", [Given([[[[1.0], [2]], [[3], [4]]]]), 2], [[[[1, 2, 3, 4]]]]),
    ("DEQUANTIZE", [q([0, 3, 255], 0.5, 3)], [-1.5, 0.0, 126.0]),
    ("QUANTIZE", [Given([-1.5, 0.0, 1.0, 1e9])], q([0, 3, 5, 255], 0.5, 3)),
    ("EMBEDDING_LOOKUP", [i([1, 0, 1]), Given(PAIR)], [PAIR[1], PAIR[0], PAIR[1]]),
    ("FLOOR", [Given(ROW)], [[-2, -1, 0, 0, 1, 7]]),
    ("L2_NORMALIZATION", [Given([[3.0, 4.0]])], [[0.6, 0.8]]),
    # One channel on each side: sqr_sum of x, y is 1 + 4.
    (
        "LOCAL_RESPONSE_NORMALIZATION",
        [Given([[[[1.0, 2.0]]]]), 1, 1.0, 3.0, 0.5],
        [[[[0.25, 0.5]]]],
    ),
    ("LOGISTIC", [Given([0.0])], [0.5]),
    ("TANH", [Given([0.0, 1e3])], [0.0, 1.0]),
    ("RELU", [Given(ROW)], [[0, 0, 0, 0.5, 1.5, 7]]),
    ("RELU1", [Given(ROW)], [[-1, -0.5, 0, 0.5, 1, 1]]),
    ("RELU6", [Given(ROW)], [[0, 0, 0, 0.5, 1.5, 6]]),
    ("RESHAPE", [Given(PAIR), vector(1, -1)], [[1, 2, 3, 4]]),
    ("RESIZE_BILINEAR", [Given([[[[1.0], [3.0]]]]), 4, 1], [[[[1], [2], [3], [3]]]]),
    ("RESIZE_NEAREST_NEIGHBOR", [Given([[[[1.0], [3.0]]]]), 4, 1, False], [[[[1], [1], [3], [3]]]]),
    ("SOFTMAX", [Given([[0.0, 0.0]]), 1.0], [[0.5, 0.5]]),
    ("LOG_SOFTMAX", [Given([[0.0, 0.0]]), 1.0, -1], [[np.log(0.5)] * 2]),
    (
        "BATCH_TO_SPACE_ND",
        [Given([[[[1.0]]], [[[2]]], [[[3]]], [[[4]]]]), vector(2, 2)],
        [[[[1], [2]], [[3], [4]]]],
    ),
    (
        "SPACE_TO_BATCH_ND",
        [Given([[[[1.0], [2]], [[3], [4]]]]), vector(2, 2), pairs((0, 0), (0, 0))],
        [[[[1]]], [[[2]]], [[[3]]], [[[4]]]],
    ),
    ("MEAN", [Given(PAIR), vector(1), 0], [1.5, 3.5]),
    ("REDUCE_SUM", [Given(PAIR), vector(0), True], [[4, 6]]),
    ("REDUCE_PROD", [Given(PAIR), vector(1), False], [2, 12]),
    ("REDUCE_MAX", [Given(PAIR), vector(-1), False], [2, 4]),
    ("REDUCE_MIN", [Given(PAIR), vector(0, 1), False], [1]),
    ("REDUCE_ALL", [b([[True, False]]), vector(1), False], b([False])),
    ("REDUCE_ANY", [b([[True, False]]), vector(1), False], b([True])),
    ("PAD", [Given([[1.0]]), pairs((0, 1), (2, 0))], [[0, 0, 1], [0, 0, 0]]),
    ("PAD_V2", [Given([[1.0]]), pairs((0, 0), (1, 1)), 9.0], [[9, 1, 9]]),
    ("MIRROR_PAD", [Given([1.0, 2, 3]), pairs((2, 0)), 0], [3, 2, 1, 2, 3]),
    ("SQUEEZE", [Given([[[1.0], [2.0]]]), vector(0)], [[1], [2]]),
    ("EXPAND_DIMS", [Given([1.0, 2.0]), 0], [[1, 2]]),
    (
        "STRIDED_SLICE",
        [Given([[1.0, 2, 3], [4, 5, 6]]), vector(1, 2), vector(2, 0), vector(1, -1), 0, 0, 1],
        [6, 5],
    ),
    ("SLICE", [Given([[1.0, 2, 3], [4, 5, 6]]), vector(0, 1), vector(-1, 2)], [[2, 3], [5, 6]]),
    ("SPLIT", [Given([[1.0, 2, 3, 4]]), 1, 2], [[1, 2]]),
    ("TRANSPOSE", [Given(PAIR), vector(1, 0)], [[1, 3], [2, 4]]),
    ("TRANSPOSE", [Given(PAIR), NO_PERMUTATION], [[1, 3], [2, 4]]),
    ("ABS", [Given(ROW)], [[2, 0.5, 0, 0.5, 1.5, 7]]),
    ("NEG", [Given(ROW)], [[2, 0.5, -0.0, -0.5, -1.5, -7]]),
    ("EXP", [Given([0.0])], [1]),
    ("LOG", [Given([1.0])], [0]),
    ("SIN", [Given([0.0])], [0]),
    ("SQRT", [Given([9.0])], [3]),
    ("RSQRT", [Given([4.0])], [0.5]),
    ("ELU", [Given([-1e3, 2.0]), 0.5], [-0.5, 2.0]),
    ("HARD_SWISH", [Given([-4.0, 3.0, 6.0])], [0, 3, 6]),
    ("PRELU", [Given([-2.0, 4.0]), Given([0.25])], [-0.5, 4]),
    ("ARGMAX", [Given([[1.0, 3.0, 2.0]]), 1], i([1])),
    ("ARGMIN", [Given([[1.0, 3.0, 0.5]]), -1], i([2])),
    ("CAST", [Given([1.9, -1.9])], i([1, -1])),
    # 2 groups of 3 channels: 0 3 1 4 2 5.
    ("CHANNEL_SHUFFLE", [Given([[0.0, 1, 2, 3, 4, 5]]), 2, 1], [[0, 3, 1, 4, 2, 5]]),
    ("EQUAL", [Given([1.0, 2.0]), Given([1.0])], b([True, False])),
    ("NOT_EQUAL", [Given([1.0, 2.0]), Given([1.0])], b([False, True])),
    ("GREATER", [Given([1.0, 2.0]), Given([1.0])], b([False, True])),
    ("GREATER_EQUAL", [Given([1.0, 0.0]), Given([1.0])], b([True, False])),
    ("LESS", [Given([1.0, 0.0]), Given([1.0])], b([False, True])),
    ("LESS_EQUAL", [Given([1.0, 2.0]), Given([1.0])], b([True, False])),
    ("LOGICAL_AND", [b([True, True]), b([True, False])], b([True, False])),
    ("LOGICAL_OR", [b([False, True]), b([False])], b([False, True])),
    ("LOGICAL_NOT", [b([False, True])], b([True, False])),
    ("SELECT", [b([True, False]), Given([1.0, 2.0]), Given([3.0, 4.0])], [1, 4]),
    ("GATHER", [Given([[1.0, 2.0, 3.0]]), 1, i([2, 0])], [[3, 1]]),
    ("TILE", [Given([1.0, 2.0]), vector(2)], [1, 2, 1, 2]),
    ("TOPK_V2", [Given([[1.0, 3.0, 2.0]]), 2], [[3, 2]]),
    ("FILL", [i([2]), 7.0], [7, 7]),
    ("PACK", [0, Given([1.0]), Given([2.0])], [[1], [2]]),
    ("REVERSE", [Given([[1.0, 2.0]]), vector(1)], [[2, 1]]),
    ("INSTANCE_NORMALIZATION", [Given([[[[1.0], [3.0]]]]), 2.0, 5.0, 0.0, False], [[[[3], [7]]]]),
    # The whole image: pixels 1 + x + 4 y sampled at 0.5, 1.5, 2.5 and, at its border, 3 in both directions.
    (
        "ROI_ALIGN",
        [Given(IMAGE), Given([[0.0, 0, 4, 4]]), i([0]), 1, 1, 1.0, 1.0, 4, 4, False],
        [[[[10.375]]]],
    ),
    ("ROI_POOLING", [Given(IMAGE), Given([[0.0, 0, 3, 3]]), i([0]), 1, 1, 1.0, 1.0, False], [[[[16]]]]),
    # A box of width and height 2 around (1, 1), moved by half its width and twice as high.
    (
        "AXIS_ALIGNED_BBOX_TRANSFORM",
        [Given([[0.0, 0, 2, 2]]), Given([[0.5, 0, 0, np.log(2)]]), i([0]), Given([[10.0, 10]])],
        [[1, 0, 3, 3]],
    ),
    ("RNN", [Given([[1.0]]), Given([[2.0]]), Given([[3.0]]), Given([0.5]), Given([[1.0]]), 0], [[5.5]]),
    # Weights of zero: gates of one half, so half of the state stays, and half of its tanh goes out.
    (
        "LSTM",
        [
            *[Given([[1.0]])] * 1,
            *[Given([[0.0]])] * 8,
            *[Spec(tensor("F32", (1,)).type, (1,), omitted=True)] * 3,
            *[Given([0.0])] * 4,
            *[Spec(tensor("F32", (1,)).type, (1,), omitted=True)] * 2,
            *(Given([[0.0]]), Given([[2.0]]), 4, 0.0, 0.0),
        ],
        ("output_state", [[0.5 * np.tanh(1.0)]]),
    ),
    (
        "SVDF",
        [Given([[1.0]]), Given([[2.0]]), Given([[3.0, 5.0]]), Given([0.5]), Given([[7.0, 0.0]]), 1, 0],
        ("second", [[3.0 * 7 + 5.0 * 2 + 0.5]]),
    ),
    ("HASHTABLE_LOOKUP", [i([7, 2]), i([1, 7]), Given(PAIR)], [PAIR[1], [0, 0]]),
]
SEVERAL = {"SPLIT": 2, "TOPK_V2": 2, "HASHTABLE_LOOKUP": 2, "RNN": 2, "LSTM": 4, "SVDF": 2}
"""Operations of several outputs, and how many."""

SHOWN = {"LSTM": 1, "SVDF": 1, "RNN": 1}
"""Which of them is looked at, if not the first."""


def executed(operation: str, operands: Sequence[Given | Value], expected: Any) -> Any:
    """The output of a model of one operation, on a device; its sizes are left open."""
    want = expected if isinstance(expected, Given) else Given(expected)
    inputs: list[Value] = [each.spec if isinstance(each, Given) else each for each in operands]
    outputs = outputs_of(operation, want)
    arrays = [each.data for each in operands if isinstance(each, Given)]
    rooms = [4096] * len(outputs)
    asked = request(arrays, rooms)
    with hal.Device() as device:
        done = device.prepareModel(model(operation, inputs, outputs)).unwrap().execute(asked).unwrap()
    number = SHOWN.get(operation, 0)
    shape = done.outputShapes[number].dimensions
    raw = bytes(asked.pools[1][4096 * number : 4096 * number + 4096])
    count = int(np.prod(shape))
    return np.frombuffer(raw, want.data.dtype)[:count].reshape(shape)


def outputs_of(operation: str, want: Given) -> list[Spec]:
    """The outputs: as the one that is looked at, all sizes open."""
    kinds = [want.spec.type] * SEVERAL.get(operation, 1)
    if operation == "TOPK_V2":
        kinds[1] = hal.OperandType.TENSOR_INT32
    if operation == "HASHTABLE_LOOKUP":
        kinds[1] = hal.OperandType.TENSOR_QUANT8_ASYMM
    scales = [want.spec.scale if kind == want.spec.type else 0.0 for kind in kinds]
    if operation == "HASHTABLE_LOOKUP":
        scales[1] = 1.0
    return [
        Spec(kind, (), scale=scale, zero_point=want.spec.zero_point)
        for kind, scale in zip(kinds, scales, strict=True)
    ]


@pytest.mark.cases(45)
@pytest.mark.parametrize(
    ("operation", "operands", "expected"),
    CASES,
    ids=[f"{case[0]} {number}" for number, case in enumerate(CASES)],
)
def test_an_operation_computes_what_its_text_says(
    operation: str, operands: Sequence[Given | Value], expected: Any
) -> None:
    want = expected[1] if isinstance(expected, tuple) else expected
    got = executed(operation, operands, want)
    wanted = want.data if isinstance(want, Given) else np.float32(want)
    assert got.shape == wanted.shape
    if wanted.dtype == np.float32:
        assert got == pytest.approx(wanted, rel=1e-5, abs=1e-6)
    else:
        assert np.array_equal(got, wanted)
