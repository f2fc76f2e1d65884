"""What matters: shares of a fitted model, against exact sums over small grids, and what is said of few points."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from npusim.reports.study.terminal import summary
from npusim.study.evaluate import Record
from npusim.study.response import Axis, responses
from npusim.study.sensitivity import (
    Sensitivity,
    most_by_objective,
    ranked,
    sensitivities,
    without_effect,
)
from npusim.study.space import Space

from .spaces import space_file

GRID = [Axis(4, True), Axis(3, False), Axis(5, True)]


def grid() -> NDArray[np.int64]:
    """All places of `GRID`."""
    return np.array(list(product(*(range(axis.levels) for axis in GRID))))


def shapley(values: NDArray[np.float64]) -> tuple[list[float], list[float]]:
    """Parts of the variance on a full grid without triples, from plain means: alone, and Shapley effects."""
    total, count = values.var(), values.ndim
    axes = set(range(count))
    means = [values.mean(axis=tuple(axes - {at})) for at in range(count)]
    alone = [float(mean.var() / total) for mean in means]
    found = list(alone)
    for i, j in combinations(range(count), 2):
        pair = values.mean(axis=tuple(axes - {i, j})) - means[i][:, None] - means[j][None, :]
        for at in (i, j):
            found[at] += float(pair.var() / total) / 2
    return alone, found


def test_on_a_full_grid_shares_are_exact() -> None:
    x, y, z = grid().T
    # Negative: no logarithm is taken, so the sums below are those of the model.
    values = -(10 + x + np.array([0.0, 2.0, 1.0])[y] + 0.3 * x * z)
    (found,) = responses(GRID, grid(), values[:, None])
    alone, shares = shapley(values.reshape(4, 3, 5))
    assert found.explained == pytest.approx(1, abs=1e-4)
    assert found.shares.tolist() == pytest.approx(shares, abs=1e-4)
    assert found.alone.tolist() == pytest.approx(alone, abs=1e-4)
    assert found.means[0].tolist() == pytest.approx(values.reshape(4, 3, 5).mean(axis=(1, 2)), abs=1e-3)


def test_a_positive_objective_is_seen_in_ratios() -> None:
    x, y, _ = grid().T
    (found,) = responses(GRID, grid(), (3.0 * 2.0**x * np.array([1, 4, 2])[y])[:, None])
    assert (found.means[0][1:] / found.means[0][:-1]).tolist() == pytest.approx([2, 2, 2], rel=1e-3)
    assert (found.means[1] / found.means[1][0]).tolist() == pytest.approx([1, 4, 2], rel=1e-3)
    assert found.shares[2] == pytest.approx(0, abs=1e-6)


def test_points_that_a_search_preferred_do_not_tilt_shares() -> None:
    # x and z are tried together nearly always: means over the points would give z the effect of x.
    places = grid()
    x, _, z = places.T
    kept = (np.abs(x - z * 3 / 4) < 0.8) | (np.arange(len(places)) % 5 == 0)
    values = (2.0**x)[:, None]
    places, values = places[kept], values[kept]
    naive = [values[places[:, 2] == level].mean() for level in range(5)]
    assert max(naive) / min(naive) > 3
    (found,) = responses(GRID, places, values)
    assert found.shares[0] > 0.97
    assert found.shares[2] < 0.02


@pytest.mark.parametrize("seed", range(6))
def test_shares_of_anything_are_between_nothing_and_all(seed: int) -> None:
    generator = np.random.default_rng(seed)
    points = int(generator.integers(10, 40))
    places = grid()[generator.permutation(60)[:points]]
    noise = np.exp(generator.normal(0, 3, (points, 2)))
    for found in responses(GRID, places, noise):
        assert 0 <= found.explained <= 1
        assert (found.shares >= 0).all()
        assert found.shares.sum() == pytest.approx(found.explained)
        assert (found.alone <= found.shares + 1e-12).all()


def test_what_is_constant_has_no_shares() -> None:
    (found,) = responses(GRID, grid(), np.full((60, 1), 0.1 + 0.2))
    assert (found.explained, found.shares.tolist()) == (0.0, [0, 0, 0])
    assert found.means[0].tolist() == pytest.approx([0.3] * 4)


def test_many_parameters_and_values_are_fitted_in_little_room() -> None:
    generator = np.random.default_rng(0)
    axes = [Axis(1000, True), *(Axis(5, False) for _ in range(19))]
    places = np.stack([generator.integers(0, axis.levels, 400) for axis in axes], axis=1)
    values = np.exp(places[:, 0] / 300 + (places[:, 3] == 2))
    (found,) = responses(axes, places, values[:, None])
    assert np.argsort(-found.shares)[:2].tolist() == [0, 3]
    assert found.explained > 0.8


PARAMETERS = {
    "mac_array.rows": [32, 8, 16],
    "vector.lanes": [4, 8, 16],
    "clock_mhz": [100, 200, 300, 400],
}
SPACE = space_file(PARAMETERS, objectives=["latency", "energy"]).space


def records(value: Callable[[Mapping[str, Any]], float | None], space: Space = SPACE) -> list[Record]:
    """A record per point; without a result where there is no value."""
    found = []
    for number in range(space.size):
        latency = value(space.point(number))
        values = {"latency_ms": latency or 0.0, "energy_uj.total": 1.0}
        found.append(Record(number, values) if latency else Record(number, reason="does not fit"))
    return found


def latency_of(found: list[Sensitivity], parameter: str) -> Sensitivity:
    """One effect on latency."""
    return next(each for each in found if (each.parameter, each.objective) == (parameter, "latency_ms"))


def test_no_mean_of_fewer_than_five_points() -> None:
    # 16 rows have a result at one clock only: three points, which are slow. They say nothing about 16 rows.
    found = sensitivities(
        SPACE,
        records(
            lambda point: (
                None
                if point["mac_array.rows"] == 16 and point["clock_mhz"] > 100
                else 1e3 / point["clock_mhz"]
            )
        ),
    )
    rows = latency_of(found, "mac_array.rows")
    assert [each.values for each in rows.levels] == [(8,), (16,), (32,)]
    assert [(each.points, each.without) for each in rows.levels] == [(12, 0), (3, 9), (12, 0)]
    assert list(rows.means) == [8, 32]
    assert rows.levels[1].mean is rows.levels[1].low is None
    assert rows.share == pytest.approx(0, abs=0.01)
    assert rows.swing == pytest.approx(1, abs=0.02)
    clock = latency_of(found, "clock_mhz")
    assert clock.share > 0.98
    assert clock.swing == pytest.approx(4, rel=0.05)
    assert ranked(found)[0][0] is clock


def test_fewer_than_ten_points_say_nothing() -> None:
    some = records(lambda point: float(point["clock_mhz"]))
    assert sensitivities(SPACE, some[:9]) == []
    assert sensitivities(SPACE, some[:10])


def test_many_numbers_are_told_in_groups() -> None:
    space = space_file({"clock_mhz": {"from": 100, "to": 1000, "step": 10}}, objectives=["latency"]).space
    found = sensitivities(space, records(lambda point: 1e3 / point["clock_mhz"], space))
    (clock,) = found
    assert len(clock.levels) == 12
    assert sum(each.points for each in clock.levels) == 91
    assert [value for each in clock.levels for value in each.values] == list(space.axes[0].values)
    means = list(clock.means.values())
    assert means == sorted(means, reverse=True)


def test_the_summary_says_what_it_rests_on(tmp_path: Any) -> None:
    from npusim.study.study import Study, StudyModel

    made = records(lambda point: None if point["clock_mhz"] == 400 else 1e3 / point["clock_mhz"])
    study = Study(tmp_path, SPACE, (StudyModel("one", "", 1.0),), {"kind": "grid"}, "", tuple(made))
    text = summary(study)
    assert (
        "From a model of all 27 points with a result, beyond limits or not; 9 points without a result" in text
    )
    assert "clock_mhz" in text.partition("What matters")[2].splitlines()[2]
    few = summary(replace(study, records=tuple(made[:4])))
    assert (
        "What matters: 3 points with a result: too few to tell, it takes 10; 1 point without a result is"
        in few
    )


def test_what_matters_most_is_told_by_objective_without_closed_forms() -> None:
    space = space_file(objectives=["latency", "energy", "area"]).space

    def values(point: Mapping[str, Any]) -> dict[str, float]:
        # The scratchpad decides the area and nothing else; rows the energy; the clock the latency.
        return {
            "latency_ms": 1e3 / point["clock_mhz"],
            "energy_uj.total": 1.0 + point["mac_array.rows"],
            "area_mm2.total": float(point["scratchpad.size_kib"]),
        }

    found = sensitivities(
        space, [Record(number, values(space.point(number))) for number in range(space.size)]
    )
    assert [(each.objective, each.parameter) for each in most_by_objective(found)] == [
        ("latency_ms", "clock_mhz"),
        ("energy_uj.total", "mac_array.rows"),
    ]
    assert [effects[0].parameter for effects in ranked(found)][:2] == ["clock_mhz", "mac_array.rows"]


def test_a_parameter_without_effect_is_named() -> None:
    made = [
        Record(number, {"latency_ms": float(SPACE.point(number)["clock_mhz"])})
        for number in range(SPACE.size)
    ]
    assert without_effect(SPACE, made) == [axis.path for axis in SPACE.axes if axis.path != "clock_mhz"]
    assert without_effect(SPACE, made[:1]) == [], "a single point tells nothing"
