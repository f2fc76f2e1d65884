"""The table `[mac_array]` of a hardware file: what every kind of MAC array is described by."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from npusim.isa.base.fields import MORE, MORE_OR_LESS, ON_NPU, Capacity, Cycles, Positive, ReadBy, Section

MOST_BITS = 8
"""Bits of a weight at most."""


_TALL = ReadBy(needs=("mac_array.blocks.is_tall",), words="mac_array.block.micro_height above 1")


class Blocks(Section):
    """Of the kind `block`: outputs are made block by block in an internal buffer, a block micro-block by micro-block.

    In a step each micro-block takes `step_cycles` for a number of products of each of its outputs. The next block is
    computed while the output stage empties the last one.
    """

    micro_height: Positive = Field(default=1, le=64, description="output rows of a micro-block")
    micro_width: Positive = Field(default=2, le=64, description="output columns of a micro-block")
    micro_channels: Positive = Field(default=8, le=256, description="output channels of a micro-block")
    step_cycles: Positive = Field(default=4, le=256, description="cycles of a micro-block in a step")
    depth_first_channels: Positive = Field(
        default=32, le=1024, description="input channels of a step depth first, of one kernel element"
    )
    part_kernel_elements: Positive = Field(
        default=4,
        le=64,
        description="kernel elements of a step part-kernel first, each of so many fewer input channels",
    )
    part_kernel_channels: Positive = Field(
        default=16, le=1024, description="input channels that lie in the buffer at a time, part-kernel first"
    )
    depthwise_elements: Positive = Field(
        default=4, le=64, description="kernel elements of a step of a depthwise convolution, of one channel"
    )
    kernel_side: Positive = Field(
        default=8,
        le=64,
        description="rows and columns of a kernel at most; a larger one is computed in pieces",
    )
    most_dilation: Positive = Field(
        default=64,
        le=64,
        description="steps between kernel elements at most; a kernel with larger ones is filled up",
    )
    most_stride: Positive = Field(
        default=31,
        le=31,
        description="steps between windows at most; with larger ones each output is computed alone",
    )
    lone_weights_per_cycle: Annotated[float, Field(ge=1e-6, json_schema_extra=MORE)] = Field(
        default=1024.0,
        le=1024,
        description="weights that arrive again in a cycle for each output that is computed alone",
    )
    turns_rows: Annotated[bool, _TALL] = Field(
        default=False, description="of a single row of outputs the pixels of a micro-block lie side by side"
    )
    pool_step_cycles: Annotated[int, Field(ge=0, json_schema_extra=MORE_OR_LESS)] = Field(
        default=0,
        le=256,
        description="cycles of a micro-block for one element of a pool's window, in blocks as convolutions are; "
        "0: the vector unit pools at its own rate",
    )
    lone_step_cycles: Cycles = Field(
        default=2, le=256, description="cycles more of a step where the plane of a block is one micro-block"
    )
    most_height: Positive = Field(default=32, le=1024, description="output rows of a block at most")
    most_width: Positive = Field(default=64, le=1024, description="output columns of a block at most")
    most_channels: Positive = Field(default=128, le=4096, description="output channels of a block at most")
    split_channels: Positive = Field(
        default=16, le=256, description="a block with some of the channels only has a multiple of so many"
    )
    buffer_kib: Capacity = Field(
        default=20, le=65_536, description="buffer of two input blocks and two blocks of int32 accumulators"
    )
    input_grain_kib: Positive = Field(
        default=4, le=1024, description="the part of the buffer for input blocks is a multiple of it"
    )
    accumulator_grain_kib: Positive = Field(
        default=8, le=1024, description="the part of the buffer for accumulators is a multiple of it"
    )
    brick_channels: Positive = Field(
        default=16, le=256, description="channels of feature maps that pass the port together, used or not"
    )
    few_channels_factor: Positive = Field(
        default=4, le=64, description="bytes that pass for one of a pixel with fewer channels, up to a brick"
    )
    output_cycles: Annotated[float, Field(ge=1e-6, json_schema_extra=MORE_OR_LESS)] = Field(
        default=0.5, le=1024, description="cycles of the output stage per element that it writes"
    )
    lookup_cycles: Annotated[float, Field(ge=1e-6, json_schema_extra=MORE_OR_LESS)] = Field(
        default=1.0, le=1024, description="the same where it looks each of them up (`vector.fused_lookup`)"
    )
    access_cycles: Cycles = Field(
        default=32,
        le=10_000,
        description="cycles from a request of a block to its first byte, or its last one",
    )
    command_share: Positive = Field(
        default=4,
        le=64,
        description="a block takes no less than its transfers in and out, its products and its outputs together, "
        "divided by this",
    )

    @property
    def is_tall(self) -> bool:
        """Whether a micro-block has several rows; for a single row of outputs the others idle without `turns_rows`."""
        return self.micro_height > 1


class BitSerial(Section):
    """Of the kind `bit_serial`: blocks of output pixels and channels, whose weights pass one bit a cycle."""

    side: Positive = Field(default=3, le=64, description="rows and columns of output pixels of a block")
    strided_side: Positive = Field(default=2, le=64, description="the same of a kernel with a stride")
    channels: Positive = Field(default=32, le=1024, description="output channels of a block")
    input_channels: Positive = Field(default=16, le=1024, description="input channels of a step")
    depthwise_channels: Positive = Field(
        default=16, le=1024, description="channels of a step of a depthwise convolution"
    )
    kernel_side: Positive = Field(
        default=3, le=16, description="rows and columns of the kernel that it has beside 1 x 1"
    )
    start_cycles: Cycles = Field(
        default=6, le=1024, description="cycles before the first pixel of a step, of which one comes a cycle"
    )
    point_start_cycles: Cycles = Field(default=10, le=1024, description="the same of kernels of 1 x 1")
    step_cycles: Cycles = Field(
        default=14, le=1024, description="cycles of a step beside its pixels and its products"
    )
    output_cycles: Cycles = Field(
        default=66, le=100_000, description="cycles of the output stage for a block with all channels"
    )
    core_macs_per_cycle: Annotated[float, Field(ge=1e-3, json_schema_extra=MORE)] = Field(
        default=10.0,
        le=1e6,
        description="MACs per cycle of the cores beside it, which have the other kernels",
    )


class Streams(Section):
    """Of the kind `stream`: units of multipliers that feature maps flow through, an output element a cycle."""

    units: Positive = Field(default=4, le=64, description="units")
    multipliers: Positive = Field(
        default=75,
        le=65_536,
        description="multipliers of a unit: in a pass it takes whole kernel windows of as many input channels as fit",
    )
    units_per_layer: Positive = Field(
        default=1, le=64, description="units that divide the input channels of one layer among them"
    )
    kernels: Positive = Field(
        default=16,
        le=4096,
        description="output channels whose kernels lie in a unit while a feature map passes",
    )


_SYSTOLIC = ReadBy(("systolic",))
_PORTS = ReadBy(("systolic", "block", "stream"), priced=True)


class MacArray(Section):
    """rows x columns multipliers with 9-bit operands, int32 accumulators and an output stage."""

    kind: str = Field(
        default="systolic", max_length=64, description="how it computes: a kind of isa/engines/kinds.py"
    )
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
        default=True, description="second weight register per multiplier: loads hide behind streaming"
    )
    accumulator_kib: Annotated[Capacity, ReadBy(("systolic",), priced=True)] = Field(
        default=16, le=65_536, description="int32 accumulators, used as two halves"
    )
    ifm_bytes_per_cycle: Annotated[Positive, _PORTS] = Field(
        default=16, le=4096, description="scratchpad port for the feature map"
    )
    weight_bytes_per_cycle: Annotated[Positive, _PORTS] = Field(
        default=8, le=4096, description="scratchpad port for the weights"
    )
    output_lanes: Annotated[Positive, ReadBy(("systolic", "stream"), priced=True)] = Field(
        default=8, le=1024, description="elements requantised and written per cycle"
    )
    float16_columns: Annotated[int, Field(ge=0, json_schema_extra=MORE), _SYSTOLIC] = Field(
        default=0, le=1024, description="columns that also compute float16, a multiplier each; 0: none"
    )
    float32_columns: Annotated[int, Field(ge=0, json_schema_extra=MORE), _SYSTOLIC] = Field(
        default=0, le=1024, description="likewise float32"
    )
    int16_passes: Annotated[int, ON_NPU] = Field(
        default=0,
        ge=0,
        le=16,
        description="passes over the array for an int16 feature map with int8 weights: 2 for its bytes one after the "
        "other; 0: none, the host computes such layers",
    )
    weight_bits: Annotated[int, ReadBy(("bit_serial",))] = Field(
        default=MOST_BITS,
        ge=2,
        le=MOST_BITS,
        description="of a bit-serial array: bits of a weight that is a constant, in time, energy, traffic and room in "
        "memories; values stay those of the model",
    )
    block: Annotated[Blocks | None, ReadBy(("block",))] = Field(
        default=None, description="of the kind `block`"
    )
    bit_serial: Annotated[BitSerial | None, ReadBy(("bit_serial",))] = Field(
        default=None, description="of the kind `bit_serial`"
    )
    stream: Annotated[Streams | None, ReadBy(("stream",))] = Field(
        default=None, description="of the kind `stream`"
    )

    @property
    def few_bits(self) -> bool:
        """Whether weights that are constants have fewer bits than eight."""
        return self.weight_bits < MOST_BITS

    def stored_bytes(self, weights: int) -> int:
        """Bytes of weights that are constants, packed without gaps: of each as many bits as `weight_bits`."""
        return -(-weights * self.weight_bits // MOST_BITS)

    @property
    def blocks(self) -> Blocks:
        """What the kind `block` goes by."""
        return self.block or _BLOCKS

    @property
    def bit_serials(self) -> BitSerial:
        """What the kind `bit_serial` goes by."""
        return self.bit_serial or _BIT_SERIAL

    @property
    def streams(self) -> Streams:
        """What the kind `stream` goes by."""
        return self.stream or _STREAMS


_BLOCKS = Blocks()
_BIT_SERIAL = BitSerial()
_STREAMS = Streams()
