"""The memories of a machine: the scratchpad, the DRAM, and any number more (`[[memory]]`), each with what it holds.

A memory has a number, its *space*, by which instructions name it: 0 is the scratchpad, 1 the DRAM, and 2 upwards the
further ones in the order of the file. Each but the scratchpad has a port of its own, which its traffic shares.
"""

from __future__ import annotations

from enum import IntEnum
from math import ceil
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BeforeValidator, Field

from npusim.isa.base.fields import (
    GIVEN_TIME,
    ON_NPU,
    Capacity,
    Cycles,
    Given,
    Positive,
    Rate,
    ReadBy,
    Section,
    Time,
)

SPACE_BITS = 4
"""Bits of an instruction word that name a memory."""

FIRST_FURTHER = 2
"""The space of the first memory of `[[memory]]`."""

MOST_FURTHER = (1 << SPACE_BITS) - FIRST_FURTHER


class Space(IntEnum):
    """The memories that instructions can name; which of them there are says the hardware."""

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
"""What a memory may hold: weights and parameters; instructions; feature maps that have no place in the scratchpad,
operands of the host and states; the network's inputs and outputs.
"""

CONTENTS: tuple[Content, ...] = ("constants", "code", "activations", "io")
WRITTEN: tuple[Content, ...] = ("activations", "io")
"""Contents that a program writes while it runs."""

OFF_CHIP = ("lpddr4", "lpddr5", "lpddr3", "ddr3", "hbm2", "psram")
"""Kinds of memory off the chip: rows of the energy table."""

UNPRICED = ("mram", "flash")
"""Kinds on the chip that the energy table has no row for: the hardware file gives their prices."""


def as_tuple(value: Any) -> Any:
    """TOML and JSON have lists, a frozen value has tuples."""
    return tuple(value) if isinstance(value, list) else value


_Amount = Annotated[float, Field(ge=0, le=1e6)]


def _priced(amount: str) -> Any:
    """Return a field of its own for each table: pydantic 2.9 writes the marks of all uses into a shared one."""
    return Field(default=None, description=f"{amount}; by the energy table if absent")


_READ, _WRITE, _STANDBY = "energy of a byte read", "energy of a byte written", "power while nothing happens"


class _Rated(Section):
    """A memory with a rate of its own."""

    bandwidth_gb_per_s: Rate = Field(default=0.5, description="peak bandwidth, 10^9 bytes per second")

    def gb_per_s(self, clock_mhz: float) -> float:
        """Peak bandwidth in 10^9 bytes per second, whatever the clock of the NPU."""
        return self.bandwidth_gb_per_s


_ROWS = ReadBy(
    needs=(".opens_rows",),
    words="rows that take time or energy to open (row_miss_ns above 0, or off the chip)",
)
_WRITTEN = ReadBy(needs=(".is_written",), words="activations or io in the memory (its holds)")


class _Port(Section):
    """What a memory's port can do; all of its traffic competes for it, one row visit at a time."""

    latency_ns: Time = Field(default=100.0, description="request to first byte, row open")
    row_bytes: Given = Field(default=2048, le=65_536, description="bytes of one row buffer, a power of two")
    row_miss_ns: Time = Field(default=25.0, description="extra time when a request leaves the open row")
    banks: Annotated[Given, _ROWS] = Field(
        default=1,
        le=64,
        description="banks with an open row each, a power of two; the address bits above a row choose the bank, so "
        "that the next row opens while one streams",
    )
    burst_bytes: Given = Field(
        default=32, le=4096, description="bytes of one burst, the smallest transfer; a power of two"
    )
    grant_bytes: Positive = Field(
        default=512, le=65_536, description="most bytes of one turn at the port; a power of two"
    )
    outstanding_requests: Positive = Field(
        default=16, le=4096, description="bursts in flight; bounds bandwidth by latency"
    )

    @property
    def opens_rows(self) -> bool:
        """Whether opening a row takes time or energy."""
        return True


class Dram(_Port, _Rated):
    """One shared port; all traffic competes for it, one row visit at a time.

    Holds what no other memory is said to hold; a DRAM that holds nothing is not there, and draws no power.
    """

    size_mib: Given = Field(default=1024, le=65_536, description="capacity")
    read_pj_per_byte: _Amount | None = _priced(_READ)
    write_pj_per_byte: Annotated[_Amount | None, ON_NPU] = _priced(_WRITE)
    standby_mw: _Amount | None = _priced(_STANDBY)


class Scratchpad(Section):
    """Software-managed SRAM."""

    size_kib: Capacity = Field(default=2048, le=262_144, description="capacity")
    banks: Positive = Field(
        default=16, le=1024, description="banks of equal size, one behind the other; one is the energy unit"
    )
    bank_ports: Positive = Field(
        default=2, le=8, description="instructions that may be at work in one bank at the same time"
    )
    port_bytes: Positive = Field(
        default=16, le=4096, description="bytes of one access to a bank, for its energy"
    )
    holds: Annotated[tuple[Literal["io"], ...], BeforeValidator(as_tuple)] = Field(
        default=(), description="what is there from the beginning to the end and passes no port"
    )
    read_pj_per_byte: Annotated[_Amount | None, ON_NPU] = _priced(_READ)
    write_pj_per_byte: Annotated[_Amount | None, ON_NPU] = _priced(_WRITE)
    standby_mw: _Amount | None = _priced(_STANDBY)


