"""Versions of TFLite's operators, which a file states and LiteRT checks."""

from __future__ import annotations

from npusim.isa.base.tensor import TensorType

_INT8_VERSIONS = {
    "ADD": 2, "AVERAGE_POOL_2D": 2, "CONCATENATION": 2, "CONV_2D": 3, "DEPTHWISE_CONV_2D": 3, "DEQUANTIZE": 2,
    "ARG_MAX": 2, "FULLY_CONNECTED": 4, "LEAKY_RELU": 2, "LOGISTIC": 2, "MAXIMUM": 2, "MAX_POOL_2D": 2, "MEAN": 2,
    "MINIMUM": 2, "MUL": 2, "PAD": 2, "PADV2": 2, "RELU": 2, "RELU6": 2, "RESIZE_BILINEAR": 2,
    "RESIZE_NEAREST_NEIGHBOR": 2, "SLICE": 2, "SOFTMAX": 2, "SPLIT": 2, "SPLIT_V": 2, "STRIDED_SLICE": 2, "SUB": 2,
    "TANH": 2, "TRANSPOSE": 2,
}  # fmt: skip
"""Version of each operator that first accepts int8 tensors; those for uint8 and float32 are version 1.
A reader refuses versions it does not know. Operators that are not here took int8 from the beginning."""
_DYNAMIC_VERSIONS = {"CONV_2D": 5, "DEPTHWISE_CONV_2D": 6, "FULLY_CONNECTED": 9, "BATCH_MATMUL": 3}
"""Version of each operator that first accepts int8 weights beside float32 activations, with a scale per channel or
with asymmetric rows."""
_FULLY_CONNECTED_PER_CHANNEL = 12
_FIRST = {"BROADCAST_TO": 2}
"""First version of operators without a version 1."""


def version(code: str, first: TensorType, weights: TensorType | None = None) -> int:
    """Return the version of a builtin operator; first, weights: the types of its first and second operand."""
    by_channel = (
        weights is not None and weights.quantization is not None and weights.quantization.axis is not None
    )
    if code == "FULLY_CONNECTED" and by_channel:
        return _FULLY_CONNECTED_PER_CHANNEL
    if weights is not None and (first.dtype, weights.dtype) == ("float32", "int8"):
        return _DYNAMIC_VERSIONS.get(code, 1)
    least = _FIRST.get(code, 1)
    return _INT8_VERSIONS.get(code, least) if first.dtype == "int8" else least
