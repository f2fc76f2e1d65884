"""The memo of packed weights: bounded, keyed by content, and never wiser than the bytes that it is given."""

from __future__ import annotations

import numpy as np
import pytest

from npusim.isa.arithmetic import packing, packing_memo

WEIGHTS = np.random.default_rng(5).normal(3, 6, (20, 64)).clip(-128, 127).astype(np.int8)


@pytest.fixture(autouse=True)
def memo(monkeypatch: pytest.MonkeyPatch) -> packing_memo._Memo:
    """An empty memo of 64 KiB instead of the one of the process."""
    fresh = packing_memo._Memo(1 << 16)
    monkeypatch.setattr(packing_memo, "_MEMO", fresh)
    return fresh


def _forbid(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    for name in names:
        monkeypatch.setattr(packing, name, lambda *_: pytest.fail("computed a second time"))


def test_equal_weights_are_packed_measured_and_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = packing_memo.pack(WEIGHTS, 3)
    lengths = packing_memo.lengths(WEIGHTS, 3)
    _forbid(monkeypatch, "pack", "lengths", "unpack")
    assert packing_memo.pack(WEIGHTS.copy(), 3) == packed
    assert packing_memo.lengths(WEIGHTS.copy(), 3) is lengths
    codes = packing_memo.unpack(np.frombuffer(packed, np.uint8).copy(), WEIGHTS.size, 3)
    assert codes.tobytes() == WEIGHTS.tobytes()


def test_every_argument_counts() -> None:
    """Bytes, type, zero point and modes: nothing that changes the result is left out of the key."""
    cases = [
        (weights, zero_point, skips)
        for weights in (WEIGHTS, WEIGHTS.view(np.uint8), WEIGHTS[::-1])
        for zero_point in (3, 4)
        for skips in (False, True)
    ]
    for _ in range(2):
        for case in cases:
            assert packing_memo.pack(*case) == packing.pack(*case)
            for mine, other in zip(packing_memo.lengths(*case), packing.lengths(*case), strict=True):
                np.testing.assert_array_equal(mine, other)


def test_a_changed_block_is_decoded_from_its_bytes() -> None:
    block = np.frombuffer(packing_memo.pack(WEIGHTS, 3), np.uint8).copy()
    block[-1] ^= 1
    for count, zero_point in ((WEIGHTS.size, 3), (WEIGHTS.size - 64, 3), (WEIGHTS.size, 4)):
        decoded = packing.unpack(block, count, zero_point)
        np.testing.assert_array_equal(packing_memo.unpack(block, count, zero_point), decoded)
    assert packing_memo.unpack(block, WEIGHTS.size, 3).tobytes() != WEIGHTS.tobytes()


def test_results_cannot_be_changed() -> None:
    packed = np.frombuffer(packing_memo.pack(WEIGHTS, 3), np.uint8)
    arrays = [
        packing_memo.unpack(packed, WEIGHTS.size, 3),
        packing_memo.unpack(packed, WEIGHTS.size - 64, 3),
        *packing_memo.lengths(WEIGHTS, 3),
    ]
    assert not any(each.flags.writeable for each in arrays)


def test_its_size_is_bounded(memo: packing_memo._Memo) -> None:
    first = packing_memo.pack(WEIGHTS, 0)
    for zero_point in range(1, 120):
        packing_memo.pack(WEIGHTS, zero_point)
        assert memo.size_bytes <= memo.most_bytes
        assert memo.size_bytes == sum(size for _, size in memo._results.values())
    assert len(memo._results) < 120
    assert packing_memo.pack(WEIGHTS, 0) == first


def test_a_large_result_displaces_no_others(memo: packing_memo._Memo) -> None:
    packing_memo.pack(WEIGHTS, 3)
    before = dict(memo._results)
    packing_memo.unpack(np.frombuffer(packing.pack(np.tile(WEIGHTS, 16), 3), np.uint8), 16 * WEIGHTS.size, 3)
    assert memo._results == before
