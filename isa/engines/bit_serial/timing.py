"""Closed form of the bit-serial engine: the cycles of a problem in blocks of output pixels and channels.

For each block of side x side pixels and n output channels, the input channels come in steps. A step

    loads      side + kernel - 1 squared pixels, one a cycle, behind a start
    multiplies n x weight bits cycles: the weights of one output channel, of all taps and input channels of the step,
               pass one bit a cycle; those of a kernel of one tap have their bits side by side, as many as there are
               taps of the other kernel, and all channels of a block pass, there or not
    and has    a fixed latency.

Behind its steps the output stage empties the block. Depthwise convolutions have a step for so many channels at a time.
Blocks at the edge count whole, but for maps that are smaller than a block. With a stride the inputs of a step are
as many, so blocks are smaller: as many pixels as have their windows in them. Other kernels are left to cores beside
the engine.

The constants are those of the published performance model of the NE16; `tests/rtl/sv/serial_unit.sv` describes an
engine that takes these cycles in registers.
"""

from __future__ import annotations

from functools import lru_cache
from math import ceil
from typing import NamedTuple

from npusim.isa.engines.engine import Problem
from npusim.isa.engines.mac_array import MOST_BITS


class Shape(NamedTuple):
    """The parameters that timing depends on; `npusim.isa.engines.mac_array.BitSerial` says what they are."""

    side: int
    strided_side: int
    channels: int
    input_channels: int
    depthwise_channels: int
    kernel_side: int
    start_cycles: int
    point_start_cycles: int
    step_cycles: int
    output_cycles: int
    core_macs_per_cycle: float
    weight_bits: int

    def bits(self, problem: Problem) -> int:
        """Of each weight of a problem."""
        return self.weight_bits if problem.few_bits else MOST_BITS


class Occupancy(NamedTuple):
    """Cycles of a problem, each with what the one before it leaves out.

    full:     macs / `macs_per_cycle`; the total is no less.
    products: the steps' products in whole blocks, channels as they are; those of cores where the engine has no kernel.
    steps:    with loads and latencies of the steps.
    total:    with the output stage.
    map_values, weight_values: fetched. updates: accumulators written. product_bits: see `Use`.
    """

    full: int
    products: int
    steps: int
    total: int
    map_values: int
    weight_values: int
    updates: int
    product_bits: int = MOST_BITS


@lru_cache(maxsize=65536)
def occupancy(shape: Shape, problem: Problem) -> Occupancy:
    """What a problem takes."""
    full = ceil(problem.macs / macs_per_cycle(shape))
    kernel = problem.kernel_height, problem.kernel_width
    dilated = max(problem.dilation_height, problem.dilation_width) > 1 and kernel != (1, 1)
    if kernel not in ((1, 1), (shape.kernel_side, shape.kernel_side)) or dilated:
        cycles = max(full, ceil(problem.macs / shape.core_macs_per_cycle))
        values = problem.pixels * problem.inner
        return Occupancy(
            full, cycles, cycles, cycles, values, problem.weights, problem.pixels * problem.ofm_depth
        )
    side, stride = shape.side, max(problem.stride_height, problem.stride_width)
    if stride > 1 and kernel != (1, 1):
        side = min(shape.strided_side, (shape.side - 1) // stride + 1)
    blocks = ceil(problem.ofm_height / side) * ceil(problem.ofm_width / side)
    is_point = kernel == (1, 1) and not problem.by_channel
    lanes = shape.depthwise_channels if problem.by_channel else shape.channels
    groups = ceil(problem.ofm_depth / lanes)
    rows, columns = min(side, problem.ofm_height), min(side, problem.ofm_width)
    if is_point:
        start, pixels = shape.point_start_cycles, rows * columns
        products = blocks * groups * lanes * ceil(shape.bits(problem) / shape.kernel_side**2)
    else:
        start, pixels = shape.start_cycles, (shape.side + kernel[0] - 1) * (shape.side + kernel[1] - 1)
        products = blocks * problem.ofm_depth * shape.bits(problem)
    steps = 1 if problem.by_channel else ceil(problem.ifm_depth / shape.input_channels)
    products *= steps
    passes = blocks * groups * steps
    emptying = blocks * groups * ceil(shape.output_cycles * lanes / shape.channels)
    with_loads = products + passes * (start + pixels + shape.step_cycles)
    return Occupancy(
        full,
        products,
        with_loads,
        max(full, with_loads + emptying),
        passes * pixels * shape.input_channels,
        problem.weights * blocks,
        problem.pixels * problem.ofm_depth * steps,
        shape.bits(problem),
    )


def macs_per_cycle(shape: Shape) -> int:
    """Of all binary multipliers with the weight bits; the rest of the division is left idle."""
    return products_per_cycle(shape) // shape.weight_bits


def products_per_cycle(shape: Shape) -> int:
    """Products of one weight bit in a cycle: the taps and input channels of a step for all pixels of a block."""
    return shape.side**2 * shape.kernel_side**2 * shape.input_channels
