"""The numbers that may be objectives or limits: every number of the JSON of a run, by its dotted key.

A key of a table with a `total` means the total: "energy_uj" is "energy_uj.total". `SHORT` has short names of the most
frequent keys.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base.errors import NpusimError, nearest
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.numbers.area import Area, area
from npusim.numbers.energy import Energy
from npusim.numbers.performance import PerformanceInfo
from npusim.numbers.run import DramBytes, Power, RunResult, Tops
from npusim.numbers.timeline import BUSY_UNITS

Costs = NDArray[np.float64]
"""Costs of points, float64 [points, objectives]; less is better."""


def front(costs: Costs) -> NDArray[np.bool_]:
    """Return the points that no other point dominates. Points with equal costs are on the front together."""
    count = len(costs)
    kept = np.zeros(count, bool)
    # In lexicographic order nobody is dominated by a later point, and only points of the front need comparing.
    best = np.empty_like(costs)
    size = 0
    for at in np.lexsort(costs.T[::-1]) if count else ():
        point = costs[at]
        ahead = best[:size]
        dominated = ((ahead <= point).all(axis=1) & (ahead < point).any(axis=1)).any()
        if not dominated:
            best[size] = point
            size += 1
            kept[at] = True
    return kept


def hypervolume(costs: Costs, reference: Sequence[float]) -> float:
    """Return the hypervolume between the points and a reference that is worse in all objectives; more is better.

    It is computed exactly, by slices along the last objective. That is fast enough for a few hundred points in up to
    four objectives.
    """
    inside = costs[(costs < np.asarray(reference)).all(axis=1)]
    if not len(inside):
        return 0.0
    return _volume(inside[front(inside)], np.asarray(reference, np.float64))


def _volume(points: Costs, reference: NDArray[np.float64]) -> float:
    if points.shape[1] == 1:
        return float(reference[0] - points[:, 0].min())
    ordered = points[np.argsort(points[:, -1], kind="stable")]
    heights = np.append(ordered[1:, -1], reference[-1]) - ordered[:, -1]
    total = 0.0
    for i, height in enumerate(heights.tolist()):
        if height > 0:
            slab = ordered[: i + 1, :-1]
            total += height * _volume(slab[front(slab)], reference[:-1])
    return total


@dataclass(frozen=True, slots=True)
class Metric:
    """A top-level key of the JSON: the function that reads it, and the keys below it (None if open, as for layers)."""

    name: str
    get: Callable[[RunResult], Any]
    below: tuple[str, ...] | None = ()


def _parts(table: type, *more: str) -> tuple[str, ...]:
    return (*(field.name for field in fields(table)), *more)


METRICS: tuple[Metric, ...] = (
    Metric("latency_ms", lambda run: run.latency_ms),
    Metric("inferences_per_s", lambda run: run.inferences_per_s),
    Metric("cycles", lambda run: vars(run.cycles), ("total", *BUSY_UNITS, "stall")),
    Metric("energy_uj", lambda run: vars(run.energy_uj), _parts(Energy, "total")),
    Metric("edp_uj_ms", lambda run: float(run.energy_uj) * run.latency_ms),
    Metric("power_mw", lambda run: run.power_mw, _parts(Power, "peak")),
    Metric("area_mm2", lambda run: area(run.hardware), _parts(Area, "total")),
    Metric("tops", lambda run: run.tops, _parts(Tops)),
    Metric("macs", lambda run: run.macs),
    Metric("mac_utilization", lambda run: run.mac_utilization),
    Metric("lower_bound_cycles", lambda run: run.lower_bound.cycles),
    Metric("lost_cycles", lambda run: run.lost_cycles, None),
    Metric("dram_bytes", lambda run: run.dram_bytes, _parts(DramBytes)),
    Metric("memory_bytes", lambda run: run.memory_bytes, None),
    Metric("scratchpad_peak_bytes", lambda run: run.scratchpad_peak_bytes),
    Metric("instructions", lambda run: run.program.instructions),
    Metric("performance_info", lambda run: run.performance_info, _parts(PerformanceInfo)),
    Metric("hardware", lambda run: run.hardware.model_dump(mode="json"), None),
    Metric("layers", lambda run: [layer.to_dict() for layer in run.layers], None),
)

SHORT: Mapping[str, str] = {
    "latency": "latency_ms",
    "energy": "energy_uj.total",
    "power": "power_mw.average",
    "peak_power": "power_mw.peak",
    "area": "area_mm2.total",
    "edp": "edp_uj_ms",
}

OF_HARDWARE = ("area_mm2", "hardware", "tops.peak")
"""Keys whose values do not depend on the model."""


def of_hardware(key: str) -> bool:
    """Return whether a key needs the hardware only and no run, such as the area."""
    return any(name in OF_HARDWARE for name in (key, key.partition(".")[0]))


HIGHER_IS_BETTER = ("inferences_per_s", "mac_utilization", "tops.peak", "tops.reached")
"""Keys that are maximised unless the space says otherwise."""


@cache
def _by_name() -> dict[str, Metric]:
    return {metric.name: metric for metric in METRICS}


def full_key(key: str) -> str:
    """Return the complete key of a user's key. Raises ValueError, with the nearest known key, for an unknown one."""
    key = SHORT.get(key, key)
    name, *path = key.split(".")
    metric = _by_name().get(name)
    if metric is None:
        known = [*SHORT, *_by_name()]
        near = nearest(name, known)
        hint = f"did you mean {near}?" if near else f"it may be {', '.join(known)}"
        raise ValueError(f"no such key, {hint}")
    if not path and metric.below and "total" in metric.below:
        path = ["total"]
    if metric.below is not None and bool(path) != bool(metric.below):
        what = f"one of {', '.join(metric.below)}" if metric.below else "nothing"
        raise ValueError(f"below {name} there is {what}")
    if metric.below and path[0] not in metric.below:
        near = nearest(path[0], metric.below)
        hint = f", did you mean {name}.{near}?" if near else ""
        raise ValueError(f"{name} has no {path[0]}{hint}; it has {', '.join(metric.below)}")
    return ".".join([name, *path])


