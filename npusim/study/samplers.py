"""Samplers: the full grid, random points, or points that Optuna proposes from earlier results.

A sampler proposes points in batches and is told the records of one batch before it proposes the next. What it
proposes depends on its seed and those records alone: not on who computed them, when, or in how many sittings.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from npusim.study.evaluate import Record
from npusim.study.space import Axis, Space
from npusim.study.space_file import Sampling

if TYPE_CHECKING:
    from optuna.study import Study

Told = Mapping[int, Record]
"""Records of the points that were proposed, by number."""

Batches = Iterator[list[int]]
Sampler = Callable[[Space, Sampling, Told], Batches]
"""Gives batches of points; the mapping that it was given holds their records when the next batch is asked for.

A point may be proposed again: it is not computed again. The caller stops when it has enough.
"""

PERMUTED_SIZE = 1_000_000
TRIES_PER_POINT = 1000


def grid(space: Space, sampling: Sampling, records: Told) -> Batches:
    """Yield every point that satisfies the constraints."""
    yield list(space.numbers())


def random(space: Space, sampling: Sampling, records: Told) -> Batches:
    """Yield points drawn uniformly without replacement; a longer search continues the same sequence."""
    yield list(islice(random_points(space, sampling.seed), sampling.points))


def random_points(space: Space, seed: int) -> Iterator[int]:
    """Yield the points of a space in random order; for a huge space, until new ones are hard to find."""
    generator = np.random.default_rng(seed)
    if space.size <= PERMUTED_SIZE:
        yield from filter(space.admits, generator.permutation(space.size).tolist())
        return
    seen: set[int] = set()
    misses = 0
    sizes = [len(axis.values) for axis in space.axes]
    while misses < TRIES_PER_POINT:
        number = space.number(generator.integers(sizes).tolist())
        misses += 1
        if number not in seen and space.admits(number):
            seen.add(number)
            misses = 0
            yield number


BATCH = {"nsga2": 16, "tpe": 16}

# What Optuna is told about a point without a result: it is as far from feasible as can be, and its costs, which
# are not looked at then, must be finite.
_NO_RESULT_EXCESS = 1e6
_NO_RESULT_COST = 1e30
_EXCESS = "excess"


def search(space: Space, sampling: Sampling, records: Told) -> Batches:
    """Yield batches of points that Optuna proposes, the first one at random."""
    study = _study(space, sampling)
    distributions = {axis.path: _distribution(axis) for axis in space.axes}
    size = sampling.batch or BATCH[sampling.kind]
    for point in islice(random_points(space, sampling.seed), size):
        study.enqueue_trial(_indices(space, point))
    while True:
        trials = [study.ask(distributions) for _ in range(size)]
        points = [space.number([trial.params[axis.path] for axis in space.axes]) for trial in trials]
        yield [point for point in points if space.admits(point)]
        for trial, point in zip(trials, points, strict=True):
            costs, excess = _outcome(space, records.get(point))
            _set_excess(trial, excess)
            study.tell(trial, costs)


def _indices(space: Space, point: int) -> dict[str, int]:
    values = space.point(point)
    return {axis.path: axis.values.index(values[axis.path]) for axis in space.axes}


def _outcome(space: Space, record: Record | None) -> tuple[list[float], float]:
    """Return a point's costs by objective, and its excess over the limits; a point without a record is excluded."""
    if record is None or record.reason:
        return [_NO_RESULT_COST] * len(space.objectives), _NO_RESULT_EXCESS
    return space.costs(record.values), space.excess(record.values)


def _study(space: Space, sampling: Sampling) -> Study:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        study: Study = optuna.create_study(
            directions=["minimize"] * len(space.objectives), sampler=_sampler(optuna, space, sampling)
        )
    return study


