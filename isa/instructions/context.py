"""What an instruction's row is told beside its own fields: the machine, and the tables of the program."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from npusim.isa.hardware.hardware import Hardware

if TYPE_CHECKING:
    from npusim.isa.base.placement import HostCall


class Context(NamedTuple):
    """Where an instruction is executed; cheap to make.

    host_calls: the program's table of host operators; empty where no instruction calls the host.
    """

    hardware: Hardware
    host_calls: tuple[HostCall, ...] = ()
