"""The machine in RTL beside the model: a whole program, the time of every event, and both memories."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from npusim.isa.engines.systolic.timing import array_shape
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.memories import Space
from npusim.isa.hardware.units import PRODUCERS, Unit
from npusim.isa.instructions.instruction import Instruction
from npusim.isa.instructions.table import decode_all
from npusim.isa.program.program import Program

from .mac_referee import Shape
from .unit_bench import SCRATCHPAD_BYTES
from .vector_referee import STAGES, vector_straps
from .verilated import library

DRAM_BYTES = 1 << 18
DMA_PORT = 32
"""Bytes per cycle of the widest port."""
VECTOR_LANES = 8
_LIMIT = 2_000_000
_POINTER = ctypes.c_void_p


@dataclass(frozen=True, slots=True)
class Timeline:
    """For each instruction the cycle at whose beginning it was dispatched, started, ended; and the memories."""

    dispatched: list[int]
    started: list[int]
    ended: list[int]
    scratchpad: NDArray[np.uint8]
    dram: NDArray[np.uint8]

    def differences(self, other: Timeline) -> list[str]:
        """Where another timeline differs: the first instruction of each kind of event, bytes of each memory."""
        found = []
        for name in ("dispatched", "started", "ended"):
            pairs = list(zip(getattr(self, name), getattr(other, name), strict=True))
            wrong = [index for index, (mine, theirs) in enumerate(pairs) if mine != theirs]
            if wrong:
                mine, theirs = pairs[wrong[0]]
                found.append(
                    f"{name}: {len(wrong)} differ, instruction {wrong[0]} in cycle {mine} and {theirs}"
                )
        for name in ("scratchpad", "dram"):
            wrong_bytes = np.flatnonzero(getattr(self, name) != getattr(other, name))
            if len(wrong_bytes):
                found.append(f"{name}: {len(wrong_bytes)} bytes differ, the first at {wrong_bytes[0]}")
        return found


def straps(hardware: Hardware) -> list[int]:
    """The pins of `npu_system` that stand for a hardware, in their order."""
    array = array_shape(hardware.mac_array)
    timing = hardware.port_timing(Space.DRAM)
    burst = Fraction(timing.burst_cycles).limit_denominator(10_000)
    if burst < 1:
        raise ValueError(f"{timing} has more than one burst per cycle")
    dma, front = hardware.dma, hardware.front_end
    return [
        int(array.shadow), array.half_accumulators, array.ifm_port, array.weight_port, array.lanes,
        timing.miss_cycles, burst.numerator, burst.denominator,
        dma.setup_cycles, timing.latency_cycles, dma.port_bytes_per_cycle,
        -(-timing.burst_bytes // dma.port_bytes_per_cycle) + 2,
        timing.burst_bytes.bit_length() - 1,
        (timing.row_bytes // timing.burst_bytes).bit_length() - 1,
        (timing.grant_bytes // timing.burst_bytes).bit_length() - 1,
        front.queue_depth, front.fetch_instructions, front.decode_cycles,
        *vector_straps(hardware.vector, VECTOR_LANES),
        hardware.scratchpad_bytes // hardware.scratchpad.banks, hardware.scratchpad.bank_ports,
        timing.banks.bit_length() - 1, timing.reorder_grants,
    ]  # fmt: skip


class SystemReferee:
    """A verilated machine with front end, DMA channels, MAC and vector unit, DRAM port."""

    def __init__(self, shape: Shape) -> None:
        parameters = {
            **shape.parameters,
            "VECTOR_LANES": VECTOR_LANES,
            "STAGES": STAGES,
            "DMA_PORT": DMA_PORT,
            "SCRATCHPAD_BYTES": SCRATCHPAD_BYTES,
            "DRAM_BYTES": DRAM_BYTES,
        }
        self._library = library("npu_system", "npu_system.cpp", parameters)
        self._library.system_open.restype = _POINTER
        size = ctypes.c_uint32
        self._library.system_run.argtypes = [
            _POINTER, _POINTER, size, size, _POINTER, size, _POINTER, size, ctypes.c_uint64, _POINTER,
        ]  # fmt: skip
        self._library.system_run.restype = ctypes.c_int64
        self._system = self._library.system_open()

    def run(self, program: Program, scratchpad: NDArray[np.uint8], dram: NDArray[np.uint8]) -> Timeline:
        """Execute a program on copies of the memories; its code is in the DRAM."""
        near, far = scratchpad.copy(), dram.copy()
        instructions = decode_all(program.code)
        pins = np.array(straps(program.hardware), np.uint32)
        events = np.zeros((4 * len(instructions) + 8, 3), np.uint64)
        count = self._library.system_run(
            self._system, pins.ctypes.data, program.code_address, len(instructions), near.ctypes.data, len(near),
            far.ctypes.data, len(far), _LIMIT, events.ctypes.data,
        )  # fmt: skip
        if count < 0:
            raise TimeoutError(f"the machine is still busy after {_LIMIT} cycles")
        times = _by_instruction(instructions, events[:count].tolist())
        return Timeline(*times, near, far)


def _by_instruction(instructions: list[Instruction], events: list[list[int]]) -> list[list[int]]:
    """Dispatch, start and end of each instruction; the n-th event of a unit belongs to its n-th instruction."""
    of_unit: dict[int, list[int]] = {int(unit): [] for unit in (*PRODUCERS, Unit.FRONT_END)}
    for index, instruction in enumerate(instructions):
        of_unit[int(instruction.unit)].append(index)
    found = [[-1] * len(instructions) for _ in range(3)]
    seen: dict[tuple[int, int], int] = {}
    for kind, unit, cycle in events:
        place = seen[kind, unit] = seen.get((kind, unit), -1) + 1
        found[kind][of_unit[unit][place]] = cycle
    return found
