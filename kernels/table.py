"""The operators of npusim: one file each, listed here, and how a graph calls them."""

from __future__ import annotations

from difflib import get_close_matches

from npusim.isa.base.errors import GraphError
from npusim.isa.program.program import UNKNOWN
from npusim.kernels.graph.graph import Graph, Node, Tensors
from npusim.kernels.graph.rewrite import fold_padding
from npusim.kernels.graph.unknown import missing, on_host, refusal, unknown_operator
from npusim.kernels.operator.operator import Call, Operator, Shapes
from npusim.kernels.operators.convolution import conv_2d, depthwise_conv_2d, fully_connected
from npusim.kernels.operators.detection import detection_post_process
from npusim.kernels.operators.elementwise import add, maximum, minimum, mul, sub
from npusim.kernels.operators.movement import (
    concatenation,
    dequantize,
    pad,
    quantize,
    reshape,
    slice,
    split,
    squeeze,
    strided_slice,
    transpose,
)
from npusim.kernels.operators.pooling import average_pool_2d, max_pool_2d
from npusim.kernels.operators.reduction import arg_max, mean, softmax
from npusim.kernels.operators.resize import resize_bilinear, resize_nearest_neighbor
from npusim.kernels.operators.sequence import unidirectional_sequence_lstm
from npusim.kernels.operators.tables import hard_swish, leaky_relu, logistic, relu, relu6, tanh

OPERATORS: tuple[Operator, ...] = (
    # convolutions and matrix products
    conv_2d.OPERATOR,
    depthwise_conv_2d.OPERATOR,
    fully_connected.OPERATOR,
    # elementwise
    add.OPERATOR,
    sub.OPERATOR,
    mul.OPERATOR,
    maximum.OPERATOR,
    minimum.OPERATOR,
    # pools and reductions
    average_pool_2d.OPERATOR,
    max_pool_2d.OPERATOR,
    mean.OPERATOR,
    softmax.OPERATOR,
    arg_max.OPERATOR,
    # look-up tables
    logistic.OPERATOR,
    tanh.OPERATOR,
    relu.OPERATOR,
    relu6.OPERATOR,
    leaky_relu.OPERATOR,
    hard_swish.OPERATOR,
    # moves and type conversions
    quantize.OPERATOR,
    reshape.OPERATOR,
    squeeze.OPERATOR,
    pad.OPERATOR,
    concatenation.OPERATOR,
    split.OPERATOR,
    dequantize.OPERATOR,
    transpose.OPERATOR,
    slice.OPERATOR,
    strided_slice.OPERATOR,
    # whole layers that run on the host
    resize_bilinear.OPERATOR,
    unidirectional_sequence_lstm.OPERATOR,
    detection_post_process.OPERATOR,
    resize_nearest_neighbor.OPERATOR,
)
"""Every operator that npusim knows, grouped by what computes it."""

_BY_NAME = {entry.name: entry for entry in OPERATORS}


def operator(name: str) -> Operator:
    """The operator called `name`. Raises GraphError with the nearest known name."""
    if name in _BY_NAME:
        return _BY_NAME[name]
    if name.startswith(UNKNOWN):
        return unknown_operator(name)
    near = get_close_matches(name, _BY_NAME, n=1)
    hint = f"; the nearest is {near[0]!r}" if near else ""
    raise GraphError(f"operator {name!r} is not one that npusim has{hint}; `npusim ops` lists them")


def known(name: str) -> bool:
    """Whether npusim has an operator of that name, or times it as one that it does not have."""
    return name in _BY_NAME or name.startswith(UNKNOWN)


def unknown_on_host(graph: Graph) -> Graph:
    """The graph with the operators that npusim does not have as host layers, timed by their bytes, without results."""
    return on_host(graph, known)


def call_of(graph: Tensors, node: Node) -> Call:
    """One use of an operator as its rules and reference see it: types and constants instead of indices."""
    operands = [None if index is None else graph.tensors[index] for index in node.inputs]
    return Call(
        parameters=node.parameters,
        inputs=tuple(None if tensor is None else tensor.type for tensor in operands),
        outputs=tuple(graph.tensors[index].type for index in node.outputs),
        constants={
            position: tensor.data
            for position, tensor in enumerate(operands)
            if tensor is not None and tensor.data is not None
        },
    )


def infer(call: Call, op: str) -> Shapes | None:
    """The shapes of the outputs of an operator, from its parameters and inputs alone.

    None for an operator that npusim does not have, or whose operands break the rules: when it is compiled, the rule
    says so.
    """
    entry = _BY_NAME.get(op)
    if entry is None:
        return None
    try:
        return entry.infer(call)
    except (LookupError, TypeError, ValueError, ArithmeticError):
        return None


def require_known(graph: Graph) -> None:
    """Raises GraphError that names every operator of a graph that npusim does not have, with its count."""
    if found := missing(graph, known):
        raise refusal(graph, found)


def simplify(graph: Graph) -> Graph:
    """The graph without operators that others can do on the way; same outputs, byte for byte."""
    return fold_padding(graph, operator, call_of, pad.pad_value)
