"""The initial memory of a program, before its first instruction."""

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
    windows: Mapping[Space, NDArray[np.uint8]] | None = None,
) -> Memory:
    """Return the memory that a program needs, with its constants in place.

    windows: the program's parts of larger memories. Memories without a window are allocated here. All bytes other
             than constants are zero there.
    """
    memory = Memory(
        {
            space: windows[space]
            if windows and space in windows
            else np.zeros(program.memory_bytes(space), np.uint8)
            for space in program.hardware.spaces
        },
        inputs=program.inputs,
        states=program.states,
        host_calls=program.host_calls,
        host_functions=host_functions,
    )
    constants = program.constants
    places = [
        memory.bytes_at(Space(image.space), image.address, image.size_bytes) for image in program.images
    ]
    if len(places) == 1 and not isinstance(constants, bytes):
        constants.write_to(places[0])
        return memory
    begin, content = 0, np.frombuffer(bytes(constants), np.uint8)
    for place in places:
        place[:] = content[begin : begin + len(place)]
        begin += len(place)
    return memory
