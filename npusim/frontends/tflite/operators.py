"""The operators of TFLite, one row each: operator of the node, options, operands and parameters.

Sources: tensorflow/lite/schema/schema.fbs for the options, tensorflow/lite/kernels/ for their meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from math import isfinite, log2
from typing import Any, NamedTuple

from npusim.frontends.tflite import moving_layers, weighted_layers
from npusim.frontends.tflite.layer import Layer, Parameters
from npusim.frontends.tflite.moving_layers import strided_slice
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.tensor import TensorType
from npusim.kernels.graph.control import IF, WHILE

POSITION_TYPES = {2: "int32", 4: "int64"}
"""The element types of positions, by their number in the schema."""


def no_parameters(layer: Layer) -> Parameters:
    """Return the parameters of an operator that has none."""
    return {}


def as_it_is(layer: Layer) -> dict[int, TensorType]:
    """Return no operands of another type: the kernel reads all operands as the file types them."""
    return {}


@dataclass(frozen=True, slots=True)
class Translation:
    """How a TFLite operator becomes a node, and the node that operator.

    op:         the operator of the node.
    required:   the number of leading operands that must be there; those after them are optional.
    most:       the largest number of operands, None for any number.
    parameters: layer -> parameters of the node by name.
    options:    the schema's options table, None if the operator has none or none that matters.
    says:       the constant operands that are parameters: position -> parameter.
    order:      the operands that become the node's inputs, in this order; None for all that are no parameters.
    results:    the number of outputs, None for any number.
    retyped:    layer -> the operands that the kernel reads as another type than the file gives them.
    """

    op: str
    required: int = 1
    most: int | None = 1
    parameters: Callable[[Layer], Parameters] = no_parameters
    options: str | None = None
    says: Mapping[int, str] = field(default_factory=dict)
    order: tuple[int, ...] | None = None
    results: int | None = 1
    retyped: Callable[[Layer], Mapping[int, TensorType]] = as_it_is

    @property
    def keeps(self) -> tuple[int, ...] | None:
        """The operands that become the node's inputs, in this order; None for all of them."""
        if self.order is not None or not self.says:
            return self.order
        return tuple(position for position in range(self.most or 0) if position not in self.says)


def spelled(name: str) -> str:
    """Return the name of a parameter in the schema's spelling of options."""
    return "".join(map(str.title, name.split("_")))


# Functions of single elements, of rows and of neighbourhoods


def _sum(layer: Layer) -> Parameters:
    """Return the parameters of ADD and SUB. By default LiteRT shifts int16 operands with power-of-two scales."""
    kinds = [layer.input(0), layer.input(1), *layer.outputs]
    scales = {kind.quantization.scale for kind in kinds if kind.dtype == "int16" and kind.quantization}
    by_shift = len(scales) > 1 and layer.flag("PotScaleInt16") and all(map(_power_of_two, scales))
    return {**layer.activation(), **({"rescale": "power_of_two"} if by_shift else {})}


def _power_of_two(scale: float) -> bool:
    """Return True if a scale is a power of two to a thousandth of its logarithm, which is LiteRT's test."""
    return scale > 0 and abs(log2(scale) - round(log2(scale))) < 1e-3


def _options(**kinds: type) -> Callable[[Layer], Parameters]:
    """Return the function that reads options which have the names of parameters, in the schema's spelling."""

    def parameters(layer: Layer) -> Parameters:
        reals = {name: kind is float for name, kind in kinds.items()}
        return {name: (layer.real if real else layer.flag)(spelled(name)) for name, real in reals.items()}

    return parameters


def _local_response(layer: Layer) -> Parameters:
    constants = _options(bias=float, alpha=float, beta=float)(layer)
    return {"radius": layer.whole("Radius", 0), **constants, "last_left_out": True}


def _resize(layer: Layer) -> Parameters:
    layer.input(0, rank=4)
    flags = _options(align_corners=bool, half_pixel_centers=bool)(layer)
    return {"size": layer.integers(1, "size", 2), **flags}


# Along axes


def _reduction(layer: Layer) -> Parameters:
    axes = layer.axes(layer.integers(1, "axes"), len(layer.input(0).shape))
    return {"axes": axes, "keep_dims": layer.flag("KeepDims")}


def _operand_axis(layer: Layer) -> Parameters:
    return {"axis": layer.axis(layer.integers(1, "axis", 1)[0], len(layer.input(0).shape))}


