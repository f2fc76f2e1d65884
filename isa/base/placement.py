"""Where tensors lie in the memories, and what the host is called with there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from npusim.isa.base.tensor import TensorType
from npusim.isa.base.workload import Workload


@dataclass(frozen=True, slots=True)
class Placement:
    """A tensor in a memory: in the DRAM, space 1, if no other is named."""

    name: str
    type: TensorType
    address: int
    space: int = 1

    @property
    def end(self) -> int:
        """One past its last byte."""
        return self.address + self.type.size_bytes


@dataclass(frozen=True, slots=True)
class HostCall:
    """One operator that the host runs: its operands, and its amount of work.

    An output may lie where an input does: the next value of a state.
    """

    name: str
    op: str
    attributes: Mapping[str, Any]
    inputs: tuple[Placement | None, ...]
    outputs: tuple[Placement, ...]
    workload: Workload
    reason: str = ""
