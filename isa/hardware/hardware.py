"""The hardware description, a frozen and validated value from which every cost and capacity is computed.

Fields are checked here; rules between fields, files and presets are in `npusim.isa.hardware.file`.
"""

from __future__ import annotations

from typing import Literal

from npusim.isa.base.fields import (
    MORE,
    MORE_OR_LESS,
    ON_NPU,
    ReadBy,
    Section,
    choice,
    clock,
    cycles,
    flag,
    given,
    listed,
    number,
    positive,
    positive_cycles,
    table,
    text,
    time,
    whole,
)
from npusim.isa.engines.kinds import engine_of
from npusim.isa.engines.mac_array import MacArray
from npusim.isa.hardware.memories import (
    CONTENTS,
    FIRST_FURTHER,
    MOST_FURTHER,
    Content,
    Dram,
    DramType,
    FurtherMemory,
    Port,
    PortTiming,
    Scratchpad,
    Space,
    cycles_of_ns,
    port_timing,
)

_RESCALE_AND_NPU = ReadBy(needs=("rescales_codes",), words="float32_rescale and an NPU that computes")


class FrontEnd(Section):
    """The front end fetches encoded instructions from memory, decodes them, and dispatches them to unit queues.

    It dispatches in program order.
    """

    queue_depth: int = positive("instructions that the queue of each unit holds", default=16, le=1024)
    fetch_instructions: int = positive("maximum instructions fetched ahead of dispatch", default=4, le=256)
    decode_cycles: int = cycles("cycles to decode and dispatch one instruction", default=1, le=1024)
    layer_cycles: int = cycles(
        "cycles before each layer in which software prepares it and nothing is dispatched; unless overlap "
        "is all, they start when everything dispatched before has ended",
        default=0,
        le=10_000_000,
    )
    inference_cycles: int = cycles(
        "cycles before the first layer in which software prepares the inference, added to layer_cycles",
        default=0,
        le=5_000_000,
    )


_PACKED = ReadBy(
    needs=("packs_weights",),
    words="packed weights (dma.decoder_bytes_per_cycle above 0, mac_array.weight_bits 8)",
)


class Dma(Section):
    """The DMA makes strided copies between the memories; each channel has its own queue."""

    channels: int = positive("independent channels", default=2, le=4)
    setup_cycles: int = cycles(
        "cycles before the first request of a transfer", default=16, le=100_000, read_by=ON_NPU
    )
    port_bytes_per_cycle: int = positive(
        "rate of a channel at the scratchpad, bytes per cycle", default=16, le=4096
    )
    decoder_bytes_per_cycle: int = whole(
        "weights that a channel decompresses per cycle; 0: weights are stored uncompressed",
        default=0,
        ge=0,
        what_if=MORE,
        le=4096,
    )
    decoder_skips: bool = flag(
        "compress zero weights, and groups with few different values, further", default=False, read_by=_PACKED
    )
    local_bytes_per_cycle: float = number(
        "rate of copies inside the scratchpad that do not use the DMA port, bytes per cycle; 0: all use it",
        default=0.0,
        ge=0,
        what_if=MORE,
        le=4096,
        read_by=ON_NPU,
    )
    views: bool = flag(
        "units read and write parts of tensors in place, so that concatenations and splits need no copies",
        default=False,
        read_by=ON_NPU,
    )
    burst_buffer_kib: int = whole(
        "size of the burst buffer of a channel for strided copies; one half is filled while the other is "
        "drained; 0: none",
        default=4,
        ge=0,
        what_if=MORE_OR_LESS,
        le=1024,
    )

    @property
    def block_bytes(self) -> int:
        """Return the maximum bytes of a block of a strided copy, which is half of the burst buffer."""
        return self.burst_buffer_kib * 1024 // 2


_FLOAT = ReadBy(needs=("vector.float16_lanes", "vector.float32_lanes"))
_RESCALE = ReadBy(needs=("float32_rescale",))


