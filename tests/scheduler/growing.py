"""A call of every operator, as large as one number says: what `test_growth` times."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from npusim.isa.base.tensor import Quantization, TensorType
from npusim.kernels.graph.builder import GraphBuilder, unshaped
from npusim.kernels.graph.graph import Graph
from npusim.kernels.operator.element_types import entries
from npusim.kernels.table import operator

Numbers = list[int | None]
Made = tuple[int, ...]

SCALES = {
    "int8": (1 / 16, 0),
    "uint8": (1 / 16, 128),
    "int16": (2.0**-11, 0),
    "uint16": (1 / 8, 0),
}
"""Scale and zero point of codes of which a row says none."""


class Call:
    """One operator under construction: operands of the type under test, or of others that a row names."""

    def __init__(self, op: str, dtype: str) -> None:
        self.op, self.dtype = op, dtype
        self.builder = GraphBuilder(op)
        self._rng = np.random.default_rng(zlib.crc32(op.encode()))

    def x(self, *shape: int, of: str = "", scale: tuple[float, int] | None = None) -> int:
        """An input."""
        return self.builder.input(
            f"t{len(self.builder.tensors)}", TensorType(of or self.dtype, shape, self.scaling(of, scale))
        )

    def c(self, *shape: int, of: str = "", scale: tuple[float, int] | None = None, below: int = 0) -> int:
        """A constant of random numbers; `below`: of positions up to it."""
        dtype = of or self.dtype
        data = self._rng.integers(*((0, below) if below else (0, 100)), shape).astype(dtype)
        return self.builder.constant(f"t{len(self.builder.tensors)}", data, self.scaling(of, scale))

    def scaling(self, of: str = "", scale: tuple[float, int] | None = None) -> Quantization | None:
        """The quantization of an operand; None for reals, truths and wide integers."""
        chosen = SCALES.get(of or self.dtype) if scale is None else scale
        return None if chosen is None else Quantization((chosen[0],), (chosen[1],))

    def result(self, of: str = "", scale: tuple[float, int] | None = None) -> TensorType:
        """A result of the type under test or another; its shape follows."""
        if self.dtype not in SCALES and not of:
            scale = None
        return unshaped(of or self.dtype, self.scaling(of, scale))

    def node(self, inputs: Numbers, *results: TensorType, **parameters: Any) -> Made:
        """The operator; its only result has the type under test where none is given."""
        kind = operator(self.op).parameters(**parameters)
        return self.builder.node(self.op, inputs, results or [self.result()], kind)

    @property
    def codes(self) -> bool:
        return self.dtype == "int8"


Row = Callable[[Call, int], Made]


# Elements


def one_operand(**parameters: Any) -> Row:
    return lambda m, n: m.node([m.x(n, 64)], **parameters)


def to_scale(scale: float, zero_point: int, **parameters: Any) -> Row:
    """Where codes of results have one scale."""
    return lambda m, n: m.node([m.x(n, 64)], m.result(scale=(scale, zero_point)), **parameters)


def two_operands(m: Call, n: int) -> Made:
    return m.node([m.x(n, 64), m.x(n, 64)])


def comparison(m: Call, n: int) -> Made:
    return m.node([m.x(n, 64), m.x(n, 64)], m.result("bool"))


def choice(m: Call, n: int) -> Made:
    return m.node([m.x(n, 64, of="bool"), m.x(n, 64), m.x(n, 64)])


def to_type(dtype: str) -> Row:
    return lambda m, n: m.node([m.x(n, 64)], m.result(dtype))


# Windows and products


def weighted(m: Call, ifm: tuple[int, ...], weights: tuple[int, ...], units: int, **parameters: Any) -> Made:
    bias = m.c(units, of="int32") if m.codes else m.c(units)
    return m.node([m.x(*ifm), m.c(*weights), bias], **parameters)


def pool(m: Call, n: int) -> Made:
    return m.node([m.x(1, 4 * n, 8, 8)], filter=(2, 2), strides=(2, 2))


def image(**parameters: Any) -> Row:
    return lambda m, n: m.node([m.x(1, 4 * n, 8, 8)], **parameters)


# Recurrent cells

WORD = (2.0**-15, 0)
HIDDEN = [[1 / 300, 0]] * 4 + [[1 / 128, 0]]
"""Scales within integer cells."""


def weights_of_cell(m: Call, inputs: int, cells: int) -> Numbers:
    """Weights of a cell without peepholes and projection."""
    biases: Numbers = [m.c(cells, of="int32") if m.codes else m.c(cells) for _ in range(4)]
    gates: Numbers = [m.c(cells, size, scale=(1 / 100, 0) if m.codes else None) for size in [inputs] * 4]
    back: Numbers = [m.c(cells, size, scale=(1 / 100, 0) if m.codes else None) for size in [cells] * 4]
    return [*gates, *back, None, None, None, *biases, None, None]


def states_of_cell(m: Call, batch: int, cells: int) -> Numbers:
    return [m.x(batch, cells), m.x(batch, cells, of="int16" if m.codes else "")]


def lstm(m: Call, n: int) -> Made:
    """Of codes the results are the states first."""
    operands = [m.x(n, 8), *weights_of_cell(m, 8, 16), *states_of_cell(m, n, 16)]
    if m.codes:
        results = m.result(), m.result("int16"), m.result()
        return m.node(operands, *results, intermediates=HIDDEN)
    return m.node(operands, *[m.result()] * 3)


def sequence_lstm(m: Call, n: int) -> Made:
    operands = [m.x(1, n, 8), *weights_of_cell(m, 8, 16), *states_of_cell(m, 1, 16)]
    return m.node(operands, **({"intermediates": HIDDEN} if m.codes else {}))


def lstm_both_ways(m: Call, n: int) -> Made:
    cells = [*weights_of_cell(m, 8, 16), *weights_of_cell(m, 8, 16)]
    states = [*states_of_cell(m, 1, 16), *states_of_cell(m, 1, 16)]
    return m.node([m.x(1, n, 8), *cells, *states, *[None] * 9], m.result(), m.result())


def lstm_of_16_bits(m: Call, n: int) -> Made:
    codes, weight = (1 / 128, 128), (1 / 64, 120)
    weights: Numbers = [m.c(16, size, scale=weight) for size in [8] * 4 + [16] * 4]
    biases: Numbers = [m.c(16, of="int32") for _ in range(4)]
    operands = [m.x(n, 8, scale=codes), *weights, *biases, m.x(n, 16, of="int16"), m.x(n, 16, scale=codes)]
    return m.node(operands, m.result("int16"), m.result(scale=codes))


def gate_sums(m: Call, n: int) -> Made:
    return m.node([m.x(n, 32), m.c(16, 32), m.c(9 * 16, of="uint8")], m.result("int16"))


def lstm_step(m: Call, n: int) -> Made:
    chosen = {"state_integer_bits": 4, "output_rescale": (1 << 30, 0)}
    return m.node([m.x(n, 64), None, m.x(n, 16)], m.result("int8"), m.result(), **chosen)


def rnn_weights(m: Call, batch: int) -> Numbers:
    return [m.c(16, 8), m.c(16, 16), m.c(16), m.x(batch, 16)]


def rnn(m: Call, n: int) -> Made:
    return m.node([m.x(n, 8), *rnn_weights(m, n)], m.result(), m.result())


def sequence_rnn(m: Call, n: int) -> Made:
    return m.node([m.x(1, n, 8), *rnn_weights(m, 1)])


def rnn_both_ways(m: Call, n: int) -> Made:
    operands = [m.x(1, n, 8), *rnn_weights(m, 1), *rnn_weights(m, 1), None, None, None]
    return m.node(operands, m.result(), m.result())


def svdf(m: Call, n: int) -> Made:
    words = "int16" if m.codes else ""
    weights: Numbers = [m.c(8, 16), m.c(8, 4, of=words), m.c(8, of="int32") if m.codes else None]
    return m.node([m.x(n, 16), *weights, m.x(n, 32, of=words)], activation="relu" if m.codes else "none")


# Detection

CORNERS = (1 / 8, 0)
REGION = {"size": (3, 3), "height_stride": 1.0, "width_stride": 1.0}


def pool_with_positions(m: Call, n: int, **parameters: Any) -> Made:
    return m.node([m.x(1, 7, 9, 8 * n)], m.result(), m.result("int32"), **parameters)


def moved_taps(m: Call, n: int) -> Made:
    weights = m.c(4, 3, 3, 8)
    return m.node([m.x(1, n + 2, 10, 8), m.x(1, n, 8, 18), m.x(1, n, 8, 9), weights])


def kept_boxes(m: Call, n: int) -> Made:
    whole = m.result("int32")
    results = m.result(), whole, whole, whole
    return m.node([m.x(1, 8 * n, 4), m.x(1, 3, 8 * n)], *results, score_threshold=0.5, iou_threshold=0.5)


def yolo_boxes(m: Call, n: int) -> Made:
    parameters = {"anchors": ((10, 13), (16, 30)), "classes": 2, "threshold": 0.5, "stride": 32}
    return m.node([m.x(1, n, 8, 14), m.c(1, 2, of="int32")], m.result(), m.result(), **parameters)


def regions(m: Call, n: int) -> Made:
    corners = m.x(2 * n, 4, of="uint16" if m.codes else "", scale=CORNERS if m.codes else None)
    return m.node([m.x(1, 8, 8, 4), corners, m.x(2 * n, of="int32")], **REGION)


def key_points(m: Call, n: int) -> Made:
    words = "uint16" if m.codes else ""
    return m.node([m.x(n, 8, 8, 3), m.x(n, 4, of=words)], m.result(), m.result(words))


def limited_boxes(m: Call, n: int) -> Made:
    words = "uint16" if m.codes else ""
    results = m.result(), m.result(words), *[m.result("int32")] * 3
    return m.node(
        [m.x(8 * n, 3), m.x(8 * n, 12, of=words), m.x(8 * n, of="int32")], *results, score_threshold=0.1
    )


def proposals(m: Call, n: int) -> Made:
    third, fourth = ("int16", "uint16") if m.codes else ("", "")
    operands = [m.x(1, n, 4, 3), m.x(1, n, 4, 12), m.x(3, 4, of=third), m.x(1, 2, of=fourth)]
    results = m.result(), m.result(fourth), m.result("int32"), m.result("int32")
    chosen = {"height_stride": 4.0, "width_stride": 4.0, "iou_threshold": 0.5, "min_size": 1.0}
    return m.node(operands, *results, **chosen)


def decoded_boxes(m: Call, n: int) -> Made:
    operands = [m.x(1, 8 * n, 3), m.x(1, 8 * n, 4), m.x(8 * n, 4)]
    results = m.result(), m.result(), m.result("int32"), m.result("int32")
    chosen = {"scales": (1.0,) * 4, "max_detections": 5, "score_threshold": 0.1, "iou_threshold": 0.5}
    return m.node(operands, *results, **chosen)


def detections(m: Call, n: int) -> Made:
    chosen = {"max_detections": 5, "max_classes_per_detection": 1, "num_classes": 3}
    chosen |= {"nms_score_threshold": 0.1, "nms_iou_threshold": 0.5}
    chosen |= {"y_scale": 1.0, "x_scale": 1.0, "h_scale": 1.0, "w_scale": 1.0}
    operands = [m.x(1, 8 * n, 4), m.x(1, 8 * n, 3), m.x(8 * n, 4)]
    return m.node(operands, *[m.result("float32")] * 4, **chosen)


def moved_boxes(m: Call, n: int) -> Made:
    return m.node([m.x(8 * n, 4), m.x(8 * n, 8), m.x(8 * n, of="int32"), m.x(1, 2)])


NARROW = {"axes": (1,)}
BORDERED = {"paddings": ((1, 1), (0, 2))}
BLOCKS = {"block_shape": (2, 2)}

ROWS: dict[str, Row] = {
    "conv_2d": lambda m, n: weighted(m, (1, 4 * n, 8, 16), (8, 3, 3, 16), 8),
    "depthwise_conv_2d": lambda m, n: weighted(m, (1, 4 * n, 8, 16), (1, 3, 3, 16), 16),
    "transpose_conv": lambda m, n: weighted(m, (1, 4 * n, 8, 16), (8, 2, 2, 16), 8, strides=(2, 2)),
    "deformable_conv_2d": moved_taps,
    "fully_connected": lambda m, n: weighted(m, (n, 32), (16, 32), 16),
    "block_product": lambda m, n: m.node(
        [m.x(n, 64), m.c(32, 32, of="uint8"), m.c(32, 2, of="float32")], inner=64, block=32
    ),
    "batch_matmul": lambda m, n: m.node([m.x(n, 8, 16), m.x(n, 16, 8)]),
    "add_n": lambda m, n: m.node([m.x(n, 64), m.x(n, 64), m.x(n, 64)]),
    "prelu": lambda m, n: m.node([m.x(n, 64), m.c(64)]),
    **dict.fromkeys(
        ("add", "sub", "mul", "maximum", "minimum", "div", "floor_div", "floor_mod", "pow",
         "squared_difference", "logical_and", "logical_or", "logical_xor"),
        two_operands,
    ),
    **dict.fromkeys(("equal", "not_equal", "greater", "greater_equal", "less", "less_equal"), comparison),
    **dict.fromkeys(("select", "select_v2"), choice),
    **dict.fromkeys(("average_pool_2d", "max_pool_2d", "l2_pool_2d"), pool),
    "max_pool_2d_with_positions": lambda m, n: pool_with_positions(m, n, filter=(2, 2), strides=(2, 2)),
    **dict.fromkeys(
        ("adaptive_average_pool_2d", "adaptive_max_pool_2d"),
        lambda m, n: m.node([m.x(1, 7, 9, 8 * n)], size=(3, 5)),
    ),
    "adaptive_max_pool_2d_with_positions": lambda m, n: pool_with_positions(m, n, size=(3, 5)),
    **dict.fromkeys(
        ("mean", "sum", "reduce_max", "reduce_min", "reduce_prod", "reduce_all", "reduce_any"),
        one_operand(**NARROW),
    ),
    **dict.fromkeys(
        ("relu", "relu6", "hard_swish", "relu_n1_to_1", "relu_0_to_1", "abs", "neg", "sign", "square",
         "sqrt", "rsqrt", "exp", "log", "sin", "cos", "tan", "asin", "acos", "atan",
         "sinh", "cosh", "asinh", "acosh", "atanh", "floor", "ceil", "round", "elu", "gelu", "logical_not",
         "cumsum", "swish", "softplus", "clip",
         "erf", "mish", "selu", "celu", "thresholded_relu", "reciprocal"),
        one_operand(),
    ),
    "look_up": one_operand(entries=tuple(range(-128, 128))),
    "hard_sigmoid": one_operand(alpha=0.2, beta=0.5),
    "leaky_relu": one_operand(alpha=0.1),
    "logistic": to_scale(1 / 256, -128),
    "tanh": to_scale(1 / 128, 0),
    "softmax": to_scale(1 / 256, -128),
    "log_softmax": to_scale(1 / 16, 127),
    "l2_normalization": to_scale(1 / 128, 0),
    "local_response_normalization": one_operand(radius=2, bias=1.0, alpha=0.5, beta=0.5),
    "instance_normalization": image(epsilon=0.001),
    "batch_normalization": lambda m, n: m.node([m.x(n, 64), *(m.c(64) for _ in range(4))]),
    "group_normalization": lambda m, n: m.node([m.x(n, 8, 64), m.c(64), m.c(64)], groups=4),
    "layer_normalization": lambda m, n: m.node([m.x(n, 64), m.c(64), m.c(64)], begin_axis=1),
    "lp_normalization": one_operand(axes=(1,)),
    "arg_max": to_type("int32"),
    "arg_min": to_type("int32"),
    "topk_v2": lambda m, n: m.node([m.x(n, 64)], m.result(), m.result("int32"), k=5),
    "cast": to_type("int16"),
    "quantize": lambda m, n: m.node([m.x(n, 64)], m.result("int8", (1 / 8, 3))),
    "dequantize": to_type("float32"),
    "row_scales": lambda m, n: m.node([m.x(n, 4), m.x(n, 4)], *map(m.result, ("float32",) * 4)),
    "dynamic_quantize": lambda m, n: m.node([m.x(n, 64)], *map(m.result, ("uint8", "float32", "uint8"))),
    "reshape": one_operand(shape=(-1, 32)),
    "squeeze": lambda m, n: m.node([m.x(n, 1, 64)], axes=(1,)),
    "pad": one_operand(**BORDERED),
    "mirror_pad": lambda m, n: m.node([m.x(4 * n, 64)], **BORDERED),
    "edge_pad": one_operand(**BORDERED),
    "roll": one_operand(shifts=(1, 3)),
    "concatenation": lambda m, n: m.node([m.x(n, 64), m.x(n, 64)], axis=0),
    "split": lambda m, n: m.node([m.x(n, 64)], m.result(), m.result(), axis=1, sizes=(32, 32)),
    "pack": lambda m, n: m.node([m.x(n, 64), m.x(n, 64)], axis=0),
    "unpack": lambda m, n: m.node([m.x(2, n, 64)], m.result(), m.result()),
    "transpose": one_operand(perm=(1, 0)),
    "slice": lambda m, n: m.node([m.x(n, 64)], begin=(0, 3), size=(n, 40)),
    "strided_slice": lambda m, n: m.node([m.x(n, 64)], begin=(0, 3), size=(n, 20), strides=(1, 3)),
    "reverse_v2": one_operand(axes=(1,)),
    "tile": one_operand(multiples=(1, 3)),
    "broadcast_to": lambda m, n: m.node([m.x(n, 1)], shape=(n, 64)),
    "fill": lambda m, n: m.node([m.x(1)], shape=(n, 64)),
    "depth_to_space": image(block_size=2),
    "space_to_depth": image(block_size=2),
    "batch_to_space_nd": lambda m, n: m.node([m.x(4, n, 8, 8)], **BLOCKS, crops=((0, 0), (0, 0))),
    "space_to_batch_nd": image(**BLOCKS, paddings=((0, 0), (0, 0))),
    "channel_shuffle": one_operand(groups=4, axis=1),
    "gather": lambda m, n: m.node([m.x(30, 64), m.c(n, of="int32", below=30)]),
    "gather_nd": lambda m, n: m.node([m.x(30, 64), m.c(n, 1, of="int32", below=30)]),
    "scatter_nd": lambda m, n: m.node([m.x(8 * n, 64), m.c(n, 1, of="int32", below=8), m.x(n, 64)]),
    "dynamic_update_slice": lambda m, n: m.node([m.x(8 * n, 64), m.x(n, 64), m.c(2, of="int32", below=8)]),
    "embedding_lookup": lambda m, n: m.node([m.x(n, of="int32"), m.x(30, 64)]),
    "hashtable_lookup": lambda m, n: m.node(
        [m.x(n, of="int32"), m.x(30, of="int32"), m.x(30, 64)], m.result(), unshaped("uint8")
    ),
    "resize_bilinear": lambda m, n: m.node([m.x(1, 2 * n, 8, 8)], size=(3 * n, 12)),
    "resize_nearest_neighbor": lambda m, n: m.node([m.x(1, 2 * n, 8, 8)], size=(3 * n, 12)),
    "grid_sample": lambda m, n: m.node([m.x(1, 8, 8, 8), m.x(1, 3 * n, 12, 2)]),
    "interpolate": lambda m, n: m.node(
        [m.x(8, 64), m.c(3 * n, 2, of="int64", below=8), m.c(3 * n, 2, of="float32")], axes=(0,)
    ),
    "lstm": lstm,
    "quantized_lstm": lstm,
    "unidirectional_sequence_lstm": sequence_lstm,
    "bidirectional_sequence_lstm": lstm_both_ways,
    "quantized_16bit_lstm": lstm_of_16_bits,
    "gate_sums": gate_sums,
    "lstm_step": lstm_step,
    "rnn": rnn,
    "unidirectional_sequence_rnn": sequence_rnn,
    "bidirectional_sequence_rnn": rnn_both_ways,
    "svdf": svdf,
    "detection_post_process": detections,
    "detection_postprocessing": decoded_boxes,
    "box_with_nms_limit": limited_boxes,
    "generate_proposals": proposals,
    "axis_aligned_bbox_transform": moved_boxes,
    "multiclass_nms": kept_boxes,
    "yolo_box": yolo_boxes,
    "prior_box": lambda m, n: m.node(
        [m.x(1, n, 8, 4), m.x(1, 16 * n, 128, 3)], *[m.result("float32")] * 2, least=(16.0,), variances=(0.1,) * 4
    ),
    "roi_align": regions,
    "roi_pooling": regions,
    "heatmap_max_keypoint": key_points,
    "lsh_projection": lambda m, n: m.node(
        [m.x(4, 3, of="float32"), m.x(5 * n, 6)], m.result("int32"), type="dense"
    ),
    "random_multinomial": lambda m, n: m.node([m.x(n, 10), m.x(2, of="int32")], m.result("int32"), samples=10),
}  # fmt: skip
"""Of every operator a call whose sizes grow with n."""

UNDER_TEST = dict.fromkeys(("select", "select_v2", "embedding_lookup", "lsh_projection"), 1) | {
    "hashtable_lookup": 2
}
"""The operand whose type is the one under test, where it is not the first."""


def types_of(op: str) -> list[str]:
    """int8 and float32 where the operator has them, else the first type that it has."""
    rows = [entries(row)[0] for row in operator(op).types]
    position = UNDER_TEST.get(op, 0)
    all_of = [dtype for row in rows for dtype in sorted(row[min(position, len(row) - 1)])]
    return [dtype for dtype in ("int8", "float32") if dtype in all_of] or all_of[:1]


def graph(op: str, dtype: str, n: int) -> Graph:
    """The call of an operator with operands of a type, as large as n says."""
    made = Call(op, dtype)
    return made.builder.graph(ROWS[op](made, n))
