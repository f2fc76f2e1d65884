"""The operators of npusim: one file each, listed here, read when a model has it."""

from __future__ import annotations

from difflib import get_close_matches
from functools import cache
from importlib import import_module

from npusim.isa.base.errors import GraphError, HardwareError
from npusim.isa.base.nearest import nearest
from npusim.isa.hardware.hardware import ALL_OPERATORS, Hardware
from npusim.isa.program.program import UNKNOWN
from npusim.kernels.operator.operator import Call, Operator, Shapes
from npusim.kernels.operator.registered import registered
from npusim.kernels.operator.unknown import unknown_operator

FILES: tuple[str, ...] = (
    # convolutions and matrix products
    "convolution.conv_2d",
    "convolution.depthwise_conv_2d",
    "convolution.deformable_conv_2d",
    "convolution.transpose_conv",
    "convolution.fully_connected",
    "convolution.batch_matmul",
    # elementwise
    "elementwise.add",
    "elementwise.sub",
    "elementwise.mul",
    "elementwise.maximum",
    "elementwise.minimum",
    "elementwise.div",
    "elementwise.floor_div",
    "elementwise.floor_mod",
    "elementwise.pow",
    "elementwise.prelu",
    "elementwise.squared_difference",
    "elementwise.add_n",
    "elementwise.equal",
    "elementwise.not_equal",
    "elementwise.greater",
    "elementwise.greater_equal",
    "elementwise.less",
    "elementwise.less_equal",
    "elementwise.logical_and",
    "elementwise.logical_or",
    "elementwise.logical_xor",
    "elementwise.select",
    "elementwise.select_v2",
    "elementwise.cast",
    # pools and reductions
    "pooling.average_pool_2d",
    "pooling.max_pool_2d",
    "pooling.l2_pool_2d",
    "pooling.max_pool_2d_with_positions",
    "pooling.adaptive_average_pool_2d",
    "pooling.adaptive_max_pool_2d",
    "pooling.adaptive_max_pool_2d_with_positions",
    "reduction.mean",
    "reduction.sum",
    "reduction.reduce_max",
    "reduction.reduce_min",
    "reduction.reduce_prod",
    "reduction.reduce_all",
    "reduction.reduce_any",
    "reduction.softmax",
    "reduction.log_softmax",
    "reduction.arg_max",
    "reduction.arg_min",
    "reduction.topk_v2",
    "reduction.cumsum",
    # normalizations
    "normalization.l2_normalization",
    "normalization.local_response_normalization",
    "normalization.instance_normalization",
    "normalization.batch_normalization",
    "normalization.group_normalization",
    "normalization.layer_normalization",
    "normalization.lp_normalization",
    # look-up tables
    "tables.look_up",
    "tables.logistic",
    "tables.tanh",
    "tables.relu",
    "tables.relu6",
    "tables.leaky_relu",
    "tables.hard_swish",
    "tables.relu_n1_to_1",
    "tables.relu_0_to_1",
    "tables.abs",
    "tables.neg",
    "tables.sign",
    "tables.square",
    "tables.sqrt",
    "tables.rsqrt",
    "tables.exp",
    "tables.log",
    "tables.sin",
    "tables.cos",
    "tables.tan",
    "tables.asin",
    "tables.acos",
    "tables.atan",
    "tables.sinh",
    "tables.cosh",
    "tables.asinh",
    "tables.acosh",
    "tables.atanh",
    "tables.floor",
    "tables.ceil",
    "tables.round",
    "tables.elu",
    "tables.gelu",
    "tables.swish",
    "tables.softplus",
    "tables.hard_sigmoid",
    "tables.erf",
    "tables.mish",
    "tables.selu",
    "tables.celu",
    "tables.thresholded_relu",
    "tables.reciprocal",
    "tables.clip",
    "tables.logical_not",
    # moves and type conversions
    "movement.quantize",
    "movement.reshape",
    "movement.squeeze",
    "movement.pad",
    "movement.concatenation",
    "movement.split",
    "movement.dequantize",
    "movement.dynamic_quantize",
    "movement.row_scales",
    "movement.transpose",
    "movement.slice",
    "movement.strided_slice",
    "movement.reverse_v2",
    "movement.tile",
    "movement.broadcast_to",
    "movement.fill",
    "movement.pack",
    "movement.unpack",
    "movement.mirror_pad",
    "movement.edge_pad",
    "movement.roll",
    "movement.depth_to_space",
    "movement.space_to_depth",
    "movement.batch_to_space_nd",
    "movement.space_to_batch_nd",
    "movement.channel_shuffle",
    "movement.gather",
    "movement.gather_nd",
    "movement.scatter_nd",
    "movement.embedding_lookup",
    "movement.hashtable_lookup",
    # images of other sizes
    "resize.resize_bilinear",
    "resize.resize_nearest_neighbor",
    "resize.grid_sample",
    "resize.interpolate",
    # sequences
    "sequence.lstm",
    "sequence.unidirectional_sequence_lstm",
    "sequence.bidirectional_sequence_lstm",
    "sequence.quantized_lstm",
    "sequence.gate_sums",
    "sequence.lstm_step",
    "sequence.quantized_16bit_lstm",
    "sequence.rnn",
    "sequence.unidirectional_sequence_rnn",
    "sequence.bidirectional_sequence_rnn",
    "sequence.svdf",
    # detection
    "detection.detection_post_process",
    "detection.detection_postprocessing",
    "detection.box_with_nms_limit",
    "detection.generate_proposals",
    "detection.axis_aligned_bbox_transform",
    "detection.roi_align",
    "detection.roi_pooling",
    "detection.heatmap_max_keypoint",
    "detection.multiclass_nms",
    "detection.yolo_box",
    "detection.prior_box",
    # hashes and samples
    "hashing.lsh_projection",
    "hashing.random_multinomial",
)
"""The file of every operator that npusim knows, grouped by what computes it. Files are called as operators are."""

