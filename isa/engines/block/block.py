"""The block MAC engine type: output blocks of micro-blocks, overlapped with an output stage.

The block size follows from the sizes of the problem (`npusim.isa.engines.block.choice`).
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import ClassVar

from npusim.isa.base.cause import Cause
from npusim.isa.engines.engine import ArrayRule, Circuits, Layout, OneLayout, Problem, Use, in_turn
from npusim.isa.engines.mac_array import Blocks, MacArray


class Block(OneLayout):
    """The engine type that computes output blocks micro-block by micro-block."""

    kind: ClassVar[str] = "block"
    sizes: ClassVar[tuple[str, ...]] = (
        "mac_array.block.micro_height",
        "mac_array.block.micro_width",
        "mac_array.block.micro_channels",
    )
    works: ClassVar[str] = "the array works in blocks"
    # Factors from ethos-u55-128 to ethos-u55-256, with the micro-block doubled along the channels or along the rows.
    larger: ClassVar[tuple[Mapping[str, float], ...]] = tuple(
        {
            f"block.{side}": 2,
            "block.buffer_kib": 2,
            "block.input_grain_kib": 2,
            "block.accumulator_grain_kib": 2,
            "block.output_cycles": 0.5,
            "accumulator_kib": 2,
            "output_lanes": 2,
        }
        for side in ("micro_channels", "micro_height")
    )
    causes: ClassVar[tuple[Cause, ...]] = (
        Cause(
            "micro_blocks",
            "micro-blocks",
            "#0e7c8a",
            "inside the MAC array: a micro-block has fewer outputs, or a step fewer products, than there are "
            "multipliers",
            ("mac_array.block.micro_channels", "mac_array.block.depth_first_channels"),
        ),
        Cause(
            "by_channel",
            "channel by channel",
            "#4fb3a5",
            "inside the MAC array: a depthwise convolution has fewer products for a step than there are multipliers",
            ("mac_array.block.depthwise_elements",),
        ),
        Cause(
            "reload",
            "weight reload",
            "#6a8fd8",
            "inside the MAC array: the plane of a block is computed before the weights of the next step have arrived",
            ("mac_array.weight_bytes_per_cycle", "mac_array.block.buffer_kib"),
        ),
        Cause(
            "block_output",
            "block output",
            "#9db8e8",
            "inside the MAC array: the array waits for the output stage or for commands, or the last block is written",
            ("mac_array.block.output_cycles", "mac_array.block.buffer_kib"),
        ),
        Cause(
            "map_port",
            "feature-map port",
            "#3f8fc4",
            "inside the MAC array: feature maps pass the port more slowly than blocks are computed",
            ("mac_array.ifm_bytes_per_cycle", "mac_array.block.buffer_kib"),
        ),
    )

    def macs_per_cycle(self, array: MacArray) -> int:
        """Return the outputs of a micro-block times the products of each output per cycle."""
        from npusim.isa.engines.block.shape import block_shape

        return block_shape(array).multipliers

    def width(self, array: MacArray) -> int:
        """Return the channel granularity of blocks."""
        return array.blocks.split_channels

    def use(self, array: MacArray, problem: Problem, layout: Layout) -> Use:
        """Return the cycles and the traffic of a problem, by the closed form in `timing`."""
        from npusim.isa.engines.block.shape import block_shape
        from npusim.isa.engines.block.timing import occupancy

        work = occupancy(block_shape(array), problem)
        return Use(work.total, work.array, work.map_values, work.weight_values, work.updates)

    def split(self, array: MacArray, problem: Problem, layout: Layout) -> tuple[int, ...]:
        """Return the cycles that each cause adds to those before it."""
        from npusim.isa.engines.block.shape import block_shape
        from npusim.isa.engines.block.timing import occupancy

        work = occupancy(block_shape(array), problem)
        return in_turn(work[:6])

    def pool(self, array: MacArray, problem: Problem) -> int | None:
        """Return the cycles of a pooling operator in blocks; None if the hardware has no `pool_step_cycles`."""
        from npusim.isa.engines.block.shape import block_shape
        from npusim.isa.engines.block.timing import pool

        shape = block_shape(array)
        return pool(shape, problem) if shape.pool_step_cycles else None

    def circuits(self, array: MacArray) -> Circuits:
        """Return the circuits: two blocks of accumulators, and weight registers for the current and the next step."""
        return Circuits(self.macs_per_cycle(array), 2, 2)


def _micro_block(array: MacArray) -> str | None:
    """Return a fault if the buffer cannot hold one micro-block with the inputs that a step reads for it."""
    from npusim.isa.engines.block.choice import smallest_fits
    from npusim.isa.engines.block.shape import block_shape
    from npusim.isa.engines.block.timing import turned

    given = block_shape(array)
    shapes = (given, turned(given)) if given.turns_rows else (given,)
    for shape, kernel, by_channel in product(shapes, (2, 3), (False, True)):
        wide = Problem(
            *(shape.micro_height, shape.micro_width, given.split_channels, given.depth_first_channels),
            *(kernel, kernel),
            dilation_width=given.kernel_side,
            dilation_height=given.kernel_side,
            by_channel=by_channel,
            value_bytes=2 if array.int16_passes else 1,
        )
        if not smallest_fits(shape, wide):
            return f"{given.buffer_kib} is too small for a micro-block and its inputs"
    return None


def _whole_products(array: MacArray) -> str | None:
    """Return a fault if the products of a part-kernel step do not divide evenly over its elements and cycles."""
    block = array.blocks
    if block.depth_first_channels % (block.part_kernel_elements * block.step_cycles) == 0:
        return None
    return (
        f"{block.depth_first_channels} is not a multiple of part_kernel_elements x step_cycles "
        f"({block.part_kernel_elements} x {block.step_cycles})"
    )


def _depth(array: MacArray) -> str | None:
    """Return a fault if the channel granularity of blocks does not fit the micro-block or the largest block."""
    block = array.blocks
    if block.split_channels % block.micro_channels == 0 and block.most_channels % block.split_channels == 0:
        return None
    return (
        f"{block.split_channels} is not a multiple of micro_channels ({block.micro_channels}) that divides "
        f"most_channels ({block.most_channels})"
    )


Block.rules = (
    ArrayRule(
        "block.depth_first_channels", ("block.part_kernel_elements", "block.step_cycles"), _whole_products
    ),
    ArrayRule("block.split_channels", ("block.micro_channels", "block.most_channels"), _depth),
    ArrayRule("block.buffer_kib", tuple(f"block.{name}" for name in Blocks.model_fields), _micro_block),
)
