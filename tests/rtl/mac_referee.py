"""The MAC unit in RTL beside the model: one instruction, one hardware, bytes and cycles of both."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from npusim.isa.hardware import Hardware, MacArray
from npusim.isa.instruction import Instruction

from .verilated import library

SCRATCHPAD_BYTES = 1 << 16
_LIMIT = 10_000_000
_POINTER = ctypes.c_void_p


@dataclass(frozen=True, slots=True)
class Shape:
    """What is built into an array; the straps of a run may be smaller."""

    rows: int
    columns: int
    accumulators: int = 64
    ifm_port: int = 16
    weight_port: int = 16
    lanes: int = 16


@dataclass(frozen=True, slots=True)
class Run:
    """What an instruction did: cycles, cycles of the array alone, port bytes, and the scratchpad afterwards."""

    cycles: int
    array_cycles: int
    bytes_read: int
    bytes_written: int
    scratchpad: NDArray[np.uint8]


class MacReferee:
    """A verilated MAC unit. Instructions run one after the other, as in the machine, without a reset between."""

    def __init__(self, shape: Shape) -> None:
        parameters = {
            "ROWS": shape.rows,
            "COLUMNS": shape.columns,
            "DEPTH": shape.accumulators,
            "IFM_PORT": shape.ifm_port,
            "WEIGHT_PORT": shape.weight_port,
            "LANES": shape.lanes,
            "BYTES": SCRATCHPAD_BYTES,
        }
        self.shape = shape
        self._library = library("mac_bench", parameters)
        self._library.bench_open.restype = _POINTER
        self._library.bench_run.argtypes = [_POINTER] * 4 + [ctypes.c_uint32, ctypes.c_uint64, _POINTER]
        self._bench = self._library.bench_open()

    def run(self, instruction: Instruction, hardware: Hardware, scratchpad: NDArray[np.uint8]) -> Run:
        """Execute one instruction on a copy of the scratchpad."""
        array = hardware.mac_array
        straps = np.array(self._straps(array), np.uint32)
        word = np.frombuffer(instruction.encode(), np.uint8)
        memory = scratchpad.copy()
        counts = np.zeros(4, np.uint64)
        ended = self._library.bench_run(
            self._bench,
            word.ctypes.data,
            straps.ctypes.data,
            memory.ctypes.data,
            len(memory),
            _LIMIT,
            counts.ctypes.data,
        )
        if not ended:
            raise TimeoutError(f"the unit is still busy after {_LIMIT} cycles: {instruction}")
        cycles, array_cycles, read, written = counts.tolist()
        return Run(cycles, array_cycles, read, written, memory)

    def _straps(self, array: MacArray) -> tuple[int, ...]:
        half = array.accumulator_kib * 1024 // 4 // array.columns // 2
        shape = self.shape
        built = (shape.rows, shape.columns)
        if (array.rows, array.columns) != built or half > shape.accumulators:
            raise ValueError(f"{array} does not fit {shape}")
        ports = (array.ifm_bytes_per_cycle, array.weight_bytes_per_cycle, array.output_lanes)
        if any(x > y for x, y in zip(ports, (shape.ifm_port, shape.weight_port, shape.lanes), strict=True)):
            raise ValueError(f"{array} does not fit {shape}")
        return (int(array.shadow_weights), half, *ports)
