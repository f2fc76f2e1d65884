"""How TFLite's quantization after training treats each operator, with int8 and with int16 activations.

Listed are the operators that LiteRT computes in int8 or int16; any other stays in floats. Sources: the TFLite 8-bit
quantization specification (which tensors share a scale, which scales are fixed, which axis weights are scaled along),
and for int16 the operator properties of TFLite's converter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum

from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.tensor import Quantization
from npusim.quantization.ranges import Range
from npusim.quantization.scales import asymmetric, symmetric_int16


class Way(Enum):
    """How the quantization of an operator's results is found."""

    OWN = "its own range"
    ALIKE = "as those of what it takes"
    FIXED = "the same in every model"
    WEIGHTED = "its own range; weights are scaled by channel"


@dataclass(frozen=True, slots=True)
class Rule:
    """How an operator is quantized.

    fixed: the quantization of the result, if it is fixed.
    axis:  axis of the weights that holds the channels of the result.
    int8_operand: the position of an operand that is int8 beside int16 activations too.
    """

    way: Way
    fixed: Quantization | None = None
    axis: int = 0
    int8_operand: int | None = None


def _fixed(scale: float, zero_point: int) -> Rule:
    return Rule(Way.FIXED, Quantization((scale,), (zero_point,)))


_OWN = (
    *("add", "sub", "mul", "div", "squared_difference", "batch_matmul", "mean"),
    *("relu", "relu6", "relu_n1_to_1", "relu_0_to_1", "leaky_relu", "prelu", "elu", "gelu", "hard_swish"),
    *("abs", "exp", "log", "sqrt", "rsqrt"),
    *("equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "arg_max", "arg_min"),
)
_ALIKE = (
    *("reshape", "squeeze", "transpose", "pad", "mirror_pad", "concatenation", "split", "pack", "unpack"),
    *("slice", "strided_slice", "gather", "gather_nd", "tile", "broadcast_to", "reverse_v2"),
    *("space_to_depth", "depth_to_space", "space_to_batch_nd", "batch_to_space_nd"),
    *("average_pool_2d", "max_pool_2d", "resize_bilinear", "resize_nearest_neighbor"),
    *("maximum", "minimum", "reduce_max", "reduce_min", "select", "select_v2", "topk_v2"),
)

RULES: Mapping[str, Rule] = {
    **dict.fromkeys(_OWN, Rule(Way.OWN)),
    **dict.fromkeys(_ALIKE, Rule(Way.ALIKE)),
    "softmax": _fixed(1 / 256, -128),
    "logistic": _fixed(1 / 256, -128),
    "tanh": _fixed(1 / 128, 0),
    "l2_normalization": _fixed(1 / 128, 0),
    "log_softmax": _fixed(16 / 256, 127),
    "conv_2d": Rule(Way.WEIGHTED),
    "transpose_conv": Rule(Way.WEIGHTED),
    "fully_connected": Rule(Way.WEIGHTED),
    "depthwise_conv_2d": Rule(Way.WEIGHTED, axis=3),
}
"""Rules for int8 activations, by the name of the operator."""

NOT_INT8 = "TFLite computes it in floats only"
"""Reason why an operator without a rule stays in floats."""

_INT8_ONLY = (
    *(
        "squared_difference",
        "relu_n1_to_1",
        "relu_0_to_1",
        "elu",
        "hard_swish",
        "l2_normalization",
        "log_softmax",
    ),
    *("arg_max", "arg_min", "space_to_depth", "depth_to_space"),
)
_UP_TO_1 = _fixed(1 / 32768, 0)
RULES_INT16: Mapping[str, Rule] = {
    **{op: rule for op, rule in RULES.items() if op not in _INT8_ONLY},
    **dict.fromkeys(("softmax", "logistic", "tanh"), _UP_TO_1),
    "prelu": Rule(Way.OWN, int8_operand=1),
}
"""The rules with int16 activations: symmetric, beside int8 weights."""


@dataclass(frozen=True, slots=True)
class Activations:
    """How values that depend on the inputs are quantized.

    dtype:      element type of the activations; `bias` is that of biases.
    rules:      rules by the name of the operator.
    scheme:     function that returns the quantization of a range.
    float_only: why an operator without a rule stays as it is.
    """

    dtype: str
    bias: str
    rules: Mapping[str, Rule]
    scheme: Callable[[Range], Quantization]
    float_only: str


INT8 = Activations("int8", "int32", RULES, asymmetric, NOT_INT8)
INT16 = Activations(
    "int16", "int64", RULES_INT16, symmetric_int16, "LiteRT does not compute it with int16 values"
)
