"""The arbiter of the scratchpad's bank ports, which decides which instructions may run at the same time.

Banks are contiguous, equal parts of the scratchpad. Each has `bank_ports` ports. An instruction holds one port of
every bank that its operands and results touch, from its start to its end. Several operands in one bank share a port.

An instruction requests its ports when its waits are satisfied. It gets all of them or none. The arbiter decides at the
end of a cycle, when all requests of the cycle are known. Earlier requests have precedence; requests of the same cycle
are ordered by unit number. A later request may be granted before an earlier one that still waits, but only if it takes
no port that the earlier one needs. So no request is ever delayed by a later one. Deadlock is impossible: an instruction
that holds ports waits for no others, so it ends, and then the first request in line can be granted.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import NamedTuple

import numpy as np
import simpy

from npusim.isa.hardware.units import PRODUCERS, Unit
from npusim.isa.instructions.instruction import Context, Cost, Instruction
from npusim.isa.instructions.region import Region, Space
from npusim.machine.clock import BANK_PORTS_DECIDE, Settled

Banks = int
"""A set of banks: bit b stands for bank b."""


def banks_of(region: Region, bank_bytes: int) -> Banks:
    """Return the set of banks, each of `bank_bytes` bytes, in which a region touches at least one byte."""
    first, last = region.address // bank_bytes, (region.end - 1) // bank_bytes
    # A bank between two bytes that are touched is skipped only where a stride reaches over all of it.
    if last - first < 2 or max(region.strides, default=0) <= bank_bytes:
        return (2 << last) - (1 << first)
    return _banks_of_runs(region, bank_bytes)


def _banks_of_runs(region: Region, bank_bytes: int) -> Banks:
    """Return the banks of a region whose strides may skip whole banks.

    Strides longer than a bank split the region into separate runs. Shorter ones cannot skip a bank, so they only
    lengthen the runs.
    """
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
    """Return the set of banks that an instruction needs a port of."""
    banks = 0
    for regions in instruction.regions(context):
        for region in regions:
            if region.space == Space.SCRATCHPAD:
                banks |= banks_of(region, bank_bytes)
    return banks


class _Wish(NamedTuple):
    """A unit's request for the ports of its next instruction. Fields are in order of precedence."""

    since: int
    unit: int
    granted: simpy.Event


class _Taken:
    """The number of ports taken in each bank, as bit sets: level k holds the banks with more than k ports taken."""

    def __init__(self, ports: int) -> None:
        self.levels = [0] * ports

    def add(self, banks: Banks) -> None:
        """Take one port of each of the given banks."""
        levels = self.levels
        for level in range(len(levels) - 1, 0, -1):
            levels[level] |= levels[level - 1] & banks
        levels[0] |= banks

    @property
    def full(self) -> Banks:
        """The banks that have no free port left."""
        return self.levels[-1]


class BankPorts:
    """The arbiter of the bank ports for one run of a program. Each unit's instructions are served in program order.

    `instructions`, `units` and `costs` are those of the whole program. The banks of an instruction are computed only
    when another unit competes for them, because most instructions of most programs never meet a competitor.
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
        # Upper limit of each unit's completions by the end of this cycle: the instructions that have started, and
        # those that take no time at all.
        self._most_done = [0] * len(PRODUCERS)
        for index, (unit, cost) in enumerate(zip(units, costs, strict=True)):
            if unit != Unit.FRONT_END:
                order.setdefault(unit, []).append(index)
                if not cost.cycles:
                    self._most_done[unit] += 1
        self._plenty = len(order) <= self._ports
        # Per unit: the instructions after the next one, the next one (-1: none), and the running one.
        self._later = {unit: iter(indices) for unit, indices in order.items()}
        self._coming = {unit: next(later, -1) for unit, later in self._later.items()}
        self._holders: dict[int, int] = {}
        self._waiting: list[_Wish] = []
        self._deciding = False

    def ask(self, unit: int) -> simpy.Event | None:
        """Request the ports of a unit's next instruction. Return None if granted at once, else the event that grants.

        If fewer units than ports exist, or no competitor can start in this cycle, the answer is known before the
        end of the cycle. Then no event is needed, which saves most of the simulation's events.
        """
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
        """Free the ports of a unit's instruction, which has ended."""
        if self._plenty:
            return
        del self._holders[unit]
        if self._waiting:
            self._decide_later()

    def _banks(self, index: int) -> Banks:
        banks = self._used.get(index)
        if banks is None:
            banks = banks_used(self._instructions[index], self._context, self._bank_bytes)
            self._used[index] = banks
        return banks

    def _surely_free(self, unit: int) -> bool:
        """Return whether a unit's next instruction finds free ports whatever else happens in this cycle.

        Every other unit is assumed to hold the ports of its running instruction, and those of its next one if that
        can start in this cycle. The two together count as one port per bank, because a unit runs one at a time.
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
        """Grant every request that can be granted, in order of precedence.

        A request that has to wait still reserves its ports, so that later requests cannot overtake it for them.
        """
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


class OpenRows:
    """The open or opening row of each bank, and the cycle from which it can be used.

    Row r is in bank r modulo `banks`, so the address bits just above the row offset select the bank. Each bank has one
    open row. Opening a row takes `miss_cycles` and closes the one before it. Other banks are not delayed, so a row can
    be opened ahead of its use while other banks transfer data.

    rows:      the open row of each bank, -1 at first.
    open_from: the cycle from which it can be used.
    opened:    number of row activations so far.
    """

    __slots__ = ("_miss_cycles", "open_from", "opened", "rows")

    def __init__(self, banks: int, miss_cycles: int) -> None:
        self.rows = [-1] * banks
        self.open_from = [0] * banks
        self._miss_cycles = miss_cycles
        self.opened = 0

    def copy(self) -> OpenRows:
        """Return an independent copy."""
        other = OpenRows(0, self._miss_cycles)
        other.rows, other.open_from, other.opened = self.rows[:], self.open_from[:], self.opened
        return other

    def ready(self, row: int, now: int) -> bool:
        """Return whether bursts of a row can pass at once."""
        bank = row % len(self.rows)
        return self.rows[bank] == row and self.open_from[bank] <= now

    def need(self, row: int, now: int) -> int:
        """Return the cycle from which a row's bursts can pass. Open the row if its bank has another one open."""
        bank = row % len(self.rows)
        if self.rows[bank] != row:
            self._open(bank, row, now)
        return max(now, self.open_from[bank])

    def open_ahead(self, row: int, now: int, running: int) -> None:
        """Start to open a row ahead of its use, unless it is open or its bank holds the row that is `running`."""
        bank = row % len(self.rows)
        if self.rows[bank] not in (row, running):
            self._open(bank, row, now)

    def skip(self, row: int, before: int, number: int) -> None:
        """Set the state after `number` row activations of a transfer through consecutive rows, without simulating each.

        With several banks, rows are opened ahead, so `row` is the last one opened. With one bank, each row is opened
        when it is needed, so the last one opened is `before`, the row in front of `row`.
        """
        banks = len(self.rows)
        if banks == 1:
            self.rows = [before]
        else:
            self.rows = [row - (row - bank) % banks for bank in range(banks)]
        self.open_from = [0] * banks
        self.opened += number

    def _open(self, bank: int, row: int, now: int) -> None:
        self.rows[bank] = row
        self.open_from[bank] = now + self._miss_cycles
        self.opened += 1
