"""The units that execute instructions."""

from __future__ import annotations

from enum import IntEnum


class Unit(IntEnum):
    """The units that execute instructions; each runs its own in program order."""

    DMA0 = 0
    DMA1 = 1
    DMA2 = 2
    DMA3 = 3
    MAC = 4
    VECTOR = 5
    HOST = 6
    FRONT_END = 7


PRODUCERS = tuple(unit for unit in Unit if unit is not Unit.FRONT_END)
"""Units whose completed instructions can be waited for; each stands at the position that is its number."""

UNIT_NAMES = {unit: unit.name.lower() for unit in Unit}
