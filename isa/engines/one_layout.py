"""What kinds of MAC array share that lay a problem out in one way, and multiply integers alone."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate, pairwise
from typing import ClassVar

from npusim.isa.engines.engine import Engine, Layout, Problem
from npusim.isa.engines.mac_array import MacArray


class OneLayout(Engine):
    """A kind without corners and dataflows.

    works: how it works, for whoever asks for another layout.
    """

    works: ClassVar[str]

    def fastest(self, array: MacArray, problem: Problem) -> Layout:
        """There is one."""
        return Layout()

    def misfits(self, array: MacArray, layout: Layout, by_channel: bool) -> list[str]:
        """Whatever is not 0."""
        return [
            f"{name} {value}; it may be 0, {self.works}" for name, value in layout._asdict().items() if value
        ]


def in_turn(cycles: Iterable[int]) -> tuple[int, ...]:
    """What each hindrance adds to those before it. cycles: without any, with the first alone, the second alone, ..."""
    return tuple(after - before for before, after in pairwise(accumulate(cycles, max)))
