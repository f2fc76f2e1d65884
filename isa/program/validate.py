"""The rules that a program must obey before any of it is executed.

A valid program touches no byte outside its memories, refers only to things that exist, and needs no more working
memory than its operands take. Whether its waits can all be satisfied is only known in execution.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from npusim.isa.base.errors import ProgramError
from npusim.isa.base.plain_values import printable
from npusim.isa.base.tensor import Placement
from npusim.isa.hardware.memories import Space, beyond_dram
from npusim.isa.hardware.units import PRODUCERS, UNIT_NAMES, Unit
from npusim.isa.instructions.instruction import Context, Instruction
from npusim.isa.program.program import Program


class Violation(NamedTuple):
    """A rule that a program breaks.

    instruction: position of the instruction that breaks it; None if one of the program's tables does.
    text:        what is wrong, for the error message.
    """

    instruction: int | None
    text: str


def validate(program: Program, instructions: Sequence[Instruction]) -> None:
    """Check a program against its hardware and itself; `instructions` are the decoded instructions of its code.

    Raises ProgramError for an instruction with impossible fields, memory that does not exist or is not the program's,
    a DMA channel or host call that does not exist, waits for more completions than possible, and layer or tensor
    tables that do not fit.
    """
    violation = find_violation(program, instructions)
    if violation is None:
        return
    where = printable(program.name)
    if violation.instruction is not None:
        where += f": instruction {violation.instruction} ({instructions[violation.instruction].mnemonic})"
    raise ProgramError(f"{where}: {violation.text}")


def find_violation(program: Program, instructions: Sequence[Instruction]) -> Violation | None:
    """Return the first broken rule of a program, or None."""
    for text in _table_faults(program):
        return Violation(None, text)
    totals = [0] * len(Unit)
    for instruction in instructions:
        totals[instruction.unit] += 1
    context = program.context
    completions = tuple(totals[producer] for producer in PRODUCERS)
    rooms = {space: program.memory_bytes(space) for space in program.hardware.spaces}
    for index, instruction in enumerate(instructions):
        for text in _instruction_faults(program, context, instruction, completions, rooms):
            return Violation(index, text)
    return None


def _instruction_faults(
    program: Program,
    context: Context,
    instruction: Instruction,
    completions: tuple[int, ...],
    rooms: Mapping[Space, int],
) -> Iterator[str]:
    """Yield the faults of one instruction.

    completions: maximum number of completions per producer.
    rooms: bytes of each memory that the program may touch.
    """
    yield from instruction.faults()
    yield from instruction.misfits(context)
    for unit, count in instruction.waits:
        if count > completions[unit]:
            yield (
                f"waits for {count} completions of {UNIT_NAMES[PRODUCERS[unit]]}, "
                f"which executes {completions[unit]} instructions"
            )
    reads, writes = instruction.regions(context)
    for region in (*reads, *writes):
        size = rooms.get(region.space)
        if size is None:
            yield _no_memory(program, region.space)
            return
        end = region.end
        if end > size:
            yield (
                f"bytes {region.address}..{end - 1} lie outside the "
                f"{program.hardware.memory_name(region.space)} of {size} bytes"
            )
    for region in writes:
        if not program.hardware.is_writable(region.space):
            yield f"writes {program.hardware.memory_name(region.space)}, which can only be read"
        if region.strides and region.overlaps_itself:
            yield (
                f"the {program.hardware.memory_name(region.space)} bytes from {region.address} on are written "
                f"more than once: counts {list(region.counts)} with strides {list(region.strides)} overlap"
            )


def _table_faults(program: Program) -> Iterator[str]:
    """Yield the faults in the tables of a program."""
    count, layers = program.instructions, len(program.layers)
    if len(program.layer_of) != count:
        yield f"layer table has {len(program.layer_of)} entries for {count} instructions"
    if count and int(program.layer_of.max()) >= layers:
        yield f"layer {int(program.layer_of.max())} does not exist; there are {layers}"
    yield from _memory_faults(program)
    for buffer in program.buffers:
        if buffer.address + buffer.size_bytes > program.hardware.scratchpad_bytes:
            yield (
                f'buffer "{printable(buffer.name)}" at {buffer.address} with {buffer.size_bytes} bytes lies '
                f"outside the {program.hardware.scratchpad_bytes} bytes of scratchpad"
            )
        if not buffer.first_instruction <= buffer.last_instruction < count:
            yield (
                f'buffer "{printable(buffer.name)}" is in use in instructions {buffer.first_instruction}..'
                f"{buffer.last_instruction}; there are 0..{count - 1}"
            )


def _memory_faults(program: Program) -> Iterator[str]:
    """Yield the parts of a program that do not fit into the memories."""
    size, capacity = program.dram_room_bytes, program.hardware.dram_bytes
    if size > capacity:
        yield beyond_dram(size, capacity)
    yield from _spared_faults(program)
    for area in program.areas:
        if (fault := _outside(program, area.space, 0, area.size_bytes)) is not None:
            yield f"an area {fault}"
    yield from image_faults(program, len(program.constants))
    fault = _outside(program, program.code_space, program.code_address, program.code_size_bytes)
    if program.code_space == Space.SCRATCHPAD:
        fault = "lies in the scratchpad; instructions are fetched through the port of another memory"
    if fault is not None:
        yield f"the code {fault}"
    places: list[Placement | None] = [*program.inputs, *program.outputs, *program.states]
    for call in program.host_calls:
        places += [*call.inputs, *call.outputs]
    for place in places:
        if place is None:
            continue
        fault = _outside(program, place.space, place.address, place.type.size_bytes)
        if fault is not None:
            yield f'tensor "{printable(place.name)}" {fault}'


def _spared_faults(program: Program) -> Iterator[str]:
    """Yield memories where more bytes are marked as taking no space than the hardware leaves out of the constants."""
    array = program.hardware.mac_array
    for area in program.spared:
        size = sum([image.size_bytes for image in program.images if image.space == area.space])
        most = size - array.stored_bytes(size)
        if program.spared_bytes(Space(area.space)) > most:
            yield (
                f"{program.spared_bytes(Space(area.space))} bytes of memory {area.space} take no room; of its "
                f"constants {most} may, mac_array.weight_bits is {array.weight_bits}"
            )


def image_faults(program: Program, constant_bytes: int) -> Iterator[str]:
    """Yield the faults of the images: bytes outside their memory, or a total other than `constant_bytes`."""
    for image in program.images:
        fault = _outside(program, image.space, image.address, image.size_bytes)
        if fault is not None:
            yield f"the image {fault}"
    size = sum(image.size_bytes for image in program.images)
    if size != constant_bytes:
        yield f"{constant_bytes} bytes of constants for images of {size} bytes"


def _outside(program: Program, space: int, address: int, size_bytes: int) -> str | None:
    """Return a fault if a range of bytes is not inside its memory, else None."""
    if not 0 <= space < len(program.hardware.spaces):
        return f"lies in memory {space}: {_no_memory(program, space)}"
    memory_bytes = program.hardware.memory_bytes(Space(space)) + program.spared_bytes(Space(space))
    room = min(program.memory_bytes(Space(space)), memory_bytes)
    if 0 <= address <= room - size_bytes:
        return None
    name = program.hardware.memory_name(Space(space))
    return f"at {address} with {size_bytes} bytes lies outside the {room} bytes of {name}"


def _no_memory(program: Program, space: int) -> str:
    names = [f"{number} {program.hardware.memory_name(number)}" for number in program.hardware.spaces]
    return f"memory {space} does not exist; {program.hardware.name} has {', '.join(names)}"
