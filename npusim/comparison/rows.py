"""The rows of a comparison: a number in every run, and its change against the baseline, the first run."""

from __future__ import annotations

from math import inf, isfinite
from typing import Any, Literal

from npusim.comparison.result_file import LayerNumbers
from npusim.isa.base.lazy_dataclass import dataclass

Kind = Literal[
    "time_ms",
    "energy_uj",
    "power_mw",
    "per_s",
    "cycles",
    "time_us",
    "share",
    "ratio",
    "bytes",
    "count",
    "area_mm2",
    "tops",
]
"""The kind of a number, which defines its unit."""

Better = Literal["less", "more", "neither"]


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number of a run that is compared.

    key:    its dotted key in the JSON; label: its name in tables.
    better: whether less or more of it is better.
    """

    key: str
    label: str
    kind: Kind
    better: Better = "less"


@dataclass(frozen=True, slots=True)
class Change:
    """The change of a number from the baseline to another run.

    delta:   the difference, in the unit of the number.
    percent: 100 * delta / |baseline|; 0 from 0 to 0, infinite from 0 to anything else.
    """

    delta: float
    percent: float

    @classmethod
    def between(cls, before: float, after: float) -> Change:
        """Return the change from one number to another."""
        delta = after - before
        if before:
            return cls(delta, 100 * delta / abs(before))
        return cls(delta, 0.0 if not delta else inf if delta > 0 else -inf)


@dataclass(frozen=True, slots=True)
class Row:
    """One number in every run, the baseline first; None for a run without it.

    comparable: False for numbers without a meaningful change, such as cycles at different clocks.
    """

    quantity: Quantity
    values: tuple[float | None, ...]
    comparable: bool = True

    def change(self, run: int) -> Change | None:
        """Return the change from the baseline to a run; None if either lacks the number or it is not comparable."""
        before, after = self.values[0], self.values[run]
        if before is None or after is None or not self.comparable:
            return None
        return Change.between(before, after)

    @property
    def largest(self) -> float:
        """The largest absolute change to any run; a missing number counts as 0."""
        before = self.values[0] or 0
        return max((abs((after or 0) - before) for after in self.values[1:]), default=0)

    @property
    def changed(self) -> bool:
        """Whether the number differs between runs."""
        return any(value != self.values[0] for value in self.values)

    def to_dict(self) -> dict[str, Any]:
        """Return the row as in the JSON; an infinite percentage is null."""
        changes = [self.change(run) for run in range(1, len(self.values))]
        return {
            "key": self.quantity.key,
            "values": list(self.values),
            "change": [change and change.delta for change in changes],
            "change_percent": [
                change.percent if change and isfinite(change.percent) else None for change in changes
            ],
        }


@dataclass(frozen=True, slots=True)
class HardwareRow:
    """A hardware parameter, or a key of the provenance, that differs between runs; None if unset or unknown."""

    path: str
    values: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class LayerRow:
    """A layer in every run; None in a run without it.

    cost:   cycles that are attributed to it, or microseconds if clocks differ.
    causes: its lower bound and its lost cycles by cause, in the same unit.
    """

    name: str
    op: str
    layers: tuple[LayerNumbers | None, ...]
    cost: Row
    causes: tuple[Row, ...]

    @property
    def everywhere(self) -> bool:
        """Whether all runs have the layer."""
        return None not in self.layers

    @property
    def moved(self) -> bool:
        """Whether the layer runs on different devices, in runs on several devices."""
        return len({layer.device for layer in self.layers if layer is not None and layer.device}) > 1

    def present(self, letters: str) -> list[str]:
        """Return the letters of the runs that have the layer."""
        return [letter for letter, layer in zip(letters, self.layers, strict=True) if layer is not None]

    def number(self, key: str, label: str, kind: Kind, better: Better = "less") -> Row:
        """Return another number of the layer (a field of `npusim.numbers.layers.LayerResult`) as a row."""
        values = tuple(None if layer is None else getattr(layer, key) for layer in self.layers)
        return Row(Quantity(key, label, kind, better), values)

    def main_cause(self, run: int) -> Row | None:
        """Return the row that explains most of the layer's change to a run; None if it did not change.

        It is the cause of lost cycles, or the lower bound, that changed most in the same direction.
        """
        change = self.cost.change(run)
        if change is None or not change.delta:
            return None
        sign = 1 if change.delta > 0 else -1

        def moved(row: Row) -> float:
            change = row.change(run)
            return sign * change.delta if change else 0.0

        best = max(self.causes, key=moved, default=None)
        return best if best is not None and moved(best) > 0 else None
