"""The executable: steps that run programs, and the placement of each program in memory.

A `Program` is straight-line code for one core. Its addresses are relative to the beginning of its *window* of each
memory.

An executable is a list of steps. Steps launch programs, move tensors between windows, and decide which steps run and
how often. In each memory the windows are placed one after the other, each aligned to the beginning of a row. The last
window, in the memory that holds activations, belongs to the executable itself, for values of no single program. The
system chooses where the first window begins (`npusim.machine.system`).

A transfer or a decision is itself compiled to a program of a few instructions (`link`): copies on the DMA channels,
or a host call that reads the condition. All work is therefore done by instructions, which are fetched, timed and
counted like any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple

import numpy as np

from npusim.isa.base.elements import Workload
from npusim.isa.base.errors import ProgramError
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.plain_values import printable
from npusim.isa.base.tensor import HostCall, Placement
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.memories import beyond_dram
from npusim.isa.hardware.units import Unit
from npusim.isa.instructions.control import Call
from npusim.isa.instructions.dma import Copy
from npusim.isa.instructions.instruction import Instruction
from npusim.isa.instructions.region import Space
from npusim.isa.instructions.table import encode_all
from npusim.isa.instructions.word import WORD_BYTES, Waits
from npusim.isa.program.program import Area, Layer, Program

OWN = -1
"""Window number of the executable's own window, which belongs to no program."""

DECISION = "decide"
"""The host operator that reads a condition; it computes nothing."""

HANDOVER = "handover"
"""The host operator for the handover from one device to the next; it computes nothing."""


@dataclass(frozen=True, slots=True)
class Place:
    """A tensor in a window: that of the program with this number, or OWN."""

    window: int
    tensor: Placement


@dataclass(frozen=True, slots=True)
class Launch:
    """A step that runs a program on a core, from its first instruction to its last completion."""

    program: int
    core: int = 0


@dataclass(frozen=True, slots=True)
class Transfer:
    """A step that copies tensors, each (from, to), all at once.

    No target may share bytes with another move's source or target.

    handover: whether the host takes over from one device and starts the next first; `moves` may be empty then.
    """

    name: str
    moves: tuple[tuple[Place, Place], ...]
    core: int = 0
    handover: bool = False


@dataclass(frozen=True, slots=True)
class If:
    """A step that reads a condition of one byte and then runs the steps of one branch."""

    name: str
    condition: Place
    then: tuple[Step, ...]
    otherwise: tuple[Step, ...]
    core: int = 0


@dataclass(frozen=True, slots=True)
class While:
    """A step that repeats: run the steps of the test, read the condition (one byte), and if true run the body.

    It ends when the condition is false.
    """

    name: str
    test: tuple[Step, ...]
    condition: Place
    body: tuple[Step, ...]
    core: int = 0


Step = Launch | Transfer | If | While


@dataclass(frozen=True)
class Executable:
    """Programs and the order in which they run.

    hardware: the core on which transfers and decisions run; each program has its own hardware.
    values: initial bytes of the executable's own window in the memory `own_space`: constants, and zeros for values.
    inputs, outputs, states: placements where the caller writes and reads tensors. A run does not change inputs.
    notes:  notes of the model reader, one line each.
    """

    name: str
    hardware: Hardware
    programs: tuple[Program, ...]
    steps: tuple[Step, ...]
    inputs: tuple[Place, ...]
    outputs: tuple[Place, ...]
    states: tuple[Place, ...] = ()
    values: bytes = b""
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, program: Program) -> Executable:
        """Return an executable that launches one program once."""
        inputs, outputs, states = (
            tuple(Place(0, place) for place in places)
            for places in (program.inputs, program.outputs, program.states)
        )
        return cls(program.name, program.hardware, (program,), (Launch(0),), inputs, outputs, states)

    @property
    def own_space(self) -> Space:
        """Return the memory of the executable's own window."""
        return self.hardware.holder("activations")

    def spared_bytes(self, space: Space) -> int:
        """Return the bytes of a memory that have addresses but take no space (`Program.spared`)."""
        return sum([program.spared_bytes(space) for program in self.programs])

    @property
    def decisions(self) -> tuple[str, ...]:
        """Return the names of all If and While steps, nested ones included."""
        return tuple(step.name for step in walk(self.steps) if isinstance(step, If | While))


def walk(steps: Sequence[Step]) -> Iterator[Step]:
    """Yield all steps; the steps nested in a step follow it."""
    for step in steps:
        yield step
        if isinstance(step, If):
            yield from walk((*step.then, *step.otherwise))
        if isinstance(step, While):
            yield from walk((*step.test, *step.body))