def _position(layer: Layer) -> Parameters:
    """Return the axis. The output must have the type of the option, because LiteRT's kernels give that."""
    kind = layer.choice("OutputType", POSITION_TYPES)
    if layer.outputs[0].dtype != kind:
        layer.fail(f"the output is {layer.outputs[0].dtype}, its option OutputType says {kind}")
    return _operand_axis(layer)


def _top(layer: Layer) -> Parameters:
    shape = layer.input(0).shape
    [count] = layer.integers(1, "k", 1)
    if not shape or not 0 <= count <= shape[-1]:
        layer.fail(f"operand 1 (k) is {count}, for input shape {list(shape)}")
    return {"k": count}


def _cumulative_sum(layer: Layer) -> Parameters:
    return {**_operand_axis(layer), **_options(exclusive=bool, reverse=bool)(layer)}


def _reversal(layer: Layer) -> Parameters:
    return {"axes": layer.axes(layer.integers(1, "axes"), len(layer.input(0).shape))}


def _concatenation(layer: Layer) -> Parameters:
    axis = layer.axis(int(layer.option("Axis")), len(layer.input(0).shape))
    return {"axis": axis, **layer.activation()}


def _pack(layer: Layer) -> Parameters:
    return {"axis": layer.axis(int(layer.option("Axis")), len(layer.input(0).shape) + 1)}


def _unpack(layer: Layer) -> Parameters:
    return {"axis": layer.axis(int(layer.option("Axis")), len(layer.input(0).shape))}


def _gather(layer: Layer) -> Parameters:
    axis = layer.axis(int(layer.option("Axis")), len(layer.input(0).shape))
    batch_dims = int(layer.option("BatchDims"))
    if batch_dims < 0:
        batch_dims += len(layer.input(1).shape)
    if not 0 <= batch_dims <= axis:
        layer.fail(f"BatchDims is {batch_dims}, may be 0..{axis}, the axis")
    return {"axis": axis, "batch_dims": batch_dims}


# Networks in one operator


_DETECTION_COUNTS = ("max_detections", "max_classes_per_detection", "num_classes")
_DETECTION_REALS = ("nms_score_threshold", "nms_iou_threshold", "y_scale", "x_scale", "h_scale", "w_scale")


def _detection(layer: Layer) -> Parameters:
    optional = {"detections_per_class": 100, "use_regular_nms": 0}
    required = (*_DETECTION_COUNTS, *_DETECTION_REALS)
    options = optional | layer.flexbuffer((*required, *optional))
    missing = [name for name in required if name not in options]
    if missing:
        layer.fail(f"its custom options lack {', '.join(missing)}")
    for name, value in options.items():
        if not isfinite(value):
            layer.fail(f"{name} is {value}, must be finite")
    counts = {name: int(options[name]) for name in (*_DETECTION_COUNTS, "detections_per_class")}
    reals = {name: float(options[name]) for name in _DETECTION_REALS}
    return {**counts, "use_regular_nms": bool(options["use_regular_nms"]), **reals}


# The table


def _plain(operands: int, *kinds: str) -> dict[str, Translation]:
    """Return rows of operators without parameters, whose operators have the same names in npusim."""
    return {kind: Translation(kind.lower(), operands, operands) for kind in kinds}


def _alike(
    kinds: str,
    operands: int,
    parameters: Callable[[Layer], Parameters],
    options: str = "{}Options",
    **more: Any,
) -> dict[str, Translation]:
    """Return rows of operators with the same names in npusim; {} in `options` is the schema's spelling of the name."""
    return {
        kind: Translation(kind.lower(), operands, operands, parameters, options.format(spelled(kind)), **more)
        for kind in kinds.split()
    }


COMPILED = {
    "CUSTOM ethos-u": "for an Ethos-U by Vela",
    "CUSTOM edgetpu-custom-op": "for an Edge TPU by edgetpu_compiler",
    "CUSTOM NeutronGraph": "for an NXP Neutron NPU by its converter",
    "CUSTOM vsi-npu": "for a VeriSilicon NPU by TIM-VX",
    "CUSTOM DISPATCH_OP": "for one accelerator by a LiteRT compiler plugin",
}
"""Custom operators that contain machine code for one device, and the compilers that write them."""

