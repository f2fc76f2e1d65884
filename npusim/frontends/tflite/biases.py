"""Check of bias scales in TFLite files. LiteRT adds the bias to the int32 accumulator, mostly ignoring its scale."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npusim.frontends.bias_scales import bias_fault, products
from npusim.isa.base.errors import GraphError
from npusim.isa.base.tensor import TensorType

WEIGHTED = ("conv_2d", "depthwise_conv_2d", "transpose_conv", "fully_connected")
"""Operators with input, weights and bias."""

_MOST_APART = 0.02
"""Largest distance of bias and accumulator scale, relative to the output scale, that LiteRT allows (kernel_util.cc)."""


def bias_note(op: str, kinds: Sequence[TensorType | None], output: TensorType, where: str) -> str | None:
    """Return a note about the bias if its scale is not that of the accumulator; else None.

    kinds: types of input, weights and bias.

    Raises GraphError for a scale that LiteRT refuses, which it checks for per-tensor weights in fully connected layers
    and in convolutions of uint8 values.
    """
    ifm, weights, bias = (None if kind is None else kind.quantization for kind in kinds)
    if ifm is None or weights is None or bias is None or kinds[2] is None or output.quantization is None:
        return None
    fault = bias_fault(kinds[2].dtype, bias, ifm, weights)
    if fault is None or kinds[2].dtype != "int32":
        return None
    looked_at = op == "fully_connected" or (op != "transpose_conv" and output.dtype == "uint8")
    apart = np.abs(products(ifm, weights).astype(np.float64)[0] - bias.scales[0]) / output.quantization.scale
    if looked_at and len(weights.scales) == 1 and apart > _MOST_APART:
        raise GraphError(f"{where}: {fault}")
    return f"{where}: {fault}. LiteRT adds it to the sum as it is, and so does npusim"
