"""The operators of TFLite that npusim has, each with how to draw a model of it at random. A seed is a model."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.kernels.table import operator

from . import elementwise, gathers, moves, recurrent, reductions, weighted
from .sample import EIGHT_BIT, Sample, values

WIDE = (*EIGHT_BIT, "int16", "float32")
COMPUTED = (*EIGHT_BIT, "float32")
MOVED = (*EIGHT_BIT, "int16", "int32", "int64", "float32", "bool")
COMPARED = (*EIGHT_BIT, "int16", "int32", "int64", "float32", "bool")
DEEP = (*EIGHT_BIT, "int32", "int64", "float32")
STACKED = (*EIGHT_BIT, "int16", "int32", "float32", "bool")
REDUCED = (*COMPUTED, "int16", "int32", "int64", "bool")
CLOSE = 1e-5
"""Floats that are sums or transcendental differ in their last bits: so much of the largest magnitude is allowed."""

RECURRENT = 1e-3
"""Of float LSTMs and RNNs: gates and states are of order 1, and their last place (6e-8) stays where they cancel to
small outputs. Of 80 drawn LSTMs 79 were within 1e-6; the other one's outputs are below 0.01, see `test_operators.py`.
"""

UNDEFINED = re.compile(
    r"breaks a rule: .*(: C leaves .*undefined|: C defines no larger shift$|"
    r" is less than 2\*\*31$| fit 32 bits$|LiteRT sums up no others$)"
)
"""Why a model with scales that no network has may be refused: LiteRT's own kernels have no result there."""


@dataclass(frozen=True, slots=True)
class Row:
    """How a TFLite operator is drawn.

    op:      the name of the operator in npusim.
    draw:    adds one operator to the sample's model and returns the outputs.
    dtypes:  element types of its main operand.
    exact:   float32 results have LiteRT's bytes; otherwise they are close to LiteRT's. Integers always are exact.
    optimized: LiteRT has no reference kernel of it.
    """

    op: str
    draw: Callable[[Sample], list[int]]
    dtypes: tuple[str, ...] = COMPUTED
    exact: bool = True
    optimized: bool = False

    @property
    def tolerance(self) -> float:
        """How far float results may be from LiteRT's, relative to the largest of them."""
        recurrent = self.op.endswith(("lstm", "rnn"))
        return 0.0 if self.exact else RECURRENT if recurrent else CLOSE

    def defined(self, outputs: list[Array]) -> list[Array]:
        """What of the outputs the operator defines: LiteRT leaves in the rest what was there."""
        part = operator(self.op).defined
        return outputs if part is None else part(outputs)


