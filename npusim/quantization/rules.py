"""How operators stand to codes of 8 bits, as TFLite's quantization after training has it: a row per operator.

Listed are those that LiteRT computes in int8; any other stays in floats. Source: the TFLite 8-bit quantization
specification (which tensors share a scale, which scales are fixed, which axis weights are scaled along).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from npusim.isa.base.tensor import Quantization


class Way(Enum):
    """What the codes of an operator's results are."""

    OWN = "its own range"
    ALIKE = "as those of what it takes"
    FIXED = "the same in every model"
    WEIGHTED = "its own range; weights are scaled by channel"


@dataclass(frozen=True, slots=True)
class Rule:
    """How an operator stands to codes.

    fixed: the codes of the result, where they are fixed.
    axis:  of the weights: along which it has the channels of the result.
    """

    way: Way
    fixed: Quantization | None = None
    axis: int = 0


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
"""By the name of the operator."""

NOT_INT8 = "TFLite computes it in floats only"
"""Why an operator without a rule stays as it is."""
