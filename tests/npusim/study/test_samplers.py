"""Samplers: what they propose, and how much of the best a search finds."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from npusim.study.evaluate import Record, Workload
from npusim.study.explore import explore
from npusim.study.metrics import front, hypervolume
from npusim.study.samplers import random_points, sampler
from npusim.study.space import Space
from npusim.study.study import Study

from ...graphs import Sketch
from .spaces import sampling, space_file

SPACE = {
    "mac_array.rows": [4, 8, 16, 32],
    "mac_array.columns": [4, 8, 16],
    "scratchpad.size_kib": [16, 32, 64],
    "dram.bandwidth_gb_per_s": [0.5, 1, 2],
    "vector.lanes": [2, 4, 8],
    "technology.node_nm": [28, 16],
}


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """The whole grid of a small network: 648 points, half of them executed."""
    sketch = Sketch("network")
    wide = sketch.conv(sketch.input(1, 16, 16, 12), 24, (3, 3))
    network = sketch.graph([sketch.conv(sketch.logistic(wide), 16, (1, 1))])
    folder = tmp_path_factory.mktemp("grid") / "study"
    objectives = ["latency", "energy", "area"]
    return explore(
        [Workload("network", network, 1.0)],
        space_file(SPACE, objectives=objectives).space, sampling("grid"), folder,
    )  # fmt: skip


def searched(study: Study, kind: str, points: int, seed: int, space: Space | None = None) -> list[Record]:
    """What a sampler finds when the grid answers: the points that it spends, each once."""
    answers: Mapping[int, Record] = {record.point: record for record in study.records}
    told: dict[int, Record] = {}
    how = sampling(kind, points=points, seed=seed)
    for batch in sampler(how)(space or study.space, how, told):
        for point in batch:
            if len(told) < points:
                told[point] = answers[point]
        if len(told) == points:
            break
    return list(told.values())


@pytest.mark.slow
@pytest.mark.cases(1, each="kind")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["nsga2", "tpe"])
def test_a_fifth_of_the_points_finds_the_front(kind: str, seed: int, grid: Study) -> None:
    costs = grid.costs(grid.feasible)
    # Logarithms: a percent counts the same in every objective and wherever on the front.
    everything, worst = np.log(costs), np.log(costs).max(axis=0)
    found = searched(grid, kind, len(grid.records) // 5, seed)
    share = hypervolume(np.log(grid.costs(found)), worst) / hypervolume(everything, worst)
    assert share >= 0.95
    # A random fifth does not do it: the test is able to fail.
    by_chance = searched(grid, "random", len(grid.records) // 5, seed)
    assert hypervolume(np.log(grid.costs(by_chance)), worst) < share * hypervolume(everything, worst)
    on_front = {record.point for record in grid.front}
    hits = [len(on_front & {record.point for record in records}) for records in (found, by_chance)]
    assert hits[0] > hits[1]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["random", "nsga2", "tpe"])
def test_seeds(kind: str, grid: Study) -> None:
    one, again, other = (searched(grid, kind, 60, seed) for seed in (1, 1, 2))
    assert one == again
    assert one != other


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["nsga2", "tpe"])
def test_limits_and_constraints_lead_the_search(kind: str, grid: Study) -> None:
    fast = np.quantile([record.values["latency_ms"] for record in grid.records], 0.25)
    tables = {"limits": {"latency": f"<= {fast}"}, "constraints": ["mac_array.rows >= mac_array.columns"]}
    space = space_file(SPACE, objectives=["energy", "area"], **tables).space
    found = searched(grid, kind, 100, 0, space)
    assert all(space.admits(record.point) for record in found)
    kept = [record.values["latency_ms"] <= fast for record in found]
    everything = [
        record.values["latency_ms"] <= fast for record in grid.records if space.admits(record.point)
    ]
    assert np.mean(kept) > 1.3 * np.mean(everything) > 0


def test_random_points_are_all_points_once() -> None:
    space = space_file(SPACE, constraints=["mac_array.rows > 4"]).space
    points = list(random_points(space, 3))
    assert sorted(points) == list(space.numbers())
    assert points != sorted(points)


@pytest.mark.slow
def test_random_points_of_a_space_without_end() -> None:
    wide = {
        path: {"from": 1, "to": 9000, "step": 1}
        for path in ("clock_mhz", "dram.latency_ns", "host.clock_mhz")
    }
    space = space_file(wide, sampler={"kind": "random"}, constraints=["clock_mhz < 100"]).space
    points = [point for point, _ in zip(random_points(space, 0), range(20), strict=False)]
    assert len(set(points)) == 20
    assert all(space.point(point)["clock_mhz"] < 100 for point in points)
    nowhere = space_file(wide, sampler={"kind": "random"}, constraints=["clock_mhz < 0"]).space
    assert not list(random_points(nowhere, 0))


@pytest.mark.parametrize("seed", range(20))
def test_front_against_the_definition(seed: int) -> None:
    costs = np.random.default_rng(seed).integers(0, 6, (30, 1 + seed % 4)).astype(float)
    dominated = [any((other <= each).all() and (other < each).any() for other in costs) for each in costs]
    assert front(costs).tolist() == [not each for each in dominated]
    assert not front(np.empty((0, 2))).size


@pytest.mark.parametrize("seed", range(5))
def test_hypervolume_against_counted_cells(seed: int) -> None:
    costs = np.random.default_rng(seed).integers(0, 8, (12, 3)).astype(float)
    cells = np.stack(np.meshgrid(*[np.arange(7)] * 3, indexing="ij"), -1).reshape(-1, 3)
    covered = (costs[:, None, :] <= cells[None]).all(-1).any(0)
    assert hypervolume(costs, [7, 7, 7]) == covered.sum()
