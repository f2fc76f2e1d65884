"""Lengths of packed weights: those of a part of a tensor come from the whole, remembered or not."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from npusim.isa.arithmetic.packing import pack
from npusim.kernels.lowering.work import Constants
from npusim.scheduler.fit import costs

RNG = np.random.default_rng(2)


def of_channels(weights: np.ndarray, first: int, last: int) -> Constants:
    return Constants(b"params", weights[first:last], 3, weights, first * weights[0].size)


@pytest.mark.parametrize("inner", [64, 32, 27, 1])
@pytest.mark.parametrize(("first", "last"), [(0, 40), (0, 16), (16, 32), (32, 40), (8, 24), (39, 40)])
def test_a_part_is_as_long_as_it_is_packed(inner: int, first: int, last: int) -> None:
    weights = RNG.normal(3, 6, (40, inner)).astype(np.int8)
    cold = costs.block(of_channels(weights, first, last), packed=True)
    costs.share(of_channels(weights, 0, 40))  # remembers the whole tensor
    content, packed_bytes = costs.block(of_channels(weights, first, last), packed=True)
    block = pack(weights[first:last], 3)
    shorter = len(block) < weights[first:last].size
    assert content.make() == b"params" + (block if shorter else weights[first:last].tobytes())
    assert (content.size_bytes, packed_bytes) == (len(content.make()), len(block) if shorter else 0)
    assert (cold[0].size_bytes, cold[1]) == (content.size_bytes, packed_bytes)


def test_not_packed_where_they_may_not_be_or_gain_nothing() -> None:
    narrow = np.full((2, 64), 3, np.int8)
    wide = RNG.integers(-128, 128, (2, 64)).astype(np.int8)
    assert costs.block(of_channels(narrow, 0, 2), packed=False)[1] == 0
    assert costs.block(of_channels(wide, 0, 2), packed=True)[1] == 0
    assert costs.block(Constants(b"abc"), packed=True)[0].make() == b"abc"


def test_share_is_that_of_the_packed_block() -> None:
    weights = RNG.normal(3, 6, (10, 64)).astype(np.int8)
    assert costs.share(Constants(b"", weights, 3)) == (len(pack(weights, 3)) - 4) / 640
    assert costs.share(Constants(b"", RNG.integers(-128, 128, 10).astype(np.int8), 3)) == 1


def test_tensors_are_forgotten_when_nobody_has_them() -> None:
    gc.collect()  # tensors of other tests that only cycles keep
    before = len(costs._LENGTHS)
    weights = RNG.normal(3, 6, (10, 64)).astype(np.int8)
    costs.share(Constants(b"", weights, 3))
    assert len(costs._LENGTHS) == before + 1
    del weights
    gc.collect()
    assert len(costs._LENGTHS) == before
