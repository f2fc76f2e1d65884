"""What a rule is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from npusim.frontends.nn_hal.checked import CheckedGraph, CheckedModel
from npusim.frontends.nn_hal.fault import Fault

Check = Callable[[CheckedModel, CheckedGraph], Iterator[Fault]]
"""The faults of a graph of a model."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of the HAL, or several that one look decides; the docstring of its check says it.

    names: as in docs/hal.md; faults of a rule with several names say which it is.
    """

    names: tuple[str, ...]
    check: Check

    def faults(self, model: CheckedModel, graph: CheckedGraph) -> Iterator[Fault]:
        """Its faults, each with the name of the rule."""
        for fault in self.check(model, graph):
            yield fault if fault.rule else fault._replace(rule=self.names[0])
