"""The queue of single inferences: closed forms to the cycle, the NN HAL's deadlines, preemption, and what adds up."""

from __future__ import annotations

from itertools import pairwise
from math import fsum

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npusim.serving.arrivals import at_rates, with_periods
from npusim.serving.inferences import Rules
from npusim.serving.log import Outcome
from npusim.serving.served import Serving, spread, spread_of_counts
from npusim.serving.steps import PREEMPTION, Step, Stops

from ...examples import examples
from .servings import queued, requests, step

NONE, BUSY, LATE, NEVER = Outcome


@pytest.mark.parametrize(("period", "takes"), [(100, 70), (100, 100), (100, 130)])
def test_periodic_arrivals_wait_as_the_closed_form_says(period: int, takes: int) -> None:
    """Request i of a server that takes longer than the period waits i times the difference."""
    result = queued(requests([each * period for each in range(50)]), [takes])
    waits = [start - each * period for each, start in enumerate(result.log.start)]
    assert waits == [each * max(takes - period, 0) for each in range(50)]
    assert [end - start for start, end in zip(result.log.start, result.log.end, strict=True)] == [takes] * 50
    assert result.utilization == 50 * takes / result.cycles


@pytest.mark.slow
@pytest.mark.parametrize("load", [0.5, 0.8])
def test_poisson_arrivals_wait_as_m_d_1(load: float) -> None:
    """Pollaczek and Khinchine: with a fixed time D and load r the mean wait is D r / (2 (1 - r))."""
    takes = 10_000
    asked = at_rates([load * 1e9 / takes], ["model0"], 1000.0, seed=3, count=100_000, duration_s=0.0)
    result = queued(asked, [takes])
    expected = takes * load / (2 * (1 - load))
    assert result.total.queue_ms.mean * 1e6 == pytest.approx(expected, rel=0.02)


def test_more_arrivals_take_more_time_but_not_another_result() -> None:
    asked = at_rates([1000.0, 500.0], ["a", "b"], 1000.0, seed=1, count=300, duration_s=0.0)
    assert np.all(np.diff(asked.arrival) >= 0)
    again = at_rates([1000.0, 500.0], ["a", "b"], 1000.0, seed=1, count=300, duration_s=0.0)
    other = at_rates([1000.0, 500.0], ["a", "b"], 1000.0, seed=2, count=300, duration_s=0.0)
    assert queued(asked, [100, 200]).to_dict() == queued(again, [100, 200]).to_dict()
    assert asked.arrival.tolist() != other.arrival.tolist()
    assert len(with_periods([1.0], ["a"], 1000.0, 0, 0.01)) == 10
    # 0.07 / 0.01 is more than 7, but an eighth would come at the end.
    assert len(with_periods([10.0], ["a"], 1000.0, 0, 0.07)) == 7


def test_deadlines_are_those_of_the_nn_hal() -> None:
    """A model takes 100 cycles, a request comes every 60: the second ends after 140, the next would after 180."""
    asked = requests([0, 60, 120, 180])
    assert list(queued(asked, [100], Rules(deadline_ms=[139e-6])).log.outcome) == [NONE, LATE, NONE, LATE]
    assert list(queued(asked, [100], Rules(deadline_ms=[140e-6])).log.outcome) == [NONE, NONE, LATE, NONE]
    assert list(queued(asked, [100], Rules(deadline_ms=[99e-6])).log.outcome) == [NEVER] * 4
    assert queued(asked, [100], Rules(deadline_ms=[100e-6])).total.missed_deadlines == 0.5


def test_a_full_queue_is_busy() -> None:
    """Of five at once one runs; a queue for two takes the next two."""
    asked = requests([5, 5, 5, 5, 5, 105])
    assert list(queued(asked, [100], Rules(queue=2)).log.outcome) == [NONE, NONE, NONE, BUSY, BUSY, NONE]
    assert list(queued(asked, [100], Rules(queue=0)).log.outcome) == [NONE, BUSY, BUSY, BUSY, BUSY, NONE]


def test_the_higher_priority_goes_first() -> None:
    asked = requests([0, 10, 20, 30], [0, 0, 1, 0])
    assert list(queued(asked, [100, 50], Rules(priority=[0, 1])).log.end) == [100, 250, 150, 350]
    assert list(queued(asked, [100, 50], Rules(priority=[1, 0])).log.end) == [100, 200, 350, 300]


def moves(name: str, *each: tuple[int, float]) -> tuple[Step, ...]:
    return tuple(step(cycles, PREEMPTION, energy_uj, name) for cycles, energy_uj in each)


