"""The table `[mac_array]` of a hardware file, with the parameters of every MAC engine type."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from npusim.isa.base.fields import MORE, MORE_OR_LESS, ON_NPU, Capacity, Cycles, Positive, ReadBy, Section

MOST_BITS = 8
"""Maximum bits of a weight."""


_TALL = ReadBy(needs=("mac_array.blocks.is_tall",), words="mac_array.block.micro_height above 1")


class Blocks(Section):
    """Parameters of the engine type `block`, which computes outputs block by block in an internal buffer.

    A block is computed micro-block by micro-block. In one step of `step_cycles` cycles, a micro-block accumulates a
    number of products for each of its outputs. The next block is computed while the output stage empties the last one.
    """

    micro_height: Positive = Field(default=1, le=64, description="output rows of a micro-block")
    micro_width: Positive = Field(default=2, le=64, description="output columns of a micro-block")
    micro_channels: Positive = Field(default=8, le=256, description="output channels of a micro-block")
    step_cycles: Positive = Field(
        default=4, le=256, description="cycles that one step of a micro-block takes"
    )
    depth_first_channels: Positive = Field(
        default=32,
        le=1024,
        description="input channels that a step covers in depth-first order, for one kernel element",
    )
    part_kernel_elements: Positive = Field(
        default=4,
        le=64,
        description="kernel elements that a step covers in part-kernel order, each with depth_first_channels / "
        "part_kernel_elements input channels",
    )
    part_kernel_channels: Positive = Field(
        default=16, le=1024, description="maximum input channels of a block in part-kernel order"
    )
    depthwise_elements: Positive = Field(
        default=4,
        le=64,
        description="kernel elements that a step of a depthwise convolution covers, for one channel",
    )
    kernel_side: Positive = Field(
        default=8,
        le=64,
        description="maximum height and width of a kernel; a larger kernel is computed in pieces",
    )
    most_dilation: Positive = Field(
        default=64,
        le=64,
        description="maximum dilation; a kernel with a larger dilation is filled with zeros",
    )
    most_stride: Positive = Field(
        default=31,
        le=31,
        description="maximum stride; with a larger stride each output is computed alone",
    )
    lone_weights_per_cycle: Annotated[float, Field(ge=1e-6, json_schema_extra=MORE)] = Field(
        default=1024.0,
        le=1024,
        description="weights per cycle that are loaded again for each output that is computed alone (most_stride)",
    )
    turns_rows: Annotated[bool, _TALL] = Field(
        default=False,
        description="for a single row of outputs, place the pixels of a micro-block side by side",
    )
    pool_step_cycles: Annotated[int, Field(ge=0, json_schema_extra=MORE_OR_LESS)] = Field(
        default=0,
        le=256,
        description="cycles of a micro-block for one element of a pool's window, with blocks as in a convolution; "
        "0: the vector unit pools at its own rate",
    )
    lone_step_cycles: Cycles = Field(
        default=2,
        le=256,
        description="additional cycles of a step if a block is one micro-block high and wide",
    )
    most_height: Positive = Field(default=32, le=1024, description="maximum output rows of a block")
    most_width: Positive = Field(default=64, le=1024, description="maximum output columns of a block")
    most_channels: Positive = Field(default=128, le=4096, description="maximum output channels of a block")
    split_channels: Positive = Field(
        default=16,
        le=256,
        description="a block that does not hold all output channels holds a multiple of this number",
    )
    buffer_kib: Capacity = Field(
        default=20,
        le=65_536,
        description="capacity of the buffer for two input blocks and two blocks of int32 accumulators",
    )
    input_grain_kib: Positive = Field(
        default=4, le=1024, description="allocation granularity of the buffer for input blocks"
    )
    accumulator_grain_kib: Positive = Field(
        default=8, le=1024, description="allocation granularity of the buffer for accumulators"
    )
    brick_channels: Positive = Field(
        default=16,
        le=256,
        description="channels of a pixel that are transferred together (a brick), used or not",
    )
    few_channels_factor: Positive = Field(
        default=4,
        le=64,
        description="bytes transferred for each byte of a pixel with few channels, up to a whole brick",
    )
    output_cycles: Annotated[float, Field(ge=1e-6, json_schema_extra=MORE_OR_LESS)] = Field(
        default=0.5, le=1024, description="cycles of the output stage per output element"
    )
    lookup_cycles: Annotated[float, Field(ge=1e-6, json_schema_extra=MORE_OR_LESS)] = Field(
        default=1.0,
        le=1024,
        description="cycles of the output stage per output element with a fused look-up (`vector.fused_lookup`)",
    )
    access_cycles: Cycles = Field(
        default=32,
        le=10_000,
        description="latency in cycles of a block's transfer in or out, beside the time of its bytes at the port",
    )
    command_share: Positive = Field(
        default=4,
        le=64,
        description="divisor of a lower bound: the products of a block, and its outputs, each take at least (cycles of "
        "its transfers in and out + products + outputs) / command_share",
    )

    @property
    def is_tall(self) -> bool:
        """Whether a micro-block has several rows.

        Without `turns_rows`, all rows but one are idle for a single row of outputs.
        """
        return self.micro_height > 1


class BitSerial(Section):
    """Parameters of the engine type `bit_serial`, which processes one bit of the weights per cycle.

    It computes blocks of output pixels and channels.
    """

    side: Positive = Field(default=3, le=64, description="height and width of a block in output pixels")
    strided_side: Positive = Field(
        default=2,
        le=64,
        description="height and width of a block in output pixels for a kernel with a stride",
    )
    channels: Positive = Field(default=32, le=1024, description="output channels of a block")
    input_channels: Positive = Field(default=16, le=1024, description="input channels of a step")
    depthwise_channels: Positive = Field(
        default=16, le=1024, description="channels of a step of a depthwise convolution"
    )
    kernel_side: Positive = Field(
        default=3,
        le=16,
        description="height and width of the only kernel that the engine computes beside 1 x 1",
    )
    start_cycles: Cycles = Field(
        default=6,
        le=1024,
        description="cycles before the first input pixel of a step; then one pixel is loaded per cycle",
    )
    point_start_cycles: Cycles = Field(default=10, le=1024, description="start_cycles for a 1 x 1 kernel")
    step_cycles: Cycles = Field(
        default=14, le=1024, description="cycles of a step beside loading its pixels and multiplying"
    )
    output_cycles: Cycles = Field(
        default=66, le=100_000, description="cycles of the output stage for a block with all its channels"
    )
    core_macs_per_cycle: Annotated[float, Field(ge=1e-3, json_schema_extra=MORE)] = Field(
        default=10.0,
        le=1e6,
        description="MACs per cycle of the cores of the cluster, which compute all other kernels",
    )


class Streams(Section):
    """Parameters of the engine type `stream`, whose units produce one output element per cycle.

    Kernels are stationary and a feature map streams past them.
    """

    units: Positive = Field(default=4, le=64, description="streaming units of the engine")
    multipliers: Positive = Field(
        default=75,
        le=65_536,
        description="multipliers of a unit; a pass computes whole kernel windows of as many input channels as fit",
    )
    units_per_layer: Positive = Field(
        default=1, le=64, description="units that share the input channels of one layer"
    )
    kernels: Positive = Field(
        default=16,
        le=4096,
        description="output channels whose kernels a unit holds while a feature map streams past",
    )


_SYSTOLIC = ReadBy(("systolic",))
_PORTS = ReadBy(("systolic", "block", "stream"), priced=True)


class MacArray(Section):
    """rows x columns multipliers with 9-bit operands, int32 accumulators and an output stage."""

    kind: str = Field(default="systolic", max_length=64, description="MAC engine type (isa/engines/kinds.py)")
    rows: Annotated[Positive, _SYSTOLIC] = Field(
        default=16, le=1024, description="multipliers along the dot product"
    )
    columns: Annotated[Positive, _SYSTOLIC] = Field(
        default=8, le=1024, description="multipliers along the output channels"
    )
    dataflow: Annotated[
        Literal["weight_stationary", "output_stationary", "both"],
        ReadBy(("systolic",), needs=("has_npu",), words=ON_NPU.words),
    ] = Field(
        default="both",
        description="mappings that the array supports; with both, the compiler chooses per layer",
    )
    shadow_weights: Annotated[bool, _SYSTOLIC] = Field(
        default=True,
        description="second weight register per multiplier, which hides weight loads behind streaming",
    )
    accumulator_kib: Annotated[Capacity, ReadBy(("systolic",), priced=True)] = Field(
        default=16,
        le=65_536,
        description="capacity of the int32 accumulators, used as two halves (double buffer)",
    )
    ifm_bytes_per_cycle: Annotated[Positive, _PORTS] = Field(
        default=16, le=4096, description="width of the scratchpad port for input feature maps"
    )
    weight_bytes_per_cycle: Annotated[Positive, _PORTS] = Field(
        default=8, le=4096, description="width of the scratchpad port for weights"
    )
    output_lanes: Annotated[Positive, ReadBy(("systolic", "stream"), priced=True)] = Field(
        default=8, le=1024, description="output elements requantized and written per cycle"
    )
    float16_columns: Annotated[int, Field(ge=0, json_schema_extra=MORE), _SYSTOLIC] = Field(
        default=0, le=1024, description="columns whose multipliers also compute float16; 0: none"
    )
    float32_columns: Annotated[int, Field(ge=0, json_schema_extra=MORE), _SYSTOLIC] = Field(
        default=0, le=1024, description="columns whose multipliers also compute float32; 0: none"
    )
    int16_passes: Annotated[int, ON_NPU] = Field(
        default=0,
        ge=0,
        le=16,
        description="passes over the array for int16 feature maps with int8 weights, such as 2 for one pass per byte; "
        "0: the host computes such layers",
    )
    weight_bits: Annotated[int, ReadBy(("bit_serial",))] = Field(
        default=MOST_BITS,
        ge=2,
        le=MOST_BITS,
        description="bits of a constant weight in a bit-serial array; determines time, energy, traffic and space in "
        "memories, while results are still computed with the model's weights",
    )
    block: Annotated[Blocks | None, ReadBy(("block",))] = Field(
        default=None, description="parameters of the engine type `block`"
    )
    bit_serial: Annotated[BitSerial | None, ReadBy(("bit_serial",))] = Field(
        default=None, description="parameters of the engine type `bit_serial`"
    )
    stream: Annotated[Streams | None, ReadBy(("stream",))] = Field(
        default=None, description="parameters of the engine type `stream`"
    )

    @property
    def few_bits(self) -> bool:
        """Whether constant weights have fewer than eight bits."""
        return self.weight_bits < MOST_BITS

    def stored_bytes(self, weights: int) -> int:
        """Return the bytes of constant weights that are packed without gaps, at `weight_bits` bits each."""
        return -(-weights * self.weight_bits // MOST_BITS)

    @property
    def blocks(self) -> Blocks:
        """Return the parameters of the engine type `block`, or the defaults."""
        return self.block or _BLOCKS

    @property
    def bit_serials(self) -> BitSerial:
        """Return the parameters of the engine type `bit_serial`, or the defaults."""
        return self.bit_serial or _BIT_SERIAL

    @property
    def streams(self) -> Streams:
        """Return the parameters of the engine type `stream`, or the defaults."""
        return self.stream or _STREAMS


_BLOCKS = Blocks()
_BIT_SERIAL = BitSerial()
_STREAMS = Streams()
