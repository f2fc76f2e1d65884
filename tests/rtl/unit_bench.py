"""A verilated bench of one unit: an instruction word and a memory in, both back, with counts."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from npusim.isa.instructions.instruction import Instruction

from .verilated import library

SCRATCHPAD_BYTES = 1 << 16
_LIMIT = 10_000_000
_POINTER = ctypes.c_void_p


@dataclass(frozen=True, slots=True)
class Run:
    """What an instruction did: cycles, cycles of the array alone, port bytes, and the scratchpad afterwards."""

    cycles: int
    array_cycles: int
    bytes_read: int
    bytes_written: int
    scratchpad: NDArray[np.uint8]


class UnitBench:
    """Instructions run one after the other, as in the machine, without a reset between."""

    def __init__(self, top: str, parameters: Mapping[str, int]) -> None:
        self._library = library(top, "unit_bench.cpp", {**parameters, "BYTES": SCRATCHPAD_BYTES})
        self._library.bench_open.restype = _POINTER
        self._library.bench_run.argtypes = [_POINTER] * 4 + [ctypes.c_uint32, ctypes.c_uint64, _POINTER]
        self._bench = self._library.bench_open()

    def run(self, instruction: Instruction, straps: Sequence[int], scratchpad: NDArray[np.uint8]) -> Run:
        """Execute one instruction on a copy of the scratchpad, with the pins of the bench at `straps`."""
        pins = np.array(straps, np.uint32)
        word = np.frombuffer(instruction.encode(), np.uint8)
        memory = scratchpad.copy()
        counts = np.zeros(4, np.uint64)
        ended = self._library.bench_run(
            self._bench,
            word.ctypes.data,
            pins.ctypes.data,
            memory.ctypes.data,
            len(memory),
            _LIMIT,
            counts.ctypes.data,
        )
        if not ended:
            raise TimeoutError(f"the unit is still busy after {_LIMIT} cycles: {instruction}")
        cycles, array_cycles, read, written = counts.tolist()
        return Run(cycles, array_cycles, read, written, memory)