STOPS = Stops(
    (40, 70, 100),
    (4.0, 7.0, 10.0),
    moves("store", (5, 0.25), (6, 0.125), (0, 0.0)),
    moves("load", (7, 0.25), (8, 0.125), (0, 0.0)),
)
"""Layers of 100 cycles end at 40 and 70, where 5 and 6 cycles store the scratchpad, and 7 and 8 load it."""


def test_a_preemption_comes_at_the_end_of_a_layer_and_moves_the_scratchpad() -> None:
    asked, rules = requests([0, 41], [0, 1]), Rules(priority=[0, 1], preempt=True)
    result = queued(asked, [100, 50], rules, [STOPS, STOPS])
    # The layer ends at 70, its scratchpad is stored until 76; 50 cycles of the other, 8 to load, and the last layer.
    assert list(result.log.end) == [76 + 50 + 8 + 30, 76 + 50]
    assert list(result.log.stops) == [1, 0]
    assert list(result.log.energy_uj) == [10.25, 10.0]
    assert result.log.moved_uj == 0.25
    # In the last layer it is too late.
    assert list(queued(requests([0, 71], [0, 1]), [100, 50], rules, [STOPS, STOPS]).log.end) == [100, 150]
    # An equal priority does not preempt.
    assert list(queued(asked, [100, 50], Rules(priority=[1, 1]), [STOPS, STOPS]).log.end) == [100, 150]


def test_who_preempts_needs_no_place_in_the_queue() -> None:
    """A queue for nobody: the second preempts the first, which waits; the third and the fourth are refused."""
    rules = Rules(priority=[0, 1], queue=0, preempt=True)
    result = queued(requests([0, 41, 42, 80], [0, 1, 1, 0]), [100, 50], rules, [STOPS, STOPS])
    assert list(result.log.outcome) == [NONE, NONE, BUSY, BUSY]
    assert list(result.log.end) == [76 + 50 + 8 + 30, 76 + 50, -1, -1]


def test_what_is_preempted_too_long_misses_its_deadline() -> None:
    rules = Rules(priority=[0, 1], preempt=True, deadline_ms=[150e-6, 1.0])
    result = queued(requests([0, 41], [0, 1]), [100, 50], rules, [STOPS, STOPS])
    assert list(result.log.outcome) == [LATE, NONE]
    # Its scratchpad was stored, and is never loaded again.
    assert result.log.energy_uj[0] == 7.125
    assert result.log.moved_uj == 0.125
    # 70 cycles of the one that missed, all of the other, and the store; the steps' energy is that of the layers.
    assert [(phase.name, phase.runs, phase.cycles, phase.busy["mac"]) for phase in result.phases] == [
        ("inference", 1, 70 + 50, 70 + 50),
        ("preemption", 1, 6, 6),
    ]
    assert [phase.energy_uj for phase in result.phases] == [7.0 + 10.0, 0.125]


def test_who_would_be_too_late_preempts_nobody() -> None:
    """Behind the layer that ends at 70, and the store until 76, it would end at 126, 85 cycles after it came."""
    asked = requests([0, 41], [0, 1])
    for deadline, outcome, end in ((85e-6, NONE, 76 + 50 + 8 + 30), (84e-6, LATE, 100)):
        rules = Rules(priority=[0, 1], preempt=True, deadline_ms=[1.0, deadline])
        result = queued(asked, [100, 50], rules, [STOPS, STOPS])
        assert (list(result.log.outcome), result.log.end[0]) == ([NONE, outcome], end)


def test_periodic_requests_come_once_in_a_period() -> None:
    """The time is counted up to the request that would come next, whatever the number; 10 ms are 10,000,000 cycles."""
    for count in (1, 2, 1000):
        asked = with_periods([10.0], ["a"], 1000.0, count, 0.0)
        result = queued(asked, [2_000_000])
        assert result.requests_per_s == 100.0
        assert result.utilization == 0.2
        # Each of 1 uJ, and 8 ms at 2 mW.
        assert result.mean_mw == pytest.approx((1.0 + 16.0) / 10.0)
        assert len(asked) == count
    # A last one that ends later ends the time, and a duration is all of it: 4 requests until 35 ms, one at 20 ms.
    assert queued(with_periods([10.0], ["a"], 1000.0, 2, 0.0), [11_000_000]).end == 22_000_000
    assert queued(with_periods([10.0], ["a"], 1000.0, 0, 0.035), [10]).cycles == 35_000_000
    both = with_periods([10.0, 20.0], ["a", "b"], 1000.0, 3, 0.0)
    assert (both.arrival.tolist(), both.window) == ([0, 0, 10_000_000], (0, 20_000_000))
    # At random: as many intervals as requests, and those that a larger number begins with; a duration from 0.
    asked, more = (at_rates([50.0], ["a"], 1000.0, 1, count, 0.0) for count in (5, 6))
    assert asked.window == (int(more.arrival[0]), int(more.arrival[5]))
    assert at_rates([50.0], ["a"], 1000.0, 1, 0, 0.5).window == (0, 500_000_000)


