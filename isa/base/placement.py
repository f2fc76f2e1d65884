"""Where tensors lie in the memories, and what the host is called with there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from npusim.isa.base.tensor import TensorType
from npusim.isa.base.workload import Workload


@dataclass(frozen=True, slots=True)
class Placement:
    """A tensor in a memory: in the DRAM, space 1, if no other is named.

    from_reals: of an input with codes: whether it may also be given as float32, which become codes on the way in.
    """

    name: str
    type: TensorType
    address: int
    space: int = 1
    from_reals: bool = False

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
    parameters: Mapping[str, Any]
    inputs: tuple[Placement | None, ...]
    outputs: tuple[Placement, ...]
    workload: Workload
    reason: str = ""


def distinct_names(places: Sequence[Placement]) -> tuple[str, ...]:
    """The names of tensors, with "#" and the position where several share one."""
    names = [place.name for place in places]
    return tuple(name if names.count(name) == 1 else f"{name}#{i}" for i, name in enumerate(names))
