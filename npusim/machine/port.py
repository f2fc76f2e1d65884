"""The port of a memory such as the DRAM: it arbitrates between transfers and models bursts and row misses.

Arbitration. A transfer is cut into *grants* of up to `grant_bytes` within one row. The DMA channels of all cores are
served round robin, one grant each. An instruction fetch has precedence over all channels while its core runs short of
instructions. Otherwise it comes after all channels, because instructions that are fetched too early only delay the
data of the instructions before them. The next grant is chosen when one ends, among all requests up to and including
that cycle. Requests of the same cycle are ordered by core, then by channel.

Timing. A grant pays the row miss if its bank has another row open. Then its bursts pass at the port's bandwidth,
rounded up to whole cycles.

Rows opened ahead. When a grant begins, one further row is opened in parallel in another bank. The candidates are the
next row of each waiting channel in order, then the next row of the running transfer. Skipped are rows that are open,
and rows whose bank holds a row that the running transfer or a waiting one needs now or next. With one bank, no row is
opened ahead.

Simulation speed. While only one requester is active, all of its grants are served in one event. A newcomer takes over
at the next grant boundary, exactly as if each grant had been an event.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Generator
from itertools import accumulate, compress
from operator import add, ne, sub
from typing import Any, NamedTuple

import numpy as np
import simpy
from numpy.typing import NDArray

from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.memories import PortTiming, Space, whole_cycles
from npusim.isa.instructions.actions import port_actions
from npusim.isa.instructions.region import Region
from npusim.machine.banks import OpenRows
from npusim.machine.clock import MEMORY_PORTS_DECIDE, Clock, Settled
from npusim.machine.trace import Transfer


class Grants(NamedTuple):
    """A transfer cut into grants: the memory row of each grant and its number of bursts."""

    rows: list[int]
    bursts: list[int]


class Pace(NamedTuple):
    """The limits that the scratchpad side sets for a transfer, one entry per grant (see `npusim.machine.pacing`).

    not_before: earliest end cycle of each grant of a store, set by the arrival of its data; None without a limit.
    landing:    cycles from the start of each grant's first burst until the scratchpad side can have finished a load;
                None without a limit.
    """

    not_before: list[int] | None = None
    landing: list[int] | None = None


UNPACED = Pace()


def run_starts(region: Region) -> NDArray[np.int64]:
    """Return the start addresses of a region's contiguous runs, in transfer order."""
    starts = np.array([region.address], np.int64)
    for count, stride in zip(region.counts, region.strides, strict=False):
        starts = (starts[:, None] + np.arange(count, dtype=np.int64) * stride).ravel()
    return starts


def cut(region: Region, timing: PortTiming) -> Grants:
    """Cut a region into grants. A burst that two consecutive runs share is transferred once."""
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
    """Cut one contiguous run into grants, which are aligned to `grant_bytes`, a divisor of the row size."""
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
    """The source of a request: a unit of a core, and the memory row at which its program's addresses begin.

    Fields are in order of precedence.
    """

    core: int
    name: str
    first_row: int = 0


_IN_LINE = (-1,)
"""The sort key of a transfer that has had a grant: no later request is inserted before it."""


class _Segment(NamedTuple):
    """The grants of a request from `first` up to `stop`, each of which ends at the request's `ends` plus `late`."""

    first: int
    stop: int
    late: int


