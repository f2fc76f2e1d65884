"""Closed form of the streaming engine: the cycles of a problem whose feature map flows past kernels that stand still.

A unit has n multipliers and makes one output element a cycle, of whole kernel windows of as many input channels as fit:

    channels of a pass   ⌊n / taps⌋, for each unit that works for the layer
    passes               ⌈input channels / channels of a pass⌉; a window with more taps than n takes ⌈taps / n⌉ passes
                         of one channel each
    cycles               output elements x passes

The units that work for one layer divide its input channels; their partial sums run through them one after the other, so
that there is still one output element a cycle. A depthwise convolution gives each of them another channel, and as a
channel has one kernel only, every position of its input takes a cycle, also those of the border and those that a
stride leaves out. Units take so many channels together, and the last of them may have fewer.

Kernels of the next channels load while the feature map streams past those of this one, and line buffers keep the rows
of a window: each value of the feature map is fetched once for each set of kernels that the units hold. Where ports are
slower than that, they say how long it takes; so does the output stage.
"""

from __future__ import annotations

from functools import lru_cache
from math import ceil
from typing import NamedTuple

from npusim.isa.engines.engine import Problem


class Shape(NamedTuple):
    """The parameters that timing depends on; `npusim.isa.engines.mac_array` says what they are."""

    units: int
    multipliers: int
    units_per_layer: int
    kernels: int
    map_port: int
    weight_port: int
    lanes: int


class Occupancy(NamedTuple):
    """Cycles of a problem, each with what the one before it leaves out.

    full:    macs / multipliers of all units.
    working: macs / multipliers of those that may work for a layer.
    passes:  whole windows, channels and passes.
    ports:   with ports that are slower.
    total:   with the output stage.
    map_values, weight_values: fetched. updates: accumulators written.
    """

    full: int
    working: int
    passes: int
    ports: int
    total: int
    map_values: int
    weight_values: int
    updates: int


@lru_cache(maxsize=65536)
def occupancy(shape: Shape, problem: Problem) -> Occupancy:
    """What a problem takes."""
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
    """Rows or columns that pass for so many outputs, those of the border too; what lies between windows does not."""
    extent = (kernel - 1) * dilation + 1
    return outputs * min(extent, stride) + max(extent - stride, 0)
