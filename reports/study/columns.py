"""The columns of a study in pages and figures: parameters and recorded values, each with its unit and scale."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.hardware.agreement import standing
from npusim.reports.words import quantities as show
from npusim.reports.words.claims import of_standing

if TYPE_CHECKING:
    from npusim.study.evaluate import Record
    from npusim.study.study import Study

LOGARITHMIC_FROM = 3.0
"""Least ratio of largest to smallest value for which an axis is logarithmic."""

_PLAIN = ((1.0, ""),)
_AREAS, _PRODUCTS, _RATES, _CYCLES = ((1.0, "mm2"),), ((1.0, "uJ ms"),), ((1.0, "/s"),), ((1.0, "cycles"),)

_UNITS: dict[str, tuple[str, show.Steps]] = {
    "latency_ms": ("latency", show.TIMES),
    "energy_uj": ("energy", show.ENERGIES[:4]),
    "power_mw": ("power", show.POWERS),
    "area_mm2": ("area", _AREAS),
    "edp_uj_ms": ("energy x delay", _PRODUCTS),
    "inferences_per_s": ("inferences", _RATES),
    "mac_utilization": ("MAC utilization", _PLAIN),
    "cycles": ("cycles", _PLAIN),
    "lower_bound_cycles": ("lower bound", _CYCLES),
    "lost_cycles": ("lost cycles", _PLAIN),
    "dram_bytes": ("DRAM traffic", show.SIZES[1:]),
    "scratchpad_peak_bytes": ("scratchpad peak", show.SIZES[1:]),
}
"""Label and possible units by top-level key of `npusim.study.metrics`."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter that varies in a study, with its values in the order of its axis."""

    path: str
    levels: tuple[Any, ...]

    @property
    def table(self) -> str:
        """The table of the hardware file that holds the parameter; empty at the top level."""
        return self.path.rpartition(".")[0]

    @property
    def key(self) -> str:
        """The parameter's key in that table."""
        return self.path.rpartition(".")[2]


@dataclass(frozen=True, slots=True)
class Value:
    """A value that a study records for each point.

    key:         its key in the JSON of a run.
    label, unit: how pages show it; a shown number is the recorded one divided by `factor`.
    goal:        "min" or "max" for an objective; empty for a value that is only recorded.
    logarithmic: whether its axis is logarithmic.
    """

    key: str
    label: str
    unit: str
    factor: float
    goal: str
    logarithmic: bool

    @property
    def title(self) -> str:
        """Label and unit, such as "latency, ms"."""
        return f"{self.label}, {self.unit}" if self.unit else self.label

    def amount(self, recorded: float) -> float:
        """Convert a recorded number to the shown unit."""
        return recorded / self.factor


def parameters(study: Study) -> tuple[Parameter, ...]:
    """Return the parameters with more than one value; numbers are in ascending order."""
    return tuple(
        Parameter(axis.path, tuple(sorted(axis.values)) if axis.ordered else axis.values)
        for axis in study.parameters
        if len(axis.values) > 1
    )


def values(study: Study) -> tuple[Value, ...]:
    """Return every recorded value, objectives first.

    Its unit is the largest one in which the smallest result is at least 1.
    """
    goals = {objective.key: objective.goal for objective in study.objectives}
    shown = study.feasible or [record for record in study.records if not record.reason]
    return tuple(_value(key, goals.get(key, ""), _amounts(shown, key)) for key in study.space.keys)


def _amounts(records: Iterable[Record], key: str) -> list[float]:
    return [amount for record in records for amount in (record.values[key], *_of_models(record, key))]


def _of_models(record: Record, key: str) -> list[float]:
    return [values[key] for values in record.by_model.values()]


def _value(key: str, goal: str, amounts: Sequence[float]) -> Value:
    name, _, part = key.partition(".")
    label, steps = _UNITS.get(name, (key, _PLAIN))
    if name in _UNITS and part and part != "total":
        label = f"{label}: {part.replace('_', ' ')}"
    low, high = (min(amounts), max(amounts)) if amounts else (0.0, 0.0)
    factor, unit = next((step for step in steps if low >= step[0] * 0.99995), steps[-1])
    if low <= 0:
        factor, unit = next(step for step in steps if step[0] == 1)
    return Value(key, label, unit, factor, goal, low > 0 and high / low >= LOGARITHMIC_FROM)


def level(value: Any) -> str:
    """Return the value of a parameter as text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else f"{value:g}"


def claims(study: Study) -> str:
    """Return a sentence or two about the error of the points.

    The error of the base hardware holds for other points only if the networks that it was measured on cover every value
    that varies. Another sentence says that results do not show what fewer weight bits cost in accuracy.
    """
    return f"{_of_error(study)}{_of_weight_bits(study)}"


def _of_weight_bits(study: Study) -> str:
    values = [axis.values for axis in study.parameters if axis.path == "mac_array.weight_bits"]
    if not values and not study.space.base.mac_array.few_bits:
        return ""
    return " Results do not change with mac_array.weight_bits: what fewer bits cost in accuracy is not known."


def _of_error(study: Study) -> str:
    base, name = standing(study.space.base), show.printable(study.space.base.name)
    claims = [claim for claim in (base.claim("latency"), base.claim("energy")) if claim is not None]
    if base.idealised:
        return f"{name} is an idealised array: the error of its points is not known."
    if not claims:
        return f"{name} is {base.basis}: the error of its points is not known."
    values = [(axis.path, value) for axis in study.parameters for value in axis.values]
    if not study.space.derived and all(claim.covers(*setting) for claim in claims for setting in values):
        return f"Error of every point: {of_standing(base)}."
    return f"Error of {name}: {of_standing(base)}. That of points which change its keys is not known."
