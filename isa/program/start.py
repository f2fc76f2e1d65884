"""The memory of a program before its first instruction."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from npusim.isa.instructions.memory import HostFunction, Memory
from npusim.isa.instructions.region import Space
from npusim.isa.program.program import Program


def memory_of(
    program: Program,
    host_functions: Mapping[str, HostFunction] | None = None,
    window: NDArray[np.uint8] | None = None,
) -> Memory:
    """The memory that a program needs, its constants in place.

    window: the part of a larger DRAM that is the program's; None: a DRAM of its own, all other bytes zero.
    """
    memory = Memory(
        {
            Space.SCRATCHPAD: np.zeros(program.hardware.scratchpad.size_kib * 1024, np.uint8),
            Space.DRAM: np.zeros(program.dram_size_bytes, np.uint8) if window is None else window,
        },
        inputs=program.inputs,
        states=program.states,
        host_calls=program.host_calls,
        host_functions=host_functions,
    )
    constants = program.constants
    place = memory.bytes_at(Space.DRAM, program.constants_address, len(constants))
    if isinstance(constants, bytes):
        place[:] = np.frombuffer(constants, np.uint8)
    else:
        constants.write_to(place)
    return memory
