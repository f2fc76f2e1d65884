"""The activation that an operator applies to its own output."""

from __future__ import annotations

from math import copysign, inf, trunc
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base.tensor import TensorType
from npusim.kernels.operator.operands import code_range, quantization
from npusim.kernels.operator.operator import Call
from npusim.kernels.operator.parameters import Activated, Activation

REAL_RANGES: dict[Activation, tuple[float, float]] = {
    "none": (-inf, inf),
    "relu": (0.0, inf),
    "relu6": (0.0, 6.0),
    "relu_n1_to_1": (-1.0, 1.0),
}
"""The range to which each activation limits float values."""


def activation_of(call: Call) -> Activation:
    """Return the activation of a call; "none" for an operator that has none."""
    found: Activation = getattr(call.parameters, "activation", "none")
    return found


def activation_in_32_bits(call: Call[Activated]) -> bool:
    """the bounds of the fused activation, divided by the output's scale, fit 32 bits"""
    ofm, bounds = call.outputs[0], REAL_RANGES[call.parameters.activation]
    if not ofm.quantized or ofm.element.bits > 16:
        return True
    return all(abs(bound) == inf or abs(_steps(bound, ofm)) < 1 << 31 for bound in bounds)


def act_range(activation: Activation, ofm: TensorType) -> tuple[int, int]:
    """Return the smallest and largest quantized value that `activation` lets through to an 8-bit or 16-bit output.

    A finite bound b is zero_point + b / scale, divided in float32 and rounded half away from zero, within the element
    type.
    """
    low, high = code_range(ofm.dtype)
    smallest, largest = REAL_RANGES[activation]
    if smallest > -inf:
        low = max(low, _code(smallest, ofm))
    if largest < inf:
        high = min(high, _code(largest, ofm))
    return low, high


def _code(real: float, ofm: TensorType) -> int:
    steps = _steps(real, ofm)
    if abs(steps) == inf:
        return int(copysign(1 << 31, steps))
    return quantization(ofm).zero_point + trunc(steps + copysign(0.5, steps))


def _steps(real: float, ofm: TensorType) -> float:
    """Return real / output scale, divided in float32; infinite if float32 cannot hold the quotient."""
    with np.errstate(over="ignore"):
        return float(np.float32(real) / np.float32(quantization(ofm).scale))


def float32_bounds(activation: Activation, ofm: TensorType) -> tuple[int, int]:
    """Return the same bounds for the rescale "float32": divided in float32, rounded half to even."""
    low, high = code_range(ofm.dtype)
    zero = quantization(ofm).zero_point
    smallest, largest = (
        _steps(bound, ofm) if abs(bound) < inf else bound for bound in REAL_RANGES[activation]
    )
    first = low if smallest < low - zero else round(smallest) + zero
    last = high if largest > high - zero else round(largest) + zero
    return min(max(first, low), high), min(max(last, low), high)


def limited(activation: Activation, values: NDArray[Any]) -> NDArray[Any]:
    """Apply `activation` in place to values without scale, floats or integers."""
    if activation == "none":
        return values
    smallest, largest = REAL_RANGES[activation]
    if values.dtype.kind != "f":
        limits = np.iinfo(values.dtype)
        smallest, largest = int(max(limits.min, smallest)), int(min(limits.max, largest))
    return np.clip(values, smallest, largest, out=values)
