"""The timing of competing transfers at a memory's port, which are served one grant each in turn (round robin).

It is computed ahead, as if no other request arrived. Which rows are opened depends on the order of the grants alone,
not on time. So the grants of several transfers are computed at once, without an event for each.

While transfers pass through consecutive rows, a *round* in which each enters one row of every bank often repeats: the
next round opens the rows one stripe further, after the same cycles. Such rounds are added without a loop over their
grants.
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from npusim.isa.hardware.memories import PortTiming
from npusim.machine.banks import OpenRows
from npusim.machine.request import NO_ROW, Request

Opened = tuple[int, int, int, int, int]
"""A row activation that starts when a grant begins: (grant, bank, row, cycle, position). The row can be used from
`cycle` on. `position` is that of the request in the line. It is a plain tuple because a run may have millions."""


class Rounds(NamedTuple):
    """Repetitions of a round, from a grant on.

    opened: the rows that are opened in the round before the first repetition. Each repetition is that round `grants`
            grants and `cycles` cycles later, with rows of the next stripe.
    """

    first: int
    number: int
    grants: int
    cycles: int
    opened: list[Opened]


class Turns(NamedTuple):
    """The timing of the grants of several requests in turn, starting with the first request of the line.

    ends:     end cycle of each grant. At most the last one completes its request.
    opened:   the rows that are opened, in order, without those of repeated rounds.
    takers:   how many requests of the line take turns: all, or the first one alone.
    repeated: the rounds that repeat; None if none do.
    """

    ends: array[int]
    opened: list[Opened]
    takers: int
    repeated: Rounds | None = None

    def open_rows(self, rows: OpenRows, stop: int, requests: int) -> list[int]:
        """Open all rows of the grants before `stop`, and return how many were opened for each request of the line."""
        number, banks, again = [0] * requests, len(rows.rows), self.repeated
        if again is None:
            again = Rounds(len(self.ends), 0, 1, 0, [])
        whole = min(max(stop - again.first, 0) // again.grants, again.number)
        end = again.first + again.number * again.grants
        for position in [each[4] for each in again.opened] if whole > 1 else ():
            number[position] += whole - 1
        # Each round opens the same banks, so the last whole one and what follows it leave the rows that are open.
        late = [
            (grant + more * again.grants, bank, row + more * banks, cycle + more * again.cycles, position)
            for more in (whole, whole + 1)
            for grant, bank, row, cycle, position in again.opened
        ]
        for opened in (
            [each for each in self.opened if each[0] < again.first],
            [each for each in late if again.first <= each[0] < end],
            [each for each in self.opened if each[0] >= end],
        ):
            for grant, bank, row, cycle, position in opened:
                if grant < stop:
                    rows.rows[bank], rows.open_from[bank] = row, cycle
                    number[position] += 1
        rows.opened += sum(number)
        return number


def take_turns(line: Sequence[Request], start: int, rows: OpenRows, timing: PortTiming, most: int) -> Turns:
    """Return the turns of requests from cycle `start` on, until the first of them is complete.

    rows: the open rows at that cycle; not changed.
    most: number of grants after which to stop before that. Repeated rounds do not count.
    """
    machine = _TakingTurns(line, start, rows, timing)
    while True:
        most -= machine.pass_grants(min(machine.left, most, machine.round_grants))
        if not machine.left or most <= 0:
            break
        machine.repeat_rounds()
    return Turns(machine.ends, machine.opened, len(line), machine.repeated)


def take_run(line: Sequence[Request], start: int, rows: OpenRows, timing: PortTiming, most: int) -> Turns:
    """Return consecutive grants of the first request of a line in one row, at most `most`.

    The run ends when the row of a waiting request is ready, because that one goes first.
    """
    machine = _TakingTurns(line, start, rows, timing, 1)
    machine.pass_grants(min(machine.left, most))
    return Turns(machine.ends, machine.opened, 1)


class _State(NamedTuple):
    """A snapshot of the port in cycle `now`: the banks, and the numbers of grants and row activations so far."""

    now: int
    rows: list[int]
    open_from: list[int]
    grants: int
    opened: int

    def equals(self, later: _State, banks: int) -> bool:
        """Return whether a later state is this one, with all rows one stripe further."""
        return all(row + banks == other for row, other in zip(self.rows, later.rows, strict=True)) and all(
            max(cycle - self.now, 0) == max(other - later.now, 0)
            for cycle, other in zip(self.open_from, later.open_from, strict=True)
        )


class _TakingTurns:
    """The state of a memory's port while requests take turns.

    left: grants up to the first that completes a request.

    Lists with an entry per request: `_next` and `_stop` are its next grant and the one that enters another row, `_row`
    and `_further` the rows that it needs now and next.
    """

    def __init__(
        self, line: Sequence[Request], start: int, rows: OpenRows, timing: PortTiming, takers: int = 0
    ) -> None:
        self.ends = array("q")
        self.opened: list[Opened] = []
        self.repeated: Rounds | None = None
        self._line, self._banks, self._miss_cycles = line, timing.banks, timing.miss_cycles
        self._now = start
        self._rows, self._open_from = rows.rows[:], rows.open_from[:]
        self._rows_grants = timing.row_bytes // timing.grant_bytes
        number = len(line)
        self.round_grants = number * timing.banks * self._rows_grants
        self._cycles = [request.grants.cycles for request in line]
        self._limits = [request.pace.limits for request in line]
        self._paced = any(self._limits)
        self._repeats = not self._paced and all(request.grants.even for request in line)
        self._before: _State | None = None
        self._next = [request.next for request in line]
        visits = [request.visit_now() for request in line]
        self._visit, self._row, self._further, self._stop = map(list, zip(*visits, strict=True))
        self._takers = takers or number
        left = [len(request.rows) - request.next for request in line]
        least = min(left)
        self.left = (least - 1) * number + left.index(least) + 1
        if takers:
            self.left = self._stop[0] - self._next[0]

    def pass_grants(self, count: int) -> int:
        """Pass the next `count` grants, from the first request of the line on, and return their number.

        A search for a row to open ahead that finds none is not repeated until a row is opened or left. Both increment
        `version`; `searched` and `looked` are the versions of the last such search, over the rows that waiting requests
        need and over the next row of each running one. `closed` are the requests whose row is not open.
        """
        line, banks, miss = self._line, self._banks, self._miss_cycles
        rows, open_from, opened = self._rows, self._open_from, self.opened
        needed, further, following, stops = self._row, self._further, self._next, self._stop
        number, visit_numbers = len(line), self._visit
        now, done, ends = self._now, len(self.ends), list[int]()
        version, searched, looked = 0, -1, [-1] * number
        closed = [of for of, row in enumerate(needed) if rows[row % banks] != row]
        takers = self._takers
        turns = itertools.cycle(enumerate(zip(self._cycles[:takers], self._limits[:takers], strict=True)))
        for passed, (position, (cycles, limits)) in zip(range(done, done + count), turns, strict=False):
            begin, row, grant = now, needed[position], following[position]
            bank = row % banks
            if rows[bank] != row:
                rows[bank], open_from[bank] = row, begin + miss
                opened.append((passed, bank, row, begin + miss, position))
                closed = [of for of, row in enumerate(needed) if rows[row % banks] != row]
                version += 1
            ready = open_from[bank]
            now = (ready if ready > begin else begin) + cycles[grant]
            if limits and limits[grant] > now:
                now = limits[grant]
            ends.append(now)
            if banks > 1 and (version != searched or version != looked[position]):
                # One row is opened ahead: one that a waiting request needs, else the next row of the running one.
                ahead = -1
                if closed and version != searched:
                    for of in sorted(closed, key=position.__ge__):
                        there = rows[needed[of] % banks]
                        if there not in needed and there not in further:
                            ahead, row = of, needed[of]
                            break
                searched = version
                if ahead < 0 and version != looked[position]:
                    looked[position], row = version, further[position]
                    there = rows[row % banks]
                    if there != row >= 0 and there not in needed and there not in further:
                        ahead = position
                if ahead >= 0:
                    bank = row % banks
                    rows[bank], open_from[bank] = row, begin + miss
                    opened.append((passed, bank, row, begin + miss, ahead))
                    closed = [of for of in closed if needed[of] != row]
                    version += 1
            grant += 1
            following[position] = grant
            if grant == stops[position]:
                needed[position] = further[position]
                entered, visit = line[position], visit_numbers[position] + 1
                visits = entered.grants.visits
                visit_numbers[position] = visit
                if visit < len(visits):
                    stops[position] = visits[visit]
                    further[position] = entered.first_row + entered.rows[visits[visit]]
                else:
                    stops[position], further[position] = len(entered.rows), NO_ROW
                if rows[needed[position] % banks] != needed[position]:
                    closed = sorted([*closed, position])
                version += 1
            if takers < number and any(
                rows[row % banks] == row and open_from[row % banks] <= now for row in needed[1:]
            ):
                break
        self.ends.extend(ends)
        self._now = now
        self.left -= len(ends)
        return len(ends)

    def repeat_rounds(self) -> None:
        """Repeat the last round as often as certain, if it began and ended in the same state one stripe apart."""
        if not self._repeats:
            return
        before = self._before
        state = _State(self._now, self._rows[:], self._open_from[:], len(self.ends), len(self.opened))
        self._before = state
        if before is None or state.grants - before.grants != self.round_grants:
            return
        if not before.equals(state, self._banks):
            return
        number, made = len(self._line), self.round_grants
        each = made // number
        firsts = [request.next + before.grants // number for request in self._line]
        # The first grant of a request and its last may be shorter, and those of its last row have no further row.
        rounds = min(
            (len(request.rows) - 1 - self._rows_grants - first) // each - 1
            for request, first in zip(self._line, firsts, strict=True)
        )
        if rounds < 1 or any(
            request.grants.cycles[first] != request.grants.cycles[first + 1]
            for request, first in zip(self._line, firsts, strict=True)
        ):
            return
        cycles = self._now - before.now
        self.repeated = Rounds(state.grants, rounds, made, cycles, self.opened[before.opened :])
        round_ends = np.array(self.ends[before.grants :])
        later = cycles * np.arange(1, rounds + 1)[:, None]
        self.ends.frombytes((round_ends + later).tobytes())
        self._now += rounds * cycles
        self._next = [grant + rounds * each for grant in self._next]
        visits = map(Request.visit_of, self._line, self._next)
        self._visit, self._row, self._further, self._stop = map(list, zip(*visits, strict=True))
        self._rows[:] = [row + rounds * self._banks for row in self._rows]
        self._open_from[:] = [cycle + rounds * cycles for cycle in self._open_from]
        self.left -= rounds * made
        self._repeats = False
