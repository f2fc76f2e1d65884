"""What each parameter does to each objective, from the points of a study: main effects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """The main effect of one parameter on one objective.

    means: the mean of the objective over the feasible points with each value of the parameter.
    share: the part of the objective's variance that those means explain, 0 to 1 (the correlation ratio). On a
           full grid it is the first-order Sobol index; points chosen by a search that looks for good ones, or
           left out by constraints, tilt it.
    swing: the largest of the means over the smallest.
    """

    parameter: str
    objective: str
    means: Mapping[Any, float]
    share: float
    swing: float


def sensitivity(
    parameter: str, objective: str, settings: Sequence[Any], values: NDArray[np.float64]
) -> Sensitivity:
    """The main effect, from the value of a parameter and of an objective in every feasible point."""
    levels = list(dict.fromkeys(settings))
    at = np.array([levels.index(each) for each in settings], np.int64)
    counts = np.bincount(at, minlength=len(levels))
    means = np.bincount(at, values, len(levels)) / np.maximum(counts, 1)
    spread = float(((values - values.mean()) ** 2).sum()) if len(values) else 0.0
    explained = float((counts * (means - values.mean()) ** 2).sum()) if len(values) else 0.0
    lowest, highest = (float(means.min()), float(means.max())) if levels else (0.0, 0.0)
    by_level = dict(zip(levels, means.tolist(), strict=True))
    order = sorted(by_level, key=lambda level: (isinstance(level, str), level))
    return Sensitivity(
        parameter,
        objective,
        {level: by_level[level] for level in order},
        explained / spread if spread else 0.0,
        highest / lowest if lowest > 0 else float("inf") if highest > 0 else 1.0,
    )
