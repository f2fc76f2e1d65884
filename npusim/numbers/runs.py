"""Runs of several models on several machines: what they have in common is their JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from npusim.isa.base.version import npusim_version
from npusim.isa.hardware.hardware import ALL_OPERATORS

SCHEMA_VERSION = 1


def is_host_alone(values: Mapping[str, Any]) -> bool:
    """Return whether the JSON of a run is that of a machine without an NPU."""
    return ALL_OPERATORS in values["hardware"].get("lacks_operators", ())


@dataclass(frozen=True, slots=True)
class Run:
    """A model on a machine: the values of its JSON (`npusim.numbers.run.RunResult.to_dict`), or why there are none."""

    model: str
    hardware: str
    values: Mapping[str, Any] | None
    fault: str = ""


@dataclass(frozen=True, slots=True)
class RunTable:
    """Runs of all models on all machines, model by model, each in the order in which they were given."""

    models: tuple[str, ...]
    machines: tuple[str, ...]
    runs: tuple[Run, ...]

    def of(self, model: str) -> tuple[Run, ...]:
        """The runs of a model, machine by machine."""
        return tuple(run for run in self.runs if run.model == model)

    @property
    def faults(self) -> tuple[Run, ...]:
        """The runs that there are not."""
        return tuple(run for run in self.runs if run.values is None)

    def to_dict(self) -> dict[str, Any]:
        """Plain values; a run is the JSON of `npusim run --json`, or has a `fault`."""
        runs = [
            run.values or {"model": run.model, "hardware": {"name": run.hardware}, "fault": run.fault}
            for run in self.runs
        ]
        return {"schema_version": SCHEMA_VERSION, "npusim_version": npusim_version(), "runs": runs}
