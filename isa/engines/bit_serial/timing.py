"""Closed form of the bit-serial MAC engine: the cycles of a problem in blocks of output pixels and channels.

For each block of side x side pixels and n output channels, the input channels are processed in steps. A step

    loads      (side + kernel - 1)^2 pixels, one per cycle, after a start-up time
    multiplies for n x weight bits cycles: the weights of one output channel, for all taps and input channels of the
               step, pass one bit per cycle. A 1 x 1 kernel passes several bits per cycle, as many as the large kernel
               has taps, and always takes the time of a full block of channels
    and has    a fixed latency.

After its steps, the output stage empties the block. A depthwise convolution has one step per `depthwise_channels`
channels. Blocks at the edge take the time of a full block, unless the feature map is smaller than a block. With a
stride, the input of a step has the same size, so blocks have fewer pixels: those whose windows lie within it. Kernels
that the engine does not support run on the processor cores beside it.

The constants are those of the published performance model of the NE16. `tests/rtl/sv/serial_unit.sv` is a
register-transfer model of an engine with these cycles.
"""

from __future__ import annotations

from functools import lru_cache
from math import ceil
from typing import NamedTuple

from npusim.isa.engines.engine import Problem
from npusim.isa.engines.mac_array import MOST_BITS


class Shape(NamedTuple):
    """The parameters that timing depends on; `npusim.isa.engines.mac_array.BitSerial` describes them."""

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
        """Return the bits of each weight of a problem."""
        return self.weight_bits if problem.few_bits else MOST_BITS


class Occupancy(NamedTuple):
    """Cycles of a problem, where each field includes one more effect than the field before it, and its traffic.

    full:          macs / `macs_per_cycle`, the lower bound.
    products:      products of all steps in full blocks; for unsupported kernels the time of the processor cores.
    steps:         with the loads and latencies of the steps.
    total:         with the output stage.
    map_values:    feature-map values fetched.
    weight_values: weights fetched.
    updates:       accumulators written.
    product_bits:  bits of a weight in each product.
    """

    full: int
    products: int
    steps: int
    total: int
    map_values: int
    weight_values: int
    updates: int
    product_bits: int = MOST_BITS


@lru_cache(maxsize=4096)
def occupancy(shape: Shape, problem: Problem) -> Occupancy:
    """Return the cycles and the traffic of a problem."""
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
    """Return the peak MACs per cycle. Binary multipliers beyond a multiple of the weight bits stay idle."""
    return products_per_cycle(shape) // shape.weight_bits


def products_per_cycle(shape: Shape) -> int:
    """Return the one-bit products per cycle: the taps and input channels of a step, for all pixels of a block."""
    return shape.side**2 * shape.kernel_side**2 * shape.input_channels