class _Named(Section):
    """What a further memory is."""

    name: str = Field(
        pattern=r"^[a-z][a-z0-9_]{0,31}$", max_length=32, description="its name in keys, reports and messages"
    )
    kind: Literal["sram", "mram", "flash", "lpddr4", "lpddr5", "lpddr3", "ddr3", "hbm2", "psram"] = Field(
        description="on the chip: sram, mram, flash (which the NPU cannot write); the others are off the chip"
    )
    holds: Annotated[tuple[Content, ...], BeforeValidator(as_tuple)] = Field(
        default=(), description="what lies there instead of in the DRAM"
    )
    size_kib: Capacity = Field(le=1 << 26, description="capacity")


class _Clocked(Section):
    """A memory with a rate of its own, or with a clock that follows the NPU's."""

    bandwidth_gb_per_s: Rate | None = Field(
        default=None,
        description="peak bandwidth, 10^9 bytes per second; either this, or clock_ratio and access_bytes",
    )
    clock_ratio: Annotated[float, Field(ge=0.01, le=1000, json_schema_extra=GIVEN_TIME)] | None = Field(
        default=None,
        description="cycles of the NPU in one of its own: 1.25 is a clock of clock_mhz / 1.25, whatever that is",
    )
    access_bytes: Positive | None = Field(
        default=None, le=4096, description="bytes of an access, one in a cycle of its own; a power of two"
    )
    latency_cycles: Cycles | None = Field(
        default=None,
        le=100_000,
        description="request to first byte in cycles of its own, instead of latency_ns; needs clock_ratio",
    )

    def gb_per_s(self, clock_mhz: float) -> float:
        """Peak bandwidth in 10^9 bytes per second at a clock of the NPU."""
        if self.clock_ratio is None:
            return self.bandwidth_gb_per_s or 0.0
        return (self.access_bytes or 0) * clock_mhz / self.clock_ratio / 1e3


class FurtherMemory(_Port, _Clocked, _Named):
    """One more memory behind a port of its own; the table may stand 14 times at most.

    Everything has one place: the memory that holds it, and the DRAM if none is said to. Constants are weights and
    parameters, code the instructions, io the network's inputs and outputs; activations are feature maps that find no
    room in the scratchpad, what the host works on, and states. In a dotted path (`--set`, a study) a memory stands by
    its name: `memory.flash.size_kib`. A file that `extends` another changes a memory of the same name, and adds others.

    Its rate is said in time (`bandwidth_gb_per_s`, `latency_ns`), or in cycles of a clock that follows the NPU's: with
    `clock_ratio = 2.5` and `access_bytes = 8` eight bytes pass in 2.5 cycles of the NPU, at any `clock_mhz`. SRAMs of
    different speed are several memories; each of the four contents lies in one of them as a whole. The scratchpad
    itself works at the NPU's clock: a slower one is a narrower port of what reads it (`mac_array.ifm_bytes_per_cycle`,
    `dma.port_bytes_per_cycle`).
    """

    latency_ns: Time = Field(default=0.0, description="request to first byte, row open")
    row_miss_ns: Time = Field(default=0.0, description="extra time when a request leaves the open row")
    burst_bytes: Given = Field(
        default=16, le=4096, description="bytes of one burst, the smallest transfer; a power of two"
    )
    read_pj_per_byte: _Amount | None = _priced(_READ)
    write_pj_per_byte: Annotated[_Amount | None, _WRITTEN] = _priced(_WRITE)
    standby_mw: _Amount | None = _priced(_STANDBY)
    area_mm2: _Amount | None = Field(
        default=None, description="silicon on the NPU's chip; by the area table if absent"
    )

    @property
    def on_chip(self) -> bool:
        """Whether it is part of the NPU's chip."""
        return self.kind not in OFF_CHIP

    @property
    def opens_rows(self) -> bool:
        """Whether opening a row takes time or energy; in an SRAM it costs no energy of its own."""
        return self.row_miss_ns > 0 or not self.on_chip

    @property
    def is_written(self) -> bool:
        """Whether a program writes it while it runs; constants and code are loaded before."""
        return any(content in WRITTEN for content in self.holds)

    @property
    def writable(self) -> bool:
        """Whether the NPU and the host can write it while a program runs."""
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

    @property
    def stripe_bytes(self) -> int:
        """Bytes of a row of each bank: by whole stripes further on, the same rows of the same banks are visited."""
        return self.row_bytes * self.banks

    @property
    def bytes_per_cycle(self) -> float:
        """Bytes per cycle of one burst after the other in an open row."""
        return self.burst_bytes / self.burst_cycles

    def exposed_miss_cycles(self, visit_cycles: float) -> float:
        """Cycles that a long walk from row to row waits for each of them on average, if its bursts in one take
        `visit_cycles`.

        One bank opens its next row when it is done with a row: the whole miss. Of several, the next one opens its row
        from the beginning of a visit on. If the visit is shorter than the miss, the walk waits for the difference; that
        visit then is as long as a miss and hides the next one. So every other row is waited for.
        """
        return self.miss_cycles if self.banks == 1 else max(0.0, self.miss_cycles - visit_cycles) / 2


def cycles_of_ns(time_ns: float, clock_mhz: float) -> int:
    """NPU cycles that cover a time in nanoseconds, rounded up past float error (1e-9 cycles)."""
    return max(0, ceil(time_ns * clock_mhz / 1e3 - 1e-9))


def port_timing(port: Port, clock_mhz: float) -> PortTiming:
    """The parameters of a port.

    A burst of a long transfer takes its time at the peak, or as the outstanding requests allow (bytes in flight /
    latency), whichever is slower.
    """
    latency_cycles = cycles_of_ns(port.latency_ns, clock_mhz)
    if isinstance(port, FurtherMemory) and port.clock_ratio is not None:
        by_bandwidth = port.burst_bytes // (port.access_bytes or 1) * port.clock_ratio
        if port.latency_cycles is not None:
            latency_cycles = ceil(port.latency_cycles * port.clock_ratio - 1e-9)
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
    )
