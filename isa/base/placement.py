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

    An output may lie where an input does: the next value of a state.
    """

    name: str
    op: str
    attributes: Mapping[str, Any]
    inputs: tuple[Placement | None, ...]
    outputs: tuple[Placement, ...]
    workload: Workload
    reason: str = ""
