"""Closed form of the streaming MAC engine: the cycles of a problem whose feature map streams past stationary kernels.

A unit has n multipliers and computes one output element per cycle, from whole kernel windows of as many input channels
as fit:

    channels of a pass   ⌊n / taps⌋, for each unit that works on the layer
    passes               ⌈input channels / channels of a pass⌉; a window with more taps than n takes ⌈taps / n⌉ passes
                         of one channel each
    cycles               output elements x passes

Units that work on one layer share its input channels. Partial sums run through them in a chain, so the rate is still
one output element per cycle. For a depthwise convolution, each unit takes another channel. As a channel has only one
kernel, every input position takes a cycle, including the border and the positions that a stride skips. The last group
of channels may leave units idle.

The kernels of the next output channels load while the feature map streams past the current ones. Line buffers hold the
rows of a window. So each feature-map value is fetched once per set of kernels that the units hold. If the ports or the
output stage are slower than the multipliers, they determine the time.
"""

from __future__ import annotations

from functools import lru_cache
from math import ceil
from typing import NamedTuple

from npusim.isa.engines.engine import Problem


class Shape(NamedTuple):
    """The parameters that timing depends on; `npusim.isa.engines.mac_array` describes them."""

    units: int
    multipliers: int
    units_per_layer: int
    kernels: int
    map_port: int
    weight_port: int
    lanes: int


class Occupancy(NamedTuple):
    """Cycles of a problem under one limit each, and its traffic. The problem takes the largest of the cycles.

    full:          macs / multipliers of all units.
    working:       macs / multipliers of the units that may work on one layer.
    passes:        output elements x passes, with whole windows and channels.
    ports:         time of feature map and weights at their ports.
    total:         time of the outputs in the output stage.
    map_values:    feature-map values fetched.
    weight_values: weights fetched.
    updates:       accumulators written.
    """

    full: int
    working: int
    passes: int
    ports: int
    total: int
    map_values: int
    weight_values: int
    updates: int


@lru_cache(maxsize=4096)
def occupancy(shape: Shape, problem: Problem) -> Occupancy:
    """Return the cycles and the traffic of a problem."""
    at_work = shape.units_per_layer
    taps = problem.kernel_height * problem.kernel_width
    elements = problem.pixels * problem.ofm_depth
    pieces = ceil(taps / shape.multipliers)
    positions = _positions(
        problem.ofm_height, problem.kernel_height, problem.stride_height, problem.dilation_height
    )
    positions *= _positions(
        problem.ofm_width, problem.kernel_width, problem.stride_width, problem.dilation_width
    )
    if problem.by_channel:
        map_values = positions * problem.ofm_depth * pieces
        passes = positions * ceil(problem.ofm_depth / at_work) * pieces
    else:
        channels = at_work * max(1, shape.multipliers // taps)
        passes = elements * pieces * ceil(problem.ifm_depth / channels)
        sets = ceil(problem.ofm_depth / shape.kernels)
        map_values = positions * problem.ifm_depth * pieces * sets
    ports = max(map_values / shape.map_port, problem.weights / shape.weight_port)
    return Occupancy(
        ceil(problem.macs / (shape.units * shape.multipliers)),
        ceil(problem.macs / (at_work * shape.multipliers)),
        passes,
        ceil(ports),
        ceil(elements / shape.lanes),
        map_values,
        problem.weights,
        elements * pieces if problem.by_channel else passes,
    )


def _positions(outputs: int, kernel: int, stride: int, dilation: int) -> int:
    """Return the input rows or columns that stream for a number of outputs.

    They include the border, but not positions between windows that no window covers.
    """
    extent = (kernel - 1) * dilation + 1
    return outputs * min(extent, stride) + max(extent - stride, 0)
