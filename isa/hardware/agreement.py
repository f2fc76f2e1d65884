"""How closely presets named after chips agree with measurements, and which claim holds for a given hardware.

`agreement.toml` is written by `python -m benchmarks silicon --write`, from the rows of docs/silicon.md. Nothing else
states an error.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import asdict, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Literal

from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.hardware.file import hardware, list_presets, to_flat
from npusim.isa.hardware.hardware import Hardware

FILE = Path(__file__).parent / "agreement.toml"
_ROW = "[[agreement]]\n"

Quantity = Literal["latency", "energy"]
QUANTITIES: tuple[Quantity, ...] = ("latency", "energy")

UNSTATED = "error not known"
_NAMES = ("name", "description")
_MOST_CHANGED = 8
"""Keys that a variant of a preset may change; a machine with more was hardly made from it."""


@dataclass(frozen=True, slots=True)
class HeldOut:
    """The errors of the rows that were set aside before any constant was chosen."""

    rows: int
    error: float
    worst: float


@dataclass(frozen=True, slots=True)
class Agreement:
    """How closely a preset, or the host of the same name, agrees with the reference values of one source.

    referee:  source of the reference values, a measurement or "Vela 5.2.0's estimates"; its name ends at the first
              comma.
    error:    typical error: geometric mean of the larger of simulated / reference and its inverse, minus 1. Single rows
              may be farther off.
    worst:    error of the row that is farthest off.
    bias:     geometric mean of simulated / reference.
    rank:     Spearman's correlation; None for fewer than three rows.
    settings: keys that rows were simulated with, and the smallest and the largest of their values.
    """

    preset: str
    quantity: Quantity
    referee: str
    rows: int
    error: float
    worst: float
    bias: float
    rank: float | None = None
    held_out: HeldOut | None = None
    settings: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def words(self) -> str:
        """Return the claim: "typical error 2.7 %, worst 7.1 % (15 rows of Vela 5.2.0's estimates)"."""
        rows = f"{self.rows} row{'' if self.rows == 1 else 's'}"
        return f"{errors(self)} ({rows} of {self.referee.partition(',')[0]})"

    @property
    def estimates_of(self) -> str:
        """Return the tool that estimated the reference values, such as "Vela"; empty if a chip was measured."""
        name = self.referee.partition(",")[0]
        return name.split()[0] if name.endswith("'s estimates") else ""

    def covers(self, path: str, value: object) -> bool:
        """Return whether a value of a key is between those that the rows of the preset were simulated with."""
        if path not in self.settings or isinstance(value, bool) or not isinstance(value, int | float):
            return False
        least, most = self.settings[path]
        return least <= value <= most


def errors(claim: Agreement | HeldOut) -> str:
    """Return the errors of a claim, "typical error 2.7 %, worst 7.1 %"; a claim on one row has a single error."""
    if claim.rows == 1:
        return f"error {percent(claim.error)}"
    return f"typical error {percent(claim.error)}, worst {percent(claim.worst)}"


def percent(share: float) -> str:
    """Return a share of 1 in percent, such as "2.7 %"."""
    return f"{100 * share:.1f} %"


@dataclass(frozen=True, slots=True)
class Standing:
    """The preset nearest to a hardware, with the differences and the preset's agreement with its references.

    preset:     the preset with the same keys, or else the one that differs in the fewest keys.
    changed:    the keys that differ, with the hardware's values; None for a key that the hardware lacks.
    agreements: those of the preset; empty for an idealised array.
    """

    preset: str
    changed: tuple[tuple[str, object], ...]
    agreements: tuple[Agreement, ...]

    @property
    def idealised(self) -> bool:
        """Whether the hardware is a preset that is not named after a chip."""
        return not self.agreements and not self.changed

    def claim(self, quantity: Quantity) -> Agreement | None:
        """Return the preset's first agreement on a quantity if it also holds for the hardware, else None.

        It holds if every changed key has a value that the agreement covers.
        """
        agreement = next((stated for stated in self.agreements if stated.quantity == quantity), None)
        if agreement is None or not all(agreement.covers(path, value) for path, value in self.changed):
            return None
        return agreement

    def words(self, quantity: Quantity) -> str:
        """Return the claim in words, or why there is none."""
        claim = self.claim(quantity)
        if claim is not None:
            return claim.words
        if self.changed:
            return f"{self.basis}: {UNSTATED}"
        if self.idealised:
            return f"idealised array, {UNSTATED}"
        return f"never measured, {UNSTATED}"

    @property
    def basis(self) -> str:
        """Describe a hardware that is not a preset: "based on ethos-u55-128, 2 keys changed"."""
        count = len(self.changed)
        if count > _MOST_CHANGED:
            return f"{count} keys differ from {self.preset}, the nearest preset"
        return f"based on {self.preset}, {count} key{'' if count == 1 else 's'} changed"

    def to_dict(self) -> dict[str, Any]:
        """Return the `agreement` object of the JSON."""
        return {
            "preset": self.preset,
            "changed_keys": [path for path, _ in self.changed],
            "idealised": self.idealised,
            "latency": claim_to_dict(self.claim("latency"), self.words("latency")),
            "energy": claim_to_dict(self.claim("energy"), self.words("energy")),
        }


def claim_to_dict(claim: Agreement | None, words: str) -> dict[str, Any]:
    """Return a claim as a JSON object; without a claim it only has the words, which give the reason."""
    if claim is None:
        return {"words": words}
    plain = asdict(claim)
    del plain["preset"], plain["quantity"]
    return {"words": words} | plain | {"settings": {key: list(ends) for key, ends in claim.settings.items()}}


@cache
def agreements(preset: str | None = None) -> tuple[Agreement, ...]:
    """Return how closely presets agree with each source of reference values, in the order of docs/silicon.md.

    Reports quote the first agreement of a preset and quantity.

    preset: return the agreements of this preset only. No others are parsed, because parsing all of them takes a
            hundredth of a small run.
    """
    _, *rows = FILE.read_text(encoding="utf-8").split(_ROW)
    chosen = [row for row in rows if preset is None or row.startswith(f'preset = "{preset}"')]
    read = tomllib.loads("".join([_ROW + row for row in chosen])).get("agreement", ())
    return tuple(_agreement(row) for row in read)


def _agreement(row: Mapping[str, Any]) -> Agreement:
    held_out, settings = row.get("held_out"), row.get("settings", {})
    return Agreement(
        **{
            **row,
            "held_out": held_out and HeldOut(**held_out),
            "settings": {key: (ends[0], ends[1]) for key, ends in settings.items()},
        }
    )


def of_core(core: str) -> tuple[Agreement, float] | None:
    """Return the latency agreement of a host core, and the clock in MHz at which its rows were measured.

    It is the agreement of the preset with the core's name, in which the host computes everything. None if there is no
    such agreement.
    """
    agreement = next((stated for stated in agreements(core) if stated.quantity == "latency"), None)
    return None if agreement is None else (agreement, hardware(agreement.preset).clock_mhz)


@lru_cache(maxsize=64)
def standing(value: Hardware) -> Standing:
    """Return the preset nearest to a hardware, and the differences.

    Name and description are not compared: a hardware with all keys of a preset is that preset.
    """
    presets = list_presets()
    mine = to_flat(value)
    near = {name: _differing(mine, name) for name in presets if name == value.name}
    if not near or any(near.values()):
        near = {name: _differing(mine, name) for name in presets}
    preset = min(near, key=lambda name: len(near[name]))
    changed = tuple((path, mine.get(path)) for path in near[preset])
    return Standing(preset, changed, agreements(preset))


def _differing(mine: Mapping[str, Any], preset: str) -> list[str]:
    theirs = _flat(preset)
    paths = dict.fromkeys([*theirs, *mine])
    return [path for path in paths if path not in _NAMES and mine.get(path) != theirs.get(path)]


@cache
def _flat(preset: str) -> Mapping[str, Any]:
    return to_flat(hardware(preset))
