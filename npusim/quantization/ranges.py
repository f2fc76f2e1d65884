"""Measure the smallest and the largest value of every tensor of a float network over samples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from npusim.isa.base.errors import SimulationError
from npusim.isa.base.tensor import Array
from npusim.kernels.graph.graph import Graph, quoted
from npusim.kernels.graph.reference import evaluate

Outputs = list[list[Array]]
"""The outputs of the network for each sample."""


class Range(NamedTuple):
    """The smallest and the largest value."""

    least: float
    most: float

    def joined(self, other: Range) -> Range:
        """Return the smallest range that contains both."""
        return Range(min(self.least, other.least), max(self.most, other.most))


def range_of(values: Array) -> Range:
    """Return the range of finite values; without values it is 0 to 0."""
    return Range(float(values.min()), float(values.max())) if values.size else Range(0.0, 0.0)


def measured(
    graph: Graph, samples: Iterable[Sequence[Array]], done: Callable[[], object] = lambda: None
) -> tuple[dict[int, Range], Outputs]:
    """Return the ranges of the float32 tensors that a graph computes, by number, and its outputs for every sample.

    done: called after each sample.

    Raises SimulationError for a value that is not finite.
    """
    ranges: dict[int, Range] = {}
    outputs: Outputs = []
    for number, sample in enumerate(samples):
        values = evaluate(graph, sample)
        for tensor, value in values.items():
            held = graph.tensors[tensor]
            if held.type.dtype != "float32" or held.constant:
                continue
            if not np.isfinite(value).all():
                raise SimulationError(
                    f"sample {number}: {quoted(held.name)} is not finite everywhere, so it has no range"
                )
            bounds = range_of(value)
            ranges[tensor] = ranges[tensor].joined(bounds) if tensor in ranges else bounds
        outputs.append([values[output] for output in graph.outputs])
        done()
    return ranges, outputs