OPERATORS: dict[str, Translation] = {
    **_plain(1, "ABS", "CAST", "CEIL", "COS", "DEQUANTIZE", "ELU", "EXP", "FLOOR", "HARD_SWISH", "LOG"),
    **_plain(1, "LOGICAL_NOT", "LOGISTIC", "LOG_SOFTMAX", "NEG", "QUANTIZE", "RELU", "RELU6", "RELU_0_TO_1"),
    **_plain(1, "RELU_N1_TO_1", "ROUND", "RSQRT", "SIGN", "SIN", "SQRT", "SQUARE", "TANH"),
    **_plain(2, "EQUAL", "FLOOR_DIV", "FLOOR_MOD", "GATHER_ND", "GREATER", "GREATER_EQUAL", "LESS"),
    **_plain(2, "LESS_EQUAL", "LOGICAL_AND", "LOGICAL_OR", "MAXIMUM", "MINIMUM", "NOT_EQUAL", "POW", "PRELU"),
    **_plain(2, "SQUARED_DIFFERENCE"),
    **_plain(3, "DYNAMIC_UPDATE_SLICE", "SELECT", "SELECT_V2"),
    **_alike("ADD SUB", 2, _sum),
    **_alike("MUL DIV", 2, Layer.activation),
    **_alike("SOFTMAX", 1, _options(beta=float)),
    **_alike("LEAKY_RELU", 1, _options(alpha=float)),
    **_alike("GELU", 1, _options(approximate=bool)),
    **_alike("GATHER", 2, _gather),
    **_alike("ARG_MAX ARG_MIN", 2, _position, says={1: "axis"}),
    **_alike("CUMSUM", 2, _cumulative_sum, says={1: "axis"}),
    **_alike("MEAN REDUCE_ALL REDUCE_ANY", 2, _reduction, "ReducerOptions", says={1: "axes"}),
    **_alike("REDUCE_MAX REDUCE_MIN REDUCE_PROD SUM", 2, _reduction, "ReducerOptions", says={1: "axes"}),
    **_alike("AVERAGE_POOL_2D L2_POOL_2D MAX_POOL_2D", 1, weighted_layers.pooling, "Pool2DOptions"),
    **_alike("RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR", 2, _resize, says={1: "size"}),
    **_alike("LOCAL_RESPONSE_NORMALIZATION", 1, _local_response),
    **_alike("DEPTH_TO_SPACE SPACE_TO_DEPTH", 1, moving_layers.block_size),
    **_alike("MIRROR_PAD", 2, moving_layers.mirror_pad, says={1: "paddings"}),
    "ADD_N": Translation("add_n", 1, None),
    "BATCH_MATMUL": Translation("batch_matmul", 2, 2, weighted_layers.matrix_product, "BatchMatMulOptions"),
    "BATCH_TO_SPACE_ND": Translation(
        "batch_to_space_nd", 3, 3, moving_layers.batch_to_space, says={1: "block_shape", 2: "crops"}
    ),
    "BIDIRECTIONAL_SEQUENCE_LSTM": Translation(
        "bidirectional_sequence_lstm",
        1,
        48,
        weighted_layers.bidirectional_lstm,
        "BidirectionalSequenceLSTMOptions",
        order=tuple(range(48)),
        results=None,
    ),
    "BIDIRECTIONAL_SEQUENCE_RNN": Translation(
        "bidirectional_sequence_rnn",
        9,
        12,
        weighted_layers.bidirectional_rnn,
        "BidirectionalSequenceRNNOptions",
        order=tuple(range(12)),
        results=None,
    ),
    "BROADCAST_TO": Translation("broadcast_to", 2, 2, moving_layers.broadcast, says={1: "shape"}),
    "CONCATENATION": Translation("concatenation", 1, None, _concatenation, "ConcatenationOptions"),
    "CONV_2D": Translation("conv_2d", 2, 3, weighted_layers.convolution, "Conv2DOptions", order=(0, 1, 2)),
    "CUSTOM TFLite_Detection_PostProcess": Translation("detection_post_process", 3, 3, _detection, results=4),
    "DEPTHWISE_CONV_2D": Translation(
        "depthwise_conv_2d",
        2,
        3,
        weighted_layers.depthwise_convolution,
        "DepthwiseConv2DOptions",
        order=(0, 1, 2),
        retyped=weighted_layers.symmetric_weights,
    ),
    "EMBEDDING_LOOKUP": Translation("embedding_lookup", 2, 2, moving_layers.embedding),
    "EXPAND_DIMS": Translation("reshape", 2, 2, moving_layers.expand, says={1: "axis"}),
    "FILL": Translation("fill", 2, 2, moving_layers.fill, says={0: "shape"}),
    "FULLY_CONNECTED": Translation(
        "fully_connected",
        2,
        3,
        weighted_layers.fully_connected,
        "FullyConnectedOptions",
        order=(0, 1, 2),
        retyped=weighted_layers.matrix,
    ),
    "HASHTABLE_LOOKUP": Translation("hashtable_lookup", 3, 3, results=2),
    "L2_NORMALIZATION": Translation("l2_normalization", 1, 1, Layer.activation, "L2NormOptions"),
    "LSTM": Translation("lstm", 1, 24, weighted_layers.lstm, "LSTMOptions", order=tuple(range(24))),
    "PACK": Translation("pack", 1, None, _pack, "PackOptions"),
    "PAD": Translation("pad", 2, 2, moving_layers.pad, says={1: "paddings"}),
    "PADV2": Translation("pad", 3, 3, moving_layers.pad_with_value, says={1: "paddings", 2: "pad_value"}),
    "RESHAPE": Translation("reshape", 1, 2, moving_layers.reshape, "ReshapeOptions", says={1: "shape"}),
    "REVERSE_V2": Translation("reverse_v2", 2, 2, _reversal, says={1: "axes"}),
    "RNN": Translation("rnn", 5, 5, weighted_layers.rnn, "RNNOptions"),
    "SLICE": Translation("slice", 3, 3, moving_layers.plain_slice, says={1: "begin", 2: "size"}),
    "SPACE_TO_BATCH_ND": Translation(
        "space_to_batch_nd", 3, 3, moving_layers.space_to_batch, says={1: "block_shape", 2: "paddings"}
    ),
    "SPLIT": Translation("split", 2, 2, moving_layers.split, says={0: "axis"}, results=None),
    "SPLIT_V": Translation(
        "split", 3, 3, moving_layers.split_by_sizes, says={1: "sizes", 2: "axis"}, results=None
    ),
    "SVDF": Translation("svdf", 3, 5, weighted_layers.svdf, "SVDFOptions"),
    "SQUEEZE": Translation("squeeze", 1, 1, moving_layers.squeeze, "SqueezeOptions"),
    "STRIDED_SLICE": Translation(
        "strided_slice", 4, 4, strided_slice, "StridedSliceOptions", says={1: "begin", 2: "end", 3: "strides"}
    ),
    "TILE": Translation("tile", 2, 2, moving_layers.tile, says={1: "multiples"}),
    "TOPK_V2": Translation("topk_v2", 2, 2, _top, "TopKV2Options", says={1: "k"}, results=2),
    "TRANSPOSE": Translation("transpose", 2, 2, moving_layers.transpose, says={1: "perm"}),
    "TRANSPOSE_CONV": Translation(
        "transpose_conv",
        3,
        4,
        weighted_layers.transposed_convolution,
        "TransposeConvOptions",
        order=(2, 1, 3),
        retyped=weighted_layers.symmetric_weights,
    ),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": Translation(
        "unidirectional_sequence_lstm",
        1,
        24,
        weighted_layers.sequence_lstm,
        "UnidirectionalSequenceLSTMOptions",
        order=tuple(range(24)),
    ),
    "UNIDIRECTIONAL_SEQUENCE_RNN": Translation(
        "unidirectional_sequence_rnn", 5, 5, weighted_layers.sequence_rnn, "SequenceRNNOptions"
    ),
    "UNPACK": Translation("unpack", 1, 1, _unpack, "UnpackOptions", results=None),
}
"""By the name of the builtin operator in the schema, or "CUSTOM" and that of the custom operator."""


class Deciding(NamedTuple):
    """A control-flow operator.

    op:      the operator of the node.
    first:   the first operand that the bodies take.
    options: the options table.
    bodies:  the options that number its bodies.
    """

    op: str
    first: int
    options: str
    bodies: tuple[str, str]


DECIDING = {
    "IF": Deciding(IF, 1, "IfOptions", ("ThenSubgraphIndex", "ElseSubgraphIndex")),
    "WHILE": Deciding(WHILE, 0, "WhileOptions", ("CondSubgraphIndex", "BodySubgraphIndex")),
}
"""By the name of the schema's BuiltinOperator."""
