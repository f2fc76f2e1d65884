"""The table `[mac_array]` of a hardware file, with the parameters of every MAC engine type."""

from __future__ import annotations

from typing import Literal

from npusim.isa.base.fields import (
    MORE,
    MORE_OR_LESS,
    ON_NPU,
    ReadBy,
    Section,
    capacity,
    choice,
    cycles,
    flag,
    number,
    positive,
    table,
    text,
    whole,
)

MOST_BITS = 8
"""Maximum bits of a weight."""


_TALL = ReadBy(needs=("mac_array.blocks.is_tall",), words="mac_array.block.micro_height above 1")


class Blocks(Section):
    """Parameters of the engine type `block`, which computes outputs block by block in an internal buffer.

    A block is computed micro-block by micro-block. In one step of `step_cycles` cycles, a micro-block accumulates a
    number of products for each of its outputs. The next block is computed while the output stage empties the last one.
    """

    micro_height: int = positive("output rows of a micro-block", default=1, le=64)
    micro_width: int = positive("output columns of a micro-block", default=2, le=64)
    micro_channels: int = positive("output channels of a micro-block", default=8, le=256)
    step_cycles: int = positive("cycles that one step of a micro-block takes", default=4, le=256)
    depth_first_channels: int = positive(
        "input channels that a step covers in depth-first order, for one kernel element", default=32, le=1024
    )
    part_kernel_elements: int = positive(
        "kernel elements that a step covers in part-kernel order, each with depth_first_channels / "
        "part_kernel_elements input channels",
        default=4,
        le=64,
    )
    part_kernel_channels: int = positive(
        "maximum input channels of a block in part-kernel order", default=16, le=1024
    )
    depthwise_elements: int = positive(
        "kernel elements that a step of a depthwise convolution covers, for one channel", default=4, le=64
    )
    kernel_side: int = positive(
        "maximum height and width of a kernel; a larger kernel is computed in pieces", default=8, le=64
    )
    most_dilation: int = positive(
        "maximum dilation; a kernel with a larger dilation is filled with zeros", default=64, le=64
    )
    most_stride: int = positive(
        "maximum stride; with a larger stride each output is computed alone", default=31, le=31
    )
    lone_weights_per_cycle: float = number(
        "weights per cycle that are loaded again for each output that is computed alone (most_stride)",
        default=1024.0,
        ge=1e-6,
        what_if=MORE,
        le=1024,
    )
    turns_rows: bool = flag(
        "for a single row of outputs, place the pixels of a micro-block side by side",
        default=False,
        read_by=_TALL,
    )
    pool_step_cycles: int = whole(
        "cycles of a micro-block for one element of a pool's window, with blocks as in a convolution; "
        "0: the vector unit pools at its own rate",
        default=0,
        ge=0,
        what_if=MORE_OR_LESS,
        le=256,
    )
    lone_step_cycles: int = cycles(
        "additional cycles of a step if a block is one micro-block high and wide", default=2, le=256
    )
    most_height: int = positive("maximum output rows of a block", default=32, le=1024)
    most_width: int = positive("maximum output columns of a block", default=64, le=1024)
    most_channels: int = positive("maximum output channels of a block", default=128, le=4096)
    split_channels: int = positive(
        "a block that does not hold all output channels holds a multiple of this number", default=16, le=256
    )
    buffer_kib: int = capacity(
        "capacity of the buffer for two input blocks and two blocks of int32 accumulators",
        default=20,
        le=65_536,
    )
    input_grain_kib: int = positive(
        "allocation granularity of the buffer for input blocks", default=4, le=1024
    )
    accumulator_grain_kib: int = positive(
        "allocation granularity of the buffer for accumulators", default=8, le=1024
    )
    brick_channels: int = positive(
        "channels of a pixel that are transferred together (a brick), used or not", default=16, le=256
    )
    few_channels_factor: int = positive(
        "bytes transferred for each byte of a pixel with few channels, up to a whole brick", default=4, le=64
    )
    output_cycles: float = number(
        "cycles of the output stage per output element", default=0.5, ge=1e-6, what_if=MORE_OR_LESS, le=1024
    )
    lookup_cycles: float = number(
        "cycles of the output stage per output element with a fused look-up (`vector.fused_lookup`)",
        default=1.0,
        ge=1e-6,
        what_if=MORE_OR_LESS,
        le=1024,
    )
    access_cycles: int = cycles(
        "latency in cycles of a block's transfer in or out, beside the time of its bytes at the port",
        default=32,
        le=10_000,
    )
    command_share: int = positive(
        "divisor of a lower bound: the products of a block, and its outputs, each take at least (cycles of "
        "its transfers in and out + products + outputs) / command_share",
        default=4,
        le=64,
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

    side: int = positive("height and width of a block in output pixels", default=3, le=64)
    strided_side: int = positive(
        "height and width of a block in output pixels for a kernel with a stride", default=2, le=64
    )
    channels: int = positive("output channels of a block", default=32, le=1024)
    input_channels: int = positive("input channels of a step", default=16, le=1024)
    depthwise_channels: int = positive("channels of a step of a depthwise convolution", default=16, le=1024)
    kernel_side: int = positive(
        "height and width of the only kernel that the engine computes beside 1 x 1", default=3, le=16
    )
    start_cycles: int = cycles(
        "cycles before the first input pixel of a step; then one pixel is loaded per cycle",
        default=6,
        le=1024,
    )
    point_start_cycles: int = cycles("start_cycles for a 1 x 1 kernel", default=10, le=1024)
    step_cycles: int = cycles(
        "cycles of a step beside loading its pixels and multiplying", default=14, le=1024
    )
    output_cycles: int = cycles(
        "cycles of the output stage for a block with all its channels", default=66, le=100_000
    )
    core_macs_per_cycle: float = number(
        "MACs per cycle of the cores of the cluster, which compute all other kernels",
        default=10.0,
        ge=1e-3,
        what_if=MORE,
        le=1e6,
    )


class Streams(Section):
    """Parameters of the engine type `stream`, whose units produce one output element per cycle.

    Kernels are stationary and a feature map streams past them.
    """

    units: int = positive("streaming units of the engine", default=4, le=64)
    multipliers: int = positive(
        "multipliers of a unit; a pass computes whole kernel windows of as many input channels as fit",
        default=75,
        le=65_536,
    )
    units_per_layer: int = positive("units that share the input channels of one layer", default=1, le=64)
    kernels: int = positive(
        "output channels whose kernels a unit holds while a feature map streams past", default=16, le=4096
    )


Dataflow = Literal["weight_stationary", "output_stationary", "both"]
WeightBlocks = Literal["none", "quantized", "dequantized", "both"]
_SYSTOLIC = ReadBy(("systolic",))
_PORTS = ReadBy(("systolic", "block", "stream"), priced=True)


class MacArray(Section):
    """rows x columns multipliers with 9-bit operands, int32 accumulators and an output stage."""

    kind: str = text("MAC engine type (isa/engines/kinds.py)", default="systolic", max_length=64)
    rows: int = positive("multipliers along the dot product", default=16, le=1024, read_by=_SYSTOLIC)
    columns: int = positive("multipliers along the output channels", default=8, le=1024, read_by=_SYSTOLIC)
    dataflow: Dataflow = choice(
        Dataflow,
        "mappings that the array supports; with both, the compiler chooses per layer",
        default="both",
        read_by=ReadBy(("systolic",), needs=("has_npu",), words=ON_NPU.words),
    )
    shadow_weights: bool = flag(
        "second weight register per multiplier, which hides weight loads behind streaming",
        default=True,
        read_by=_SYSTOLIC,
    )
    accumulator_kib: int = capacity(
        "capacity of the int32 accumulators, used as two halves (double buffer)",
        default=16,
        le=65_536,
        read_by=ReadBy(("systolic",), priced=True),
    )
    ifm_bytes_per_cycle: int = positive(
        "width of the scratchpad port for input feature maps", default=16, le=4096, read_by=_PORTS
    )
    weight_bytes_per_cycle: int = positive(
        "width of the scratchpad port for weights", default=8, le=4096, read_by=_PORTS
    )
    output_lanes: int = positive(
        "output elements requantized and written per cycle",
        default=8,
        le=1024,
        read_by=ReadBy(("systolic", "stream"), priced=True),
    )
    float16_columns: int = whole(
        "columns whose multipliers also compute float16; 0: none",
        default=0,
        ge=0,
        what_if=MORE,
        le=1024,
        read_by=_SYSTOLIC,
    )
    float32_columns: int = whole(
        "columns whose multipliers also compute float32; 0: none",
        default=0,
        ge=0,
        what_if=MORE,
        le=1024,
        read_by=_SYSTOLIC,
    )
    int16_passes: int = whole(
        "passes over the array for int16 feature maps with int8 weights, such as 2 for one pass per byte; "
        "0: the host computes such layers",
        default=0,
        ge=0,
        le=16,
        read_by=ON_NPU,
    )
    weight_bits: int = whole(
        "bits of a constant weight in a bit-serial array; determines time, energy, traffic and space in "
        "memories, while results are still computed with the model's weights",
        default=MOST_BITS,
        ge=2,
        le=MOST_BITS,
        read_by=ReadBy(("bit_serial",)),
    )
    weight_blocks: WeightBlocks = choice(
        WeightBlocks,
        "what the array computes on if weights are quantized in blocks. quantized: sums of quantized weights and "
        "8-bit values, scaled block by block. dequantized: floats, into which they are converted behind the weight "
        "port. none: the host computes such layers",
        default="none",
        read_by=_SYSTOLIC,
    )
    block: Blocks | None = table(
        Blocks, "parameters of the engine type `block`", default=None, read_by=ReadBy(("block",))
    )
    bit_serial: BitSerial | None = table(
        BitSerial, "parameters of the engine type `bit_serial`", default=None, read_by=ReadBy(("bit_serial",))
    )
    stream: Streams | None = table(
        Streams, "parameters of the engine type `stream`", default=None, read_by=ReadBy(("stream",))
    )

    @property
    def quantized_blocks(self) -> bool:
        """Whether the array computes on quantized weights in blocks."""
        return self.weight_blocks in ("quantized", "both")

    @property
    def dequantized_blocks(self) -> bool:
        """Whether weights in blocks are dequantized behind the weight port."""
        return self.weight_blocks in ("dequantized", "both")

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
