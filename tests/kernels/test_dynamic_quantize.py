"""Codes whose scale follows from the numbers, and reals to codes as ONNX has it: whole, and in parts for lanes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from npusim.isa.base.tensor import Quantization, TensorType
from npusim.kernels.operator.operator import Call
from npusim.kernels.table import operator
from tests.kernels.test_real_parts import evaluated

RANDOM = np.random.default_rng(3)


def dynamically(x: Any) -> Call:
    """The call of dynamic_quantize on an array."""
    kinds = (TensorType("uint8", x.shape), TensorType("float32", ()), TensorType("uint8", ()))
    return Call(operator("dynamic_quantize").parameters(), (TensorType("float32", x.shape),), kinds, {})


NUMBERS = {
    "both signs": RANDOM.normal(size=(3, 50)).astype(np.float32),
    "all above": RANDOM.uniform(2, 5, (40,)).astype(np.float32),
    "all below": RANDOM.uniform(-5, -2, (2, 3, 4)).astype(np.float32),
    "ties": (np.arange(511, dtype=np.float32) / 2),
    "nothing": np.zeros((5,), np.float32),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_codes_span_the_numbers(name: str) -> None:
    """The formulas of ONNX; and the parts give the same bytes."""
    x = NUMBERS[name]
    call, entry = dynamically(x), operator("dynamic_quantize")
    assert entry.broken_rule(call) is None
    codes, scale, zero = entry.compute(call, [x])
    low, high = min(np.float32(0), x.min()), max(np.float32(0), x.max())
    assert scale == (np.float32(high - low) / np.float32(255) if high > low else 1)
    assert zero == np.rint(np.float32(-low) / scale)
    np.testing.assert_array_equal(codes, np.clip(np.rint(x / scale) + zero, 0, 255).astype(np.uint8))
    assert entry.expand is not None
    found = entry.expand(call)
    assert found is not None
    for whole, part in zip((codes, scale, zero), evaluated(call, found, {0: x}), strict=True):
        np.testing.assert_array_equal(part, whole)


def test_halves_go_to_the_even_code() -> None:
    """0..255 in halves: the scale is 1."""
    codes, _, zero = operator("dynamic_quantize").compute(dynamically(NUMBERS["ties"]), [NUMBERS["ties"]])
    assert zero == 0
    np.testing.assert_array_equal(np.asarray(codes)[:6], [0, 0, 1, 2, 2, 2])


def test_no_numbers_are_refused() -> None:
    """Nothing has no smallest number."""
    broken = operator("dynamic_quantize").broken_rule(dynamically(np.zeros((0, 3), np.float32)))
    assert broken == "the input has at least one element"


@pytest.mark.parametrize(
    ("dtype", "zero", "bits"), [("uint8", 3, 0), ("int8", -100, 0), ("int8", 1, 4), ("uint8", 7, 4)]
)
def test_reals_become_codes_in_parts(dtype: str, zero: int, bits: int) -> None:
    """Also ties, and what lies beyond the codes."""
    x = np.concatenate([np.arange(-600, 600) / 4, [1e30, -1e30, np.inf, -np.inf]]).astype(np.float32)
    entry = operator("quantize")
    target = TensorType(dtype, x.shape, Quantization((0.5,), (zero,)))
    how = entry.parameters(rescale="float32", bits=bits)
    call: Call[Any] = Call(how, (TensorType("float32", x.shape),), (target,), {})
    [whole] = entry.compute(call, [x])
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    if bits:
        low, high = low // 16, high // 16
    np.testing.assert_array_equal(whole, np.clip(np.rint(x / 0.5) + zero, low, high).astype(dtype))
    expand = entry.expander(call)
    assert expand is not None
    found = expand(call)
    assert found is not None
    np.testing.assert_array_equal(evaluated(call, found, {0: x})[0], whole)
