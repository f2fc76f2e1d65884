"""The rules that a program must keep before anything of it is executed."""

from __future__ import annotations

from collections.abc import Sequence

from npusim.isa.errors import ProgramError
from npusim.isa.instruction import PRODUCERS, UNIT_NAMES, Instruction, Space, Unit
from npusim.isa.program import Placement, Program


def validate(program: Program, instructions: Sequence[Instruction]) -> None:
    """Check a program against its hardware and itself.

    Raises ProgramError: an instruction with impossible fields, memory outside the scratchpad or the program's
    DRAM, a DMA channel or host call that does not exist, waits for more completions than there can be, layer or
    tensor tables that do not fit.
    """
    name = program.name
    sizes = {
        Space.SCRATCHPAD: program.hardware.scratchpad.size_kib * 1024,
        Space.DRAM: program.dram_size_bytes,
    }
    _check_tables(program, sizes[Space.DRAM])
    per_unit = dict.fromkeys(PRODUCERS, 0)
    for each in instructions:
        if each.unit in per_unit:
            per_unit[each.unit] += 1
    channels = program.hardware.dma.channels
    calls = len(program.host_calls)
    for index, each in enumerate(instructions):
        where = f"{name}: instruction {index} ({each.mnemonic})"
        faults = each.faults()
        if faults:
            raise ProgramError(f"{where}: {faults[0]}")
        if Unit.DMA0 + channels <= each.unit <= Unit.DMA3:
            raise ProgramError(f"{where}: channel {each.unit} does not exist; the hardware has {channels}")
        if each.unit is Unit.HOST and getattr(each, "index", 0) >= calls:
            raise ProgramError(
                f"{where}: host call {getattr(each, 'index', 0)} does not exist; there are {calls}"
            )
        for producer, count in zip(PRODUCERS, each.waits, strict=True):
            if count > per_unit[producer]:
                raise ProgramError(
                    f"{where}: waits for {count} completions of {UNIT_NAMES[producer]}, "
                    f"which executes {per_unit[producer]} instructions"
                )
        for group in each.regions(program.host_calls):
            for region in group:
                if region.end > sizes[region.space]:
                    raise ProgramError(
                        f"{where}: bytes {region.address}..{region.end - 1} lie outside the "
                        f"{region.space.name.lower()} of {sizes[region.space]} bytes"
                    )


def _check_tables(program: Program, dram_bytes: int) -> None:
    name = program.name
    if len(program.layer_of) != program.instructions:
        raise ProgramError(
            f"{name}: layer table has {len(program.layer_of)} entries for {program.instructions} instructions"
        )
    if program.instructions and int(program.layer_of.max()) >= len(program.layers):
        raise ProgramError(
            f"{name}: layer {int(program.layer_of.max())} does not exist; there are {len(program.layers)}"
        )
    capacity = program.hardware.dram.size_mib << 20
    if dram_bytes > capacity:
        raise ProgramError(f"{name}: needs {dram_bytes} bytes of DRAM, the hardware has {capacity}")
    if program.constants_address + len(program.constants) > dram_bytes:
        raise ProgramError(
            f"{name}: {len(program.constants)} bytes of constants in {dram_bytes} bytes of DRAM"
        )
    if program.code_address + program.code_size_bytes > dram_bytes:
        raise ProgramError(f"{name}: the code ends outside the {dram_bytes} bytes of DRAM")
    places: list[Placement | None] = [*program.inputs, *program.outputs]
    for call in program.host_calls:
        places += [*call.inputs, *call.outputs]
    for place in places:
        if place is not None and not 0 <= place.address <= dram_bytes - place.type.size_bytes:
            raise ProgramError(
                f'{name}: tensor "{place.name}" at {place.address} with {place.type.size_bytes} bytes '
                f"lies outside the {dram_bytes} bytes of DRAM"
            )
