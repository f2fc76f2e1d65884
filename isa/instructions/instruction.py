"""The base class of instructions: fields with widths and meaning, an effect, and an occupancy.

Every instruction is one subclass of `Instruction`. Its fields are declared with `bits`, its effect is `execute`, its
occupancy is `cost`. Encoder, decoder, assembler, validator and manual are derived from the declarations (here, in
`assembly`, `validate` and `manual`) and name no instruction.

The docstrings of a subclass, of its `faults`, `misfits`, `execute`, `work` and `cost`, and of its fields are the text
of the manual, docs/isa.md. So those of `faults` and `misfits` state the rules that must hold, not what the method does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from npusim.isa.base.cause import Cause
from npusim.isa.base.errors import ProgramError
from npusim.isa.base.lazy_dataclass import dataclass, metadata_of
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.units import Unit, cycles_of
from npusim.isa.instructions.beats import Beats
from npusim.isa.instructions.region import Region, Regions
from npusim.isa.instructions.word import FIELDS_OFFSET, WAIT_SPECS, WORD_BYTES, FieldSpec, Waits, wait_fault

if TYPE_CHECKING:
    from npusim.isa.base.tensor import HostCall
    from npusim.isa.instructions.memory import Memory, Write


class Cost(NamedTuple):
    """The occupancy of a unit by one instruction, without waits for other units.

    cycles:       cycles that the unit is busy if no memory port delays it.
    actions:      counts of the actions in `npusim.isa.instructions.actions`.
    setup_cycles: cycles before the first request at a memory's port (part of `cycles`).
    dram:         regions of memories behind ports that the instruction streams, each with True for a write.
    array_cycles: for the MAC array, the cycles in which the array itself is occupied.
    beats:        for a copy between memories, the transfer cycles of its scratchpad side; None if it has none.
    legs:         for an instruction that makes several transfers in sequence, each with a setup, their costs. The
                  fields above are then those of all transfers together, without `beats`.
    """

    cycles: int
    actions: Mapping[str, int]
    setup_cycles: int = 0
    dram: tuple[tuple[Region, bool], ...] = ()
    array_cycles: int = 0
    beats: Beats | None = None
    legs: tuple[Cost, ...] = ()


Kin = tuple[int, ...] | None
"""Key of instructions that can be executed together; None for an instruction that is executed alone."""


class _Specs:
    """The fields of an instruction class, placed in the word when they are first asked for."""

    def __get__(self, instance: Instruction | None, owner: type[Instruction]) -> tuple[FieldSpec, ...]:
        if owner not in _SPECS:
            _SPECS[owner] = layout(owner)
        return _SPECS[owner]


_SPECS: dict[type[Instruction], tuple[FieldSpec, ...]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """The base of all instructions.

    waits: pairs (unit, count); the instruction starts only when each unit has completed that many instructions.
    """

    mnemonic: ClassVar[str] = ""
    opcode: ClassVar[int] = 0
    home: ClassVar[Unit] = Unit.FRONT_END
    specs = _Specs()
    causes: ClassVar[tuple[Cause, ...]] = ()
    """The causes of cycles beyond those that the demand needs. The first one also gets the cycles lost to rounding."""

    waits: Waits = ()

    @property
    def unit(self) -> Unit:
        """The unit that executes this instruction."""
        return self.home

    @property
    def tile(self) -> tuple[int, ...]:
        """Shape of the computed result, for example rows, columns and channels; empty if nothing is computed."""
        return ()

    @property
    def dataflow(self) -> str:
        """Name of the dataflow in which it processes its operands; empty if there is no choice."""
        return ""

    def regions(self, context: Context) -> Regions:
        """Return the regions of memory that are read and those that are written."""
        return (), ()

    def faults(self) -> list[str]:
        """Return messages about invalid combinations of field values; empty if there are none."""
        return []

    def misfits(self, context: Context) -> list[str]:
        """Return messages about needs that this hardware or program does not meet; empty if there are none."""
        return []

    def execute(self, memory: Memory) -> list[Write]:
        """Read the operands now; return the writes to commit when the instruction completes."""
        raise NotImplementedError

    @property
    def kin(self) -> Kin:
        """The key that instructions of one class share if `execute_together` can execute them in one computation."""
        return None

    @classmethod
    def execute_together(cls, kin: Sequence[Any], memory: Memory) -> list[list[Write]]:
        """Execute instructions of one kin. Read all operands now; return the writes of each instruction."""
        return [instruction.execute(memory) for instruction in kin]

    def cost(self, context: Context) -> Cost:
        """Return cycles and actions. They depend only on the fields and the hardware, never on data."""
        raise NotImplementedError

    def demand(self, context: Context) -> int:
        """Return the work that it needs from the resource of its unit (`npusim.isa.hardware.units.Resource`).

        By default all of its cycles count. Transfers and barriers need nothing: DRAM traffic is counted at the port.
        """
        kind = self.home.kind
        if kind.resource is None or not kind.advances:
            return 0
        return int(self.cost(context).cycles * kind.resource.per_cycle(context.hardware))

    def split(self, context: Context) -> Mapping[str, int]:
        """Return the cycles beyond those that the demand needs, by cause. Both together are the cycles of `cost`."""
        resource = self.home.kind.resource
        if resource is None or not self.causes:
            return {}
        needed = cycles_of(self.demand(context), resource.per_cycle(context.hardware))
        return {self.causes[0].name: self.cost(context).cycles - needed}

    def rereads(self, context: Context) -> bool:
        """Return whether it may read some of its constants more than once. Subclasses that know better override it."""
        return True

    def encode(self) -> bytes:
        """Return the instruction word, `WORD_BYTES` bytes. Raises ProgramError if a value does not fit its field."""
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


def zero_faults(instruction: Instruction, names: Iterable[str]) -> list[str]:
    """Check that fields of an instruction are at least 1, and return a message for each that is 0."""
    return [f"{name} is 0; it may be 1 or more" for name in names if not getattr(instruction, name)]


def layout(cls: type[Instruction]) -> tuple[FieldSpec, ...]:
    """Assign bit positions to the declared fields of an instruction, after opcode and waits.

    Fields declared with FIRST come before all others, those with LAST after them.
    """
    offset = FIELDS_OFFSET
    specs = []
    declared = [(name, meta) for name, meta in metadata_of(cls).items() if "width" in meta]
    for name, meta in sorted(declared, key=lambda item: int(item[1]["place"])):
        specs.append(FieldSpec(name, meta["width"], offset, meta["signed"], meta["choices"], meta["doc"]))
        offset += meta["width"]
    if offset > WORD_BYTES * 8:
        raise TypeError(f"{cls.__name__} needs {offset} bits, an instruction word has {WORD_BYTES * 8}")
    return tuple(specs)


def used_bits(cls: type[Instruction]) -> int:
    """Return the number of bits of the word that the instruction uses. The others must be zero."""
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
    """The hardware and the host-call table that an instruction's cost and regions may depend on.

    host_calls: the program's table of host operators; empty if no instruction calls the host.
    """

    hardware: Hardware
    host_calls: tuple[HostCall, ...] = ()
