"""The program: all that the machine sees. Encoded instructions, memory images, and what they mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npusim.isa.hardware import Hardware
from npusim.isa.instruction import WORD_BYTES
from npusim.isa.tensor import TensorType
from npusim.isa.workload import Workload


@dataclass(frozen=True, slots=True)
class Placement:
    """A tensor in DRAM."""

    name: str
    type: TensorType
    address: int


@dataclass(frozen=True, slots=True)
class HostCall:
    """One operator that the host runs: operands in DRAM, and its amount of work."""

    name: str
    op: str
    attributes: Mapping[str, Any]
    inputs: tuple[Placement | None, ...]
    outputs: tuple[Placement, ...]
    workload: Workload
    reason: str = ""


LAYER_UNITS = ("mac", "vector", "dma", "host", "none")
"""What does the main work of a layer; "none" is free."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One operator of the source model. `unit` is one of LAYER_UNITS."""

    name: str
    op: str
    unit: str
    workload: Workload
    tensors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Buffer:
    """A part of the scratchpad and the span of instructions during which it is in use."""

    name: str
    address: int
    size_bytes: int
    first_instruction: int
    last_instruction: int


@dataclass(frozen=True)
class Program:
    """An executable image.

    code:          uint8 [instructions, WORD_BYTES], in program order; also fetched from DRAM at `code_address`.
    constants:     weights and parameters, at `constants_address` in DRAM.
    layer_of:      uint32 [instructions], index into `layers` of the layer each instruction works for.
    dram_size_bytes: DRAM that the program uses: constants, activations, inputs, outputs, code.
    """

    name: str
    hardware: Hardware
    code: NDArray[np.uint8]
    constants: bytes
    dram_size_bytes: int
    code_address: int
    inputs: tuple[Placement, ...]
    outputs: tuple[Placement, ...]
    layers: tuple[Layer, ...]
    layer_of: NDArray[np.uint32]
    host_calls: tuple[HostCall, ...] = ()
    buffers: tuple[Buffer, ...] = field(default=())
    constants_address: int = 0

    @property
    def instructions(self) -> int:
        """Number of instructions."""
        return len(self.code)

    @property
    def code_size_bytes(self) -> int:
        """Bytes of all instructions."""
        return len(self.code) * WORD_BYTES

    @property
    def scratchpad_peak_bytes(self) -> int:
        """Most scratchpad bytes in use at one time."""
        changes: dict[int, int] = {}
        for buffer in self.buffers:
            for position, size in (
                (buffer.first_instruction, buffer.size_bytes),
                (buffer.last_instruction + 1, -buffer.size_bytes),
            ):
                changes[position] = changes.get(position, 0) + size
        return max(accumulate(changes[position] for position in sorted(changes)), default=0)
