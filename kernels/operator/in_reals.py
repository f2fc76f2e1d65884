"""A call on codes as the same call on the real numbers that they stand for, in float32: what ONNX means by it.

Codes become f32(f32(code - zero point) * scale); results become codes by half to even of f32(result / scale), plus the
zero point, limited to the codes of the type (ONNX: DequantizeLinear and QuantizeLinear).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base.elements import element
from npusim.isa.base.tensor import Array, Quantization, TensorType

if TYPE_CHECKING:
    from npusim.kernels.operator.operator import Call, Reference


def call_in_reals(call: Call) -> Call:
    """The call with float32 in the place of codes, which computes as it does without them."""
    return replace(
        call,
        parameters=call.parameters.changed(rescale="fixed_point"),
        inputs=tuple([None if kind is None else _real(kind) for kind in call.inputs]),
        outputs=tuple([_real(kind) for kind in call.outputs]),
        constants={
            position: reals_of_codes(data, kind)
            if isinstance(data, np.ndarray) and kind is not None
            else data
            for position, data in call.constants.items()
            for kind in [call.inputs[position]]
        },
    )


def compute_in_reals(reference: Reference, call: Call, values: Sequence[Array | None]) -> list[Array]:
    """What the reference of an operator gives on reals, with codes where the call has them."""
    reals = [
        value if value is None or kind is None else reals_of_codes(value, kind)
        for value, kind in zip(values, call.inputs, strict=True)
    ]
    results = reference(call_in_reals(call), reals)
    return [
        codes_of_results(np.asarray(result), kind) if kind.quantized else np.asarray(result)
        for result, kind in zip(results, call.outputs, strict=True)
    ]


def _real(kind: TensorType) -> TensorType:
    return replace(kind, dtype="float32", quantization=None) if kind.quantized else kind


def reals_of_codes(codes: Array, kind: TensorType) -> Array:
    """The real numbers of codes, in float32; elements without scale stay what they are."""
    if not kind.quantized or kind.quantization is None:
        return codes
    scales, zero_points = by_element(kind.quantization, codes.ndim)
    wide: Any = codes
    whole = wide.astype(np.int64) - zero_points if zero_points.any() else wide
    with np.errstate(over="ignore"):  # reals beyond float32 become infinite
        return np.asarray(whole.astype(np.float32) * scales)


def codes_of_results(reals: Array, kind: TensorType, bounds: tuple[int, int] | None = None) -> Array:
    """The codes of float32 numbers, of no number the smallest.

    bounds: the smallest and largest code, where they are not those of the element type.
    """
    assert kind.quantization is not None
    scales, zero_points = by_element(kind.quantization, reals.ndim)
    low, high = bounds or element(kind.dtype).limits
    wide: Any = reals
    with np.errstate(all="ignore"):
        steps = np.rint(wide.astype(np.float32, copy=False) / scales).astype(np.float64)
    steps = np.where(np.isnan(steps), -np.inf, steps) + zero_points
    return np.asarray(np.clip(steps, low, high).astype(kind.numpy_dtype))


def by_element(scaling: Quantization, rank: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Scales and zero points as they broadcast with what has them."""
    shape = () if scaling.axis is None else (-1,) + (1,) * (rank - 1 - scaling.axis)
    scales, zero_points = np.array(scaling.scales, np.float32), np.array(scaling.zero_points, np.int64)
    return scales.reshape(shape), zero_points.reshape(shape)
