"""The memories of a machine: the scratchpad, the DRAM, and up to 14 further ones (`[[memory]]`).

Instructions name a memory by its number, its *space*: 0 is the scratchpad, 1 the DRAM, and 2 upwards the further
memories in the order of the file. Every memory but the scratchpad has its own port, which all of its traffic shares.
"""

from __future__ import annotations

from enum import IntEnum
from functools import partial
from math import ceil
from typing import Any, Literal, NamedTuple, get_args

from npusim.isa.base.fields import (
    MORE_OR_LESS,
    ON_NPU,
    ReadBy,
    Section,
    capacity,
    choice,
    cycles,
    given,
    listed,
    number,
    positive,
    rate,
    text,
    time,
    whole,
)

SPACE_BITS = 4
"""Bits of an instruction word that name a memory."""

FIRST_FURTHER = 2
"""The space of the first memory of `[[memory]]`."""

MOST_FURTHER = (1 << SPACE_BITS) - FIRST_FURTHER


class Space(IntEnum):
    """The numbers of memories in instructions; a hardware has some of them (`Hardware.spaces`)."""

    SCRATCHPAD = 0
    DRAM = 1
    MEMORY2 = 2
    MEMORY3 = 3
    MEMORY4 = 4
    MEMORY5 = 5
    MEMORY6 = 6
    MEMORY7 = 7
    MEMORY8 = 8
    MEMORY9 = 9
    MEMORY10 = 10
    MEMORY11 = 11
    MEMORY12 = 12
    MEMORY13 = 13
    MEMORY14 = 14
    MEMORY15 = 15


Content = Literal["constants", "code", "activations", "io"]
"""The contents that may be placed in a memory.

constants:   weights and parameters.
code:        instructions.
activations: feature maps that do not fit in the scratchpad, operands of the host, and states.
io:          the network's inputs and outputs.
"""

CONTENTS: tuple[Content, ...] = ("constants", "code", "activations", "io")
WRITTEN: tuple[Content, ...] = ("activations", "io")
"""Contents that a program writes while it runs."""

DramType = Literal["lpddr4", "lpddr5", "lpddr3", "ddr3", "hbm2", "psram"]
"""Memory types off the chip, which are rows of the energy table."""

OFF_CHIP: tuple[DramType, ...] = get_args(DramType)
MemoryType = Literal["sram", "mram", "flash", DramType]

UNPRICED = ("mram", "flash")
"""On-chip memory types without a row in the energy table; the hardware file states their energy, power and area."""


MOST_MIB = 65_536
"""Maximum capacity of the DRAM."""

number_of = partial(whole, ge=0, given=True)
_amount = partial(number, ge=0, le=1e6, default=None)


def _priced(amount: str, read_by: ReadBy | None = None) -> Any:
    return _amount(description=f"{amount}; by the energy table if absent", read_by=read_by)


_READ, _WRITE, _STANDBY = "energy per byte read", "energy per byte written", "power while idle"


class _Rated(Section):
    """A memory with a bandwidth that does not depend on the NPU's clock."""

    bandwidth_gb_per_s: float = rate("peak bandwidth, 10^9 bytes per second", default=0.5)

    def gb_per_s(self, clock_mhz: float) -> float:
        """Return the peak bandwidth in 10^9 bytes per second, at any clock of the NPU."""
        return self.bandwidth_gb_per_s


_ROWS = ReadBy(
    needs=(".opens_rows",),
    words="rows that take time or energy to open (row_miss_ns above 0, or off the chip)",
)
_WRITTEN = ReadBy(needs=(".is_written",), words="activations or io in the memory (its holds)")


class _Port(Section):
    """The port of a memory, for which all of its traffic competes, one row visit at a time."""

    latency_ns: float = time("latency from a request to the first byte, if the row is open", default=100.0)
    row_bytes: int = given("bytes of one row buffer, a power of two", default=2048, le=65_536)
    row_miss_ns: float = time("extra time when a request leaves the open row", default=25.0)
    banks: int = given(
        "banks, each with its own open row, a power of two; consecutive rows are in different banks, so "
        "that the next row opens while one is streamed",
        default=1,
        le=64,
        read_by=_ROWS,
    )
    burst_bytes: int = given("bytes of one burst, the smallest transfer; a power of two", default=32, le=4096)
    grant_bytes: int = positive(
        "maximum bytes that a requester transfers before the port is granted anew; a power of two",
        default=512,
        le=65_536,
    )
    reorder_grants: int = number_of(
        "grants that may pass the first in line because their row is open; 0 serves strictly in turn. Controllers that "
        "serve the first ready request (FR-FCFS) limit it so: gem5 to 16 bursts of a row, Ramulator to 16 accesses",
        default=0,
        le=4096,
    )
    outstanding_requests: int = positive(
        "maximum bursts in flight; limits the bandwidth to bursts in flight / latency", default=16, le=4096
    )

    @property
    def opens_rows(self) -> bool:
        """Whether opening a row takes time or energy."""
        return True


