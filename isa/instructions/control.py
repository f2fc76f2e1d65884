"""Host calls and barriers."""

from __future__ import annotations

from typing import ClassVar

from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.hardware.cpu import host_cycles
from npusim.isa.hardware.units import Unit
from npusim.isa.instructions.instruction import Context, Cost, Instruction
from npusim.isa.instructions.memory import Memory, Write
from npusim.isa.instructions.region import Regions, Space, dense
from npusim.isa.instructions.word import BARRIER, LAST, bits


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Instruction):
    """Run one operator on the host CPU. The program's host-call table holds the operator and its operand addresses."""

    mnemonic: ClassVar[str] = "host.call"
    opcode: ClassVar[int] = 0x40
    home: ClassVar[Unit] = Unit.HOST

    index: int = bits(20, "row of the host-call table")

    def regions(self, context: Context) -> Regions:
        """Return the regions of the call's inputs and outputs."""
        call = context.host_calls[self.index]
        reads = [place for place in call.inputs if place is not None]
        return (
            tuple(dense(Space(place.space), place.address, place.type.size_bytes) for place in reads),
            tuple(dense(Space(place.space), place.address, place.type.size_bytes) for place in call.outputs),
        )

    def misfits(self, context: Context) -> list[str]:
        """The index must be a row of the host-call table."""
        if self.index < len(context.host_calls):
            return []
        return [f"host call {self.index} does not exist; there are {len(context.host_calls)}"]

    def execute(self, memory: Memory) -> list[Write]:
        """Call the host function on the operands."""
        return memory.call_host(self.index)

    def cost(self, context: Context) -> Cost:
        """The CPU model's time for the operator's workload, including the hand-over, in NPU cycles."""
        return Cost(host_cycles(context.host_calls[self.index].workload, context.hardware), {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Barrier(Instruction):
    """Stop dispatch until the waits are satisfied and `cycles` more have passed.

    The cycles stand for control code that a core runs before a layer.

    With `align`, the code continues at the next multiple of 2^align bytes. The front end fetches nothing more until
    the word has arrived. So equal parts of a program can lie in the same places of DRAM rows and banks, and take the
    same cycles.
    """

    mnemonic: ClassVar[str] = "ctl.barrier"
    opcode: ClassVar[int] = BARRIER
    home: ClassVar[Unit] = Unit.FRONT_END

    cycles: int = bits(24, "cycles to hold dispatch after the waits are satisfied")
    align: int = bits(
        5, "log2 of the bytes at a multiple of which the code continues; 0: it is contiguous", place=LAST
    )

    def execute(self, memory: Memory) -> list[Write]:
        """Write nothing."""
        return []

    def cost(self, context: Context) -> Cost:
        """The number in the field `cycles`."""
        return Cost(self.cycles, {})