class _Request:
    """A running or waiting transfer, with running sums that give the end of any of its grants without a loop.

    passed:   bursts up to and including each grant.
    ends:     cycles up to the end of each grant, if every row change costs what it does in the steady state: the row
              miss with one bank, nothing with several, because rows are then opened ahead.
    visits:   the grants that enter another row than the one before.
    landings: the pace's `landing`, counted from the end of each grant instead of the start of its first burst.
    settles:  number of visits after which the steady state is reached; None if it may never be.
    account:  the action counts to which bytes and row activations are added.
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
        cycles_of = {number: whole_cycles(number * timing.burst_cycles) for number in set(bursts)}
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
        """Return the number of row visits after which each further visit costs the same; None if unknown.

        With one bank every visit pays the row miss, so it is one. With several banks, a transfer through consecutive
        rows has opened a row in every bank after as many visits. From then on each row is opened while the one
        before it is visited, and is ready in time if every visit takes at least `miss_cycles`.
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
        """Return the row of the next grant and, if there is one, the next different row after it."""
        behind = bisect_right(self.visits, self.next)
        further = (self.rows[self.visits[behind]],) if behind < len(self.visits) else ()
        return self.rows[self.next], *further

    def pass_alone(self, stop: int, now: int, rows: OpenRows) -> list[_Segment]:
        """Return the timing of the grants from the next one up to `stop` if no other request interferes.

        rows: the open rows at cycle `now`; updated with all rows that the grants open, on demand and ahead.
        """
        segments: list[_Segment] = []
        visits, first, seen, begin = self.visits, self.next, 0, now
        visit = bisect_right(visits, first)  # the visit after the current one
        last_visit = bisect_right(visits, stop - 1)
        while first < stop:
            if seen == self.settles and visit < last_visit:
                # In the steady state every visit is alike: skip to the last one at once.
                target = visits[last_visit - 1]
                rows.skip(self.rows[target], self.rows[target - 1], last_visit - visit)
                segments.append(_Segment(first, target, segments[-1].late))
                first, visit, begin = target, last_visit, self.ends[target - 1] + segments[-1].late
            last = min(visits[visit], stop) if visit < len(visits) else stop
            ready = rows.need(self.rows[first], begin)
            if visit < len(visits):
                rows.open_ahead(self.rows[visits[visit]], begin, (self.rows[first],))
            segments += self.segments(first, last, ready)
            first, visit, seen = last, visit + 1, seen + 1
            begin = self.ends[last - 1] + segments[-1].late
        return segments

    def segments(self, first: int, stop: int, ready: int) -> list[_Segment]:
        """Return the timing of the grants `first` up to `stop` of one row that is open from cycle `ready` on."""
        before = self.ends[first - 1] if first else 0
        comes = not first or self.rows[first] != self.rows[first - 1]
        late = ready - before - comes * self.paid
        if self.pace.not_before is None:
            return [_Segment(first, stop, late)]
        paced = []
        for grant in range(first, stop):
            late = max(late, self.pace.not_before[grant] - self.ends[grant])
            paced.append(_Segment(grant, grant + 1, late))
        return paced

    def end(self, segments: list[_Segment]) -> int:
        """Return the cycle in which the last grant of the segments ends."""
        return self.ends[segments[-1].stop - 1] + segments[-1].late

    def under_way(self, segments: list[_Segment], cycle: int) -> int:
        """Return the first grant that does not end before a cycle; the last one if all do."""
        for first, stop, late in segments:
            if self.ends[stop - 1] + late >= cycle:
                return bisect_left(self.ends, cycle - late, first, stop)
        return segments[-1].stop - 1


