"""The port of a memory, such as the DRAM: who gets it when, and for how long.

A transfer is cut into *grants*: up to `grant_bytes` within one row. DMA channels take turns, one grant each, those of
all cores alike. An instruction fetch goes before all of them while its core runs short of instructions, and behind all
of them otherwise: fetched earlier than needed, instructions would only delay the data that the ones before wait for.
A grant pays the row miss when its bank has another row open than the one it needs, then its bursts at the port's
bandwidth, rounded up to whole cycles. Who is next is decided when a grant ends, among all who asked up to and including
that cycle; of those who asked in the same cycle the lower core goes first, of one core the lower channel.
When a grant begins, one row is opened ahead beside it: the next row of the first channel in line, or of the one
behind it, and so on, at last the row that the transfer under way needs behind the one it is in. Left out are rows that
are open, and those in whose bank is a row that the transfer under way or one in line needs now or next. With one bank
there is none.
While only one requester is active its grants are served in one event; a newcomer takes over at the next grant
boundary, exactly as if each had been an event.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Generator
from itertools import accumulate, compress
from math import ceil
from operator import add, ne, sub
from typing import Any, NamedTuple

import numpy as np
import simpy
from numpy.typing import NDArray

from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.memories import PortTiming, Space
from npusim.isa.instructions.actions import port_actions
from npusim.isa.instructions.region import Region
from npusim.machine.clock import Clock
from npusim.machine.cycle import MEMORY_PORTS_DECIDE, Settled
from npusim.machine.rows import OpenRows
from npusim.machine.trace import Transfer


class Grants(NamedTuple):
    """A transfer cut into grants: the row of each and its bursts."""

    rows: list[int]
    bursts: list[int]


class Pace(NamedTuple):
    """What the other side of a transfer asks of its grants; see `npusim.machine.pacing`. One entry per grant.

    not_before: cycle before which a grant does not end, as its data comes too late; None without such.
    landing:    cycles from the beginning of a grant's first burst until the other side can have finished; or None.
    """

    not_before: list[int] | None = None
    landing: list[int] | None = None


UNPACED = Pace()


def run_starts(region: Region) -> NDArray[np.int64]:
    """Start addresses of the contiguous runs of a region, in transfer order."""
    starts = np.array([region.address], np.int64)
    for count, stride in zip(region.counts, region.strides, strict=False):
        starts = (starts[:, None] + np.arange(count, dtype=np.int64) * stride).ravel()
    return starts


def cut(region: Region, timing: PortTiming) -> Grants:
    """The grants of a region. A burst that two consecutive runs share is transferred once."""
    if not region.strides:
        return _cut_dense(region, timing)
    starts = run_starts(region)
    first = starts // timing.burst_bytes
    last = (starts + region.counts[-1] - 1) // timing.burst_bytes
    if len(first) > 1:
        first[1:] += first[1:] == last[:-1]
        keep = first <= last
        first, last = first[keep], last[keep]
    per_row = timing.row_bytes // timing.burst_bytes
    per_grant = timing.grant_bytes // timing.burst_bytes
    # Grants are aligned to `grant_bytes`, which divides the row.
    blocks = last // per_grant - first // per_grant + 1
    owner = np.repeat(np.arange(len(first)), blocks)
    within = np.arange(len(owner)) - np.repeat(np.cumsum(blocks) - blocks, blocks)
    block = first[owner] // per_grant + within
    bursts = np.minimum(last[owner], block * per_grant + per_grant - 1)
    bursts = bursts - np.maximum(first[owner], block * per_grant) + 1
    change = np.flatnonzero(np.diff(block, prepend=-1))
    bursts = np.add.reduceat(bursts, change)
    rows = block[change] * per_grant // per_row
    return Grants(rows.tolist(), bursts.tolist())


def _cut_dense(region: Region, timing: PortTiming) -> Grants:
    """The grants of one contiguous run; they are aligned to `grant_bytes`, which divides the row."""
    per_grant = timing.grant_bytes // timing.burst_bytes
    grants_per_row = timing.row_bytes // timing.grant_bytes
    first, last = region.address // timing.burst_bytes, (region.end - 1) // timing.burst_bytes
    begin, end = first // per_grant, last // per_grant
    rows = [block // grants_per_row for block in range(begin, end + 1)]
    bursts = [per_grant] * len(rows)
    bursts[-1] = last - end * per_grant + 1
    bursts[0] -= first - begin * per_grant
    return Grants(rows, bursts)


class Requester(NamedTuple):
    """Who asks, in order of precedence: a unit of a core, by name, for a program that begins in a row of the memory."""

    core: int
    name: str
    first_row: int = 0


_IN_LINE = (-1,)
"""The order of a transfer that has had a turn: nobody who asks later stands before it."""


class _Stretch(NamedTuple):
    """Grants of a request from `first` up to `stop`, each of which ends in `ends` of the request plus `late`."""

    first: int
    stop: int
    late: int


class _Request:
    """A transfer on its way: its grants, the next one, whom it is accounted to, and the event that ends it.

    Sums up to and including each grant: bursts `passed`, and the cycles to its `ends`, all as if each of the `visits`,
    grants that come into another row, paid what it does in the long run: the row miss if there is one bank, else
    nothing. `landings` are those of the pace, but after the end of each grant instead of the beginning of its first
    burst.
    settles: visits after which they do pay that; None if they need not.
    """

    __slots__ = (
        "account",
        "done",
        "ends",
        "landed",
        "landings",
        "next",
        "order",
        "pace",
        "paid",
        "passed",
        "requester",
        "rows",
        "settles",
        "urgent",
        "visits",
        "write",
    )

    def __init__(
        self,
        requester: Requester,
        grants: Grants,
        write: bool,
        account: dict[str, int],
        done: simpy.Event,
        pace: Pace,
        came: int,
        timing: PortTiming,
        urgent: Callable[[], bool] | None = None,
    ) -> None:
        self.requester = requester
        self.rows, bursts = grants
        cycles_of = {number: ceil(number * timing.burst_cycles - 1e-9) for number in set(bursts)}
        cycles = list(map(cycles_of.__getitem__, bursts))
        self.passed = list(accumulate(bursts))
        self.paid = timing.miss_cycles if timing.banks == 1 else 0
        changes = list(map(ne, self.rows, [-1, *self.rows]))
        self.visits = list(compress(range(len(bursts)), changes))
        misses = map(self.paid.__mul__, changes)
        self.ends: list[int] = list(accumulate(map(add, cycles, misses) if self.paid else cycles))
        self.pace = pace
        self.settles = self._settles(timing)
        self.landings = None if pace.landing is None else list(map(sub, pace.landing, cycles))
        self.write = write
        self.account = account
        self.next = 0
        self.done = done
        self.urgent = urgent
        self.order: tuple[object, ...] = (came, requester)
        self.landed = 0

    def _settles(self, timing: PortTiming) -> int | None:
        """One bank always pays. Of several, each has a row of a walk from row to row after as many visits; from then
        on each row opens with the one before it, and in time if that is visited for as long as it takes.
        """
        if self.pace.not_before is not None:
            return None
        if timing.banks == 1:
            return 1
        visited = [self.rows[first] for first in self.visits]
        begins = [self.ends[first - 1] for first in self.visits[1:]]
        long_enough = all(map(timing.miss_cycles.__le__, map(sub, begins[1:], begins)))
        rising = visited == list(range(visited[0], visited[0] + len(visited)))
        return timing.banks if rising and long_enough else None

    def wants(self) -> tuple[int, ...]:
        """The row of the next grant, and that of the first one behind it in another row, if there is one."""
        behind = bisect_right(self.visits, self.next)
        further = (self.rows[self.visits[behind]],) if behind < len(self.visits) else ()
        return self.rows[self.next], *further

    def pass_alone(self, stop: int, now: int, rows: OpenRows) -> list[_Stretch]:
        """How the grants from the next one up to `stop` pass, beginning now with nobody in line.

        The rows that are opened, in time and ahead, are in `rows` then.
        """
        found: list[_Stretch] = []
        visits, first, seen, begin = self.visits, self.next, 0, now
        visit = bisect_right(visits, first)  # the one behind
        last_visit = bisect_right(visits, stop - 1)
        while first < stop:
            if seen == self.settles and visit < last_visit:
                # The same from here on, as far as the last visit.
                target = visits[last_visit - 1]
                rows.skip(self.rows[target], self.rows[target - 1], last_visit - visit)
                found.append(_Stretch(first, target, found[-1].late))
                first, visit, begin = target, last_visit, self.ends[target - 1] + found[-1].late
            last = min(visits[visit], stop) if visit < len(visits) else stop
            ready = rows.need(self.rows[first], begin)
            if visit < len(visits):
                rows.open_ahead(self.rows[visits[visit]], begin, (self.rows[first],))
            found += self.stretches(first, last, ready)
            first, visit, seen = last, visit + 1, seen + 1
            begin = self.ends[last - 1] + found[-1].late
        return found

    def stretches(self, first: int, stop: int, ready: int) -> list[_Stretch]:
        """How the grants of a visit pass whose row is ready in a cycle."""
        before = self.ends[first - 1] if first else 0
        comes = not first or self.rows[first] != self.rows[first - 1]
        late = ready - before - comes * self.paid
        if self.pace.not_before is None:
            return [_Stretch(first, stop, late)]
        found = []
        for grant in range(first, stop):
            late = max(late, self.pace.not_before[grant] - self.ends[grant])
            found.append(_Stretch(grant, grant + 1, late))
        return found

    def end(self, stretches: list[_Stretch]) -> int:
        """When the last grant of stretches ends."""
        return self.ends[stretches[-1].stop - 1] + stretches[-1].late

    def under_way(self, stretches: list[_Stretch], cycle: int) -> int:
        """The first grant that does not end before a cycle; the last one if all do."""
        for first, stop, late in stretches:
            if self.ends[stop - 1] + late >= cycle:
                return bisect_left(self.ends, cycle - late, first, stop)
        return stretches[-1].stop - 1


class MemoryPort:
    """The port of one memory as a SimPy process.

    clock: the port's, which `env` is then, among others; None where all clocks of the system are equal. Who asks
           between two of its edges is heard at the later one.
    """

    def __init__(
        self,
        env: simpy.Environment,
        hardware: Hardware,
        space: Space = Space.DRAM,
        clock: Clock | None = None,
    ) -> None:
        self.env = env
        self.clock = clock
        self.space = space
        self.timing = hardware.port_timing(space)
        self._actions = port_actions(hardware, space)
        self.transfers: list[Transfer] = []
        self._rows = OpenRows(self.timing.banks, self.timing.miss_cycles)
        self._active: deque[_Request] = deque()
        self._fetches: deque[_Request] = deque()
        self._arrival = env.event()
        self._alone = False
        env.process(self._serve())

    def access(
        self,
        requester: Requester,
        region: Region,
        write: bool,
        account: dict[str, int],
        pace: Pace = UNPACED,
        urgent: Callable[[], bool] | None = None,
    ) -> simpy.Event:
        """Queue a transfer. Its bytes (whole bursts) and row activations are added to `account`; the addresses of the
        region count from the requester's first row.

        urgent: of an instruction fetch, whether it goes before all channels; asked whenever a grant is given. Who
                changes it from no to yes calls `hurry`.

        The event fires when the last byte has passed; its value is the cycle in which, by `pace.landing`, the
        other side can have finished.
        """
        now = int(self.env.now)
        grants = cut(region, self.timing)
        if requester.first_row:
            grants = Grants([row + requester.first_row for row in grants.rows], grants.bursts)
        request = _Request(
            requester, grants, write, account, self.env.event(), pace, now, self.timing, urgent
        )
        self._line_up(request)
        # A channel that is served alone goes on where a fetch can wait.
        if not self._arrival.triggered and not (self._alone and urgent is not None and not urgent()):
            self._arrival.succeed()
        return request.done

    def hurry(self) -> None:
        """Have the next grant given anew, as a fetch may have become urgent."""
        if self._fetches and not self._arrival.triggered:
            self._arrival.succeed()

    def _line_up(self, request: _Request) -> None:
        """To the end of its line, but before higher cores and channels that came in the same cycle."""
        line = self._active if request.urgent is None else self._fetches
        place = len(line)
        while place > 0 and line[place - 1].order > request.order:
            place -= 1
        line.insert(place, request)

    def _next(self) -> _Request:
        """Take the next request: a fetch that is urgent, else the first channel, else a fetch."""
        for fetch in self._fetches:
            if fetch.urgent is not None and fetch.urgent():
                self._fetches.remove(fetch)
                return fetch
        return (self._active or self._fetches).popleft()

    def _serve(self) -> Generator[simpy.Event, Any, None]:
        env = self.env
        while True:
            if not self._active and not self._fetches:
                self._arrival = env.event()
                yield self._arrival
                if self.clock is not None:
                    yield self.clock.edge()
                yield Settled(env, MEMORY_PORTS_DECIDE)
            request = self._next()
            # Beside a channel, fetches that wait are not urgent: `hurry` tells when one is.
            if self._active or (self._fetches and request.urgent is not None):
                yield from self._serve_grant(request)
            else:
                yield from self._serve_alone(request)
            if request.next == len(request.rows):
                request.done.succeed(request.landed)
                yield Settled(
                    env, MEMORY_PORTS_DECIDE
                )  # whoever asks because this transfer has ended is in time
            elif request.urgent is None:
                request.order = _IN_LINE
                self._active.append(request)
            else:
                self._fetches.appendleft(request)

    def _serve_grant(self, request: _Request) -> Generator[simpy.Event, Any, None]:
        """Serve one grant, while others are in line."""
        start, stop, before = int(self.env.now), request.next + 1, self._rows.opened
        ready = self._rows.need(request.rows[request.next], start)
        self._count_opened(request, self._rows.opened - before)
        if self.timing.banks > 1:
            self._open_ahead(request, start)
        passed = request.stretches(request.next, stop, ready)
        yield self._end(request, stop, request.end(passed))
        self._account(request, start, passed)

    def _open_ahead(self, request: _Request, now: int) -> None:
        """Open a row beside a grant: of those in line, or what its own transfer needs next."""
        wants, line = request.wants(), [(other, other.wants()) for other in self._active]
        wanted = {row for _, rows in line for row in rows}.union(wants)
        for other, row in [
            *((other, rows[0]) for other, rows in line),
            *((request, row) for row in wants[1:]),
        ]:
            if self._rows.open_ahead(row, now, wanted):
                self._count_opened(other, 1)
                break

    def _serve_alone(self, request: _Request) -> Generator[simpy.Event, Any, None]:
        """Serve all grants unless somebody arrives or hurries; then only up to the end of the one under way."""
        env, before = self.env, self._rows.opened
        start, stop = int(env.now), len(request.rows)
        rows = self._rows.copy()
        passed = request.pass_alone(stop, start, rows)
        self._arrival, self._alone = env.event(), request.urgent is None
        yield self._end(request, stop, request.end(passed)) | self._arrival
        self._alone = False
        if self.clock is not None:
            yield self.clock.edge()
        # A grant that ends just now is complete; at the very start the first one is under way.
        stop = request.under_way(passed, max(int(env.now), start + 1)) + 1
        if stop < len(request.rows):
            rows = self._rows
            passed = request.pass_alone(stop, start, rows)
        self._rows = rows
        if self._arrival.triggered:
            yield self._end(request, stop, request.end(passed))
        self._count_opened(request, rows.opened - before)
        self._account(request, start, passed)

    def _end(self, request: _Request, stop: int, end: int) -> simpy.Event:
        """The cycle in which the grants up to `stop` end: of a whole transfer when everything else ends that ends in
        that cycle, else when the port decides who is next.
        """
        delay = end - int(self.env.now)
        if stop == len(request.rows):
            return self.env.timeout(delay)
        return Settled(self.env, MEMORY_PORTS_DECIDE, delay)

    def _count_opened(self, request: _Request, number: int) -> None:
        """Book rows that are opened for a transfer."""
        activate = self._actions.activate
        if activate is not None:
            request.account[activate] = request.account.get(activate, 0) + number

    def _account(self, request: _Request, start: int, passed: list[_Stretch]) -> None:
        """Book the grants from `request.next` on that have passed, the last one now; served from cycle `start`."""
        first, stop = request.next, passed[-1].stop
        before = request.passed[first - 1] if first else 0
        size = (request.passed[stop - 1] - before) * self.timing.burst_bytes
        name = self._actions.write if request.write else self._actions.read
        request.account[name] = request.account.get(name, 0) + size
        if request.landings is not None:
            for each in passed:
                ends = map(
                    add, request.ends[each.first : each.stop], request.landings[each.first : each.stop]
                )
                request.landed = max(request.landed, max(ends) + each.late)
        request.next = stop
        core, name, _ = request.requester
        now = int(self.env.now)
        self.transfers.append(Transfer(name, start, now, size, request.write, core, self.space))
