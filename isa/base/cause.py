"""A cause of lost cycles: what results call it, and how reports show it."""

from __future__ import annotations

from typing import NamedTuple


class Cause(NamedTuple):
    """What cycles are lost to.

    label, colour: in reports. meaning: its definition. levers: parameters of the hardware that move it.
    """

    name: str
    label: str
    colour: str
    meaning: str
    levers: tuple[str, ...] = ()