class MemoryPort:
    """The port of one memory as a SimPy process.

    clock: the port's clock, which is then also `env`; None if all clocks of the system are equal. A request between
           two of its edges takes effect at the later one.
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
        """Queue a transfer and return the event of its end.

        The event fires when the last byte has passed. Its value is the cycle in which, by `pace.landing`, the
        scratchpad side can have finished.

        region:  addresses count from the requester's first row.
        account: receives the transfer's bytes (whole bursts) and row activations.
        urgent:  for an instruction fetch, returns whether it has precedence over all channels. It is called whenever
                 a grant is given. When its answer becomes true, `hurry` must be called.
        """
        now = int(self.env.now)
        grants = cut(region, self.timing)
        if requester.first_row:
            grants = Grants([row + requester.first_row for row in grants.rows], grants.bursts)
        request = _Request(
            requester, grants, write, account, self.env.event(), pace, now, self.timing, urgent
        )
        self._line_up(request)
        # A fetch that is not urgent does not interrupt a channel that is served alone.
        if not self._arrival.triggered and not (self._alone and urgent is not None and not urgent()):
            self._arrival.succeed()
        return request.done

    def hurry(self) -> None:
        """Make the port choose its next grant again, because a fetch may have become urgent."""
        if self._fetches and not self._arrival.triggered:
            self._arrival.succeed()

    def _line_up(self, request: _Request) -> None:
        """Append a request to its queue, but before those of the same cycle from higher cores and channels."""
        line = self._active if request.urgent is None else self._fetches
        place = len(line)
        while place > 0 and line[place - 1].order > request.order:
            place -= 1
        line.insert(place, request)

    def _next(self) -> _Request:
        """Remove and return the next request to serve: an urgent fetch, else the first channel, else a fetch."""
        for fetch in self._fetches:
            if fetch.urgent is not None and fetch.urgent():
                self._fetches.remove(fetch)
                return fetch
        return (self._active or self._fetches).popleft()

    def _serve(self) -> Generator[simpy.Event, Any, None]:
        """Serve requests forever: one grant at a time with competitors, else all grants of the request at once."""
        env = self.env
        while True:
            if not self._active and not self._fetches:
                self._arrival = env.event()
                yield self._arrival
                if self.clock is not None:
                    yield self.clock.edge()
                yield Settled(env, MEMORY_PORTS_DECIDE)
            request = self._next()
            # Fetches that wait while a channel is served are not urgent. `hurry` reports when one becomes so.
            if self._active or (self._fetches and request.urgent is not None):
                yield from self._serve_grant(request)
            else:
                yield from self._serve_alone(request)
            if request.next == len(request.rows):
                request.done.succeed(request.landed)
                # Wait for requests that the end of this transfer causes in the same cycle: they may come next.
                yield Settled(env, MEMORY_PORTS_DECIDE)
            elif request.urgent is None:
                request.order = _IN_LINE
                self._active.append(request)
            else:
                self._fetches.appendleft(request)

    def _serve_grant(self, request: _Request) -> Generator[simpy.Event, Any, None]:
        """Serve one grant of a request while other requests wait."""
        start, stop, before = int(self.env.now), request.next + 1, self._rows.opened
        ready = self._rows.need(request.rows[request.next], start)
        self._count_opened(request, self._rows.opened - before)
        if self.timing.banks > 1:
            self._open_ahead(request, start)
        passed = request.segments(request.next, stop, ready)
        yield self._end(request, stop, request.end(passed))
        self._account(request, start, passed)

    def _open_ahead(self, request: _Request, now: int) -> None:
        """Open one row in parallel to a grant: one that a waiting request needs, else the transfer's own next row."""
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
        """Serve all grants of a request. If another request arrives or becomes urgent, stop after the current grant."""
        env, before = self.env, self._rows.opened
        start, stop = int(env.now), len(request.rows)
        rows = self._rows.copy()
        passed = request.pass_alone(stop, start, rows)
        self._arrival, self._alone = env.event(), request.urgent is None
        yield self._end(request, stop, request.end(passed)) | self._arrival
        self._alone = False
        if self.clock is not None:
            yield self.clock.edge()
        # A grant that ends in this cycle is complete. In the start cycle the first grant is the current one.
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
        """Return an event at cycle `end`, in which the grants up to `stop` end.

        A whole transfer ends in the first phase of the cycle, together with instructions. Otherwise the event comes
        in the last phase, in which the port chooses its next grant (`npusim.machine.clock`).
        """
        delay = end - int(self.env.now)
        if stop == len(request.rows):
            return self.env.timeout(delay)
        return Settled(self.env, MEMORY_PORTS_DECIDE, delay)

    def _count_opened(self, request: _Request, number: int) -> None:
        """Count row activations for a transfer, if the memory's energy model has them."""
        activate = self._actions.activate
        if activate is not None:
            request.account[activate] = request.account.get(activate, 0) + number

    def _account(self, request: _Request, start: int, passed: list[_Segment]) -> None:
        """Count the grants served since cycle `start`, from `request.next` on, and record them as one transfer."""
        first, stop = request.next, passed[-1].stop
        before = request.passed[first - 1] if first else 0
        size = (request.passed[stop - 1] - before) * self.timing.burst_bytes
        name = self._actions.write if request.write else self._actions.read
        request.account[name] = request.account.get(name, 0) + size
        if request.landings is not None:
            for first, stop, late in passed:
                landed = map(add, request.ends[first:stop], request.landings[first:stop])
                request.landed = max(request.landed, max(landed) + late)
        request.next = stop
        core, name, _ = request.requester
        now = int(self.env.now)
        self.transfers.append(Transfer(name, start, now, size, request.write, core, self.space))