def number_in_system(result: Serving) -> int:
    """The integral of the number of answered requests in the system, by a walk over all arrivals and ends."""
    done = [each == NONE for each in result.log.outcome]
    moments = [(int(at), 1) for at, mine in zip(result.requests.arrival, done, strict=True) if mine]
    moments += [(end, -1) for end, mine in zip(result.log.end, done, strict=True) if mine]
    area = number = before = 0
    for at, change in sorted(moments):
        area += number * (at - before)
        number, before = number + change, at
    assert number == 0
    return area


@examples(60)
@given(
    st.lists(st.tuples(st.integers(0, 90), st.integers(0, 1)), min_size=1, max_size=40),
    st.booleans(),
    st.sampled_from([None, 0, 3]),
    st.sampled_from([(), (300e-6, 180e-6)]),
)
def test_requests_add_up(
    gaps: list[tuple[int, int]], preempt: bool, queue: int | None, deadline: tuple[float, ...]
) -> None:
    arrival = np.cumsum([gap for gap, _ in gaps]).tolist()
    asked = requests([*arrival, arrival[-1]], [*(model for _, model in gaps), 1])
    rules = Rules(priority=[0, 1], preempt=preempt, queue=queue, deadline_ms=deadline)
    result = queued(
        asked,
        [100, 60],
        rules,
        [STOPS, Stops((60,), (1.0,), moves("store", (0, 0.0)), moves("load", (0, 0.0)))],
    )
    # Little's law, exactly: mean number in the system x time = sum of the times in it.
    assert result.mean_in_system * result.cycles == pytest.approx(number_in_system(result), rel=1e-12)
    assert sum(result.total.outcomes.values()) == len(asked)
    assert result.total.energy_uj == pytest.approx(
        sum(each.energy_uj for each in result.by_tenant) or result.total.energy_uj
    )
    assert result.energy_uj == pytest.approx(
        fsum(result.log.energy_uj) + 2e-6 * (result.cycles - result.busy_cycles)
    )
    runs = sorted(zip(result.log.run_begin, result.log.run_end, strict=True))
    assert all(end <= begin for (_, end), (begin, _) in pairwise(runs)), "one program at a time"
    # Parts of inferences that were preempted for too long, and the moves of the scratchpad, are in the phases.
    assert result.busy_cycles == sum(phase.cycles for phase in result.phases)
    assert result.busy_cycles == sum(phase.busy["mac"] for phase in result.phases), (
        "of these steps always busy"
    )
    assert sum(phase.energy_uj for phase in result.phases) == pytest.approx(fsum(result.log.energy_uj))
    for outcome, start, end in zip(result.log.outcome, result.log.start, result.log.end, strict=True):
        assert (outcome == NONE) == (end >= 0)
        assert outcome != BUSY or start < 0


def test_a_battery_gives_the_mean_power() -> None:
    """Two requests of 1 uJ each, 1,000 cycles of 1 ns each; from 1,000 to 9,000 the machine sleeps at 0.5 mW."""
    served = queued(requests([0, 9_000]), [1_000]).with_power(0.5, 2.0)
    assert served.utilization == 2_000 / 10_000
    assert served.idle_uj == pytest.approx(0.5 * 8_000e-6)  # mW x ms
    assert served.mean_mw == pytest.approx((2 * 1.0 + 0.004) / 10_000e-6)
    assert served.to_dict()["battery_wh"] == 2.0
    assert served.battery_h == pytest.approx(2.0 / (served.mean_mw * 1e-3))
    assert queued(requests([0]), [1_000]).battery_h is None


def test_percentiles_are_values() -> None:
    assert spread(np.array([5, 1, 3, 2, 4])) == (3, 3, 5, 5, 5, 5)
    assert spread(np.arange(1, 101)) == (50.5, 50, 90, 95, 99, 100)
    assert (
        spread_of_counts({7: 98, 1: 1, 9: 1}, 2)
        == spread(np.array([7] * 98 + [1, 9]), 2)
        == (13.92, *[14] * 4, 18)
    )
    assert spread(np.empty(0)) == (0,) * 6