ROWS: dict[str, Row] = {
    "ABS": Row("abs", elementwise.rescaled, ("int8", "int16", "float32", "int32")),
    "ADD_N": Row("add_n", elementwise.sum_of_many, ("float32", "int32")),
    "CAST": Row("cast", elementwise.cast, (*MOVED, "float16")),
    "CEIL": Row("ceil", elementwise.alike, ("float32",), optimized=True),
    "COS": Row("cos", elementwise.alike, ("float32",), exact=False),
    "DIV": Row("div", elementwise.quotient, (*WIDE, "int32")),
    "ELU": Row("elu", elementwise.rescaled, ("int8", "float32"), exact=False, optimized=True),
    "EQUAL": Row("equal", elementwise.comparison, COMPARED),
    "EXP": Row("exp", elementwise.rescaled, ("int8", "int16", "float32"), exact=False),
    "FLOOR": Row("floor", elementwise.alike, ("float32",)),
    "FLOOR_DIV": Row("floor_div", elementwise.quotient, ("int8", "int16", "int32", "float32")),
    "FLOOR_MOD": Row(
        "floor_mod", elementwise.quotient, ("int8", "int16", "int32", "int64", "float32"), exact=False
    ),
    "GELU": Row("gelu", elementwise.gelu, WIDE, exact=False),
    "GREATER": Row("greater", elementwise.comparison, COMPARED[:-1]),
    "GREATER_EQUAL": Row("greater_equal", elementwise.comparison, COMPARED[:-1]),
    "LESS": Row("less", elementwise.comparison, COMPARED[:-1]),
    "LESS_EQUAL": Row("less_equal", elementwise.comparison, COMPARED[:-1]),
    "LOG": Row("log", elementwise.rescaled, ("int8", "int16", "float32"), exact=False),
    "LOGICAL_AND": Row("logical_and", elementwise.pair("bool"), ("bool",)),
    "LOGICAL_NOT": Row("logical_not", elementwise.alike, ("bool",)),
    "LOGICAL_OR": Row("logical_or", elementwise.pair("bool"), ("bool",)),
    "NEG": Row("neg", elementwise.alike, ("int8", "int16", "int32", "int64", "float32")),
    "NOT_EQUAL": Row("not_equal", elementwise.comparison, COMPARED),
    "POW": Row("pow", elementwise.power, ("int32", "float32"), exact=False),
    "PRELU": Row("prelu", elementwise.prelu, WIDE),
    "RELU_0_TO_1": Row("relu_0_to_1", elementwise.rescaled),
    "RELU_N1_TO_1": Row("relu_n1_to_1", elementwise.rescaled),
    "ROUND": Row("round", elementwise.alike, ("float32",), optimized=True),
    "RSQRT": Row("rsqrt", elementwise.root, ("int8", "int16", "float32"), exact=False),
    "SELECT": Row("select", elementwise.select, MOVED),
    "SELECT_V2": Row("select_v2", elementwise.select_v2, MOVED),
    "SIGN": Row("sign", elementwise.alike, ("int32", "float32")),
    "SIN": Row("sin", elementwise.alike, ("float32",), exact=False),
    "SQRT": Row("sqrt", elementwise.root, ("int8", "int16", "float32"), exact=False),
    "SQUARE": Row("square", elementwise.alike, ("float32",)),
    "SQUARED_DIFFERENCE": Row(
        "squared_difference", elementwise.squared_difference, ("int8", "int32", "float32")
    ),
    "ADD": Row("add", elementwise.arithmetic("AddOptions"), (*COMPUTED, "int16", "int32", "int64")),
    "ARG_MAX": Row("arg_max", reductions.position, (*COMPUTED, "int32", "bool")),
    "ARG_MIN": Row("arg_min", reductions.position, (*COMPUTED, "int32", "bool")),
    "AVERAGE_POOL_2D": Row("average_pool_2d", elementwise.pool, (*COMPUTED, "int16"), exact=False),
    "BATCH_MATMUL": Row("batch_matmul", weighted.batch_matmul, ("int8", "int16", "float32"), exact=False),
    "CONCATENATION": Row("concatenation", moves.concatenation, MOVED),
    "CONV_2D": Row("conv_2d", weighted.conv_2d, WIDE, exact=False),
    "CUSTOM TFLite_Detection_PostProcess": Row(
        "detection_post_process", weighted.detection, ("float32", "uint8"), exact=False
    ),
    "CUMSUM": Row("cumsum", reductions.running_sum, ("int32", "int64", "float32")),
    "DEPTHWISE_CONV_2D": Row("depthwise_conv_2d", weighted.depthwise_conv_2d, WIDE, exact=False),
    "DEQUANTIZE": Row("dequantize", elementwise.dequantize, (*EIGHT_BIT, "int16", "float16")),
    "EXPAND_DIMS": Row("reshape", moves.expand_dims, MOVED),
    "FULLY_CONNECTED": Row("fully_connected", weighted.fully_connected, WIDE, exact=False),
    "HARD_SWISH": Row("hard_swish", elementwise.hard_swish, exact=False),
    "L2_NORMALIZATION": Row("l2_normalization", reductions.l2_normalization, exact=False),
    "L2_POOL_2D": Row("l2_pool_2d", reductions.l2_pool, ("float32",), exact=False),
    "LEAKY_RELU": Row("leaky_relu", elementwise.leaky_relu, (*COMPUTED, "int16")),
    "LOCAL_RESPONSE_NORMALIZATION": Row(
        "local_response_normalization", reductions.local_response, ("float32",), exact=False
    ),
    "LOGISTIC": Row("logistic", elementwise.fixed_output(1 / 256, False), WIDE, exact=False),
    "MAXIMUM": Row("maximum", elementwise.selection, (*COMPUTED, "int16", "int32", "int64")),
    "MINIMUM": Row("minimum", elementwise.selection, (*COMPUTED, "int16", "int32", "int64")),
    "MUL": Row("mul", elementwise.arithmetic("MulOptions"), (*COMPUTED, "int16", "int32", "int64")),
    "PAD": Row("pad", moves.pad, MOVED),
    "PADV2": Row("pad", moves.pad_with_value, MOVED),
    "QUANTIZE": Row("quantize", elementwise.quantize, (*COMPUTED, "int16")),
    "LOG_SOFTMAX": Row("log_softmax", reductions.log_softmax, exact=False),
    "MAX_POOL_2D": Row("max_pool_2d", elementwise.pool, (*COMPUTED, "int16")),
    "MEAN": Row("mean", reductions.rescaled_reduction(8), (*WIDE, "int32", "int64")),
    "REDUCE_ALL": Row("reduce_all", reductions.reduction, ("bool",)),
    "REDUCE_ANY": Row("reduce_any", reductions.reduction, ("bool",)),
    "REDUCE_MAX": Row("reduce_max", reductions.reduction, REDUCED),
    "REDUCE_MIN": Row("reduce_min", reductions.reduction, REDUCED),
    "REDUCE_PROD": Row(
        "reduce_prod", reductions.product, ("int8", "int16", "int32", "int64", "float32"), exact=False
    ),
    "RELU": Row("relu", elementwise.rescaled, (*COMPUTED, "int16")),
    "RELU6": Row("relu6", elementwise.rescaled, (*COMPUTED, "int16")),
    "RESHAPE": Row("reshape", moves.reshape, MOVED),
    "RESIZE_BILINEAR": Row(
        "resize_bilinear", elementwise.resize("ResizeBilinearOptions"), (*COMPUTED, "int16"), exact=False
    ),
    "RESIZE_NEAREST_NEIGHBOR": Row(
        "resize_nearest_neighbor", elementwise.resize("ResizeNearestNeighborOptions"), WIDE
    ),
    "SLICE": Row("slice", moves.slice_, MOVED),
    "SOFTMAX": Row("softmax", elementwise.softmax, WIDE, exact=False),
    "SPLIT": Row("split", moves.split, MOVED[:-1]),
    "SPLIT_V": Row("split", moves.split_by_sizes, MOVED[:-1]),
    "SQUEEZE": Row("squeeze", moves.squeeze, MOVED),
    "STRIDED_SLICE": Row("strided_slice", moves.strided_slice, MOVED),
    "SUB": Row("sub", elementwise.arithmetic("SubOptions"), (*COMPUTED, "int16", "int32", "int64")),
    "SUM": Row("sum", reductions.rescaled_reduction(8), ("uint8", "int32", "int64", "float32")),
    "TOPK_V2": Row("topk_v2", reductions.top, (*COMPUTED, "int16", "int32", "int64")),
    "TANH": Row("tanh", elementwise.fixed_output(1 / 128, True), WIDE, exact=False),
    "TRANSPOSE": Row("transpose", moves.transpose, MOVED),
    "TRANSPOSE_CONV": Row("transpose_conv", weighted.transpose_conv, WIDE, exact=False),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": Row(
        "unidirectional_sequence_lstm", weighted.lstm, ("int8", "float32"), exact=False
    ),
    "UNIDIRECTIONAL_SEQUENCE_RNN": Row(
        "unidirectional_sequence_rnn", recurrent.sequence_rnn, ("float32",), exact=False
    ),
    "BIDIRECTIONAL_SEQUENCE_LSTM": Row(
        "bidirectional_sequence_lstm", recurrent.bidirectional_lstm, ("float32",), exact=False
    ),
    "BIDIRECTIONAL_SEQUENCE_RNN": Row(
        "bidirectional_sequence_rnn", recurrent.bidirectional_rnn, ("float32",), exact=False
    ),
    "LSTM": Row("lstm", recurrent.lstm, ("float32",), exact=False),
    "RNN": Row("rnn", recurrent.rnn, ("float32",), exact=False),
    "SVDF": Row("svdf", recurrent.svdf, ("int8", "float32"), exact=False),
    "BATCH_TO_SPACE_ND": Row("batch_to_space_nd", gathers.batch_to_space, MOVED),
    "BROADCAST_TO": Row("broadcast_to", gathers.broadcast_to, MOVED),
    "DEPTH_TO_SPACE": Row("depth_to_space", gathers.depth_to_space, DEEP),
    "EMBEDDING_LOOKUP": Row("embedding_lookup", gathers.embedding_lookup, MOVED),
    "FILL": Row("fill", gathers.fill, MOVED),
    "HASHTABLE_LOOKUP": Row("hashtable_lookup", gathers.hashtable_lookup, MOVED),
    "GATHER": Row("gather", gathers.gather, MOVED),
    "GATHER_ND": Row("gather_nd", gathers.gather_nd, MOVED),
    "DYNAMIC_UPDATE_SLICE": Row("dynamic_update_slice", gathers.dynamic_update_slice, MOVED),
    "MIRROR_PAD": Row("mirror_pad", gathers.mirror_pad, MOVED),
    "PACK": Row("pack", gathers.pack, MOVED[:-1]),
    "REVERSE_V2": Row("reverse_v2", gathers.reverse, MOVED),
    "SPACE_TO_BATCH_ND": Row("space_to_batch_nd", gathers.space_to_batch, MOVED),
    "SPACE_TO_DEPTH": Row("space_to_depth", gathers.space_to_depth, DEEP),
    "TILE": Row("tile", gathers.tile, MOVED),
    "UNPACK": Row("unpack", gathers.unpack, STACKED),
}


def model(code: str, dtype: str, seed: int) -> bytes:
    """The file of one random operator."""
    sample = Sample(code, dtype, seed)
    return sample.writer.finish(ROWS[code].draw(sample))


def inputs_of(types: list[tuple[str, tuple[int, ...]]], seed: int) -> list[Array]:
    """Values over the whole range of each input's (dtype, shape)."""
    rng = np.random.default_rng(seed)
    return [values(rng, dtype, shape) for dtype, shape in types]
