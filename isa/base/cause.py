"""A cause of lost cycles, with its name in results and its presentation in reports."""

from __future__ import annotations

from typing import NamedTuple


class Cause(NamedTuple):
    """A cause of lost cycles.

    label, colour: its presentation in reports.
    meaning: its definition.
    levers: hardware parameters that change its cycles.
    """

    name: str
    label: str
    colour: str
    meaning: str
    levers: tuple[str, ...] = ()
