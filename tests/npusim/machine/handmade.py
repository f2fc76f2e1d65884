"""Programs of a few instructions, made by hand, and their timelines in a form that a test can write down."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from npusim.isa.base.elements import Workload
from npusim.isa.base.tensor import HostCall, Placement, TensorType
from npusim.isa.hardware.file import change
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.units import UNIT_NAMES, Unit
from npusim.isa.instructions.control import Barrier, Call
from npusim.isa.instructions.dma import Copy
from npusim.isa.instructions.instruction import Instruction
from npusim.isa.instructions.region import Space
from npusim.isa.instructions.table import encode_all
from npusim.isa.instructions.vector import Lookup
from npusim.isa.instructions.word import WORD_BYTES, Waits
from npusim.isa.program.program import Layer, Program
from npusim.machine.system import execute
from npusim.machine.trace import Execution

CODE = 64 * 1024
"""Address of the code: DRAM row 64 of the bench."""

DRAM_BYTES = 2 * CODE

BENCH = Hardware(name="bench", clock_mhz=1000.0)
"""What all timelines are written for; `bench` gives it with changes.

A nanosecond is a cycle, a burst of 32 bytes takes 4, an open row costs 10 more, a grant is 256 bytes.
"""


def bench(**changes: Any) -> Hardware:
    """The bench, with parameters changed by path, dots written as two underscores."""
    base = {
        "clock_mhz": 1000.0,
        "dram.bandwidth_gb_per_s": 8.0,
        "dram.latency_ns": 20.0,
        "dram.row_miss_ns": 10.0,
        "dram.row_bytes": 1024,
        "dram.burst_bytes": 32,
        "dram.grant_bytes": 256,
        "dram.outstanding_requests": 16,
        "dram.size_mib": 4,
        "dma.channels": 4,
        "dma.setup_cycles": 16,
        "dma.port_bytes_per_cycle": 16,
        "front_end.fetch_instructions": 8,
        "front_end.decode_cycles": 1,
        "front_end.queue_depth": 8,
        "scratchpad.size_kib": 64,
        "scratchpad.banks": 1,
        "scratchpad.bank_ports": 8,
        "vector.lanes": 8,
        "vector.startup_cycles": 8,
        "vector.lut_cycles": 1,
    }
    return change(BENCH, base | {path.replace("__", "."): value for path, value in changes.items()})


def waits(**counts: int) -> Waits:
    """Waits by unit name: `waits(dma0=2)`."""
    return tuple((int(unit), counts[name]) for unit, name in UNIT_NAMES.items() if counts.get(name))


def load(source: int, target: int, size: int, *, channel: int = 0, after: Waits = ()) -> Copy:
    """Dense bytes from DRAM to the scratchpad."""
    return Copy(
        channel=channel, source_space=Space.DRAM, source=source, target=target, size=size, waits=after
    )


def store(source: int, target: int, size: int, *, channel: int = 0, after: Waits = ()) -> Copy:
    """Dense bytes from the scratchpad to DRAM."""
    return Copy(
        channel=channel, source=source, target_space=Space.DRAM, target=target, size=size, waits=after
    )


def lookup(source: int, target: int, size: int, *, after: Waits = (), table: int = 0) -> Lookup:
    """Bytes through the table. The bench takes 8 + 256 / 8 + size / 8 cycles."""
    return Lookup(input=source, output=target, size=size, table=table, waits=after)


def barrier(**counts: int) -> Barrier:
    """A barrier that waits for units by name."""
    return Barrier(waits=waits(**counts))


def bytes_at(name: str, address: int, size: int) -> Placement:
    """A uint8 vector in DRAM."""
    return Placement(name, TensorType("uint8", (size,)), address)


def program(
    instructions: Sequence[Instruction],
    hardware: Hardware,
    *,
    inputs: Sequence[Placement] = (),
    outputs: Sequence[Placement] = (),
    host_calls: Sequence[HostCall] = (),
) -> Program:
    """Instructions as a program of one layer, with the code at `CODE`."""
    code = encode_all(list(instructions))
    return Program(
        name="hand",
        hardware=hardware,
        code=code,
        constants=b"",
        dram_size_bytes=max(DRAM_BYTES, CODE + len(code) * WORD_BYTES),
        code_address=CODE,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        layers=(Layer("layer", "identity", "dma", Workload("move")),),
        layer_of=np.zeros(len(code), np.uint32),
        host_calls=tuple(host_calls),
    )


class Row(NamedTuple):
    """One line of a timeline: the unit, and when the instruction came, got to the front, began and ended."""

    unit: str
    dispatched: int
    at_head: int
    started: int
    ended: int


def rows(execution: Execution) -> list[Row]:
    """The timeline of an execution, in program order."""
    trace = execution.trace
    return [
        Row(Unit(unit).name.lower(), *times)
        for unit, *times in zip(
            trace.unit.tolist(),
            trace.dispatched.tolist(),
            trace.at_head.tolist(),
            trace.started.tolist(),
            trace.ended.tolist(),
            strict=True,
        )
    ]


def traffic(execution: Execution) -> list[tuple[str, int, int, int]]:
    """Who had the DRAM port: (requester, first cycle, last cycle + 1, bytes)."""
    return [(t.requester, t.start_cycle, t.end_cycle, t.size_bytes) for t in execution.trace.transfers]


def run(instructions: Sequence[Instruction], hardware: Hardware, **tables: Any) -> Execution:
    """Execute instructions without data."""
    return execute(program(instructions, hardware, **tables), data=False)


def host_call(name: str, source: Placement, target: Placement, elements: int) -> tuple[Call, HostCall]:
    """A host operator over two vectors, as instruction 0 of the host table."""
    return Call(index=0), HostCall(
        name, name, {}, (source,), (target,), Workload("elementwise", elements=elements)
    )