class Linked(NamedTuple):
    """An executable with addresses assigned from 0 on.

    programs: the programs of the executable, then those of its transfers and decisions. The latter use addresses
              relative to the beginning of the executable, so their base is 0.
    bases:    the address of the window of each program in each memory; the last entry is the executable's own window.
    glue:     the numbers of the programs of transfers and decisions.
    size_bytes: bytes of the whole executable in each memory.
    """

    programs: tuple[Program, ...]
    bases: tuple[Mapping[Space, int], ...]
    glue: Mapping[Transfer | If | While, int]
    size_bytes: Mapping[Space, int]

    def base(self, number: int) -> Mapping[Space, int]:
        """Return the base addresses of a program in each memory; a memory that is not listed has base 0."""
        return self.bases[number] if number < len(self.bases) - 1 else {}

    def address(self, place: Place) -> int:
        """Return the address of a tensor in its memory."""
        return self.bases[place.window].get(Space(place.tensor.space), 0) + place.tensor.address


def link(executable: Executable) -> Linked:
    """Assign addresses to an executable. Raises ProgramError if it breaks a rule or does not fit the memories."""
    _check(executable)
    hardware = executable.hardware
    stripes = {space: hardware.port_timing(space).stripe_bytes for space in hardware.outer_spaces}
    ends = dict.fromkeys(stripes, 0)
    windows = [{space: program.memory_bytes(space) for space in stripes} for program in executable.programs]
    windows.append({executable.own_space: len(executable.values)})
    bases = list[Mapping[Space, int]]()
    for window in windows:
        bases.append({space: -(-ends[space] // stripes[space]) * stripes[space] for space in window})
        ends |= {space: bases[-1][space] + size for space, size in window.items() if size}
    linked = Linked(executable.programs, tuple(bases), {}, ends)
    between = dict.fromkeys(step for step in walk(executable.steps) if not isinstance(step, Launch))
    added, glue = list[Program](), dict[Transfer | If | While, int]()
    code_space = hardware.holder("code")
    for step in between:
        address = -(-ends[code_space] // stripes[code_space]) * stripes[code_space]
        program = _glue(executable, step, linked, ends, address)
        ends = ends | {code_space: address + program.code_size_bytes}
        glue[step] = len(executable.programs) + len(added)
        added.append(program)
    for space, end in ends.items():
        capacity = hardware.memory_bytes(space)
        end -= executable.spared_bytes(space)
        if end > capacity:
            fault = f"needs {end} bytes of {hardware.memory_name(space)}, the hardware has {capacity}"
            if space == Space.DRAM:
                fault = beyond_dram(end, capacity)
            raise ProgramError(f"{printable(executable.name)}: {fault}")
    return Linked((*executable.programs, *added), tuple(bases), glue, ends)


def _glue(
    executable: Executable,
    step: Transfer | If | While,
    linked: Linked,
    ends: Mapping[Space, int],
    code_address: int,
) -> Program:
    """Return the program of a transfer or a decision, with its code at `code_address`.

    It may touch all bytes of the executable, which ends at `ends` in each memory.
    """
    if isinstance(step, Transfer):
        code, layers, calls = _transfer(executable, step, linked)
    else:
        code, layers, calls = _decision(executable, step, linked)
    layer_of = [min(position, len(layers) - 1) for position in range(len(code))]
    code_space = executable.hardware.holder("code")
    ends = {**ends, code_space: code_address + len(code) * WORD_BYTES}
    return Program(
        name=step.name,
        hardware=executable.hardware,
        code=encode_all(code),
        constants=b"",
        dram_size_bytes=ends[Space.DRAM],
        code_address=code_address,
        inputs=(),
        outputs=(),
        layers=tuple(layers),
        layer_of=np.array(layer_of, np.uint32),
        host_calls=calls,
        code_space=code_space,
        areas=tuple(Area(space, end) for space, end in ends.items() if space != Space.DRAM),
    )


class _Glue(NamedTuple):
    """The parts of a step's program.

    Each layer but the last has one instruction; the last layer has all others.
    """

    code: list[Instruction]
    layers: list[Layer]
    calls: tuple[HostCall, ...] = ()


def _transfer(executable: Executable, step: Transfer, linked: Linked) -> _Glue:
    """Return copies, distributed over all DMA channels in turn, after a handover if the step has one."""
    glue = _Glue([], [])
    waits: Waits = ()
    if step.handover:
        name, work = f"{step.name}/handover", Workload("handover")
        call = HostCall(name, HANDOVER, {}, (), (), work, "the next device is another one")
        glue = _Glue([Call(index=0)], [Layer(name, HANDOVER, "host", work)], (call,))
        waits = ((Unit.HOST, 1),)
        if not step.moves:
            return glue
    size_bytes = sum(source.tensor.type.size_bytes for source, _ in step.moves)
    work = Workload("move", input_bytes=size_bytes, output_bytes=size_bytes)
    glue.layers.append(Layer(step.name, "transfer", "dma", work))
    channels = executable.hardware.dma.channels
    glue.code.extend(
        Copy(
            waits=waits,
            channel=number % channels,
            source_space=source.tensor.space,
            source=linked.address(source),
            target_space=target.tensor.space,
            target=linked.address(target),
            size=source.tensor.type.size_bytes,
        )
        for number, (source, target) in enumerate(step.moves)
        if source.tensor.type.size_bytes
    )
    return glue


def _decision(executable: Executable, step: If | While, linked: Linked) -> _Glue:
    """Return a host call that reads the condition."""
    condition = replace(step.condition.tensor, address=linked.address(step.condition))
    work = Workload("elementwise", elements=1, input_bytes=condition.type.size_bytes)
    call = HostCall(step.name, DECISION, {}, (condition,), (), work, "the host reads the condition")
    layer = Layer(step.name, type(step).__name__.lower(), "host", work)
    return _Glue([Call(index=0)], [layer], (call,))


def _check(executable: Executable) -> None:
    """Raise ProgramError for the first rule that an executable breaks."""
    for text in _faults(executable):
        raise ProgramError(f"{printable(executable.name)}: {text}")


def _faults(executable: Executable) -> Iterator[str]:
    names = executable.decisions
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            yield f'{names.count(name)} decisions are named "{printable(name)}", each needs a name of its own'
    for what in ("inputs", "outputs", "states"):
        for place in getattr(executable, what):
            yield from _place_faults(executable, place, what)
    for step in walk(executable.steps):
        if step.core < 0:
            yield f"a step runs on core {step.core}, must be 0 or more"
        if isinstance(step, Launch) and not 0 <= step.program < len(executable.programs):
            yield f"program {step.program} is launched, there are {len(executable.programs)}"
        if isinstance(step, If | While):
            yield from _place_faults(executable, step.condition, f'condition of "{printable(step.name)}"')
            size = step.condition.tensor.type.size_bytes
            if size != 1:
                yield f'condition of "{printable(step.name)}" has {size} bytes, must have 1'
        if isinstance(step, Transfer):
            yield from _transfer_faults(executable, step)


def _place_faults(executable: Executable, place: Place, where: str) -> Iterator[str]:
    if not OWN <= place.window < len(executable.programs):
        yield f"{where}: window {place.window}, there are {len(executable.programs)} programs"
        return
    space = Space(place.tensor.space)
    if space == Space.SCRATCHPAD and len(executable.programs) > 1:
        yield (
            f'{where}: tensor "{printable(place.tensor.name)}" lies in the scratchpad, which '
            f"{len(executable.programs)} programs share; let another memory hold io"
        )
        return
    if place.window != OWN:
        size = executable.programs[place.window].memory_bytes(space)
    else:
        size = len(executable.values) if space == executable.own_space else 0
    if not 0 <= place.tensor.address <= size - place.tensor.type.size_bytes:
        yield (
            f'{where}: tensor "{printable(place.tensor.name)}" at {place.tensor.address} with '
            f"{place.tensor.type.size_bytes} bytes lies outside the {size} bytes of its window"
        )


def _transfer_faults(executable: Executable, step: Transfer) -> Iterator[str]:
    where = f'transfer "{printable(step.name)}"'
    for source, target in step.moves:
        yield from _place_faults(executable, source, where)
        yield from _place_faults(executable, target, where)
        if source.tensor.type.size_bytes != target.tensor.type.size_bytes:
            yield (
                f"{where}: {source.tensor.type.size_bytes} bytes to a tensor of "
                f"{target.tensor.type.size_bytes}"
            )
    if conflicts(step.moves):
        yield f"{where}: a target lies in bytes that another move reads or writes"


def conflicts(moves: Sequence[tuple[Place, Place]]) -> bool:
    """Return whether moves cannot be made all at once: a target shares bytes with another's source or target."""
    return any(
        overlap(one[1], end) or overlap(other[1], end_of_one)
        for one, other in combinations(moves, 2)
        for end, end_of_one in zip(other, one, strict=True)
    )


def overlap(one: Place, other: Place) -> bool:
    """Return whether two tensors share bytes."""
    if (one.window, one.tensor.space) != (other.window, other.tensor.space):
        return False
    first, second = sorted((place.tensor.address, place.tensor.type.size_bytes) for place in (one, other))
    return first[0] + first[1] > second[0] and second[1] > 0
