"""What an instruction is: a row of fields with widths and meaning, an effect, and an occupancy.

Every instruction of the machine is one subclass of `Instruction`. Its fields are declared with `bits`,
its effect is `execute`, its occupancy is `cost`. Encoder, decoder, assembler, validator and manual are
derived from the declarations (here, in `assembly`, `validate` and `manual`) and name no instruction.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from npusim.isa.base.errors import ProgramError
from npusim.isa.hardware.memories import Space as Space
from npusim.isa.instructions.beats import Beats

if TYPE_CHECKING:
    from npusim.isa.instructions.context import Context
    from npusim.isa.instructions.memory import Memory, Write

WORD_BYTES = 72
"""Bytes of one encoded instruction."""

OPCODE_BITS = 8
WAIT_BITS = 20


class Unit(IntEnum):
    """The units that execute instructions; each runs its own in program order."""

    DMA0 = 0
    DMA1 = 1
    DMA2 = 2
    DMA3 = 3
    MAC = 4
    VECTOR = 5
    HOST = 6
    FRONT_END = 7


PRODUCERS = tuple(unit for unit in Unit if unit is not Unit.FRONT_END)
"""Units whose completed instructions can be waited for, in the order of the wait fields."""

NO_WAITS: tuple[int, ...] = (0,) * len(PRODUCERS)
UNIT_NAMES = {unit: unit.name.lower() for unit in Unit}


class Region(NamedTuple):
    """Bytes that an instruction touches: `counts[-1]` contiguous bytes, repeated along the outer counts.

    `strides` are byte distances of the outer dimensions, so `len(strides) == len(counts) - 1`.
    """

    space: Space
    address: int
    counts: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def end(self) -> int:
        """One past the last byte touched."""
        span = self.counts[-1]
        for count, stride in zip(self.counts, self.strides, strict=False):
            span += (count - 1) * stride
        return self.address + span

    @property
    def size_bytes(self) -> int:
        """Bytes touched, repeated ones counted again."""
        size = 1
        for count in self.counts:
            size *= count
        return size

    @property
    def overlaps_itself(self) -> bool:
        """True unless every byte is surely touched once: each stride, in order of size, passes what lies below."""
        span = self.counts[-1]
        for stride, count in sorted(zip(self.strides, self.counts, strict=False)):
            if count > 1 and stride < span:
                return True
            span += (count - 1) * stride
        return False


Regions = tuple[tuple[Region, ...], tuple[Region, ...]]
"""Memory that an instruction reads, and memory that it writes."""


def dense(space: Space, address: int, size_bytes: int) -> Region:
    """The region of `size_bytes` contiguous bytes."""
    return Region(space, address, (size_bytes,), ())


class Cost(NamedTuple):
    """Occupancy of a unit by one instruction, without any waiting for others.

    cycles:   cycles that the unit is busy when no memory outside it holds it up.
    actions:  counts of `npusim.isa.instructions.actions` events.
    setup_cycles: cycles before the first DRAM request (part of `cycles`).
    dram:     DRAM regions that the instruction streams, with True for writes.
    array_cycles: for the MAC array, the cycles in which the array itself is occupied.
    beats: for a copy between the memories, how its bytes pass the scratchpad's port; None if there is no such side.
    """

    cycles: int
    actions: Mapping[str, int]
    setup_cycles: int = 0
    dram: tuple[tuple[Region, bool], ...] = ()
    array_cycles: int = 0
    beats: Beats | None = None


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """One field of an instruction word: `width` bits from `offset`, and what it means."""

    name: str
    width: int
    offset: int
    signed: bool
    choices: tuple[str, ...]
    doc: str

    @property
    def low(self) -> int:
        """Smallest value."""
        return -(1 << (self.width - 1)) if self.signed else 0

    @property
    def high(self) -> int:
        """Largest value."""
        if self.choices:
            return len(self.choices) - 1
        return (1 << (self.width - self.signed)) - 1


def bits(width: int, doc: str, *, signed: bool = False, choices: Sequence[str] = ()) -> Any:
    """Declare a field of `width` bits; `choices` names its values from 0 up."""
    metadata = {"width": width, "doc": doc, "signed": signed, "choices": tuple(choices)}
    return field(default=0, metadata=metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """Base of all instructions. `waits[u]`: start only when unit u has completed that many instructions."""

    mnemonic: ClassVar[str] = ""
    opcode: ClassVar[int] = 0
    home: ClassVar[Unit] = Unit.FRONT_END
    specs: ClassVar[tuple[FieldSpec, ...]] = ()

    waits: tuple[int, ...] = NO_WAITS

    @property
    def unit(self) -> Unit:
        """The unit that executes this instruction."""
        return self.home

    @property
    def tile(self) -> tuple[int, ...]:
        """Sizes of the result that it computes: rows, columns, channels of a map; empty if it computes none."""
        return ()

    @property
    def dataflow(self) -> str:
        """How it goes through its operands, where there is a choice; empty where there is none."""
        return ""

    def regions(self, context: Context) -> Regions:
        """Memory read and memory written."""
        return (), ()

    def faults(self) -> list[str]:
        """What is wrong with the fields beyond their widths; empty if nothing."""
        return []

    def misfits(self, context: Context) -> list[str]:
        """What the instruction needs that this hardware or this program does not have; empty if nothing."""
        return []

    def execute(self, memory: Memory) -> list[Write]:
        """Read the operands now; return what is to be written when the instruction completes."""
        raise NotImplementedError

    def cost(self, context: Context) -> Cost:
        """Cycles and actions, from the fields and the hardware alone."""
        raise NotImplementedError

    def encode(self) -> bytes:
        """The instruction word. Raises ProgramError when a value does not fit its field."""
        word = self.opcode
        offset = OPCODE_BITS
        for count in self.waits:
            if not 0 <= count < 1 << WAIT_BITS:
                raise ProgramError(
                    f"{self.mnemonic}: wait count {count} is outside 0..{(1 << WAIT_BITS) - 1}"
                )
            word |= count << offset
            offset += WAIT_BITS
        for spec in self.specs:
            value = getattr(self, spec.name)
            if not spec.low <= value <= spec.high:
                raise ProgramError(
                    f"{self.mnemonic}: {spec.name} = {value} is outside {spec.low}..{spec.high}"
                )
            word |= (value & ((1 << spec.width) - 1)) << spec.offset
        return word.to_bytes(WORD_BYTES, "little")


def layout(cls: type[Instruction]) -> tuple[FieldSpec, ...]:
    """Place the declared fields of an instruction one after the other behind opcode and waits."""
    offset = OPCODE_BITS + WAIT_BITS * len(PRODUCERS)
    specs = []
    for item in dataclasses.fields(cls):
        if "width" not in item.metadata:
            continue
        meta = item.metadata
        specs.append(
            FieldSpec(item.name, meta["width"], offset, meta["signed"], meta["choices"], meta["doc"])
        )
        offset += meta["width"]
    if offset > WORD_BYTES * 8:
        raise TypeError(f"{cls.__name__} needs {offset} bits, an instruction word has {WORD_BYTES * 8}")
    return tuple(specs)


def used_bits(cls: type[Instruction]) -> int:
    """Bits of the word that the instruction uses; the others must be zero."""
    if not cls.specs:
        return OPCODE_BITS + WAIT_BITS * len(PRODUCERS)
    last = cls.specs[-1]
    return last.offset + last.width


def decode_as(cls: type[Instruction], word: int) -> Instruction:
    """Decode a word whose opcode is that of `cls`. Raises ProgramError on values with no meaning."""
    if word >> used_bits(cls):
        raise ProgramError(f"{cls.mnemonic}: unused bits of the instruction word are not zero")
    mask = (1 << WAIT_BITS) - 1
    waits = word >> OPCODE_BITS
    values: dict[str, Any] = {
        "waits": tuple([(waits >> (WAIT_BITS * k)) & mask for k in range(len(PRODUCERS))])
    }
    for spec in cls.specs:
        value = (word >> spec.offset) & ((1 << spec.width) - 1)
        if spec.signed and value >> (spec.width - 1):
            value -= 1 << spec.width
        if value > spec.high:
            names = ", ".join(spec.choices)
            raise ProgramError(
                f"{cls.mnemonic}: {spec.name} = {value} has no meaning; it may be 0..{spec.high} for {names}"
            )
        values[spec.name] = value
    return cls(**values)
