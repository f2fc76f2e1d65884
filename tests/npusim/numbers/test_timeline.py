"""Busy cycles, the layer of each cycle, and rates over time, on timelines small enough to draw."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npusim.isa.hardware.units import Unit
from npusim.numbers import timeline

from .fake_run import CONVOLUTION, CROP, LAYERS, RELU, STEPS, Step, program, trace


def test_busy_cycles_are_unions_and_the_rest_is_stall() -> None:
    busy = timeline.busy_cycles(trace(), 200)
    #                                dma: 0..40 60..90 125..140 190..200; compute: 40..100 100..120 150..190
    assert busy == timeline.BusyCycles(200, {"dma": 95, "mac": 60, "vector": 20, "host": 40}, stall=80)


@pytest.mark.parametrize(
    ("intervals", "cycles"),
    [
        ([], 0),
        ([(3, 3)], 0),
        ([(0, 4), (4, 6)], 6),
        ([(5, 9), (0, 20), (1, 2)], 20),
        ([(0, 2), (8, 9), (1, 4)], 5),
    ],
)
def test_union_of_intervals(intervals: list[tuple[int, int]], cycles: int) -> None:
    started, ended = np.array(intervals, np.int64).reshape(-1, 2).T
    assert timeline.union_cycles(started, ended) == cycles


LAYER_CASES = [
    ("each kind of layer; stalls go to who comes next", STEPS, [100, 20, 20, 0, 60]),
    (
        "the MAC array has a cycle that it shares with the vector unit",
        (Step(Unit.MAC, 0, 0, 50), Step(Unit.VECTOR, 1, 40, 70)),
        [50, 20, 0, 0, 0],
    ),
    (
        "the copies of a computing layer do not advance it",
        (Step(Unit.DMA0, 1, 0, 50), Step(Unit.MAC, 0, 10, 30), Step(Unit.VECTOR, 1, 50, 60)),
        [30, 30, 0, 0, 0],
    ),
    (
        "what is left after the last one goes to it",
        (Step(Unit.MAC, 0, 0, 10), Step(Unit.VECTOR, 1, 10, 20), Step(Unit.DMA0, 0, 20, 90)),
        [10, 80, 0, 0, 0],
    ),
    ("no layer advances", (Step(Unit.DMA0, 1, 0, 30), Step(Unit.DMA1, 0, 5, 9)), [30, 0, 0, 0, 0]),
    ("copies side by side", (Step(Unit.DMA0, 2, 0, 30), Step(Unit.DMA1, 2, 5, 9)), [0, 0, 30, 0, 0]),
]


@pytest.mark.parametrize(("why", "steps", "cycles"), LAYER_CASES, ids=[case[0] for case in LAYER_CASES])
def test_cycles_of_layers(why: str, steps: tuple[Step, ...], cycles: list[int]) -> None:
    total = max(step.ended for step in steps)
    assert timeline.layer_cycles(program(steps=steps), trace(steps), total).tolist() == cycles


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(
            st.sampled_from([Unit.DMA0, Unit.DMA2, Unit.MAC, Unit.VECTOR, Unit.HOST, Unit.FRONT_END]),
            st.integers(0, 2),
            st.integers(0, 50),
            st.integers(0, 20),
        ),
        max_size=12,
    )
)
def test_cycles_of_layers_add_up_to_the_total(rows: list[tuple[Unit, int, int, int]]) -> None:
    steps = tuple(Step(unit, layer, start, start + length) for unit, layer, start, length in rows)
    total = max((step.ended for step in steps), default=0)
    cycles = timeline.layer_cycles(program((CONVOLUTION, RELU, CROP), steps), trace(steps), total)
    assert cycles.sum() == total
    assert (cycles >= 0).all()


def test_spans_of_layers() -> None:
    spans = timeline.layer_spans(program(), trace())
    assert spans == [(0, 100), (60, 120), (125, 140), None, (150, 200)]
    assert LAYERS[3].op == "reshape"


def test_amounts_are_spread_evenly() -> None:
    started, ended = np.array([0, 10, 40]), np.array([20, 30, 40])
    total = timeline.accumulate(started, ended, np.array([20.0, 60.0, 5.0]), 40)
    by = total.by(np.array([0, 10, 20, 30, 39, 40]))
    # 1 per cycle, then 1 + 3, then 3, then nothing; the one without duration in the last cycle
    assert by.tolist() == [0.0, 10.0, 50.0, 80.0, 80.0, 85.0]


@pytest.mark.parametrize(("window", "rate"), [(5, 8.0), (10, 8.0), (20, 6.0), (100, 1.2), (1000, 1.2)])
def test_peak_rate_slides(window: int, rate: float) -> None:
    started, ended = np.array([33, 43]), np.array([43, 53])
    total = timeline.accumulate(started, ended, np.array([80.0, 40.0]), 100)
    assert total.peak_rate(window, 100) == pytest.approx(rate)


def test_peak_rate_of_work_at_both_ends() -> None:
    """No window of 100 of these 150 cycles reaches the average of the run; across two runs every one has its share."""
    total = timeline.accumulate(np.array([0, 125]), np.array([25, 150]), np.array([25.0, 25.0]), 150)
    assert total.peak_rate(100, 150) == pytest.approx(0.5)
    assert total.peak_rate(100, 150) >= 50 / 150


@given(st.data())
def test_averages_slide_as_a_sum_over_cycles_says(data: st.DataObject) -> None:
    """Against sums over single cycles: the peak, the mean of each bin, and the highest in it."""
    run = data.draw(st.integers(2, 40))
    spans = data.draw(
        st.lists(st.tuples(st.integers(0, run - 1), st.integers(1, run), st.integers(0, 9)), max_size=6)
    )
    started = np.array([begin for begin, _, _ in spans], np.int64)
    ended = np.minimum(started + np.array([length for _, length, _ in spans], np.int64), run)
    amounts = np.array([amount for _, _, amount in spans], np.float64)
    total = timeline.accumulate(started, ended, amounts, run)
    window = 2 * data.draw(st.integers(1, run))
    edges = np.unique([0, data.draw(st.integers(0, run)), run])
    rates = np.diff(total.by(np.arange(run + 1)))
    around = np.array(
        [rates[np.arange(at - window // 2, at + window // 2) % run].mean() for at in range(run + 1)]
    )
    if window >= run:
        around[:] = rates.mean()
    assert total.peak_rate(window, run) == pytest.approx(around.max(), abs=1e-9)
    assert total.peak_rate(window, run) >= rates.mean() - 1e-9
    bins = list(pairwise(edges.tolist()))
    assert total.highest_rate(edges, window, run) == pytest.approx(
        [around[a : b + 1].max() for a, b in bins], abs=1e-9
    )
    middle = (around[1:] + around[:-1]) / 2
    assert total.moving_rate(edges, window, run) == pytest.approx(
        [middle[a:b].mean() for a, b in bins], abs=1e-9
    )
