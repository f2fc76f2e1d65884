"""Where the cycles of a MAC instruction go: hand-made cases on a 4 x 4 array, and the sum for any."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npusim.isa.engines.systolic.timing import (
    ArrayShape,
    Split,
    output_stationary,
    output_stationary_split,
    weight_stationary,
    weight_stationary_split,
)

ARRAY = ArrayShape(rows=4, columns=4, shadow=True, half_accumulators=64, ifm_port=4, weight_port=4, lanes=4)
ONE = ArrayShape(rows=1, columns=1, shadow=False, half_accumulators=64, ifm_port=1, weight_port=1, lanes=1)

# 10 pixels of 6 channels, dot products of 10: 600 MACs on 16 multipliers are 37.5 cycles. 3 folds of rows by 2 of
# columns stream 10 vectors each: 60. Loading the first weights takes 4, the pipeline 4 + 4 - 2 = 6.
WEIGHT_STATIONARY = [
    ("ports that feed the array", ARRAY, Split(38, 22, 4 + 6, 0, 10)),
    # 4 and 4 operands take two cycles each, the last 2 one; 4 rows of weights take 16, 12 more before the start.
    ("narrow ports", ARRAY._replace(weight_port=1, ifm_port=2), Split(38, 22, 10, 2 * (10 + 10) + 12, 10)),
    # While 10 vectors stream, 16 cycles of weights for the second fold; 10, 8, 8 and 6 for the others are hidden.
    ("weights slower than the stream", ARRAY._replace(weight_port=1), Split(38, 22, 10, 12 + 6, 10)),
    # 40 and 20 cycles of output: 4 + 30 + 6 + 40 + 20, and the array alone is done after 70.
    ("slow output stage", ARRAY._replace(lanes=1), Split(38, 22, 10, 0, 30)),
    # Each fold pays load and pipeline; array cycles leave one out.
    ("no shadow registers", ARRAY._replace(shadow=False), Split(38, 22, 6 * 10 - 1, 0, 1 + 10)),
    # Two blocks of 8 and 2 pixels: 5 folds of 2 vectors wait for the 4 cycles of the next weights.
    ("few accumulators", ARRAY._replace(half_accumulators=8), Split(38, 22, 10 + 5 * 2, 0, 2)),
]


@pytest.mark.parametrize(
    ("why", "shape", "split"), WEIGHT_STATIONARY, ids=[case[0] for case in WEIGHT_STATIONARY]
)
def test_weight_stationary_by_hand(why: str, shape: ArrayShape, split: Split) -> None:
    assert weight_stationary_split(shape, 10, 10, 6) == split
    assert sum(split) == weight_stationary(shape, 10, 10, 6).total


OUTPUT_STATIONARY = [
    # 3 blocks of pixels by 2 of channels stream 10 values each; the last block leaves 2 pixels.
    ("whole dot products", ARRAY, (10, 10, 6), Split(38, 22, 6, 0, 2)),
    # The sums of the group before take 4 cycles to leave, 2 more than a group streams. A half is taken for the 6 of
    # the pipeline and the 4 of its output, so every second group of 4 pixels waits 2 more.
    ("short dot products", ARRAY, (10, 2, 6), Split(8, 4, 5 * 2 + 6, 0, 2 * 2 + 2)),
    # Blocks of 4 pixels take two cycles for each value, that of 2 pixels one.
    ("narrow port", ARRAY._replace(ifm_port=2), (10, 10, 6), Split(38, 22, 6, 40, 2)),
    ("no shadow registers", ARRAY._replace(shadow=False), (10, 10, 6), Split(38, 22, 6 * 6 - 1, 0, 1 + 2)),
    # The formula's 3 * (1 + 1 + 5 - 2) - 1 is one less than the 15 MACs.
    ("a single multiplier", ONE, (3, 5, 1), Split(15, 0, 0, 0, 1)),
]


@pytest.mark.parametrize(
    ("why", "shape", "sizes", "split"), OUTPUT_STATIONARY, ids=[case[0] for case in OUTPUT_STATIONARY]
)
def test_output_stationary_by_hand(
    why: str, shape: ArrayShape, sizes: tuple[int, int, int], split: Split
) -> None:
    assert output_stationary_split(shape, *sizes) == split
    assert sum(split) == output_stationary(shape, *sizes).total


shapes = st.builds(
    ArrayShape,
    rows=st.integers(1, 40),
    columns=st.integers(1, 40),
    shadow=st.booleans(),
    half_accumulators=st.integers(1, 600),
    ifm_port=st.integers(1, 64),
    weight_port=st.integers(1, 64),
    lanes=st.integers(1, 64),
)
sizes = st.tuples(st.integers(1, 3000), st.integers(1, 1200), st.integers(1, 300))


@given(shapes, sizes)
def test_the_parts_add_up(shape: ArrayShape, sizes: tuple[int, int, int]) -> None:
    pixels, inner, channels = sizes
    for split, total in (
        (weight_stationary_split(shape, *sizes), weight_stationary(shape, *sizes).total),
        (output_stationary_split(shape, *sizes), output_stationary(shape, *sizes).total),
    ):
        assert sum(split) == total
        assert min(split) >= 0
        assert split.useful == -(-pixels * inner * channels // (shape.rows * shape.columns))
