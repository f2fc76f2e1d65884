"""What changes of hardware parameters would bring: the numbers. `npusim.study.what_if` computes them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from npusim.base.frame import frame
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.parameters import parameter

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, slots=True)
class Variant:
    """One changed parameter and what it brings.

    before, after:   its value, and the value that was tried; None where it could not be changed.
    latency_ms, energy_uj, area_mm2:   of the variant; None if it was not run.
    *_percent:       the change of them, negative is less.
    percent_per_mm2: latency that it takes off, in percent, for each square millimetre more; None where the area
                     does not grow.
    reason:          why it was not run; empty if it was.
    """

    parameter: str
    before: float | None
    after: float | None
    latency_ms: float | None = None
    energy_uj: float | None = None
    area_mm2: float | None = None
    latency_percent: float | None = None
    energy_percent: float | None = None
    area_percent: float | None = None
    reason: str = ""
    percent_per_mm2: float | None = None

    @property
    def chosen(self) -> bool:
        """An architect may choose the parameter; else it comes with the DRAM, the circuits or the host."""
        known = parameter(self.parameter)
        return known is None or known.chosen

    def to_dict(self) -> dict[str, Any]:
        """The variant in the JSON."""
        return asdict(self) | {"chosen": self.chosen}


@dataclass(frozen=True, slots=True)
class Parameters:
    """The variants of one parameter, in the order of its values: those that were run, and why others were not."""

    path: str
    chosen: bool
    ran: tuple[Variant, ...]
    reasons: tuple[str, ...]


@dataclass(frozen=True, repr=False)
class WhatIf:
    """What each change would bring to one model on one machine.

    variants: what was tried, the largest gain in latency first (then in energy), what was not run last.
    compiled: each variant was compiled for its hardware; False: one program was run on all of them.
    """

    model: str
    hardware: Hardware
    compiled: bool
    latency_ms: float
    energy_uj: float
    area_mm2: float
    variants: tuple[Variant, ...]

    def to_list(self) -> list[dict[str, Any]]:
        """The `what_if` of the JSON: a table per variant, in order."""
        return [each.to_dict() for each in self.variants]

    def by_parameter(self) -> tuple[Parameters, ...]:
        """The variants, each parameter once: what an architect may choose first, then the largest gain in latency."""
        found: dict[str, list[Variant]] = {}
        for each in self.variants:
            found.setdefault(each.parameter, []).append(each)
        groups = [
            Parameters(
                path,
                variants[0].chosen,
                tuple(
                    sorted((each for each in variants if not each.reason), key=lambda each: each.after or 0.0)
                ),
                tuple(dict.fromkeys(each.reason for each in variants if each.reason)),
            )
            for path, variants in found.items()
        ]
        return tuple(
            sorted(groups, key=lambda group: not group.chosen)
        )  # variants have the largest gain first

    def to_pandas(self) -> pandas.DataFrame:
        """The variants as a table, a row each."""
        return frame(self.to_list())

    def __repr__(self) -> str:
        return f"<WhatIf: {self.model} on {self.hardware.name}, {len(self.variants)} variants>"
