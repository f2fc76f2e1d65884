"""The hardware description: one frozen, validated value that every cost and every capacity comes from.

Fields are checked here; rules between fields, files and presets are in `npusim.isa.hardware.file`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from npusim.isa.base.fields import (
    MORE,
    MORE_OR_LESS,
    ON_NPU,
    Clock,
    Cycles,
    Given,
    GivenClock,
    Positive,
    PositiveCycles,
    ReadBy,
    Section,
    Time,
)
from npusim.isa.engines.kinds import engine_of
from npusim.isa.engines.mac_array import MacArray
from npusim.isa.hardware.memories import (
    CONTENTS,
    FIRST_FURTHER,
    MOST_FURTHER,
    Content,
    Dram,
    FurtherMemory,
    Port,
    PortTiming,
    Scratchpad,
    Space,
    as_tuple,
    cycles_of_ns,
    port_timing,
)

_RESCALE_AND_NPU = ReadBy(needs=("rescales_codes",), words="float32_rescale and an NPU that computes")


class FrontEnd(Section):
    """Fetches encoded instructions from the memory that holds them, decodes them, dispatches in program order to
    unit queues.
    """

    queue_depth: Positive = Field(
        default=16, le=1024, description="instructions that wait in front of each unit"
    )
    fetch_instructions: Positive = Field(
        default=4, le=256, description="instructions that are fetched ahead of dispatch, at most"
    )
    decode_cycles: Cycles = Field(
        default=1, le=1024, description="cycles to decode and dispatch one instruction"
    )
    layer_cycles: Cycles = Field(
        default=0,
        le=10_000_000,
        description="cycles before each layer in which code on a core prepares it and nothing is dispatched; with "
        "overlap other than all they begin when everything dispatched before has ended",
    )
    inference_cycles: Cycles = Field(
        default=0,
        le=5_000_000,
        description="cycles before the first layer in which code on a core prepares the inference, beside layer_cycles",
    )


_PACKED = ReadBy(
    needs=("packs_weights",),
    words="packed weights (dma.decoder_bytes_per_cycle above 0, mac_array.weight_bits 8)",
)


class Dma(Section):
    """Strided copies between the memories; each channel has a queue of its own."""

    channels: Positive = Field(default=2, le=4, description="independent channels")
    setup_cycles: Annotated[Cycles, ON_NPU] = Field(
        default=16, le=100_000, description="cycles before the first request of a transfer"
    )
    port_bytes_per_cycle: Positive = Field(
        default=16, le=4096, description="scratchpad side, bytes per cycle and channel"
    )
    decoder_bytes_per_cycle: Annotated[int, Field(ge=0, json_schema_extra=MORE)] = Field(
        default=0, le=4096, description="weights unpacked per cycle and channel; 0: weights stay plain"
    )
    decoder_skips: Annotated[bool, _PACKED] = Field(
        default=False, description="weights that are zero, and groups of few values, are packed shorter"
    )
    local_bytes_per_cycle: Annotated[float, Field(ge=0, json_schema_extra=MORE), ON_NPU] = Field(
        default=0.0,
        le=4096,
        description="copies inside the scratchpad, where something else than the port makes them; 0: the port does",
    )
    views: Annotated[bool, ON_NPU] = Field(
        default=False,
        description="units write and read parts of tensors where they lie: copies that join or take apart cost nothing",
    )
    burst_buffer_kib: Annotated[int, Field(ge=0, json_schema_extra=MORE_OR_LESS)] = Field(
        default=4,
        le=1024,
        description="burst buffer of a channel, for strided copies; half is filled while half is drained; 0: none",
    )

    @property
    def block_bytes(self) -> int:
        """Most bytes of a block of a strided copy: half of the burst buffer."""
        return self.burst_buffer_kib * 1024 // 2


_FLOAT = ReadBy(needs=("vector.float16_lanes", "vector.float32_lanes"))
_RESCALE = ReadBy(needs=("float32_rescale",))


class Vector(Section):
    """Elementwise, pooling, reduction, look-up and softmax work on `lanes` elements at a time."""

    lanes: Positive = Field(default=8, le=4096, description="elements per cycle of a one-cycle function")
    startup_cycles: Annotated[Cycles, ON_NPU] = Field(
        default=8, le=1024, description="pipeline fill of one instruction"
    )
    add_cycles: PositiveCycles = Field(
        default=2, le=1024, description="cycles per element and lane: quantised add and subtract"
    )
    mul_cycles: PositiveCycles = Field(default=2, le=1024, description="quantised multiply")
    requantise_cycles: Annotated[PositiveCycles, ON_NPU] = Field(
        default=1, le=1024, description="rescale to another scale and zero point"
    )
    max_cycles: PositiveCycles = Field(default=1, le=1024, description="compare and select")
    pool_cycles: PositiveCycles = Field(default=1, le=1024, description="one window element of a pool")
    reduce_cycles: PositiveCycles = Field(default=1, le=1024, description="one element of a sum")
    divide_cycles: PositiveCycles = Field(default=4, le=1024, description="one rounded division")
    lut_cycles: PositiveCycles = Field(default=1, le=1024, description="one look-up")
    resize_cycles: Annotated[int, Field(ge=0, json_schema_extra=MORE_OR_LESS), ON_NPU] = Field(
        default=0,
        le=1024,
        description="one element between pixels; 0: a product for each pixel that takes part",
    )
    fused_lookup: Annotated[bool, ON_NPU] = Field(
        default=False,
        description="who gives the operand of a look-up, and for it alone, looks it up on the way: it takes no time",
    )
    brick_channels: Annotated[Positive, ON_NPU] = Field(
        default=1,
        le=256,
        description="channels of a pixel that functions of two operands take together, used or not",
    )
    exp_cycles: PositiveCycles = Field(
        default=8, le=1024, description="one fixed-point exponential or reciprocal"
    )
    literal_cycles: Annotated[PositiveCycles, _RESCALE] = Field(
        default=4,
        le=1024,
        description="two codes to float32, a sum, product or comparison, and back to a code",
    )
    literal_divide_cycles: Annotated[PositiveCycles, _RESCALE] = Field(
        default=8, le=1024, description="likewise a quotient"
    )
    fused_cycles: Annotated[PositiveCycles, _RESCALE] = Field(
        default=2, le=1024, description="two codes to one by two products and sums in float32"
    )
    dequantise_cycles: Annotated[PositiveCycles, _RESCALE_AND_NPU] = Field(
        default=2, le=1024, description="one code to float32, and into a sum"
    )
    quantise_cycles: Annotated[PositiveCycles, _RESCALE] = Field(
        default=6, le=1024, description="a sum of floats over their number, and to a code"
    )
    int16_passes: Annotated[int, ON_NPU] = Field(
        default=0,
        ge=0,
        le=16,
        description="passes of a lane over an int16 value: 2 for its bytes one after the other; 0: none, the host "
        "computes on int16",
    )
    float16_lanes: Annotated[int, Field(ge=0, json_schema_extra=MORE)] = Field(
        default=0,
        le=4096,
        description="elements per cycle of a one-cycle function of float16; 0: it has none",
    )
    float32_lanes: Annotated[int, Field(ge=0, json_schema_extra=MORE)] = Field(
        default=0, le=4096, description="likewise of float32"
    )
    float_cycles: Annotated[PositiveCycles, _FLOAT] = Field(
        default=1, le=1024, description="a sum, product or comparison of reals"
    )
    float_divide_cycles: Annotated[PositiveCycles, _FLOAT] = Field(
        default=4, le=1024, description="a quotient or root of reals"
    )
    float_function_cycles: Annotated[PositiveCycles, _FLOAT] = Field(
        default=8, le=1024, description="an exponential, logarithm or the like of reals"
    )


class Host(Section):
    """The CPU that runs what the NPU does not, and against which PerformanceInfo is measured."""

    core: str = Field(
        default="cortex-m7", max_length=64, description="a core of the CPU table (isa/hardware/cpu.py)"
    )
    threads: Given = Field(default=1, le=64, description="threads, one per core")
    clock_mhz: GivenClock | None = Field(
        default=None, description="clock of the CPU; the table's clock of the core if absent"
    )
    call_overhead_us: Time = Field(
        default=20.0, description="driver call: once per inference in PerformanceInfo"
    )
    handover_us: Time = Field(
        default=5.0, description="interrupt and return for one host operator inside a program"
    )


_DRAM = ReadBy(needs=("has_dram",), words="a DRAM, which holds what no [[memory]] does")


class Technology(Section):
    """Process node, supply voltage, and row of the energy table."""

    node_nm: Literal[28, 22, 16, 7] = Field(default=28, description="process node of the energy table")
    rated_mhz: Annotated[float, Field(ge=1e-3, le=10_000)] | None = Field(
        default=None,
        description="clock that the design reaches at rated_v, from which the supply follows when clock_mhz changes; "
        "clock_mhz of the file if absent",
    )
    rated_v: Annotated[float, Field(gt=0.3, lt=1.5)] | None = Field(
        default=None, description="supply voltage at rated_mhz; the node's nominal if absent"
    )
    vdd_v: Annotated[float, Field(gt=0.3, lt=1.5)] | None = Field(
        default=None,
        description="supply voltage at clock_mhz; what the law of the node needs for that clock if absent",
    )
    dram: Annotated[Literal["lpddr4", "lpddr5", "lpddr3", "ddr3", "hbm2", "psram"], _DRAM] = Field(
        default="lpddr4", description="DRAM row of the energy table"
    )
    system_pj_per_cycle: Annotated[float, Field(ge=0, le=1e6)] | None = Field(
        default=None,
        description="clock tree, buses, controller and whatever else of the chip is awake, each cycle at the nominal "
        "voltage; the energy table's if absent",
    )


ALL_OPERATORS = "all"
"""In `Hardware.lacks_operators`: every one of them."""

_OperatorName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$", max_length=64)]


class Hardware(Section):
    """One NPU with its memory and host."""

    name: str = Field(min_length=1, max_length=64, description="shown in every report")
    description: str = Field(default="", max_length=1000, description="one line on what it stands for")
    clock_mhz: Clock = Field(default=500.0, description="clock of the NPU")
    lacks_operators: Annotated[tuple[_OperatorName, ...], BeforeValidator(as_tuple)] = Field(
        default=(),
        max_length=256,
        description='operators (`npusim ops`) that the NPU lacks though its units could compute them, or "all": the '
        "host computes them; a study does not vary it",
    )
    float32_rescale: bool = Field(
        default=True,
        description="output stage and vector lanes also take codes to other scales in float32, as ONNX does",
    )
    overlap: Annotated[Literal["all", "loads", "reloads", "none"], ON_NPU] = Field(
        default="all",
        description="what goes on at the same time: whatever data allow; one computation, and loads for it and the "
        "operator behind it; the same, but weights that are read once, and more slowly than computed with, wait for "
        "their operator; one computation, and loads for it only",
    )
    front_end: FrontEnd = FrontEnd()
    dma: Dma = Dma()
    dram: Annotated[Dram, _DRAM] = Dram()
    scratchpad: Scratchpad = Scratchpad()
    mac_array: MacArray = MacArray()
    vector: Vector = Vector()
    host: Host = Host()
    technology: Technology = Technology()
    memory: Annotated[tuple[FurtherMemory, ...], BeforeValidator(as_tuple)] = Field(
        default=(), max_length=MOST_FURTHER, description="memories beside the scratchpad and the DRAM"
    )

    def lacks(self, operator: str) -> bool:
        """Whether the NPU is said to lack an operator."""
        return self.is_host_alone or operator in self.lacks_operators

    @property
    def is_host_alone(self) -> bool:
        """Whether the NPU is said to lack every operator."""
        return ALL_OPERATORS in self.lacks_operators

    @property
    def has_npu(self) -> bool:
        """Whether the NPU computes anything."""
        return not self.is_host_alone

    @property
    def rescales_codes(self) -> bool:
        """Whether the vector lanes requantize in float32."""
        return self.float32_rescale and self.has_npu

    @property
    def macs_per_cycle(self) -> int:
        """Multiply-accumulates of the full array in one cycle."""
        return engine_of(self.mac_array).macs_per_cycle(self.mac_array)

    @property
    def packs_weights(self) -> bool:
        """Whether weights are stored for the decoder; those of few bits have as many each, and pass none."""
        return self.dma.decoder_bytes_per_cycle > 0 and not self.mac_array.few_bits and self.has_npu

    @property
    def tops(self) -> float:
        """Operations per second of the full array in 10^12; a multiply-accumulate is two."""
        return 2 * self.macs_per_cycle * self.clock_mhz * 1e-6

    @property
    def scratchpad_bytes(self) -> int:
        """Capacity of the scratchpad."""
        return self.scratchpad.size_kib * 1024

    @property
    def dram_bytes(self) -> int:
        """Capacity of the DRAM."""
        return self.dram.size_mib * 1024 * 1024

    @property
    def dram_bytes_per_cycle(self) -> float:
        """Peak DRAM bandwidth in bytes per NPU cycle."""
        return self.peak_bytes_per_cycle(Space.DRAM)

    @property
    def spaces(self) -> tuple[Space, ...]:
        """The memories, by the number that instructions give them."""
        return tuple(Space(number) for number in range(FIRST_FURTHER + len(self.memory)))

    @property
    def outer_spaces(self) -> tuple[Space, ...]:
        """The memories behind ports: all but the scratchpad."""
        return self.spaces[1:]

    def memory_name(self, space: Space) -> str:
        """What a memory is called in keys and reports."""
        return self.memory[space - FIRST_FURTHER].name if space >= FIRST_FURTHER else space.name.lower()

    def memory_bytes(self, space: Space) -> int:
        """Capacity of a memory."""
        if space >= FIRST_FURTHER:
            return self.memory[space - FIRST_FURTHER].size_kib * 1024
        return self.dram_bytes if space == Space.DRAM else self.scratchpad_bytes

    def off_chip(self, space: Space) -> bool:
        """Whether a memory is outside the NPU's chip."""
        return space == Space.DRAM or (
            space >= FIRST_FURTHER and not self.memory[space - FIRST_FURTHER].on_chip
        )

    def is_writable(self, space: Space) -> bool:
        """Whether a memory can be written while a program runs."""
        return space < FIRST_FURTHER or self.memory[space - FIRST_FURTHER].writable

    def holder(self, content: Content) -> Space:
        """The memory that holds something: the one whose `holds` names it, else the DRAM."""
        if content in self.scratchpad.holds:
            return Space.SCRATCHPAD
        for number, memory in enumerate(self.memory, FIRST_FURTHER):
            if content in memory.holds:
                return Space(number)
        return Space.DRAM

    @property
    def has_dram(self) -> bool:
        """Whether there is a DRAM: one that holds nothing is left out."""
        return any(self.holder(content) == Space.DRAM for content in CONTENTS)

    def port(self, space: Space) -> Port:
        """The port of a memory; the scratchpad has none."""
        return self.memory[space - FIRST_FURTHER] if space >= FIRST_FURTHER else self.dram

    def port_timing(self, space: Space) -> PortTiming:
        """The port of a memory in NPU cycles."""
        return port_timing(self.port(space), self.clock_mhz)

    def peak_bytes_per_cycle(self, space: Space) -> float:
        """Peak bandwidth of a memory's port in bytes per NPU cycle."""
        return self.gb_per_s(space) * 1e3 / self.clock_mhz

    def gb_per_s(self, space: Space) -> float:
        """Peak bandwidth of a memory's port in 10^9 bytes per second."""
        return self.port(space).gb_per_s(self.clock_mhz)

    def cycles_of_ns(self, time_ns: float) -> int:
        """NPU cycles that cover a time in nanoseconds, rounded up past float error (1e-9 cycles)."""
        return cycles_of_ns(time_ns, self.clock_mhz)

    def seconds_of_cycles(self, cycles: float) -> float:
        """Duration of NPU cycles in seconds."""
        return cycles / (self.clock_mhz * 1e6)

    def us_of_cycles(self, cycles: float) -> float:
        """Duration of NPU cycles in microseconds."""
        return cycles / self.clock_mhz
