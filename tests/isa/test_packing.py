"""Packed weights: they come back as they were, and their length is known before they are packed."""

from __future__ import annotations

import numpy as np
import pytest

from npusim.isa.packing import GROUP, lengths, pack, unpack

RNG = np.random.default_rng(9)
WEIGHTS = {
    "all zero points": np.full(3 * GROUP, 7, np.int8),
    "narrow": RNG.normal(7, 3, 5 * GROUP).astype(np.int8),
    "wide, packed as they are": RNG.integers(-128, 128, 4 * GROUP).astype(np.int8),
    "uint8": RNG.normal(120, 20, 6 * GROUP).astype(np.uint8),
    "odd number of groups": RNG.normal(7, 10, 7 * GROUP).astype(np.int8),
    "one weight": np.array([3], np.int8),
    "the last group is narrow and short": RNG.normal(7, 2, 2 * GROUP + 13).astype(np.int8),
    "the last group is wide and short": RNG.integers(-128, 128, GROUP + 9).astype(np.int8),
    "the last group is zero points and short": np.full(GROUP + 5, 7, np.int8),
    "several dimensions, not contiguous": RNG.normal(7, 9, (3, 50, 8)).astype(np.int8).transpose(2, 0, 1),
    "groups of every mode": np.concatenate(
        [RNG.normal(7, width, GROUP).clip(-128, 127) for width in (0.1, 1, 2, 4, 8, 16, 32, 64, 120)]
    ).astype(np.int8),
}


@pytest.mark.parametrize("zero_point", [0, 7, 120, 255])
@pytest.mark.parametrize("name", WEIGHTS)
def test_length_and_content(name: str, zero_point: int) -> None:
    weights = WEIGHTS[name]
    packed = pack(weights, zero_point)
    assert lengths(weights, zero_point).packed_bytes() == len(packed)
    codes = np.ascontiguousarray(weights).reshape(-1).view(np.uint8)
    unpacked = unpack(np.frombuffer(packed, np.uint8), weights.size, zero_point)
    np.testing.assert_array_equal(unpacked, codes)
