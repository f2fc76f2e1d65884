"""Where tensors lie in DRAM, and what the host is called with there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from npusim.isa.base.tensor import TensorType
from npusim.isa.base.workload import Workload


@dataclass(frozen=True, slots=True)
class Placement:
    """A tensor in DRAM."""

    name: str
    type: TensorType
    address: int


@dataclass(frozen=True, slots=True)
class HostCall:
    """One operator that the host runs: operands in DRAM, and its amount of work.

    updates: positions of inputs that the call replaces by their next values: states.
    """

    name: str
    op: str
    attributes: Mapping[str, Any]
    inputs: tuple[Placement | None, ...]
    outputs: tuple[Placement, ...]
    workload: Workload
    reason: str = ""
    updates: tuple[int, ...] = ()

    @property
    def results(self) -> tuple[Placement, ...]:
        """What the call writes: its outputs, then the states that it updates."""
        states = (self.inputs[position] for position in self.updates)
        return (*self.outputs, *(place for place in states if place is not None))
