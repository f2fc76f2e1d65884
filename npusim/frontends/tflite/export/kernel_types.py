"""Element types that LiteRT's reference kernels take, which are fewer than those of npusim's operators."""

from __future__ import annotations

from npusim.frontends.tflite.export.tflite_wording import narrow_bias
from npusim.isa.base.errors import GraphError
from npusim.isa.base.tensor import TensorType
from npusim.kernels.operator.operands import quantization
from npusim.kernels.operator.operator import Call

_EIGHT_BITS = ("int8", "uint8")
_COMPUTED = (*_EIGHT_BITS, "float32")
_WORDS = (*_COMPUTED, "int16")
_COUNTED = (*_WORDS, "int32", "int64")
_MOVED = (*_COUNTED, "bool")
_DEEP = (*_COMPUTED, "int32", "int64")
_WEIGHTED = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV")
_MAIN = {"SELECT": 1, "SELECT_V2": 1, "EMBEDDING_LOOKUP": 1, "HASHTABLE_LOOKUP": 2}
"""The operand whose type counts, if it is not the first."""


def _of(types: tuple[str, ...], *codes: str) -> dict[str, tuple[str, ...]]:
    return dict.fromkeys(codes, types)


TYPES: dict[str, tuple[str, ...]] = {
    **_of(
        _MOVED,
        "BATCH_TO_SPACE_ND",
        "BROADCAST_TO",
        "CONCATENATION",
        "DYNAMIC_UPDATE_SLICE",
        "EMBEDDING_LOOKUP",
        "EQUAL",
        "EXPAND_DIMS",
    ),
    **_of(
        _MOVED, "FILL", "GATHER", "GATHER_ND", "HASHTABLE_LOOKUP", "MIRROR_PAD", "NOT_EQUAL", "PAD", "PADV2"
    ),
    **_of(
        _MOVED, "REDUCE_MAX", "REDUCE_MIN", "RESHAPE", "REVERSE_V2", "SELECT", "SELECT_V2", "SLICE", "SQUEEZE"
    ),
    **_of(_MOVED, "SPACE_TO_BATCH_ND", "STRIDED_SLICE", "TILE", "TRANSPOSE"),
    **_of((*_MOVED, "float16"), "CAST"),
    **_of(
        _COUNTED, "ADD", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL", "MAXIMUM", "MINIMUM", "MUL", "PACK"
    ),
    **_of(_COUNTED, "SPLIT", "SPLIT_V", "SUB", "TOPK_V2"),
    **_of(
        _WORDS, "AVERAGE_POOL_2D", "LEAKY_RELU", "MAX_POOL_2D", "QUANTIZE", "RELU", "RELU6", "RESIZE_BILINEAR"
    ),
    **_of(_WORDS, "CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "GELU", "LOGISTIC", "PRELU"),
    **_of(_WORDS, "RESIZE_NEAREST_NEIGHBOR", "SOFTMAX", "TANH", "TRANSPOSE_CONV"),
    **_of(_COMPUTED, "HARD_SWISH", "L2_NORMALIZATION", "LOG_SOFTMAX", "RELU_0_TO_1", "RELU_N1_TO_1"),
    **_of(_DEEP, "DEPTH_TO_SPACE", "SPACE_TO_DEPTH"),
    **_of(_COUNTED, "MEAN"),
    **_of((*_WORDS, "int32"), "DIV"),
    **_of((*_COMPUTED, "int32", "bool"), "ARG_MAX", "ARG_MIN"),
    **_of((*_WORDS, "int32", "bool"), "UNPACK"),
    **_of(("uint8", "float32", "int32", "int64"), "SUM"),
    **_of(("int8", "float32"), "ELU", "SVDF"),
    **_of(("int8", "float32", "int16"), "BATCH_MATMUL", "EXP", "LOG", "RSQRT", "SQRT"),
    **_of(("int8", "float32"), "UNIDIRECTIONAL_SEQUENCE_LSTM"),
    **_of(("int8", "float32", "int16", "int32"), "ABS", "FLOOR_DIV"),
    **_of(("int8", "float32", "int16", "int32", "int64"), "FLOOR_MOD", "NEG"),
    **_of(("int8", "float32", "int32"), "SQUARED_DIFFERENCE"),
    **_of(("int8", "float32", "int16", "int32", "int64"), "REDUCE_PROD"),
    **_of(("int8", "uint8", "int16", "float16"), "DEQUANTIZE"),
    **_of(("float32", "uint8"), "CUSTOM TFLite_Detection_PostProcess"),
    **_of(("float32", "int32"), "ADD_N", "POW", "SIGN"),
    **_of(("float32", "int32", "int64"), "CUMSUM"),
    **_of(("float32",), "BIDIRECTIONAL_SEQUENCE_LSTM", "BIDIRECTIONAL_SEQUENCE_RNN", "CEIL", "COS", "FLOOR"),
    **_of(
        ("float32",), "L2_POOL_2D", "LOCAL_RESPONSE_NORMALIZATION", "LSTM", "RNN", "ROUND", "SIN", "SQUARE"
    ),
    **_of(("float32",), "UNIDIRECTIONAL_SEQUENCE_RNN"),
    **_of(("bool",), "LOGICAL_AND", "LOGICAL_NOT", "LOGICAL_OR", "REDUCE_ALL", "REDUCE_ANY"),
}
"""By the operator's code: the types of its main operand. `tests/litert/rows.py` compares each with LiteRT."""


def check_types(code: str, call: Call) -> None:
    """Raise GraphError for an element type that LiteRT's kernel does not take."""
    main = call.inputs[_MAIN.get(code, 0)]
    if main is not None and main.dtype not in TYPES[code]:
        raise GraphError(f"LiteRT's {code} takes {', '.join(TYPES[code])}, not {main.dtype}")
    if code in _WEIGHTED and main is not None and call.inputs[1] is not None:
        _check_weights(code, main, call.inputs[1])
    if code == "DEPTHWISE_CONV_2D" and narrow_bias(call.inputs):
        raise GraphError(f"LiteRT's {code} takes an int64 bias beside int16 values, not int32")
    result = call.outputs[0].dtype
    if code == "DEQUANTIZE" and result != "float32":
        raise GraphError(f"LiteRT's {code} gives float32, not {result}")


def _check_weights(code: str, image: TensorType, weights: TensorType) -> None:
    """Raise GraphError for weights that LiteRT's kernel does not take, by their type, scales and zero points."""
    if image.dtype == "int16":
        if any(quantization(weights).zero_points):
            raise GraphError(f"LiteRT's {code} takes int8 weights without zero points beside int16 values")
        return
    if not image.quantized8:
        return
    if weights.dtype != image.dtype:
        raise GraphError(f"LiteRT's {code} takes weights of the image's {image.dtype}, not {weights.dtype}")
    scaling = weights.quantization
    if scaling is None:
        return
    if image.dtype == "uint8" and scaling.axis is not None:
        raise GraphError(f"LiteRT's {code} takes uint8 weights of one scale, not {len(scaling.scales)}")
    is_shifted = image.dtype == "int8" and any(scaling.zero_points)
    if is_shifted and (code != "FULLY_CONNECTED" or scaling.axis is not None):
        raise GraphError(f"LiteRT's {code} takes int8 weights without zero points")