class Vector(Section):
    """The vector unit computes elementwise functions, pools, reductions, look-ups and softmax on `lanes` elements.

    Each `*_cycles` key is the time of one element in one lane.
    """

    lanes: int = positive("elements per cycle of a function that takes one cycle", default=8, le=4096)
    startup_cycles: int = cycles(
        "cycles to fill the pipeline, once per instruction", default=8, le=1024, read_by=ON_NPU
    )
    add_cycles: int = positive_cycles(
        "cycles per element of a quantized addition or subtraction", default=2, le=1024
    )
    mul_cycles: int = positive_cycles("cycles per element of a quantized multiplication", default=2, le=1024)
    requantise_cycles: int = positive_cycles(
        "cycles to requantize an element to another scale and zero point", default=1, le=1024, read_by=ON_NPU
    )
    max_cycles: int = positive_cycles("cycles per element of a comparison or selection", default=1, le=1024)
    pool_cycles: int = positive_cycles("cycles per window element of a pool", default=1, le=1024)
    reduce_cycles: int = positive_cycles("cycles per element of a sum", default=1, le=1024)
    divide_cycles: int = positive_cycles("cycles per rounded division", default=4, le=1024)
    lut_cycles: int = positive_cycles("cycles per table look-up", default=1, le=1024)
    resize_cycles: int = whole(
        "cycles per interpolated element of a resize; 0: one product for each source pixel",
        default=0,
        ge=0,
        what_if=MORE_OR_LESS,
        le=1024,
        read_by=ON_NPU,
    )
    fused_lookup: bool = flag(
        "an instruction whose result only a look-up reads performs the look-up too, which takes no time",
        default=False,
        read_by=ON_NPU,
    )
    brick_channels: int = positive(
        "channels of a pixel that functions of two operands process together (a brick), used or not",
        default=1,
        le=256,
        read_by=ON_NPU,
    )
    exp_cycles: int = positive_cycles("cycles per fixed-point exponential or reciprocal", default=8, le=1024)
    literal_cycles: int = positive_cycles(
        "cycles to dequantize two values, add, multiply or compare them in float32, and quantize again",
        default=4,
        le=1024,
        read_by=_RESCALE,
    )
    literal_divide_cycles: int = positive_cycles(
        "cycles to dequantize two values, divide them in float32, and quantize again",
        default=8,
        le=1024,
        read_by=_RESCALE,
    )
    fused_cycles: int = positive_cycles(
        "cycles to compute one quantized value from two by two products and sums in float32",
        default=2,
        le=1024,
        read_by=_RESCALE,
    )
    dequantise_cycles: int = positive_cycles(
        "cycles to dequantize one value to float32 and add it to a sum",
        default=2,
        le=1024,
        read_by=_RESCALE_AND_NPU,
    )
    quantise_cycles: int = positive_cycles(
        "cycles to divide a float32 sum by the number of its elements and quantize the result",
        default=6,
        le=1024,
        read_by=_RESCALE,
    )
    moment_cycles: int = positive_cycles(
        "cycles to add a value and its square to two sums of a normalization; 1, a multiplier in front of one of two "
        "adders, is an assumption",
        default=1,
        le=1024,
        read_by=_RESCALE_AND_NPU,
    )
    int16_passes: int = whole(
        "passes of a lane over an int16 value, such as 2 for one pass per byte; 0: the host computes on "
        "int16",
        default=0,
        ge=0,
        le=16,
        read_by=ON_NPU,
    )
    float16_lanes: int = whole(
        "float16 elements per cycle of a function that takes one cycle; 0: no float16",
        default=0,
        ge=0,
        what_if=MORE,
        le=4096,
    )
    float32_lanes: int = whole(
        "float32 elements per cycle of a function that takes one cycle; 0: no float32",
        default=0,
        ge=0,
        what_if=MORE,
        le=4096,
    )
    float_cycles: int = positive_cycles(
        "cycles per floating-point addition, multiplication or comparison", default=1, le=1024, read_by=_FLOAT
    )
    float_divide_cycles: int = positive_cycles(
        "cycles per floating-point division or square root", default=4, le=1024, read_by=_FLOAT
    )
    float_function_cycles: int = positive_cycles(
        "cycles per floating-point exponential, logarithm or similar function",
        default=8,
        le=1024,
        read_by=_FLOAT,
    )


