"""The scratchpad's banks: which instructions may be at work in them at the same time.

Banks are contiguous, equal parts of the scratchpad, each with `bank_ports` ports. An instruction holds one port of
every bank that its operands and results touch, from its start to its end; it needs no second port where several of
them lie in one bank.

An instruction asks for its ports when its waits are satisfied, and gets all of them or none. Who gets them is decided
at the end of a cycle, when everything that happens in the cycle is known: of those who ask the earlier goes first, of
those of one cycle the unit with the lower number. A later one may begin before an earlier one that still waits if,
in every bank, its port is one that the earlier ones leave over. So nobody is ever held up by one who asked later, and
nobody waits forever: who holds ports waits for no ports and ends, and then the first in line has all that it needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import NamedTuple

import numpy as np
import simpy

from npusim.isa.hardware.units import PRODUCERS, Unit
from npusim.isa.instructions.context import Context
from npusim.isa.instructions.instruction import Cost, Instruction
from npusim.isa.instructions.region import Region, Space
from npusim.machine.cycle import BANK_PORTS_DECIDE, Settled

Banks = int
"""A set of banks: bit b stands for bank b."""


def banks_of(region: Region, bank_bytes: int) -> Banks:
    """The banks of `bank_bytes` in which a region touches at least one byte."""
    first, last = region.address // bank_bytes, (region.end - 1) // bank_bytes
    # A bank between two bytes that are touched is skipped only where a stride reaches over all of it.
    if last - first < 2 or max(region.strides, default=0) <= bank_bytes:
        return (2 << last) - (1 << first)
    return _banks_of_runs(region, bank_bytes)


def _banks_of_runs(region: Region, bank_bytes: int) -> Banks:
    """The same for a region that may skip banks: every step of the long strides begins a run of its own."""
    starts, length = np.array([region.address], np.int64), region.counts[-1]
    for count, stride in zip(region.counts, region.strides, strict=False):
        if stride > bank_bytes:
            starts = (starts[:, None] + np.arange(count, dtype=np.int64) * stride).ravel()
        else:
            length += (count - 1) * stride
    first, last = starts // bank_bytes, (starts + length - 1) // bank_bytes
    size = int(last.max()) + 2
    edges = np.bincount(first, minlength=size) - np.bincount(last + 1, minlength=size)
    return int.from_bytes(np.packbits(np.cumsum(edges) > 0, bitorder="little").tobytes(), "little")


def banks_used(instruction: Instruction, context: Context, bank_bytes: int) -> Banks:
    """The banks that an instruction needs a port of."""
    found = 0
    for regions in instruction.regions(context):
        for region in regions:
            if region.space == Space.SCRATCHPAD:
                found |= banks_of(region, bank_bytes)
    return found


class _Wish(NamedTuple):
    """An instruction of a unit that asks for its ports since a cycle; in order of precedence."""

    since: int
    unit: int
    granted: simpy.Event


class _Taken:
    """How often each bank is taken, as sets: level k holds the banks that are taken more than k times."""

    def __init__(self, ports: int) -> None:
        self.levels = [0] * ports

    def add(self, banks: Banks) -> None:
        """Take one port of each of some banks."""
        levels = self.levels
        for level in range(len(levels) - 1, 0, -1):
            levels[level] |= levels[level - 1] & banks
        levels[0] |= banks

    @property
    def full(self) -> Banks:
        """Banks without a port left."""
        return self.levels[-1]


class BankPorts:
    """Grants the ports of the banks to the units' instructions, one after the other in program order.

    `instructions`, with their units and costs, are those of the whole program. The banks of an instruction are found
    out when they matter, so where units hardly ever meet that is hardly ever.
    """

    def __init__(
        self,
        env: simpy.Environment,
        context: Context,
        instructions: Sequence[Instruction],
        units: Sequence[int],
        costs: Sequence[Cost],
    ) -> None:
        self._env = env
        self._instructions = instructions
        self._context = context
        self._ports = context.hardware.scratchpad.bank_ports
        self._bank_bytes = context.hardware.scratchpad_bytes // context.hardware.scratchpad.banks
        self._used: dict[int, Banks] = {}
        order: dict[int, list[int]] = {}
        # Most completions of each unit by the end of this cycle: what has begun, and what takes no time at all.
        self._most_done = [0] * len(PRODUCERS)
        for index, (unit, cost) in enumerate(zip(units, costs, strict=True)):
            if unit != Unit.FRONT_END:
                order.setdefault(unit, []).append(index)
                if not cost.cycles:
                    self._most_done[unit] += 1
        self._plenty = len(order) <= self._ports
        # Of each unit the instructions after the next one, the next one (-1: none), the one at work.
        self._later = {unit: iter(indices) for unit, indices in order.items()}
        self._coming = {unit: next(later, -1) for unit, later in self._later.items()}
        self._holders: dict[int, int] = {}
        self._waiting: list[_Wish] = []
        self._deciding = False

    def ask(self, unit: int) -> simpy.Event | None:
        """Ports for the next instruction of a unit: None if it has them, else the event that grants them."""
        if self._plenty:
            return None
        if self._surely_free(unit):
            self._grant(unit)
            return None
        wish = _Wish(int(self._env.now), unit, self._env.event())
        self._waiting.append(wish)
        self._decide_later()
        return wish.granted

    def release(self, unit: int) -> None:
        """The instruction of a unit has ended."""
        if self._plenty:
            return
        del self._holders[unit]
        if self._waiting:
            self._decide_later()

    def _banks(self, index: int) -> Banks:
        found = self._used.get(index)
        if found is None:
            found = banks_used(self._instructions[index], self._context, self._bank_bytes)
            self._used[index] = found
        return found

    def _surely_free(self, unit: int) -> bool:
        """Whether the next instruction of a unit finds ports whatever else happens in this cycle.

        Every other unit may need those of the instruction that it is at, and those of its next one if that can
        begin in this cycle; it never needs both at a time.
        """
        rivals = []
        done = self._most_done
        for other, coming in self._coming.items():
            if other == unit:
                continue
            at = [self._holders[other]] if other in self._holders else []
            if coming >= 0:
                for producer, count in self._instructions[coming].waits:
                    if count > done[producer]:
                        break
                else:
                    at.append(coming)
            if at:
                rivals.append(at)
        if len(rivals) < self._ports:
            return True
        wanted = self._banks(self._coming[unit])
        taken = _Taken(self._ports)
        for at in rivals:
            taken.add(reduce(or_, map(self._banks, at)))
        return not wanted & taken.full

    def _grant(self, unit: int) -> None:
        self._holders[unit] = self._coming[unit]
        self._coming[unit] = next(self._later[unit], -1)
        self._most_done[unit] += 1

    def _decide_later(self) -> None:
        if not self._deciding:
            self._deciding = True
            event = Settled(self._env, BANK_PORTS_DECIDE)
            event.callbacks.append(self._decide)

    def _decide(self, _: simpy.Event) -> None:
        """Grant what can be granted. An earlier wish takes its ports from later ones even while it waits."""
        self._deciding = False
        taken = _Taken(self._ports)
        for index in self._holders.values():
            taken.add(self._banks(index))
        waiting, self._waiting = sorted(self._waiting, key=lambda wish: wish[:2]), []
        for wish in waiting:
            banks = self._banks(self._coming[wish.unit])
            if banks & taken.full:
                self._waiting.append(wish)
            else:
                self._grant(wish.unit)
                wish.granted.succeed()
            taken.add(banks)