def _sampler(optuna: Any, space: Space, sampling: Sampling) -> Any:
    # Optuna 5 keeps constraints in the trial; before, the sampler is given a function that reads them.
    limits = {} if hasattr(optuna.Trial, "set_constraint") else {"constraints_func": _constraints}
    if sampling.kind == "tpe":
        return optuna.samplers.TPESampler(seed=sampling.seed, multivariate=True, constant_liar=True, **limits)
    return optuna.samplers.NSGAIISampler(
        population_size=sampling.batch or BATCH["nsga2"],
        seed=sampling.seed,
        child_generation_strategy=_Children(space, sampling.seed),
        **limits,
    )


def _set_excess(trial: Any, excess: float) -> None:
    if hasattr(trial, "set_constraint"):
        trial.set_constraint(_EXCESS, excess)
    else:
        trial.set_user_attr(_EXCESS, excess)


def _constraints(trial: Any) -> tuple[float, ...]:
    attributes: Mapping[str, float] = trial.user_attrs
    return (attributes[_EXCESS],)


def _distribution(axis: Axis) -> Any:
    """Return Optuna's distribution of an axis: ordered for numbers, categorical for names."""
    from optuna.distributions import CategoricalDistribution, IntDistribution

    count = len(axis.values)
    return IntDistribution(0, count - 1) if axis.ordered else CategoricalDistribution(range(count))


class _Children:
    """The crossover and mutation of NSGA-II for parameters with short lists of values.

    Each value comes from either parent. One in `count` values changes, to a neighbour or to any other value. A child
    that is excluded or known is drawn again, because in a finite space most children are known.
    """

    TRIES = 100

    def __init__(self, space: Space, seed: int) -> None:
        self._space = space
        self._random = np.random.default_rng(seed)
        self._made: set[int] = set()

    def __call__(self, study: Any, search_space: Mapping[str, Any], parents: Sequence[Any]) -> dict[str, int]:
        """Return the indices of a new point's values. parents: the best first."""
        known = {trial.number: self._indices(trial) for trial in parents}
        self._made.update(self._space.number(setting) for setting in known.values())
        ranked = list(known.values())
        for _ in range(self.TRIES):
            child = self._mutated(self._crossed(self._parent(ranked), self._parent(ranked)))
            point = self._space.number(child)
            if point not in self._made and self._space.admits(point):
                break
        self._made.add(point)
        named = zip(self._space.axes, child, strict=True)
        return {axis.path: index for axis, index in named if axis.path in search_space}

    def _indices(self, trial: Any) -> list[int]:
        return [int(trial.params[axis.path]) for axis in self._space.axes]

    def _parent(self, ranked: Sequence[list[int]]) -> list[int]:
        """Return the better of two random parents."""
        return ranked[int(self._random.integers(len(ranked), size=2).min())]

    def _crossed(self, first: list[int], second: list[int]) -> list[int]:
        choice = self._random.integers(2, size=len(first)).tolist()
        return [two if chosen else one for one, two, chosen in zip(first, second, choice, strict=True)]

    def _mutated(self, child: list[int]) -> list[int]:
        count = len(child)
        changed = self._random.random(count) < 1 / count
        return [
            self._changed(axis, index) if change else index
            for axis, index, change in zip(self._space.axes, child, changed.tolist(), strict=True)
        ]

    def _changed(self, axis: Axis, index: int) -> int:
        last = len(axis.values) - 1
        if axis.ordered and self._random.random() < 0.5:
            return int(np.clip(index + self._random.choice((-1, 1)), 0, last))
        return int(self._random.integers(last + 1))


def sampler(sampling: Sampling) -> Sampler:
    """Return the sampler of a kind."""
    if sampling.kind == "grid":
        return grid
    if sampling.kind == "random":
        return random
    return search


def proposers(sampling: Sampling) -> dict[str, str]:
    """Return what a sampler's proposals depend on besides its seed: the version of Optuna."""
    if sampling.kind in ("grid", "random"):
        return {}
    return {"optuna": version("optuna")}
