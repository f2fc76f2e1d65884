"""The operators of npusim: one file each, listed here."""

from __future__ import annotations

from difflib import get_close_matches

from npusim.isa.base.errors import GraphError, HardwareError
from npusim.isa.base.nearest import nearest
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.program.program import UNKNOWN
from npusim.kernels.operator.operator import Call, Operator, Shapes
from npusim.kernels.operator.unknown import unknown_operator
from npusim.kernels.operators.convolution import (
    batch_matmul,
    conv_2d,
    deformable_conv_2d,
    depthwise_conv_2d,
    fully_connected,
    transpose_conv,
)
from npusim.kernels.operators.detection import (
    axis_aligned_bbox_transform,
    box_with_nms_limit,
    detection_post_process,
    detection_postprocessing,
    generate_proposals,
    heatmap_max_keypoint,
    multiclass_nms,
    prior_box,
    roi_align,
    roi_pooling,
    yolo_box,
)
from npusim.kernels.operators.elementwise import (
    add,
    add_n,
    cast,
    div,
    equal,
    floor_div,
    floor_mod,
    greater,
    greater_equal,
    less,
    less_equal,
    logical_and,
    logical_or,
    maximum,
    minimum,
    mul,
    not_equal,
    pow,
    prelu,
    select,
    select_v2,
    squared_difference,
    sub,
)
from npusim.kernels.operators.hashing import lsh_projection, random_multinomial
from npusim.kernels.operators.movement import (
    batch_to_space_nd,
    broadcast_to,
    channel_shuffle,
    concatenation,
    depth_to_space,
    dequantize,
    embedding_lookup,
    fill,
    gather,
    gather_nd,
    hashtable_lookup,
    mirror_pad,
    pack,
    pad,
    quantize,
    reshape,
    reverse_v2,
    slice,
    space_to_batch_nd,
    space_to_depth,
    split,
    squeeze,
    strided_slice,
    tile,
    transpose,
    unpack,
)
from npusim.kernels.operators.normalization import (
    instance_normalization,
    l2_normalization,
    local_response_normalization,
)
from npusim.kernels.operators.pooling import (
    adaptive_average_pool_2d,
    adaptive_max_pool_2d,
    adaptive_max_pool_2d_with_positions,
    average_pool_2d,
    l2_pool_2d,
    max_pool_2d,
    max_pool_2d_with_positions,
)
from npusim.kernels.operators.reduction import (
    arg_max,
    arg_min,
    cumsum,
    log_softmax,
    mean,
    reduce_all,
    reduce_any,
    reduce_max,
    reduce_min,
    reduce_prod,
    softmax,
    sum,
    topk_v2,
)
from npusim.kernels.operators.resize import grid_sample, resize_bilinear, resize_nearest_neighbor
from npusim.kernels.operators.sequence import (
    bidirectional_sequence_lstm,
    bidirectional_sequence_rnn,
    gate_sums,
    lstm,
    lstm_step,
    quantized_16bit_lstm,
    quantized_lstm,
    rnn,
    svdf,
    unidirectional_sequence_lstm,
    unidirectional_sequence_rnn,
)
from npusim.kernels.operators.tables import (
    abs,
    ceil,
    cos,
    elu,
    exp,
    floor,
    gelu,
    hard_swish,
    leaky_relu,
    log,
    logical_not,
    logistic,
    neg,
    relu,
    relu6,
    relu_0_to_1,
    relu_n1_to_1,
    round,
    rsqrt,
    sign,
    sin,
    sqrt,
    square,
    tanh,
)