def number(run: RunResult, key: str) -> float:
    """Return the number of a complete key. Raises NpusimError if there is none."""
    name, *path = key.split(".")
    value = _by_name()[name].get(run)
    for part in path:
        value = _below(value, part)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise NpusimError(f"objective {key}: {run.model} has no number there")
    # A plain number: the total of cycles or energy is a subclass that carries its parts.
    return int(value) if isinstance(value, int) else float(value)


LARGEST_VALUE = 1e30
LARGEST_WHOLE_VALUE = 1 << 62
"""Largest values of a point. No real run reaches them, and tables and charts can hold them."""


def is_value(value: object) -> bool:
    """Return whether a value is a number that a point of a study may have."""
    if type(value) is int:
        return abs(value) <= LARGEST_WHOLE_VALUE
    return type(value) is float and math.isfinite(value) and abs(value) <= LARGEST_VALUE


def _below(value: Any, part: str) -> Any:
    if isinstance(value, Mapping):
        return value.get(part, 0 if part in _causes() else None)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return value[int(part)] if part.isdigit() and int(part) < len(value) else None
    if is_dataclass(value) and not isinstance(value, type):
        return getattr(value, part, asdict(value).get(part))
    return None


@cache
def _causes() -> frozenset[str]:
    from npusim.numbers.causes import CAUSES

    return frozenset(CAUSES)


LEAST_WEIGHT, MOST_WEIGHT = 1e-9, 1e9
"""Limits of a model's weight in combined values. Weighted sums of values of runs are finite within them."""

COMBINE: Mapping[str, str] = {
    "mean": "weighted arithmetic mean: the weights are shares of the inferences",
    "sum": "weighted sum: the weights count inferences",
    "geomean": "weighted geometric mean: a gain of 1 % counts the same in every model",
    "max": "the worst model",
}
"""The ways to combine the values of several models into one, by name, with their descriptions."""


def combine(values: Sequence[float], weights: Sequence[float], rule: str, key: str, minimise: bool) -> float:
    """Combine the values of several models into one; `rule` is a key of `COMBINE`.

    Keys of the hardware are the same for all models and stay what they are. A geometric mean needs no
    normalisation to a reference: that would multiply every point by the same constant.
    """
    if len(values) == 1 or of_hardware(key):
        return values[0]
    if rule == "max":
        return max(values) if minimise else min(values)
    total = sum(weights)
    if rule == "geomean":
        if min(values) <= 0:
            raise NpusimError(
                f'objective {key}: {min(values):g} has no geometric mean; choose combine = "mean"'
            )
        logs = map(math.log, values)
        return math.exp(math.fsum(map(operator.mul, logs, weights)) / total)
    weighted = math.fsum(map(operator.mul, values, weights))
    return weighted if rule == "sum" else weighted / total