class Host(Section):
    """The host CPU runs the operators that the NPU lacks; PerformanceInfo compares the NPU with it."""

    core: str = text(
        "CPU core, a name of the core table (isa/hardware/cpu.py)", default="cortex-m7", max_length=64
    )
    threads: int = given("threads, one per core", default=1, le=64)
    clock_mhz: float | None = clock(
        "clock of the CPU; the clock in the core table if absent", default=None, given=True
    )
    call_overhead_us: float = time(
        "time of a driver call, once per inference in PerformanceInfo", default=20.0
    )
    handover_us: float = time(
        "time of the interrupt and the return for one host operator inside a program", default=5.0
    )
    element_cycles: int | None = given(
        "cycles of a core per element of an elementwise operator; 4 for quantized elements and 2 for float32 if absent",
        default=None,
        le=1024,
    )


_DRAM = ReadBy(needs=("has_dram",), words="a DRAM, which holds what no [[memory]] does")


NodeNm = Literal[28, 22, 16, 7]


class Technology(Section):
    """The process node, the supply voltage and the DRAM type, which select rows of the energy table."""

    node_nm: NodeNm = choice(NodeNm, "process node of the energy table", default=28)
    rated_mhz: float | None = number(
        "clock that the design reaches at rated_v; determines the supply when clock_mhz changes; clock_mhz "
        "of the file if absent",
        default=None,
        ge=1e-3,
        le=10_000,
    )
    rated_v: float | None = number(
        "supply voltage at rated_mhz; the node's nominal voltage if absent", default=None, gt=0.3, lt=1.5
    )
    vdd_v: float | None = number(
        "supply voltage at clock_mhz; computed by the alpha-power law of the node if absent",
        default=None,
        gt=0.3,
        lt=1.5,
    )
    dram: DramType = choice(DramType, "DRAM row of the energy table", default="lpddr4", read_by=_DRAM)
    system_pj_per_cycle: float | None = number(
        "energy per cycle of clock tree, buses, controller and other active parts of the chip at the "
        "nominal voltage; by the energy table if absent",
        default=None,
        ge=0,
        le=1e6,
    )


ALL_OPERATORS = "all"
"""Value in `Hardware.lacks_operators` that stands for every operator."""

Overlap = Literal["all", "loads", "reloads", "none"]