_FILE_OF = {file.rpartition(".")[2]: file for file in FILES}

NAMES: tuple[str, ...] = tuple(_FILE_OF)
"""Every operator by its name."""


def file_of(name: str) -> str:
    """The file of an operator, as `FILES` has it. Raises KeyError for a name that it does not have."""
    return _FILE_OF[name]


@cache
def _read(name: str) -> Operator:
    found: Operator = import_module(f"npusim.kernels.operators.{_FILE_OF[name]}").OPERATOR
    return found


def operators() -> tuple[Operator, ...]:
    """Every operator: reads all files, which takes a tenth of a second."""
    return tuple(map(_read, NAMES))


def operator(name: str) -> Operator:
    """The operator called `name`. Raises GraphError with the nearest known name."""
    if name in _FILE_OF:
        return _read(name)
    if name.startswith(UNKNOWN):
        return unknown_operator(name)
    if (own := registered(name)) is not None:
        return own
    if name.startswith("custom "):
        raise GraphError(
            f"operator {name} is not one that npusim has; register it (npusim.register_operator)"
        )
    near = get_close_matches(name, _FILE_OF, n=1)
    hint = f"; the nearest is {near[0]!r}" if near else ""
    raise GraphError(f"operator {name!r} is not one that npusim has{hint}; `npusim ops` lists them")


def known(name: str) -> bool:
    """Whether a name is an operator of npusim, one that the user registered, or one that is timed as unknown."""
    return name in _FILE_OF or name.startswith(UNKNOWN) or registered(name) is not None


def check_lacks(hardware: Hardware) -> None:
    """Raises HardwareError where a machine lacks operators that npusim does not have, all of them by name."""
    faults = []
    for name in hardware.lacks_operators:
        if name in _FILE_OF or name == ALL_OPERATORS:
            continue
        near = nearest(name, _FILE_OF)
        hint = f", did you mean {near}?" if near else "; `npusim ops` lists them"
        faults.append(f"{name} is not an operator that npusim has{hint}")
    if faults:
        raise HardwareError(f"{hardware.name}: lacks_operators: {'; '.join(faults)}")


def infer(call: Call, op: str) -> Shapes | None:
    """The shapes of the outputs of an operator, from its parameters and inputs alone.

    None for an operator that npusim does not have, and one whose parameters or operands break the rules: when it is
    compiled, the rule says so.
    """
    entry = _read(op) if op in _FILE_OF else registered(op)
    if entry is None or type(call.parameters) is not entry.parameters:
        return None
    try:
        return entry.infer(call)
    except (LookupError, TypeError, ValueError, ArithmeticError):
        return None
