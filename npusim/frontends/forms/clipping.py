"""Relu and Clip on quantized values: dropped or fused into the operation before them if nothing changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from npusim.isa.base.elements import element
from npusim.isa.base.tensor import TensorType
from npusim.kernels.graph.builder import GraphBuilder
from npusim.kernels.operator.element_types import quantize_results
from npusim.kernels.operator.rescale import REAL_RANGES


class Limits(NamedTuple):
    """The range of floats that a Relu or Clip lets through, and whether it is the only reader of its operand."""

    least: float
    most: float
    alone: bool = False


def lets_all_through(kind: TensorType, limits: Limits) -> bool:
    """Return whether every quantized value of a type stands for a float within the limits."""
    scaling = kind.quantization
    if scaling is None or scaling.axis is not None:
        return False
    lowest, highest = element(kind.dtype).limits
    low, high = (
        int(quantize_results(np.array(bound, np.float32), kind)) for bound in (limits.least, limits.most)
    )
    return low <= lowest and high >= highest


def fused(builder: GraphBuilder, node: int, limits: Limits) -> bool:
    """Make limits the fused activation of a node that is already in the graph; return False if that is impossible."""
    if not limits.alone:
        return False
    name = next((name for name, reals in REAL_RANGES.items() if reals == (limits.least, limits.most)), None)
    parameters: Any = builder.nodes[node].parameters
    if name is None or getattr(parameters, "activation", "") != "none" or parameters.rescale != "float32":
        return False
    builder.nodes[node] = replace(builder.nodes[node], parameters=parameters.changed(activation=name))
    return True