OPERATORS: tuple[Operator, ...] = (
    # convolutions and matrix products
    conv_2d.OPERATOR,
    depthwise_conv_2d.OPERATOR,
    deformable_conv_2d.OPERATOR,
    transpose_conv.OPERATOR,
    fully_connected.OPERATOR,
    batch_matmul.OPERATOR,
    # elementwise
    add.OPERATOR,
    sub.OPERATOR,
    mul.OPERATOR,
    maximum.OPERATOR,
    minimum.OPERATOR,
    div.OPERATOR,
    floor_div.OPERATOR,
    floor_mod.OPERATOR,
    pow.OPERATOR,
    prelu.OPERATOR,
    squared_difference.OPERATOR,
    add_n.OPERATOR,
    equal.OPERATOR,
    not_equal.OPERATOR,
    greater.OPERATOR,
    greater_equal.OPERATOR,
    less.OPERATOR,
    less_equal.OPERATOR,
    logical_and.OPERATOR,
    logical_or.OPERATOR,
    select.OPERATOR,
    select_v2.OPERATOR,
    cast.OPERATOR,
    # pools and reductions
    average_pool_2d.OPERATOR,
    max_pool_2d.OPERATOR,
    l2_pool_2d.OPERATOR,
    max_pool_2d_with_positions.OPERATOR,
    adaptive_average_pool_2d.OPERATOR,
    adaptive_max_pool_2d.OPERATOR,
    adaptive_max_pool_2d_with_positions.OPERATOR,
    mean.OPERATOR,
    sum.OPERATOR,
    reduce_max.OPERATOR,
    reduce_min.OPERATOR,
    reduce_prod.OPERATOR,
    reduce_all.OPERATOR,
    reduce_any.OPERATOR,
    softmax.OPERATOR,
    log_softmax.OPERATOR,
    arg_max.OPERATOR,
    arg_min.OPERATOR,
    topk_v2.OPERATOR,
    cumsum.OPERATOR,
    # normalizations
    l2_normalization.OPERATOR,
    local_response_normalization.OPERATOR,
    instance_normalization.OPERATOR,
    # look-up tables
    logistic.OPERATOR,
    tanh.OPERATOR,
    relu.OPERATOR,
    relu6.OPERATOR,
    leaky_relu.OPERATOR,
    hard_swish.OPERATOR,
    relu_n1_to_1.OPERATOR,
    relu_0_to_1.OPERATOR,
    abs.OPERATOR,
    neg.OPERATOR,
    sign.OPERATOR,
    square.OPERATOR,
    sqrt.OPERATOR,
    rsqrt.OPERATOR,
    exp.OPERATOR,
    log.OPERATOR,
    sin.OPERATOR,
    cos.OPERATOR,
    floor.OPERATOR,
    ceil.OPERATOR,
    round.OPERATOR,
    elu.OPERATOR,
    gelu.OPERATOR,
    logical_not.OPERATOR,
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
    reverse_v2.OPERATOR,
    tile.OPERATOR,
    broadcast_to.OPERATOR,
    fill.OPERATOR,
    pack.OPERATOR,
    unpack.OPERATOR,
    mirror_pad.OPERATOR,
    depth_to_space.OPERATOR,
    space_to_depth.OPERATOR,
    batch_to_space_nd.OPERATOR,
    space_to_batch_nd.OPERATOR,
    channel_shuffle.OPERATOR,
    gather.OPERATOR,
    gather_nd.OPERATOR,
    embedding_lookup.OPERATOR,
    hashtable_lookup.OPERATOR,
    # images of other sizes
    resize_bilinear.OPERATOR,
    resize_nearest_neighbor.OPERATOR,
    grid_sample.OPERATOR,
    # sequences
    lstm.OPERATOR,
    unidirectional_sequence_lstm.OPERATOR,
    bidirectional_sequence_lstm.OPERATOR,
    quantized_lstm.OPERATOR,
    gate_sums.OPERATOR,
    lstm_step.OPERATOR,
    quantized_16bit_lstm.OPERATOR,
    rnn.OPERATOR,
    unidirectional_sequence_rnn.OPERATOR,
    bidirectional_sequence_rnn.OPERATOR,
    svdf.OPERATOR,
    # detection
    detection_post_process.OPERATOR,
    detection_postprocessing.OPERATOR,
    box_with_nms_limit.OPERATOR,
    generate_proposals.OPERATOR,
    axis_aligned_bbox_transform.OPERATOR,
    roi_align.OPERATOR,
    roi_pooling.OPERATOR,
    heatmap_max_keypoint.OPERATOR,
    multiclass_nms.OPERATOR,
    yolo_box.OPERATOR,
    prior_box.OPERATOR,
    # hashes and samples
    lsh_projection.OPERATOR,
    random_multinomial.OPERATOR,
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


def check_lacks(hardware: Hardware) -> None:
    """Raises HardwareError where a machine lacks operators that npusim does not have, all of them by name."""
    faults = []
    for name in hardware.lacks_operators:
        if name in _BY_NAME:
            continue
        near = nearest(name, _BY_NAME)
        hint = f", did you mean {near}?" if near else "; `npusim ops` lists them"
        faults.append(f"{name} is not an operator that npusim has{hint}")
    if faults:
        raise HardwareError(f"{hardware.name}: lacks_operators: {'; '.join(faults)}")


def infer(call: Call, op: str) -> Shapes | None:
    """The shapes of the outputs of an operator, from its parameters and inputs alone.

    None for an operator that npusim does not have, and one whose parameters or operands break the rules: when it is
    compiled, the rule says so.
    """
    entry = _BY_NAME.get(op)
    if entry is None or type(call.parameters) is not entry.parameters:
        return None
    try:
        return entry.infer(call)
    except (LookupError, TypeError, ValueError, ArithmeticError):
        return None
