"""The model's side of a comparison: the same instructions and memories, executed by `npusim`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base.elements import Workload
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.instructions.instruction import Instruction
from npusim.isa.instructions.memory import Memory, commit
from npusim.isa.instructions.region import Space
from npusim.isa.instructions.table import encode_all
from npusim.isa.program.program import Layer, Program
from npusim.isa.program.start import memory_of
from npusim.machine.core import load
from npusim.machine.system import System

from .system_referee import Timeline

Image = NDArray[np.uint8]


class Scratchpad(Memory):
    """A memory that is nothing but a scratchpad."""

    def __init__(self, image: Image) -> None:
        self.spaces = {Space.SCRATCHPAD: image}


def executed(instruction: Instruction, scratchpad: Image) -> Image:
    """The scratchpad after one instruction."""
    image = scratchpad.copy()
    commit(instruction.execute(Scratchpad(image)))
    return image


def program_of(
    instructions: list[Instruction], hardware: Hardware, code_address: int, dram_bytes: int
) -> Program:
    """Instructions as a program of one layer without inputs or outputs."""
    code = encode_all(instructions)
    return Program(
        name="rtl",
        hardware=hardware,
        code=code,
        constants=b"",
        dram_size_bytes=dram_bytes,
        code_address=code_address,
        inputs=(),
        outputs=(),
        layers=(Layer("layer", "identity", "none", Workload("move")),),
        layer_of=np.zeros(len(code), np.uint32),
    )


def timeline(program: Program, scratchpad: Image, dram: Image) -> Timeline:
    """The machine's times for every instruction of a program, and both memories after it."""
    memory = memory_of(program)
    memory.spaces = {Space.SCRATCHPAD: scratchpad.copy(), Space.DRAM: dram.copy()}
    system = System((program.hardware,))
    launch = system.cores[0].launch(load(program, program.hardware), memory)
    system.run()
    return Timeline(
        launch.dispatched.tolist(),
        launch.started.tolist(),
        launch.ended.tolist(),
        memory.spaces[Space.SCRATCHPAD],
        memory.spaces[Space.DRAM],
    )