class Dram(_Port, _Rated):
    """The DRAM has one shared port, for which all traffic competes, one row visit at a time.

    It holds all contents that no other memory holds. A DRAM without contents does not exist and draws no power.
    """

    size_mib: int = given("capacity", default=1024, le=MOST_MIB)
    read_pj_per_byte: float | None = _priced(_READ)
    write_pj_per_byte: float | None = _priced(_WRITE, ON_NPU)
    standby_mw: float | None = _priced(_STANDBY)


class Scratchpad(Section):
    """The scratchpad is a software-managed SRAM on the chip."""

    size_kib: int = capacity("capacity", default=2048, le=262_144)
    banks: int = positive(
        "banks of equal size at consecutive addresses; their size determines the energy of an access",
        default=16,
        le=1024,
    )
    bank_ports: int = positive("maximum instructions that access one bank at the same time", default=2, le=8)
    port_bytes: int = positive(
        "bytes of one access to a bank, for the energy of an access", default=16, le=4096
    )
    holds: tuple[Literal["io"], ...] = listed(
        choice(Literal["io"]),
        "contents placed in the scratchpad for the whole run, which pass no port",
        default=(),
    )
    read_pj_per_byte: float | None = _priced(_READ, ON_NPU)
    write_pj_per_byte: float | None = _priced(_WRITE, ON_NPU)
    standby_mw: float | None = _priced(_STANDBY)


class _Named(Section):
    """The name, type, contents and size of a further memory."""

    name: str = text(
        "name of the memory in keys, reports and messages", pattern="[a-z][a-z0-9_]{0,31}", max_length=32
    )
    kind: MemoryType = choice(
        MemoryType,
        "memory type; sram, mram and flash (which the NPU cannot write) are on the chip, the others off it",
    )
    holds: tuple[Content, ...] = listed(
        choice(Content), "contents placed in this memory instead of the DRAM", default=()
    )
    size_kib: int = capacity("capacity", le=1 << 26)


class _Clocked(Section):
    """A memory with a fixed bandwidth, or with a clock that follows the NPU's."""

    bandwidth_gb_per_s: float | None = rate(
        "peak bandwidth, 10^9 bytes per second; either this, or clock_ratio and access_bytes", default=None
    )
    clock_ratio: float | None = number(
        "NPU cycles per cycle of the memory's clock, such as 1.25 for a clock of clock_mhz / 1.25",
        default=None,
        ge=0.01,
        le=1000,
        what_if=MORE_OR_LESS,
        given=True,
    )
    access_bytes: int | None = positive(
        "bytes of an access, one per cycle of the memory's clock; a power of two", default=None, le=4096
    )
    latency_cycles: int | None = cycles(
        "latency from a request to the first byte in cycles of the memory's clock, instead of latency_ns; "
        "needs clock_ratio",
        default=None,
        le=100_000,
    )

    def gb_per_s(self, clock_mhz: float) -> float:
        """Return the peak bandwidth in 10^9 bytes per second at a clock of the NPU."""
        if self.clock_ratio is None:
            return self.bandwidth_gb_per_s or 0.0
        return (self.access_bytes or 0) * clock_mhz / self.clock_ratio / 1e3


