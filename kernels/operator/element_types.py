"""Which element types the operands of an operator may have together, as rows of text.

    int8, int8|uint8, int32 -> int8

says: the inputs are int8, then int8 or uint8, then int32, and the output is int8. Where there are more operands than
entries the last entry speaks of the others too, so "int8 -> int8" is an operator all of whose operands are int8;
where there are fewer, or one is absent, its entry says nothing. "int8*9" is nine entries.

Conversions between quantized values and float32 are those of ONNX (DequantizeLinear and QuantizeLinear). Values become
f32(f32(value - zero point) * scale). Results become f32(result / scale) rounded half to even, plus the zero point,
limited to the type.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base.elements import element, names
from npusim.isa.base.tensor import Array, Quantization, TensorType

Entries = tuple[frozenset[str], ...]


def alike(*dtypes: str) -> tuple[str, ...]:
    """Return the rows of an operator whose operands all have one of these types."""
    return tuple(f"{dtype} -> {dtype}" for dtype in dtypes)


ANY_ALIKE = alike(*names())
"""Types of operators for which the meaning of the elements does not matter."""


@cache
def entries(row: str) -> tuple[Entries, Entries]:
    """Return the element types that a row allows for each input and each output."""
    inputs, outputs = (tuple(_expanded(side)) for side in row.split(" -> "))
    return inputs, outputs


def _expanded(side: str) -> Iterator[frozenset[str]]:
    for entry in side.split(", "):
        choices, _, times = entry.partition("*")
        yield from [frozenset(choices.split("|"))] * int(times or 1)


def fits(rows: Sequence[str], inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]) -> bool:
    """Return True if some row allows the element types of these operands; without rows all do."""
    if not rows:
        return True
    return any(
        _fits(allowed_inputs, inputs) and _fits(allowed_outputs, outputs)
        for allowed_inputs, allowed_outputs in map(entries, rows)
    )


def _fits(allowed: Entries, operands: Sequence[TensorType | None]) -> bool:
    last = len(allowed) - 1
    return all(
        operand is None or operand.dtype in allowed[min(position, last)]
        for position, operand in enumerate(operands)
    )


def in_words(rows: Sequence[str]) -> str:
    """Return the rows as a rule for messages and the manual."""
    firsts = [row.partition(" -> ")[0] for row in rows]
    if list(rows) != list(alike(*firsts)):
        return f"element types are {_either([f'({row})' for row in rows])}"
    if set(firsts) == set(names()):
        return "all operands have one element type"
    return f"operands are {_either([f'all {dtype}' for dtype in firsts])}"


def refusal(rows: Sequence[str], inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]) -> str:
    """Return the end of a message about a layer whose element types no row allows, with what to do about it.

    Two quantization schemes of converters have their own sentences: 16-bit activations, and dynamic range.
    """
    first = inputs[0] if inputs else None
    if first is not None and first.dtype == "int16" and first.quantization is not None:
        return "has int16 activations, which npusim lacks here; convert the model with int8 activations"
    if (
        first is not None
        and first.dtype == "float32"
        and any(kind and kind.dtype == "int8" for kind in inputs[1:])
    ):
        return (
            "has float32 activations and int8 weights (dynamic range quantization), which npusim lacks here; convert "
            "the float model without quantization, npusim quantize makes it int8"
        )
    types = [", ".join("none" if kind is None else kind.dtype for kind in side) for side in (inputs, outputs)]
    has = " -> ".join(types)
    return f"breaks a rule: {in_words(rows)}; it has ({has}), so convert the model with other element types"


def first_operand(rows: Sequence[str]) -> tuple[str, ...]:
    """Return the element types that the first input may have, each once."""
    return tuple(name for name in names() if any(name in entries(row)[0][0] for row in rows))


def _either(words: Sequence[str]) -> str:
    *others, last = words
    return f"{', '.join(others)} or {last}" if others else last


def dequantize_values(codes: Array, kind: TensorType) -> Array:
    """Dequantize values to float32; elements without scale stay as they are."""
    if not kind.quantized or kind.quantization is None:
        return codes
    scales, zero_points = by_element(kind.quantization, codes.ndim)
    wide: Any = codes
    whole = wide.astype(np.int64) - zero_points if zero_points.any() else wide
    with np.errstate(over="ignore"):  # Values beyond float32 become infinite
        return np.asarray(whole.astype(np.float32) * scales)


def quantize_results(floats: Array, kind: TensorType, bounds: tuple[int, int] | None = None) -> Array:
    """Quantize float32 values; NaN becomes the smallest value.

    bounds: smallest and largest quantized value, by default those of the element type.
    """
    assert kind.quantization is not None
    scales, zero_points = by_element(kind.quantization, floats.ndim)
    low, high = bounds or element(kind.dtype).limits
    wide: Any = floats
    with np.errstate(all="ignore"):
        steps = np.rint(wide.astype(np.float32, copy=False) / scales).astype(np.float64)
    steps = np.where(np.isnan(steps), -np.inf, steps) + zero_points
    return np.asarray(np.clip(steps, low, high).astype(kind.numpy_dtype))


def by_element(scaling: Quantization, rank: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return scales and zero points in shapes that broadcast with the elements."""
    shape = () if scaling.axis is None else (-1,) + (1,) * (rank - 1 - scaling.axis)
    scales, zero_points = np.array(scaling.scales, np.float32), np.array(scaling.zero_points, np.int64)
    return scales.reshape(shape), zero_points.reshape(shape)