class Hardware(Section):
    """An NPU with its memories and its host."""

    name: str = text("name of the machine in every report", min_length=1, max_length=64)
    description: str = text("one line about what the machine represents", default="", max_length=1000)
    clock_mhz: float = clock("clock of the NPU", default=500.0)
    lacks_operators: tuple[str, ...] = listed(
        text(pattern="[a-z][a-z0-9_]{0,63}", max_length=64),
        'operators (`npusim ops`) that the NPU lacks though its units could compute them, or "all": the '
        "host computes them; a study does not vary it",
        default=(),
        max_length=256,
    )
    float32_rescale: bool = flag(
        "output stage and vector lanes can also requantize in float32, as ONNX does", default=True
    )
    overlap: Overlap = choice(
        Overlap,
        "what may run at the same time. all: whatever data dependencies allow. loads: one computation, and "
        "loads for it and the next operator. reloads: as loads, but weights that are read once, and take longer to "
        "load than to compute with, are loaded with their operator. none: one computation, and loads for it only",
        default="all",
        read_by=ON_NPU,
    )
    front_end: FrontEnd = table(FrontEnd, default=FrontEnd())
    dma: Dma = table(Dma, default=Dma())
    dram: Dram = table(Dram, default=Dram(), read_by=_DRAM)
    scratchpad: Scratchpad = table(Scratchpad, default=Scratchpad())
    mac_array: MacArray = table(MacArray, default=MacArray())
    vector: Vector = table(Vector, default=Vector())
    host: Host = table(Host, default=Host())
    technology: Technology = table(Technology, default=Technology())
    memory: tuple[FurtherMemory, ...] = listed(
        table(FurtherMemory),
        "further memories, beside the scratchpad and the DRAM",
        default=(),
        max_length=MOST_FURTHER,
    )

    def lacks(self, operator: str) -> bool:
        """Return whether the hardware file states that the NPU lacks an operator."""
        return self.is_host_alone or operator in self.lacks_operators

    @property
    def is_host_alone(self) -> bool:
        """Whether the hardware file states that the NPU lacks every operator."""
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
        """Return the multiply-accumulates of the full array in one cycle."""
        return engine_of(self.mac_array).macs_per_cycle(self.mac_array)

    @property
    def packs_weights(self) -> bool:
        """Whether weights are stored compressed for the decoder; weights of fewer than 8 bits never are."""
        return self.dma.decoder_bytes_per_cycle > 0 and not self.mac_array.few_bits and self.has_npu

    @property
    def tops(self) -> float:
        """Return the operations per second of the full array in 10^12; a multiply-accumulate counts as two."""
        return 2 * self.macs_per_cycle * self.clock_mhz * 1e-6

    @property
    def scratchpad_bytes(self) -> int:
        """Return the capacity of the scratchpad in bytes."""
        return self.scratchpad.size_kib * 1024

    @property
    def dram_bytes(self) -> int:
        """Return the capacity of the DRAM in bytes."""
        return self.dram.size_mib * 1024 * 1024

    @property
    def dram_bytes_per_cycle(self) -> float:
        """Return the peak DRAM bandwidth in bytes per NPU cycle."""
        return self.peak_bytes_per_cycle(Space.DRAM)

    @property
    def spaces(self) -> tuple[Space, ...]:
        """Return all memories in the order of their numbers in instructions."""
        return tuple(Space(number) for number in range(FIRST_FURTHER + len(self.memory)))

    @property
    def outer_spaces(self) -> tuple[Space, ...]:
        """Return the memories behind ports, which are all but the scratchpad."""
        return self.spaces[1:]

    def memory_name(self, space: Space) -> str:
        """Return the name of a memory in keys and reports."""
        return self.memory[space - FIRST_FURTHER].name if space >= FIRST_FURTHER else space.name.lower()

    def size_key(self, space: Space) -> str:
        """Return the key of the hardware file that gives the size of a memory."""
        name = self.memory_name(space)
        if space == Space.DRAM:
            return f"{name}.size_mib"
        return f"memory.{name}.size_kib" if space >= FIRST_FURTHER else f"{name}.size_kib"

    def memory_bytes(self, space: Space) -> int:
        """Return the capacity of a memory in bytes."""
        if space >= FIRST_FURTHER:
            return self.memory[space - FIRST_FURTHER].size_kib * 1024
        return self.dram_bytes if space == Space.DRAM else self.scratchpad_bytes

    def off_chip(self, space: Space) -> bool:
        """Return whether a memory is outside the NPU's chip."""
        return space == Space.DRAM or (
            space >= FIRST_FURTHER and not self.memory[space - FIRST_FURTHER].on_chip
        )

    def is_writable(self, space: Space) -> bool:
        """Return whether a memory can be written while a program runs."""
        return space < FIRST_FURTHER or self.memory[space - FIRST_FURTHER].writable

    def holder(self, content: Content) -> Space:
        """Return the memory in which content is placed: the one whose `holds` names it, else the DRAM."""
        if content in self.scratchpad.holds:
            return Space.SCRATCHPAD
        for space, memory in enumerate(self.memory, FIRST_FURTHER):
            if content in memory.holds:
                return Space(space)
        return Space.DRAM

    @property
    def has_dram(self) -> bool:
        """Whether the machine has a DRAM; a DRAM that holds nothing is left out."""
        return any(self.holder(content) == Space.DRAM for content in CONTENTS)

    def port(self, space: Space) -> Port:
        """Return the port of a memory; the scratchpad has none."""
        return self.memory[space - FIRST_FURTHER] if space >= FIRST_FURTHER else self.dram

    def port_timing(self, space: Space) -> PortTiming:
        """Return the timing of a memory's port in NPU cycles."""
        return port_timing(self.port(space), self.clock_mhz)

    def peak_bytes_per_cycle(self, space: Space) -> float:
        """Return the peak bandwidth of a memory's port in bytes per NPU cycle."""
        return self.gb_per_s(space) * 1e3 / self.clock_mhz

    def gb_per_s(self, space: Space) -> float:
        """Return the peak bandwidth of a memory's port in 10^9 bytes per second."""
        return self.port(space).gb_per_s(self.clock_mhz)

    def cycles_of_ns(self, time_ns: float) -> int:
        """Return the NPU cycles that cover a time in ns, rounded up; an excess below 1e-9 cycles is float error."""
        return cycles_of_ns(time_ns, self.clock_mhz)

    def seconds_of_cycles(self, cycles: float) -> float:
        """Return the duration of NPU cycles in seconds."""
        return cycles / (self.clock_mhz * 1e6)

    def us_of_cycles(self, cycles: float) -> float:
        """Return the duration of NPU cycles in microseconds."""
        return cycles / self.clock_mhz
