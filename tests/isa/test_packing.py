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
    "one value that is no zero point": np.full(3 * GROUP + 5, 90, np.int8),
    "two values": RNG.choice([-100, 90], 5 * GROUP).astype(np.int8),
    "four values": RNG.choice([-100, 90, 0, 3], 5 * GROUP + 3).astype(np.int8),
    "sparse": np.concatenate(
        [
            np.where(RNG.random(3 * GROUP) < share, RNG.normal(7, width, 3 * GROUP).clip(-128, 127), 7)
            for share in (0.03, 0.1, 0.4, 0.7)
            for width in (3, 9, 25, 60)
        ]
    ).astype(np.int8),
    "groups of every mode": np.concatenate(
        [RNG.normal(7, width, GROUP).clip(-128, 127) for width in (0.1, 1, 2, 4, 8, 16, 32, 64, 120)]
    ).astype(np.int8),
}


@pytest.mark.parametrize("skips", [False, True])
@pytest.mark.parametrize("zero_point", [0, 7, 120, 255])
@pytest.mark.parametrize("name", WEIGHTS)
def test_length_and_content(name: str, zero_point: int, skips: bool) -> None:
    weights = WEIGHTS[name]
    packed = pack(weights, zero_point, skips)
    assert lengths(weights, zero_point, skips).packed_bytes() == len(packed)
    codes = np.ascontiguousarray(weights).reshape(-1).view(np.uint8)
    unpacked = unpack(np.frombuffer(packed, np.uint8), weights.size, zero_point)
    np.testing.assert_array_equal(unpacked, codes)


def test_what_is_packed_as_ever_is_packed_as_ever() -> None:
    """Groups that no further mode is shorter for; and the others are shorter by far."""
    narrow, sparse = WEIGHTS["narrow"], WEIGHTS["sparse"]
    assert pack(narrow, 7, True) == pack(narrow, 7)
    assert len(pack(sparse, 7, True)) < 0.8 * len(pack(sparse, 7))


# What Vela 5.2.0 needs for 131,072 such weights, in bits of each.
VELA = [
    ("all alike", lambda rng, size: np.full(size, 127), 1.16),
    ("of two values", lambda rng, size: 127 * rng.integers(0, 2, size), 1.16),
    ("wide", lambda rng, size: rng.normal(0, 32, size), 7.31),
    ("half zero", lambda rng, size: rng.normal(0, 32, size) * (rng.random(size) < 0.5), 4.67),
    ("mostly zero", lambda rng, size: rng.normal(0, 32, size) * (rng.random(size) < 0.3), 3.15),
    ("nine of ten zero", lambda rng, size: rng.normal(0, 32, size) * (rng.random(size) < 0.1), 1.33),
]


@pytest.mark.parametrize(("draw", "bits"), [case[1:] for case in VELA], ids=[case[0] for case in VELA])
def test_a_decoder_that_skips_beside_the_one_of_the_ethos_u(
    draw: Callable[[np.random.Generator, int], np.ndarray], bits: float
) -> None:
    weights = np.rint(draw(np.random.default_rng(0), 1 << 17)).clip(-127, 127).astype(np.int8)
    assert 8 * lengths(weights, 0, True).packed_bytes() / weights.size == pytest.approx(bits, rel=0.45)


@pytest.mark.slow
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
