"""Packed weights: they come back as they were, and their length is known before they are packed."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest

from npusim.isa.arithmetic.packing import GROUP, lengths, pack, unpack
from npusim.isa.program import program
from npusim.isa.program.program import Image, Piece

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
    "several parts, the last short": RNG.normal(7, 20, (1 << 19) + 77).clip(-128, 127).astype(np.int8),
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


@pytest.mark.parametrize("step", [(lengths, 0.5), (pack, 1.5)], ids=["lengths", "pack"])
def test_packing_takes_little_memory(step: tuple[Callable[..., object], float]) -> None:
    function, share = step
    weights = np.tile(RNG.normal(0, 4, 1 << 20).clip(-128, 127).astype(np.int8), 32)
    tracemalloc.start()
    function(weights, 0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < share * weights.nbytes  # of `pack` with what it returns, twice while it is joined


@pytest.mark.parametrize("kept", [True, False])
def test_a_large_image_is_not_kept(kept: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "LARGEST_KEPT_BYTES", 5 if kept else 4)
    made: list[bytes] = []

    def make(content: bytes) -> bytes:
        made.append(content)
        return content

    image = Image([Piece(2, lambda: make(b"ab")), Piece(3, lambda: make(b"cde"))])
    for _ in range(2):
        target = np.zeros(5, np.uint8)
        image.write_to(target)
        assert target.tobytes() == b"abcde"
    assert made == [b"ab", b"cde"] * (1 if kept else 2)
    assert bytes(image) == b"abcde"