class FurtherMemory(_Port, _Clocked, _Named):
    """A further memory has its own port; a file may contain at most 14 of these tables.

    Each of the four contents is placed as a whole in one memory: the one whose `holds` names it, or else the DRAM.
    *constants* are weights and parameters, *code* the instructions, *io* the network's inputs and outputs.
    *activations* are feature maps that do not fit in the scratchpad, operands of the host, and states. A dotted path
    (`--set`, a study) contains the memory's name: `memory.flash.size_kib`. A file that `extends` another changes the
    memories with the same name, and adds others.

    The speed is given in time (`bandwidth_gb_per_s`, `latency_ns`), or in cycles of a clock that follows the NPU's.
    With `clock_ratio = 2.5` and `access_bytes = 8`, eight bytes are transferred in 2.5 cycles of the NPU, at any
    `clock_mhz`. SRAMs of different speed are separate memories. The scratchpad always runs at the NPU's clock. Model a
    slower scratchpad by narrower ports of the units that read it (`mac_array.ifm_bytes_per_cycle`,
    `dma.port_bytes_per_cycle`).
    """

    latency_ns: float = time("latency from a request to the first byte, if the row is open", default=0.0)
    row_miss_ns: float = time("extra time when a request leaves the open row", default=0.0)
    burst_bytes: int = given("bytes of one burst, the smallest transfer; a power of two", default=16, le=4096)
    read_pj_per_byte: float | None = _priced(_READ)
    write_pj_per_byte: float | None = _priced(_WRITE, _WRITTEN)
    standby_mw: float | None = _priced(_STANDBY)
    area_mm2: float | None = _amount("silicon area on the NPU's chip; by the area table if absent")

    @property
    def on_chip(self) -> bool:
        """Whether the memory is on the NPU's chip."""
        return self.kind not in OFF_CHIP

    @property
    def opens_rows(self) -> bool:
        """Whether opening a row takes time or energy; in an SRAM it costs no energy of its own."""
        return self.row_miss_ns > 0 or not self.on_chip

    @property
    def is_written(self) -> bool:
        """Whether a program writes the memory while it runs; constants and code are loaded before."""
        return any(content in WRITTEN for content in self.holds)

    @property
    def writable(self) -> bool:
        """Whether the NPU and the host can write the memory while a program runs."""
        return self.kind != "flash"


Port = Dram | FurtherMemory
"""A memory behind a port."""


class PortTiming(NamedTuple):
    """A port's parameters in cycles of the NPU clock."""

    burst_bytes: int
    row_bytes: int
    grant_bytes: int
    burst_cycles: float
    miss_cycles: int
    latency_cycles: int
    banks: int = 1
    reorder_grants: int = 0

    @property
    def stripe_bytes(self) -> int:
        """Return the bytes of one row in every bank; addresses a whole stripe apart are in the same bank."""
        return self.row_bytes * self.banks

    @property
    def bytes_per_cycle(self) -> float:
        """Return the bytes per cycle of consecutive bursts in an open row."""
        return self.burst_bytes / self.burst_cycles

    def exposed_miss_cycles(self, visit_cycles: float) -> float:
        """Return the average cycles per row that a long sequential transfer waits for row misses.

        `visit_cycles` is the time of the transfer's bursts in one row. A single bank opens its next row only after the
        current one, so the whole miss is exposed. With several banks, the next bank opens its row from the start of
        a visit. If the visit is shorter than the miss, the transfer waits for the difference. That visit is then as
        long as a miss and hides the next one, so only every other row is waited for.
        """
        return self.miss_cycles if self.banks == 1 else max(0.0, self.miss_cycles - visit_cycles) / 2


CYCLE_ERROR = 1e-9
"""An excess over a whole number of cycles up to this one is float error and does not add a cycle."""


def whole_cycles(cycles: float) -> int:
    """Round cycles up to a whole number, but for an excess of `CYCLE_ERROR`."""
    return ceil(cycles - CYCLE_ERROR)


def cycles_of_ns(time_ns: float, clock_mhz: float) -> int:
    """Return the NPU cycles that cover a time in ns, rounded up."""
    return max(0, whole_cycles(time_ns * clock_mhz / 1e3))


def port_timing(port: Port, clock_mhz: float) -> PortTiming:
    """Return the timing of a port in cycles of the NPU clock.

    A burst of a long transfer takes the longer of two times: burst bytes / peak bandwidth, and latency / outstanding
    requests.
    """
    latency_cycles = cycles_of_ns(port.latency_ns, clock_mhz)
    if isinstance(port, FurtherMemory) and port.clock_ratio is not None:
        by_bandwidth = port.burst_bytes // (port.access_bytes or 1) * port.clock_ratio
        if port.latency_cycles is not None:
            latency_cycles = whole_cycles(port.latency_cycles * port.clock_ratio)
    else:
        by_bandwidth = port.burst_bytes * clock_mhz / (port.gb_per_s(clock_mhz) * 1000)
    return PortTiming(
        port.burst_bytes,
        port.row_bytes,
        min(port.grant_bytes, port.row_bytes),
        max(by_bandwidth, latency_cycles / port.outstanding_requests),
        cycles_of_ns(port.row_miss_ns, clock_mhz),
        latency_cycles,
        port.banks,
        port.reorder_grants,
    )


def beyond_dram(size: int, capacity: int) -> str:
    """Return the message for more bytes than the DRAM has, with the size that holds them if there is one."""
    mib = -(-size // (1 << 20))
    holds = f": dram.size_mib={mib} holds it" if mib <= MOST_MIB else ""
    return f"needs {size} bytes of DRAM, the hardware has {capacity}{holds}"
