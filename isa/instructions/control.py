"""Host calls and control: what the host runs, and where the front end waits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from npusim.isa.hardware.cpu import host_cycles
from npusim.isa.hardware.units import Unit
from npusim.isa.instructions.instruction import Context, Cost, Instruction
from npusim.isa.instructions.memory import Memory, Write
from npusim.isa.instructions.region import Regions, Space, dense
from npusim.isa.instructions.word import bits


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Instruction):
    """Run one operator of the program's host table; its operands lie where the table says."""

    mnemonic: ClassVar[str] = "host.call"
    opcode: ClassVar[int] = 0x40
    home: ClassVar[Unit] = Unit.HOST

    index: int = bits(20, "row of the host-operator table")

    def regions(self, context: Context) -> Regions:
        """The operands of the call where they lie."""
        call = context.host_calls[self.index]
        reads = [place for place in call.inputs if place is not None]
        return (
            tuple(dense(Space(place.space), place.address, place.type.size_bytes) for place in reads),
            tuple(dense(Space(place.space), place.address, place.type.size_bytes) for place in call.outputs),
        )

    def misfits(self, context: Context) -> list[str]:
        """The call must be in the table."""
        if self.index < len(context.host_calls):
            return []
        return [f"host call {self.index} does not exist; there are {len(context.host_calls)}"]

    def execute(self, memory: Memory) -> list[Write]:
        """Call the host function on the operands."""
        return memory.call_host(self.index)

    def cost(self, context: Context) -> Cost:
        """The CPU model's time for the operator's workload, in NPU cycles, hand-over included."""
        return Cost(host_cycles(context.host_calls[self.index].workload, context.hardware), {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Barrier(Instruction):
    """Hold the front end until the waits are satisfied, and so many cycles more; nothing behind it is dispatched
    before: what code on a core does for a layer takes that time.
    """

    mnemonic: ClassVar[str] = "ctl.barrier"
    opcode: ClassVar[int] = 0x01
    home: ClassVar[Unit] = Unit.FRONT_END

    cycles: int = bits(24, "cycles behind the waits")

    def execute(self, memory: Memory) -> list[Write]:
        """Nothing is written."""
        return []

    def cost(self, context: Context) -> Cost:
        """Its cycles."""
        return Cost(self.cycles, {})
