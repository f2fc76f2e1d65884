"""One legal call of each operation, or a few, by the latest version."""

from __future__ import annotations

from tests.npusim.frontends.nn_hal.single import NOTHING, Spec, pairs, scalar, tensor, vector

Value = Spec | bool | int | float
Case = tuple[list[Value], list[Spec]]

IMAGE = tensor("F32", (1, 4, 4, 2))
CODES = tensor("Q8", (1, 4, 4, 2), 0.5, 3)
FILTER, BIAS = tensor("Q8", (3, 2, 2, 2), 0.25, 128), tensor("I32", (3,), 0.125)
CHANNELS = tensor("Q8C", (3, 2, 2, 2), channels=((0.5, 0.25, 1.0), 0))
DEPTHWISE = tensor("Q8", (1, 2, 2, 4), 0.25, 128)

OPEN_REAL = Spec(scalar(1.0).type)

CALLS: dict[str, Case] = {
    "ADD": ([tensor("F32", (3, 1, 2)), tensor("F32", (4, 2)), 1], [tensor("F32", (3, 4, 2))]),
    "ADD int32": ([tensor("I32", (2,)), tensor("I32", (2,)), 0], [tensor("I32", (2,))]),
    "MUL": ([CODES, tensor("Q8", (2,), 0.5), 0], [tensor("Q8", (1, 4, 4, 2), 0.3)]),
    "AVERAGE_POOL_2D": ([CODES, 1, 1, 0, 0, 1, 2, 2, 3, 0], [tensor("Q8", (1, 1, 5, 2), 0.5, 3)]),
    "CONV_2D": ([CODES, FILTER, BIAS, 1, 2, 2, 0], [tensor("Q8", (1, 2, 2, 3), 1.0)]),
    "CONV_2D channels": (
        [CODES, CHANNELS, tensor("I32", (3,)), 2, 1, 1, 0],
        [tensor("Q8", (1, 3, 3, 3), 1.0)],
    ),
    "CONV_2D dilated": (
        [CODES, FILTER, BIAS, 0, 0, 0, 0, 1, 1, 0, False, 2, 1],
        [tensor("Q8", (1, 3, 2, 3), 1.0)],
    ),
    "DEPTHWISE_CONV_2D": (
        [CODES, DEPTHWISE, tensor("I32", (4,), 0.125), 2, 1, 1, 2, 0],
        [tensor("Q8", (1, 3, 3, 4), 1.0)],
    ),
    "GROUPED_CONV_2D": (
        [IMAGE, tensor("F32", (4, 2, 2, 1)), tensor("F32", (4,)), 2, 1, 1, 2, 0, False],
        [tensor("F32", (1, 3, 3, 4))],
    ),
    "TRANSPOSE_CONV_2D": (
        [CODES, FILTER, BIAS, vector(1, 8, 8, 3), 1, 2, 2, 0, False],
        [tensor("Q8", (1, 8, 8, 3), 1.0)],
    ),
    "FULLY_CONNECTED": (
        [CODES, tensor("Q8", (3, 8), 0.25), BIAS, 0],
        [tensor("Q8", (4, 3), 1.0)],
    ),
    "BATCH_MATMUL": (
        [tensor("F32", (2, 3, 4)), tensor("F32", (2, 5, 4)), False, True],
        [tensor("F32", (2, 3, 5))],
    ),
    "CONCATENATION": ([IMAGE, tensor("F32", (1, 4, 4, 1)), 3], [tensor("F32", (1, 4, 4, 3))]),
    "PACK": ([1, tensor("Q8", (2, 3)), tensor("Q8", (2, 3))], [tensor("Q8", (2, 2, 3))]),
    "SPLIT": ([tensor("Q8", (2, 4)), -1, 2], [tensor("Q8", (2, 2)), tensor("Q8", (2, 2))]),
    "RESHAPE": ([IMAGE, vector(4, -1)], [tensor("F32", (4, 8))]),
    "SQUEEZE": ([tensor("F32", (1, 3, 1)), vector(0)], [tensor("F32", (3, 1))]),
    "EXPAND_DIMS": ([tensor("F32", (2, 3)), -1], [tensor("F32", (2, 3, 1))]),
    "TRANSPOSE": ([tensor("F32", (2, 3)), NOTHING], [tensor("F32", (3, 2))]),
    "FILL": ([vector(2, 3), OPEN_REAL], [tensor("F32", (2, 3))]),
    "PAD": ([tensor("F32", (2, 3)), pairs((0, 1), (2, 0))], [tensor("F32", (3, 5))]),
    "PAD_V2": ([tensor("Q8", (2,)), pairs((0, 1)), 100], [tensor("Q8", (3,))]),
    "MIRROR_PAD": ([tensor("F32", (3,)), pairs((2, 2)), 0], [tensor("F32", (7,))]),
    "DEPTH_TO_SPACE": ([tensor("Q8", (1, 2, 2, 8)), 2], [tensor("Q8", (1, 4, 4, 2))]),
    "SPACE_TO_DEPTH": ([tensor("Q8", (1, 2, 4, 4)), 2, True], [tensor("Q8", (1, 8, 2, 2))]),
    "BATCH_TO_SPACE_ND": ([tensor("F32", (8, 1, 1, 2)), vector(2, 2)], [tensor("F32", (2, 2, 2, 2))]),
    "SPACE_TO_BATCH_ND": (
        [tensor("F32", (1, 3, 4, 2)), vector(2, 2), pairs((0, 1), (0, 0))],
        [tensor("F32", (4, 2, 2, 2))],
    ),
    "SLICE": ([tensor("F32", (4, 5)), vector(1, 2), vector(2, -1)], [tensor("F32", (2, 3))]),
    "STRIDED_SLICE": (
        [tensor("F32", (4, 5)), vector(3, 0), vector(-5, 1), vector(-2, 1), 0, 0, 2],
        [tensor("F32", (2,))],
    ),
    "TILE": ([tensor("F32", (2, 3)), vector(2, 1)], [tensor("F32", (4, 3))]),
    "REVERSE": ([tensor("F32", (2, 3)), vector(-1)], [tensor("F32", (2, 3))]),
    "CHANNEL_SHUFFLE": ([tensor("F32", (2, 6)), 3, -1], [tensor("F32", (2, 6))]),
    "GATHER": ([tensor("F32", (3, 2)), 0, vector(2, 0, 2, 1)], [tensor("F32", (4, 2))]),
    "EMBEDDING_LOOKUP": ([vector(2, 0), tensor("Q8", (3, 5))], [tensor("Q8", (2, 5))]),
    "HASHTABLE_LOOKUP": (
        [vector(7, 1), vector(1, 5, 7), tensor("F32", (3, 2))],
        [tensor("F32", (2, 2)), tensor("Q8", (2,), 1.0)],
    ),
    "MEAN": ([tensor("Q8", (2, 3)), vector(-1, 1), 0], [tensor("Q8", (2,))]),
    "REDUCE_MAX": ([tensor("Q8", (2, 3)), vector(0, 1), False], [tensor("Q8", (1,))]),
    "ARGMAX": ([tensor("F32", (3,)), -1], [tensor("I32", (1,))]),
    "TOPK_V2": ([tensor("F32", (2, 3)), 2], [tensor("F32", (2, 2)), tensor("I32", (2, 2))]),
    "SOFTMAX": ([tensor("Q8", (2, 3)), 1.0, -2], [tensor("Q8", (2, 3), 1 / 256)]),
    "LOG_SOFTMAX": ([tensor("F32", (2, 3)), 1.0, 1], [tensor("F32", (2, 3))]),
    "L2_NORMALIZATION": ([tensor("Q8S", (2, 3))], [tensor("Q8S", (2, 3), 1 / 128)]),
    "LOCAL_RESPONSE_NORMALIZATION": ([IMAGE, 1, 1.0, 0.5, 0.5], [IMAGE]),
    "INSTANCE_NORMALIZATION": ([IMAGE, 1.0, 0.0, 0.1, True], [IMAGE]),
    "RESIZE_BILINEAR": ([IMAGE, 3, 2, False, False, True], [tensor("F32", (1, 2, 3, 2))]),
    "RESIZE_NEAREST_NEIGHBOR": ([IMAGE, 0.5, 0.8, False], [tensor("F32", (1, 3, 2, 2))]),
    "LOGISTIC": ([tensor("Q8S", (2,))], [tensor("Q8S", (2,), 1 / 256, -128)]),
    "TANH": ([tensor("Q8", (2,))], [tensor("Q8", (2,), 1 / 128, 128)]),
    "RELU": ([CODES], [CODES]),
    "CAST": ([tensor("Q8", (2,))], [tensor("I32", (2,))]),
    "DEQUANTIZE": ([tensor("Q8", (2,))], [tensor("F32", (2,))]),
    "QUANTIZE": ([tensor("F32", (2,))], [tensor("Q8S", (2,))]),
    "SELECT": ([tensor("B8", (2,)), *[tensor("Q8", (2,))] * 2], [tensor("Q8", (2,), 2.0)]),
    "EQUAL": ([tensor("B8", (2, 1)), tensor("B8", (3,))], [tensor("B8", (2, 3))]),
    "PRELU": ([CODES, tensor("Q8", (1, 1, 2))], [tensor("Q8", (1, 4, 4, 2), 0.1)]),
    "RANK": ([tensor("B8", (2, 1))], [Spec(scalar(1).type)]),
    "ELU": ([IMAGE, 0.5], [IMAGE]),
    **{
        name: ([tensor("F32", (3, 1)), tensor("F32", (2,)), 0], [tensor("F32", (3, 2))])
        for name in ("SUB", "DIV")
    },
    **{
        name: ([tensor("F32", (3, 1)), tensor("F32", (2,))], [tensor("F32", (3, 2))])
        for name in ("MAXIMUM", "MINIMUM", "POW")
    },
    **{
        name: ([tensor("F32", (2,)), tensor("F32", (2,))], [tensor("B8", (2,))])
        for name in ("NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL")
    },
    **{
        name: ([tensor("B8", (2,)), tensor("B8", (1,))], [tensor("B8", (2,))])
        for name in ("LOGICAL_AND", "LOGICAL_OR")
    },
    **{
        name: ([tensor("F32", (2, 3))], [tensor("F32", (2, 3))])
        for name in (
            "ABS",
            "EXP",
            "FLOOR",
            "HARD_SWISH",
            "LOG",
            "NEG",
            "RELU1",
            "RELU6",
            "RSQRT",
            "SIN",
            "SQRT",
        )
    },
    "LOGICAL_NOT": ([tensor("B8", (2,))], [tensor("B8", (2,))]),
    **{
        name: ([IMAGE, 2, 1, 1, 2, 2, 0, False], [tensor("F32", (1, 3, 3, 2))])
        for name in ("MAX_POOL_2D", "L2_POOL_2D")
    },
    **{
        name: ([tensor("F32", (2, 3)), vector(0), True], [tensor("F32", (1, 3))])
        for name in ("REDUCE_MIN", "REDUCE_PROD", "REDUCE_SUM")
    },
    **{
        name: ([tensor("B8", (2, 3)), vector(0), True], [tensor("B8", (1, 3))])
        for name in ("REDUCE_ALL", "REDUCE_ANY")
    },
    "ARGMIN": ([tensor("F32", (3, 2)), 0], [tensor("I32", (2,))]),
}
"""By operation, and what is tried of it; all by the latest version."""
