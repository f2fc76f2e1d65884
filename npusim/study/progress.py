"""The progress of a search: the best values after each number of points, in the order of the proposals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base.errors import NpusimError
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.study.evaluate import Record
from npusim.study.explore import FRUITLESS_BATCHES
from npusim.study.metrics import Costs
from npusim.study.samplers import proposers, sampler
from npusim.study.space_file import Sampling

if TYPE_CHECKING:
    from npusim.study.study import Study

SAMPLES = 1 << 14
MARGIN = 0.1


@dataclass(frozen=True, slots=True)
class Step:
    """The best values after the first `points` points.

    share: hypervolume reached, as a share of the final one.
    best:  the best value of each objective so far.
    """

    points: int
    share: float
    best: tuple[float, ...]


def progress(study: Study) -> tuple[Step, ...]:
    """Return the steps at which the front grew, and the last step.

    There are none for a grid, whose order has no meaning, and if the order is unknown: for an unfinished study, or with
    another Optuna than it was made with.

    The hypervolume is that between the front and a corner 10 % of its extent beyond its worst values. It is computed
    over logarithms if all values are positive, so that halving counts the same at both ends of a front. It is estimated
    from 16384 samples of that box (a standard error of less than 0.4 % of the box), and never decreases.
    """
    records = _in_order(study) if study.front else []
    if not records:
        return ()
    scaled = _scale(study)
    front = scaled(study.costs(study.front))
    ideal, worst = front.min(axis=0), front.max(axis=0)
    reach = np.where(worst > ideal, worst - ideal, np.maximum(np.abs(worst), 1e-12))
    open_ = ideal + np.random.default_rng(0).random((SAMPLES, front.shape[1])) * reach * (1 + MARGIN)
    results, covered, steps = 0, 0, []
    best = np.full(front.shape[1], np.inf)
    for record in records:
        results += 1
        if not study.within_limits(record):
            continue
        costs = scaled(study.costs([record]))[0]
        kept = ~(costs <= open_).all(axis=1)
        found_best = np.minimum(best, study.costs([record])[0])
        better = (found_best < best).any()
        best = found_best
        if better or not kept.all():
            covered += int((~kept).sum())
            open_ = open_[kept]
            steps.append((results, covered, best))
    steps.append((results, covered, best))
    return tuple(Step(at, share / max(covered, 1), _turned(study, best)) for at, share, best in steps)


def _scale(study: Study) -> Callable[[Costs], Costs]:
    """Return the logarithms of costs if all are positive, else the costs; maximised values keep their sign."""
    if any(record.values[objective.key] <= 0 for record in study.feasible for objective in study.objectives):
        return lambda plain: plain
    return lambda plain: np.sign(plain) * np.log(np.abs(plain))


def _turned(study: Study, costs: NDArray[np.float64]) -> tuple[float, ...]:
    """Convert costs back to values; maximised ones change their sign."""
    return tuple(
        objective.cost(cost) for objective, cost in zip(study.objectives, costs.tolist(), strict=True)
    )


def _in_order(study: Study) -> list[Record]:
    """Return the records in the order of the sampler's proposals.

    The sampler is deterministic, so it repeats its proposals when it is told the same results.
    """
    plain = {key: study.sampler[key] for key in ("kind", "seed", "batch") if key in study.sampler}
    known = {record.point: record for record in study.records}
    sampling = Sampling(points=max(len(known), 1), **plain)
    try:
        if sampling.kind == "grid" or not proposers(sampling).items() <= dict(study.sampler).items():
            return []
        ordered = _replayed(study, sampling, known)
    except NpusimError:  # Optuna is not installed
        return []
    return list(ordered.values()) if len(ordered) == len(known) else []


def _replayed(study: Study, sampling: Sampling, known: Mapping[int, Record]) -> dict[int, Record]:
    replayed: dict[int, Record] = {}
    fruitless = 0
    for batch in sampler(sampling)(study.space, sampling, replayed):
        fresh = [point for point in dict.fromkeys(batch) if point not in replayed and point in known]
        replayed.update((point, known[point]) for point in fresh)
        fruitless = 0 if fresh else fruitless + 1
        if len(replayed) == len(known) or fruitless == FRUITLESS_BATCHES:
            break
    return replayed
