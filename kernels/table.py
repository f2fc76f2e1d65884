"""The operators of npusim, listed by file; a file is imported when a model has one of its operators."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from importlib import import_module

from npusim.isa.base.errors import GraphError, HardwareError, nearest
from npusim.isa.hardware.hardware import ALL_OPERATORS, Hardware
from npusim.isa.program.program import UNKNOWN
from npusim.kernels.operator.operator import Call, Operator, Shapes
from npusim.kernels.operator.registered import registered, unknown_operator

FILES: Mapping[str, tuple[str, ...]] = {
    # convolutions and matrix products
    "convolution.conv_2d": ("conv_2d",),
    "convolution.depthwise_conv_2d": ("depthwise_conv_2d",),
    "convolution.deformable_conv_2d": ("deformable_conv_2d",),
    "convolution.transpose_conv": ("transpose_conv",),
    "convolution.fully_connected": ("fully_connected",),
    "convolution.block_product": ("block_product",),
    "convolution.batch_matmul": ("batch_matmul",),
    # two operands, element by element
    "elementwise.sums_and_products": ("add", "sub", "mul", "div", "prelu", "squared_difference"),
    "elementwise.number_functions": ("floor_div", "floor_mod", "pow", "add_n"),
    "elementwise.comparisons_and_logic": (
        *("equal", "not_equal", "greater", "greater_equal", "less", "less_equal"),
        *("logical_and", "logical_or", "logical_xor"),
    ),
    "elementwise.selecting": ("maximum", "minimum", "select", "select_v2"),
    "elementwise.cast": ("cast",),
    # pools and reductions
    "pooling.window_pools": ("average_pool_2d", "max_pool_2d", "l2_pool_2d"),
    "pooling.adaptive_pools": (
        *("max_pool_2d_with_positions", "adaptive_average_pool_2d", "adaptive_max_pool_2d"),
        "adaptive_max_pool_2d_with_positions",
    ),
    "reduction.sums_and_means": ("mean", "sum", "reduce_prod"),
    "reduction.extremes": (
        *("reduce_max", "reduce_min", "reduce_all", "reduce_any", "arg_max", "arg_min", "topk_v2", "cumsum"),
    ),
    "reduction.softmax": ("softmax",),
    "reduction.log_softmax": ("log_softmax",),
    # normalizations
    "normalization.scale_norms": ("l2_normalization", "local_response_normalization", "lp_normalization"),
    "normalization.moment_norms": (
        *("instance_normalization", "batch_normalization", "group_normalization", "layer_normalization"),
    ),
    # functions of one operand
    "tables.integer_functions": (
        *("look_up", "logistic", "tanh", "relu", "relu6", "leaky_relu", "hard_swish", "relu_n1_to_1"),
        *("relu_0_to_1", "abs", "neg", "sqrt", "rsqrt", "logical_not"),
    ),
    "tables.float_functions": (
        *("sign", "square", "exp", "log", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh"),
        *("asinh", "acosh", "atanh", "floor", "ceil", "round", "elu", "gelu", "swish", "softplus"),
        *("hard_sigmoid", "erf", "mish", "selu", "celu", "thresholded_relu", "reciprocal", "clip"),
    ),
    # moves and type conversions
    "movement.value_conversions": ("quantize", "dequantize", "dynamic_quantize", "row_scales"),
    "movement.shape_changes": ("reshape", "squeeze", "tile", "broadcast_to", "fill"),
    "movement.padding": ("pad", "mirror_pad", "edge_pad"),
    "movement.joining": ("concatenation", "split", "pack", "unpack"),
    "movement.slicing": ("slice", "strided_slice", "reverse_v2", "roll"),
    "movement.permuting": (
        *("transpose", "depth_to_space", "space_to_depth", "batch_to_space_nd", "space_to_batch_nd"),
        "channel_shuffle",
    ),
    "movement.indexing": ("gather", "gather_nd", "embedding_lookup", "hashtable_lookup"),
    "movement.updating": ("scatter_nd", "dynamic_update_slice"),
    # images of other sizes
    "resize.grid_resize": ("resize_bilinear", "resize_nearest_neighbor"),
    "resize.grid_sampling": ("grid_sample", "interpolate"),
    # sequences
    "sequence.lstm_layers": ("lstm", "unidirectional_sequence_lstm", "quantized_lstm"),
    "sequence.integer_steps": ("gate_sums",),
    "sequence.word_cell": ("lstm_step",),
    "sequence.quantized_16bit_lstm": ("quantized_16bit_lstm",),
    "sequence.basic_rnn": ("rnn", "unidirectional_sequence_rnn"),
    "sequence.bidirectional": ("bidirectional_sequence_lstm", "bidirectional_sequence_rnn"),
    "sequence.svdf": ("svdf",),
    # detection
    "detection.single_shot": ("detection_post_process", "detection_postprocessing"),
    "detection.proposals": ("box_with_nms_limit", "generate_proposals", "axis_aligned_bbox_transform"),
    "detection.region_pools": ("roi_align", "roi_pooling", "heatmap_max_keypoint"),
    "detection.multiclass_nms": ("multiclass_nms",),
    "detection.anchors": ("yolo_box", "prior_box"),
    # hashes and samples
    "hashing": ("lsh_projection", "random_multinomial"),
}
"""Files by family, each with the operators in its tuple `OPERATORS`. A file is imported when a graph names one."""

_FILE_OF = {name: file for file, names in FILES.items() for name in names}

NAMES: tuple[str, ...] = tuple(_FILE_OF)
"""Every operator by its name."""


def family(name: str) -> str:
    """Return the family of an operator, such as "movement". Raises KeyError for a name that npusim does not have."""
    return _FILE_OF[name].partition(".")[0]


@cache
def _read(name: str) -> Operator:
    rows: tuple[Operator, ...] = import_module(f"npusim.kernels.operators.{_FILE_OF[name]}").OPERATORS
    return next(row for row in rows if row.name == name)


def operators() -> tuple[Operator, ...]:
    """Return every operator. This imports all files, which takes a tenth of a second."""
    return tuple(map(_read, NAMES))


def operator(name: str) -> Operator:
    """Return the operator called `name`. Raises GraphError with the nearest known name."""
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
    """Return True for an operator of npusim, one that the user registered, or one that is timed as unknown."""
    return name in _FILE_OF or name.startswith(UNKNOWN) or registered(name) is not None


def check_lacks(hardware: Hardware) -> None:
    """Raise HardwareError if `lacks_operators` names operators that npusim does not have; it lists all of them."""
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
    """Return the shapes of an operator's outputs, from its parameters and inputs alone.

    None for an operator that npusim does not have, or whose parameters or operands break its rules. Compilation then
    reports the broken rule.
    """
    entry = _read(op) if op in _FILE_OF else registered(op)
    if entry is None or type(call.parameters) is not entry.parameters:
        return None
    try:
        return entry.infer(call)
    except (LookupError, TypeError, ValueError, ArithmeticError):
        return None
