"""The part of the TFLite schema that the reader uses: fields by name with their places, operators, types.

Source: tensorflow/lite/schema/schema.fbs, version 3. PyPI's `tflite` has all of it as generated classes, whose
import takes longer than reading a model; a test compares every entry here with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from npusim.formats.flatbuffer import Field, Fields


class Options(NamedTuple):
    """A table of options: its code in the union of all of them, and its fields."""

    code: int
    fields: Fields


def operator_name(code: int) -> str:
    """The name of a builtin operator, known to the reader or not."""
    return OPERATORS.get(code) or _name(code, "BuiltinOperator") or f"builtin operator {code}"


def options_name(code: int) -> str:
    """The name of a table of options, known to the reader or not."""
    return _name(code, "BuiltinOptions") or f"options {code}"


def _name(code: int, enumeration: str) -> str | None:
    import tflite  # only for messages about what the reader does not know

    entries: dict[str, Any] = vars(getattr(tflite, enumeration))
    return next((name for name, value in entries.items() if name[0].isupper() and value == code), None)


TABLES: Mapping[str, Fields] = {
    "Model": {
        "Version": Field(0, "I"),
        "OperatorCodes": Field(1),
        "Subgraphs": Field(2),
        "Buffers": Field(4),
    },
    "SubGraph": {
        "Tensors": Field(0),
        "Inputs": Field(1, "<i4"),
        "Outputs": Field(2, "<i4"),
        "Operators": Field(3),
    },
    "OperatorCode": {
        "DeprecatedBuiltinCode": Field(0, "b"),
        "CustomCode": Field(1),
        "Version": Field(2, "i", 1),
        "BuiltinCode": Field(3, "i"),
    },
    "Buffer": {
        "Data": Field(0, "<u1"),
        "Offset": Field(1, "Q"),
        "Size": Field(2, "Q"),
    },
    "Tensor": {
        "Shape": Field(0, "<i4"),
        "Type": Field(1, "b"),
        "Buffer": Field(2, "I"),
        "Name": Field(3),
        "Quantization": Field(4),
        "IsVariable": Field(5, "?"),
        "Sparsity": Field(6),
    },
    "QuantizationParameters": {
        "Scale": Field(2, "<f4"),
        "ZeroPoint": Field(3, "<i8"),
        "QuantizedDimension": Field(6, "i"),
    },
    "Operator": {
        "OpcodeIndex": Field(0, "I"),
        "Inputs": Field(1, "<i4"),
        "Outputs": Field(2, "<i4"),
        "BuiltinOptionsType": Field(3, "B"),
        "BuiltinOptions": Field(4),
        "CustomOptions": Field(5, "<u1"),
        "Intermediates": Field(8, "<i4"),
        "LargeCustomOptionsOffset": Field(9, "Q"),
        "LargeCustomOptionsSize": Field(10, "Q"),
    },
}
"""The tables that make up a model."""

OPTIONS: Mapping[str, Options] = {
    "AddOptions": Options(11, {"FusedActivationFunction": Field(0, "b")}),
    "BatchMatMulOptions": Options(101, {"AdjX": Field(0, "?"), "AdjY": Field(1, "?")}),
    "ConcatenationOptions": Options(10, {"Axis": Field(0, "i"), "FusedActivationFunction": Field(1, "b")}),
    "Conv2DOptions": Options(
        1,
        {
            "Padding": Field(0, "b"),
            "StrideW": Field(1, "i"),
            "StrideH": Field(2, "i"),
            "FusedActivationFunction": Field(3, "b"),
            "DilationWFactor": Field(4, "i", 1),
            "DilationHFactor": Field(5, "i", 1),
        },
    ),
    "CumsumOptions": Options(102, {"Exclusive": Field(0, "?"), "Reverse": Field(1, "?")}),
    "DepthToSpaceOptions": Options(94, {"BlockSize": Field(0, "i")}),
    "DepthwiseConv2DOptions": Options(
        2,
        {
            "Padding": Field(0, "b"),
            "StrideW": Field(1, "i"),
            "StrideH": Field(2, "i"),
            "FusedActivationFunction": Field(4, "b"),
            "DilationWFactor": Field(5, "i", 1),
            "DilationHFactor": Field(6, "i", 1),
        },
    ),
    "DivOptions": Options(29, {"FusedActivationFunction": Field(0, "b")}),
    "FullyConnectedOptions": Options(
        8,
        {
            "FusedActivationFunction": Field(0, "b"),
            "WeightsFormat": Field(1, "b"),
            "KeepNumDims": Field(2, "?"),
        },
    ),
    "GatherOptions": Options(23, {"Axis": Field(0, "i"), "BatchDims": Field(1, "i")}),
    "GeluOptions": Options(116, {"Approximate": Field(0, "?")}),
    "L2NormOptions": Options(12, {"FusedActivationFunction": Field(0, "b")}),
    "LeakyReluOptions": Options(75, {"Alpha": Field(0, "f")}),
    "LocalResponseNormalizationOptions": Options(
        13, {"Radius": Field(0, "i"), "Bias": Field(1, "f"), "Alpha": Field(2, "f"), "Beta": Field(3, "f")}
    ),
    "MirrorPadOptions": Options(77, {"Mode": Field(0, "b")}),
    "MulOptions": Options(21, {"FusedActivationFunction": Field(0, "b")}),
    "PackOptions": Options(59, {"Axis": Field(1, "i")}),
    "Pool2DOptions": Options(
        5,
        {
            "Padding": Field(0, "b"),
            "StrideW": Field(1, "i"),
            "StrideH": Field(2, "i"),
            "FilterWidth": Field(3, "i"),
            "FilterHeight": Field(4, "i"),
            "FusedActivationFunction": Field(5, "b"),
        },
    ),
    "ReducerOptions": Options(27, {"KeepDims": Field(0, "?")}),
    "ResizeBilinearOptions": Options(15, {"AlignCorners": Field(2, "?"), "HalfPixelCenters": Field(3, "?")}),
    "ResizeNearestNeighborOptions": Options(
        74, {"AlignCorners": Field(0, "?"), "HalfPixelCenters": Field(1, "?")}
    ),
    "SoftmaxOptions": Options(9, {"Beta": Field(0, "f")}),
    "SpaceToDepthOptions": Options(19, {"BlockSize": Field(0, "i")}),
    "StridedSliceOptions": Options(
        32,
        {
            "BeginMask": Field(0, "i"),
            "EndMask": Field(1, "i"),
            "EllipsisMask": Field(2, "i"),
            "NewAxisMask": Field(3, "i"),
            "ShrinkAxisMask": Field(4, "i"),
            "Offset": Field(5, "?"),
        },
    ),
    "SubOptions": Options(28, {"FusedActivationFunction": Field(0, "b")}),
    "TransposeConvOptions": Options(
        49,
        {
            "Padding": Field(0, "b"),
            "StrideW": Field(1, "i"),
            "StrideH": Field(2, "i"),
            "FusedActivationFunction": Field(3, "b"),
        },
    ),
    "UnidirectionalSequenceLSTMOptions": Options(
        71,
        {
            "FusedActivationFunction": Field(0, "b"),
            "CellClip": Field(1, "f"),
            "ProjClip": Field(2, "f"),
            "TimeMajor": Field(3, "?"),
            "DiagonalRecurrentTensors": Field(5, "?"),
        },
    ),
    "UnpackOptions": Options(64, {"Axis": Field(1, "i")}),
}
"""The options of operators, by name."""

OPERATORS: Mapping[int, str] = {
    0: "ADD",
    1: "AVERAGE_POOL_2D",
    2: "CONCATENATION",
    3: "CONV_2D",
    4: "DEPTHWISE_CONV_2D",
    5: "DEPTH_TO_SPACE",
    6: "DEQUANTIZE",
    8: "FLOOR",
    9: "FULLY_CONNECTED",
    11: "L2_NORMALIZATION",
    12: "L2_POOL_2D",
    13: "LOCAL_RESPONSE_NORMALIZATION",
    14: "LOGISTIC",
    17: "MAX_POOL_2D",
    18: "MUL",
    19: "RELU",
    20: "RELU_N1_TO_1",
    21: "RELU6",
    22: "RESHAPE",
    23: "RESIZE_BILINEAR",
    25: "SOFTMAX",
    26: "SPACE_TO_DEPTH",
    28: "TANH",
    32: "CUSTOM",
    34: "PAD",
    36: "GATHER",
    37: "BATCH_TO_SPACE_ND",
    38: "SPACE_TO_BATCH_ND",
    39: "TRANSPOSE",
    40: "MEAN",
    41: "SUB",
    42: "DIV",
    43: "SQUEEZE",
    44: "UNIDIRECTIONAL_SEQUENCE_LSTM",
    45: "STRIDED_SLICE",
    47: "EXP",
    49: "SPLIT",
    50: "LOG_SOFTMAX",
    53: "CAST",
    54: "PRELU",
    55: "MAXIMUM",
    56: "ARG_MAX",
    57: "MINIMUM",
    58: "LESS",
    59: "NEG",
    60: "PADV2",
    61: "GREATER",
    62: "GREATER_EQUAL",
    63: "LESS_EQUAL",
    64: "SELECT",
    65: "SLICE",
    66: "SIN",
    67: "TRANSPOSE_CONV",
    69: "TILE",
    70: "EXPAND_DIMS",
    71: "EQUAL",
    72: "NOT_EQUAL",
    73: "LOG",
    74: "SUM",
    75: "SQRT",
    76: "RSQRT",
    78: "POW",
    79: "ARG_MIN",
    81: "REDUCE_PROD",
    82: "REDUCE_MAX",
    83: "PACK",
    84: "LOGICAL_OR",
    86: "LOGICAL_AND",
    87: "LOGICAL_NOT",
    88: "UNPACK",
    89: "REDUCE_MIN",
    90: "FLOOR_DIV",
    91: "REDUCE_ANY",
    92: "SQUARE",
    95: "FLOOR_MOD",
    97: "RESIZE_NEAREST_NEIGHBOR",
    98: "LEAKY_RELU",
    99: "SQUARED_DIFFERENCE",
    100: "MIRROR_PAD",
    101: "ABS",
    102: "SPLIT_V",
    104: "CEIL",
    105: "REVERSE_V2",
    106: "ADD_N",
    107: "GATHER_ND",
    108: "COS",
    111: "ELU",
    114: "QUANTIZE",
    116: "ROUND",
    117: "HARD_SWISH",
    123: "SELECT_V2",
    126: "BATCH_MATMUL",
    128: "CUMSUM",
    130: "BROADCAST_TO",
    140: "REDUCE_ALL",
    150: "GELU",
    152: "RELU_0_TO_1",
    158: "SIGN",
}
"""The operators that the reader knows, by their code."""

TYPES = (
    "FLOAT32",
    "FLOAT16",
    "INT32",
    "UINT8",
    "INT64",
    "STRING",
    "BOOL",
    "INT16",
    "COMPLEX64",
    "INT8",
    "FLOAT64",
    "COMPLEX128",
    "UINT64",
    "RESOURCE",
    "VARIANT",
    "UINT32",
    "UINT16",
    "INT4",
    "BFLOAT16",
)
"""The types of elements, by their code."""
