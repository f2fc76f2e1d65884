"""The execution of a launch's instructions on data: operands are read at the start, results written at the end.

The overhead of a call exceeds the work of a small matrix product. So tiles of a layer that read the same feature map
are put off and computed in one product, where no byte depends on it. A tile that has started is put off while another
of its kin (`Instruction.kin`) follows in its unit. What was put off is computed before

* another instruction reads or writes bytes that a tile put off writes, or writes bytes that it reads;
* one of them reads what another writes.

Then every instruction reads the bytes that memory held when it started, and a missing wait gives the wrong bytes that
it gives without this. Bytes are compared by the range from the first to the last, which is enough to be safe.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from npusim.isa.base.errors import OperandFault, SimulationError
from npusim.isa.instructions.instruction import Context, Instruction
from npusim.isa.instructions.memory import Memory, Write, commit
from npusim.isa.instructions.region import Region, Space
from npusim.isa.program.program import Program

_MOST_RESULTS = 1 << 18
"""Number of results from which on they are no longer put off. Larger products gain nothing and leave the cache."""

_Range = tuple[Space, int, int]


class Effects:
    """The execution of the instructions of one launch.

    Each unit calls `start` and `end` for its instructions in order. An instruction is put off beyond its end only
    if another of its kin follows, so nothing is left when all have ended.
    """

    def __init__(
        self, program: Program, context: Context, instructions: Sequence[Instruction], memory: Memory
    ) -> None:
        self._program = program
        self._context = context
        self._instructions = instructions
        self._memory = memory
        self._followed = _followed_by_kin(instructions)
        self._writes: dict[int, list[Write]] = {}
        # The instructions that are put off, in order; the last one may not have ended. What they read and write.
        self._put_off: list[int] = []
        self._ended: set[int] = set()
        self._results = 0
        self._reads: list[_Range] = []
        self._written: list[_Range] = []

    def start(self, index: int) -> None:
        """Read the operands of an instruction. Raises SimulationError, naming the layer, for invalid operands."""
        instruction = self._instructions[index]
        joins = bool(self._put_off) and self._followed.get(self._put_off[-1]) == index
        if not joins and not self._put_off and index not in self._followed:
            self._writes[index] = self._execute(index)
            return
        reads, writes = instruction.regions(self._context)
        if self._put_off and _meet(reads, self._written):
            self._catch_up()
            joins = False
        if not joins and index in self._followed:
            self._catch_up()
        elif not joins:
            self._writes[index] = self._execute(index)
            return
        self._put_off.append(index)
        self._results += prod(instruction.tile)
        self._reads += map(_range, reads)
        self._written += map(_range, writes)

    def end(self, index: int) -> None:
        """Write the results of an instruction."""
        if index in self._put_off:
            self._ended.add(index)
            if index not in self._followed or self._results > _MOST_RESULTS:
                self._catch_up()
            return
        if self._put_off:
            _, writes = self._instructions[index].regions(self._context)
            if _meet(writes, self._reads) or _meet(writes, self._written):
                self._catch_up()
        commit(self._writes.pop(index))

    def _catch_up(self) -> None:
        """Compute the instructions that are put off, and write the results of those that have ended."""
        put_off, self._put_off = self._put_off, []
        if not put_off:
            return
        if len(put_off) == 1:
            writes = [self._execute(put_off[0])]
        else:
            kin = [self._instructions[index] for index in put_off]
            writes = type(kin[0]).execute_together(kin, self._memory)
        for index, written in zip(put_off, writes, strict=True):
            if index in self._ended:
                commit(written)
            else:
                self._writes[index] = written
        self._ended.clear()
        self._results = 0
        self._reads.clear()
        self._written.clear()

    def _execute(self, index: int) -> list[Write]:
        try:
            return self._instructions[index].execute(self._memory)
        except OperandFault as fault:
            raise SimulationError(f"{self._program.layer_name(index)}: {fault}") from None


def _followed_by_kin(instructions: Sequence[Instruction]) -> dict[int, int]:
    """Return the next instruction of the same unit, by index, for those instructions where it is of the same kin."""
    followed = {}
    last: dict[int, tuple[int, object]] = {}
    for index, instruction in enumerate(instructions):
        kin, unit = instruction.kin, instruction.unit
        before = last.get(unit)
        if before is not None and kin is not None and before[1] == (type(instruction), kin):
            followed[before[0]] = index
        last[unit] = index, (type(instruction), kin)
    return followed


def _range(region: Region) -> _Range:
    return region.space, region.address, region.end


def _meet(regions: Iterable[Region], ranges: Sequence[_Range]) -> bool:
    """Return whether the address range of a region overlaps one of the ranges."""
    for region in regions:
        first, end = region.address, region.end
        for space, begin, stop in ranges:
            if begin < end and first < stop and space == region.space:
                return True
    return False
