"""What an instruction is: a row of fields with widths and meaning, an effect, and an occupancy.

Every instruction of the machine is one subclass of `Instruction`. Its fields are declared with `bits`,
its effect is `execute`, its occupancy is `cost`. Encoder, decoder, assembler, validator and manual are
derived from the declarations (here, in `assembly`, `validate` and `manual`) and name no instruction.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from npusim.isa.base.cause import Cause
from npusim.isa.base.errors import ProgramError
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.units import Unit, cycles_of
from npusim.isa.instructions.beats import Beats
from npusim.isa.instructions.region import Region, Regions
from npusim.isa.instructions.word import FIELDS_OFFSET, WAIT_SPECS, WORD_BYTES, FieldSpec, Waits, wait_fault

if TYPE_CHECKING:
    from npusim.isa.base.tensor import HostCall
    from npusim.isa.instructions.memory import Memory, Write


class Cost(NamedTuple):
    """Occupancy of a unit by one instruction, without any waiting for others.

    cycles:   cycles that the unit is busy when no memory outside it holds it up.
    actions:  counts of `npusim.isa.instructions.actions` events.
    setup_cycles: cycles before the first request at a memory's port (part of `cycles`).
    dram:     regions of memories behind ports that the instruction streams, with True for writes.
    array_cycles: for the MAC array, the cycles in which the array itself is occupied.
    beats: for a copy between the memories, how its bytes pass the scratchpad's port; None if there is no such side.
    legs:  for transfers that one instruction makes one after the other, each with a setup; the fields above are then
           those of all of them together, without `beats`.
    """

    cycles: int
    actions: Mapping[str, int]
    setup_cycles: int = 0
    dram: tuple[tuple[Region, bool], ...] = ()
    array_cycles: int = 0
    beats: Beats | None = None
    legs: tuple[Cost, ...] = ()


class _Specs:
    """The fields of an instruction class, placed in the word when they are first asked for."""

    def __get__(self, instance: Instruction | None, owner: type[Instruction]) -> tuple[FieldSpec, ...]:
        if owner not in _SPECS:
            _SPECS[owner] = layout(owner)
        return _SPECS[owner]


_SPECS: dict[type[Instruction], tuple[FieldSpec, ...]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """Base of all instructions. `waits`: start only when each unit has completed so many instructions."""

    mnemonic: ClassVar[str] = ""
    opcode: ClassVar[int] = 0
    home: ClassVar[Unit] = Unit.FRONT_END
    specs = _Specs()
    causes: ClassVar[tuple[Cause, ...]] = ()
    """What its cycles beyond those that its demand needs can be lost to; the first takes what rounding leaves."""

    waits: Waits = ()

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

    def demand(self, context: Context) -> int:
        """Work that it asks of the resource of its unit (`npusim.isa.hardware.units.Resource`).

        A row that says nothing else needs all of its cycles. Transfers and barriers ask for nothing: what passes the
        DRAM is counted at its port.
        """
        kind = self.home.kind
        if kind.resource is None or not kind.advances:
            return 0
        return int(self.cost(context).cycles * kind.resource.per_cycle(context.hardware))

    def split(self, context: Context) -> Mapping[str, int]:
        """Its cycles beyond those of its demand, by cause (`causes`): with these they add up to those of `cost`."""
        resource = self.home.kind.resource
        if resource is None or not self.causes:
            return {}
        needed = cycles_of(self.demand(context), resource.per_cycle(context.hardware))
        return {self.causes[0].name: self.cost(context).cycles - needed}

    def rereads(self, context: Context) -> bool:
        """Whether it reads some of its constants more than once; what has few of them says so."""
        return True

    def encode(self) -> bytes:
        """The instruction word. Raises ProgramError when a value does not fit its field."""
        fault = wait_fault(self.waits)
        if fault:
            raise ProgramError(f"{self.mnemonic}: {fault}")
        word = self.opcode
        for spec, number in zip(WAIT_SPECS, chain.from_iterable(self.waits), strict=False):
            word |= number << spec.offset
        for spec in self.specs:
            value = getattr(self, spec.name)
            if not spec.low <= value <= spec.high:
                raise ProgramError(
                    f"{self.mnemonic}: {spec.name} = {value} is outside {spec.low}..{spec.high}"
                )
            word |= (value & ((1 << spec.width) - 1)) << spec.offset
        return word.to_bytes(WORD_BYTES, "little")


def layout(cls: type[Instruction]) -> tuple[FieldSpec, ...]:
    """Place the declared fields of an instruction one after the other behind opcode and waits; FIRST ones lead, LAST
    ones follow.
    """
    offset = FIELDS_OFFSET
    specs = []
    declared = [item for item in dataclasses.fields(cls) if "width" in item.metadata]
    for item in sorted(declared, key=lambda item: int(item.metadata["place"])):
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
        return FIELDS_OFFSET
    last = cls.specs[-1]
    return last.offset + last.width


def decode_as(cls: type[Instruction], word: int) -> Instruction:
    """Decode a word whose opcode is that of `cls`. Raises ProgramError on values with no meaning."""
    if word >> used_bits(cls):
        raise ProgramError(f"{cls.mnemonic}: unused bits of the instruction word are not zero")
    numbers = [word >> spec.offset & (1 << spec.width) - 1 for spec in WAIT_SPECS]
    pairs = list(zip(numbers[::2], numbers[1::2], strict=True))
    while pairs and pairs[-1] == (0, 0):
        pairs.pop()
    fault = wait_fault(tuple(pairs))
    if fault:
        raise ProgramError(f"{cls.mnemonic}: {fault}")
    values: dict[str, Any] = {"waits": tuple(pairs)}
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


class Context(NamedTuple):
    """Where an instruction is executed; cheap to make.

    host_calls: the program's table of host operators; empty where no instruction calls the host.
    """

    hardware: Hardware
    host_calls: tuple[HostCall, ...] = ()
