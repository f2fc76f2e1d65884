"""Quantization entries as integer codes: element type, scale, zero point, and the range that codes may have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from npusim.frontends.nnef.network import Quantization as Entry
from npusim.frontends.nnef.places import quoted
from npusim.isa.base.tensor import Array, Quantization

_BITS = (8, 16, 32)
"""Of the types that hold codes."""

_OFF_GRID = 1e-3
"""How far from a whole number of steps min may lie: what decimal literals of float32 numbers are off."""


@dataclass(frozen=True, slots=True)
class Codes:
    """What an entry says of a tensor: real = scale * (code - zero_point).

    dtype:  the element type that holds the codes.
    scales, zero_points: one number, or one for each channel; as float32 and whole numbers.
    axis:   along which the channels lie, where the entry says so by its shape; None otherwise.
    least, most: the codes that there are, which may be fewer than the type holds.
    """

    dtype: str
    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int | None
    least: int
    most: int

    def quantization(self, axis: int | None) -> Quantization:
        """As tensor types have it; `axis` is that of the channels where there are several."""
        return Quantization(self.scales, self.zero_points, axis if len(self.scales) > 1 else None)

    def of_reals(self, values: Array, axis: int | None) -> Array:
        """The codes of real numbers: rounded half away from zero, and clamped."""
        along = [1] * values.ndim
        if len(self.scales) > 1 and axis is not None:
            along[axis] = -1
        steps: Any = values.astype(np.float64) / np.array(self.scales).reshape(along or -1)
        rounded = np.copysign(np.floor(np.abs(steps) + 0.5), steps) + np.array(self.zero_points).reshape(
            along or -1
        )
        codes: Array = np.clip(rounded, self.least, self.most).astype(self.dtype).reshape(values.shape)
        return codes


def codes_of(name: str, entry: Entry) -> Codes:
    """The codes of a tensor that is called `name`. Raises DocumentError for an entry that no integer codes express."""
    if entry.operation == "zero_point_linear_quantize":
        signed, symmetric = bool(entry.attributes["signed"]), bool(entry.attributes["symmetric"])
        scale, zero = entry.tensors["scale"], entry.tensors["zero_point"]
        return _codes(name, entry, np.broadcast_arrays(scale, zero), signed, symmetric)
    if entry.operation in ("min_max_linear_quantize", "linear_quantize"):
        return _between(name, entry)
    reason = (
        "its codes are powers of two, for which there is no integer unit"
        if entry.operation == "logarithmic_quantize"
        else "codes are those of zero_point_linear_quantize, min_max_linear_quantize and linear_quantize"
    )
    text = f"{quoted(name)} is quantized by {quoted(entry.operation)}: {reason}; without the entry it is in reals"
    raise entry.place.fault("Q2", text)


def _between(name: str, entry: Entry) -> Codes:
    """Rule Q8: the steps lie between min and max, both of which have a code; zero has one where it is such a step."""
    signed, symmetric = (
        bool(entry.attributes.get("signed", False)),
        bool(entry.attributes.get("symmetric", False)),
    )
    bits = _bits(name, entry)
    low, high = np.broadcast_arrays(entry.tensors["min"], entry.tensors["max"])
    steps = (1 << bits) - 1 - (signed and symmetric)
    shift = (1 << bits - 1) - symmetric if signed else 0
    scale = (high - low) / steps
    zero = -low / scale - shift
    if np.any(np.abs(zero - np.round(zero)) > _OFF_GRID):
        where = int(np.argmax(np.abs(zero - np.round(zero))))
        step = float(scale.reshape(-1)[where])
        below = float(np.floor(low.reshape(-1)[where] / step) * step)
        text = (
            f"{quoted(name)}: zero is no step between min {low.reshape(-1)[where]:g} and max "
            f"{high.reshape(-1)[where]:g}, which lie {steps} steps of {step:g} apart, so it has no code; "
            f"min {below:.9g} and max {below + steps * step:.9g} would do"
        )
        raise entry.place.fault("Q5", text)
    return _codes(name, entry, [scale, np.round(zero).astype(np.int64)], signed, symmetric)


def _bits(name: str, entry: Entry) -> int:
    bits = entry.attributes["bits"]
    assert isinstance(bits, int)
    if bits > max(_BITS):
        raise entry.place.fault(
            "Q5", f"{quoted(name)} has codes of {bits} bits; at most {max(_BITS)} are computed"
        )
    return bits


def _codes(name: str, entry: Entry, numbers: Any, signed: bool, symmetric: bool) -> Codes:
    scale, zero = numbers
    bits = _bits(name, entry)
    width = next(width for width in _BITS if width >= bits)
    if width == max(_BITS) and not signed:
        raise entry.place.fault("Q5", f"{quoted(name)}: unsigned codes have at most 16 bits")
    least, most = (-(1 << bits - 1) + symmetric, (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    long = [axis for axis, extent in enumerate(scale.shape) if extent > 1]
    if len(long) > 1:
        raise entry.place.fault(
            "Q10", f"{quoted(name)}: values of shape {list(scale.shape)} vary along several axes"
        )
    axis = long[0] if long and scale.ndim > 1 else None
    with np.errstate(over="ignore", under="ignore"):
        scales = tuple(float(number) for number in scale.reshape(-1).astype(np.float32))
    if not all(0 < number < np.inf for number in scales):
        raise entry.place.fault("Q5", f"{quoted(name)}: a scale is not a float32 number above 0")
    zeros = tuple(int(number) for number in zero.reshape(-1))
    if not all(least <= number <= most for number in zeros):
        outside = next(number for number in zeros if not least <= number <= most)
        raise entry.place.fault(
            "Q5", f"{quoted(name)}: zero point {outside} is none of the codes {least} to {most}"
        )
    if len(set(scales)) == 1 and len(set(zeros)) == 1 and not long:
        scales, zeros = scales[:1], zeros[:1]
    return Codes(f"{'' if signed else 'u'}int{width}", scales, zeros, axis, least, most)
