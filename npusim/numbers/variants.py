"""The effects of changed hardware parameters on a run, as data. `npusim.study.what_if` computes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.version import npusim_version
from npusim.isa.hardware.hardware import ALL_OPERATORS, Hardware
from npusim.isa.hardware.parameters import parameter

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, slots=True)
class Variant:
    """One changed hardware parameter and its effect.

    before, after:   present value, and value that was tried; None if it could not be changed.
    latency_ms, energy_uj, area_mm2: results of the variant; None if it was not run.
    *_percent:       their changes in percent; negative is less.
    percent_per_mm2: reduction of the latency in percent per additional mm2; None if the area does not grow.
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
        """Whether an architect may choose the parameter; else the DRAM, the circuits or the host set it."""
        known = parameter(self.parameter)
        return known is None or known.chosen

    def to_dict(self) -> dict[str, Any]:
        """Return the variant as in the JSON."""
        return asdict(self) | {"chosen": self.chosen}


@dataclass(frozen=True, slots=True)
class Parameters:
    """The variants of one parameter in the order of its values: those that were run, and why others were not."""

    path: str
    chosen: bool
    ran: tuple[Variant, ...]
    reasons: tuple[str, ...]


@dataclass(frozen=True, repr=False)
class WhatIf:
    """The effects of hardware changes on one model on one machine.

    variants: all changes, the largest gain in latency first (then in energy), those that were not run last.
    compiled: True if each variant was compiled for its hardware; False if one program was run on all of them.
    """

    model: str
    hardware: Hardware
    compiled: bool
    latency_ms: float
    energy_uj: float
    area_mm2: float
    variants: tuple[Variant, ...]

    def to_list(self) -> list[dict[str, Any]]:
        """Return the `what_if` of the JSON: a table per variant, in order."""
        return [variant.to_dict() for variant in self.variants]

    def by_parameter(self) -> tuple[Parameters, ...]:
        """Return the variants grouped by parameter: those an architect may choose first, by gain in latency."""
        by_path: dict[str, list[Variant]] = {}
        for variant in self.variants:
            by_path.setdefault(variant.parameter, []).append(variant)
        groups = [
            Parameters(
                path,
                variants[0].chosen,
                tuple(
                    sorted(
                        (variant for variant in variants if not variant.reason),
                        key=lambda variant: variant.after or 0.0,
                    )
                ),
                tuple(dict.fromkeys(variant.reason for variant in variants if variant.reason)),
            )
            for path, variants in by_path.items()
        ]
        return tuple(
            sorted(groups, key=lambda group: not group.chosen)
        )  # variants have the largest gain first

    def to_pandas(self) -> pandas.DataFrame:
        """Return the variants as a DataFrame, a row each."""
        import pandas

        return pandas.DataFrame(self.to_list())

    def __repr__(self) -> str:
        return f"<WhatIf: {self.model} on {self.hardware.name}, {len(self.variants)} variants>"


SCHEMA_VERSION = 1


def is_host_alone(values: Mapping[str, Any]) -> bool:
    """Return whether the JSON of a run is that of a machine without an NPU."""
    return ALL_OPERATORS in values["hardware"].get("lacks_operators", ())


@dataclass(frozen=True, slots=True)
class Run:
    """A run of a model on a machine: the values of its JSON (`RunResult.to_dict`), or the reason why it failed."""

    model: str
    hardware: str
    values: Mapping[str, Any] | None
    fault: str = ""


@dataclass(frozen=True, slots=True)
class RunTable:
    """The runs of all models on all machines, model by model, in the order in which they were given."""

    models: tuple[str, ...]
    machines: tuple[str, ...]
    runs: tuple[Run, ...]

    def of(self, model: str) -> tuple[Run, ...]:
        """Return the runs of a model, machine by machine."""
        return tuple(run for run in self.runs if run.model == model)

    @property
    def faults(self) -> tuple[Run, ...]:
        """Return the runs that failed."""
        return tuple(run for run in self.runs if run.values is None)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; a run is the JSON of `npusim run --json`, or has a `fault`."""
        runs = [
            run.values or {"model": run.model, "hardware": {"name": run.hardware}, "fault": run.fault}
            for run in self.runs
        ]
        return {"schema_version": SCHEMA_VERSION, "npusim_version": npusim_version(), "runs": runs}
