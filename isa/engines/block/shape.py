"""The parameters that the timing of a block engine depends on."""

from __future__ import annotations

from typing import Any, NamedTuple

from npusim.isa.base.identity_cache import IdentityCache
from npusim.isa.engines.mac_array import MacArray


class BlockShape(NamedTuple):
    """The keys of `[mac_array.block]` and the port widths as one hashable value, which serves as a cache key."""

    micro_height: int
    micro_width: int
    micro_channels: int
    step_cycles: int
    depth_first_channels: int
    part_kernel_elements: int
    part_kernel_channels: int
    depthwise_elements: int
    kernel_side: int
    most_dilation: int
    most_stride: int
    lone_weights_per_cycle: float
    turns_rows: bool
    pool_step_cycles: int
    lone_step_cycles: int
    most_height: int
    most_width: int
    most_channels: int
    split_channels: int
    buffer_kib: int
    input_grain: int
    accumulator_grain: int
    brick_channels: int
    few_channels_factor: int
    output_cycles: float
    lookup_cycles: float
    access_cycles: int
    command_share: int
    map_port: int
    weight_port: int

    def passing(self, channels: int) -> int:
        """Return the bytes that pass the port for a pixel of a feature map with this number of channels."""
        return int(min(rounded(channels, self.brick_channels), self.few_channels_factor * channels))

    @property
    def reload_cycles(self) -> int:
        """Cycles for the weights of a step, for the channels of one micro-block, to pass their port."""
        return -(-self.depth_first_channels * self.micro_channels // self.weight_port)

    @property
    def multipliers(self) -> int:
        """Number of products per cycle."""
        return (
            self.micro_height
            * self.micro_width
            * self.micro_channels
            * self.depth_first_channels
            // self.step_cycles
        )


def block_shape(array: MacArray) -> BlockShape:
    """Return the timing parameters of a MAC array of the block engine type."""
    return _SHAPES.of(array, _block_shape)


def _block_shape(array: MacArray) -> BlockShape:
    values = dict(vars(array.blocks))
    values["input_grain"] = values.pop("input_grain_kib")
    values["accumulator_grain"] = values.pop("accumulator_grain_kib")
    return BlockShape(**values, map_port=array.ifm_bytes_per_cycle, weight_port=array.weight_bytes_per_cycle)


_SHAPES = IdentityCache[BlockShape]()


def rounded(value: Any, step: int) -> Any:
    """Round an integer or an array up to a multiple of `step`."""
    return -(-value // step) * step
