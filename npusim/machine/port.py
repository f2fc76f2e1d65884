"""The port of a memory, such as the DRAM: who gets it when, and for how long.

A transfer is cut into *grants*: up to `grant_bytes` within one row. Instruction fetch goes first, DMA
channels take turns, one grant each, those of all cores alike. A grant pays the row miss when the row it needs is not
the open one, then its bursts at the port's bandwidth, rounded up to whole cycles. Who is next is decided when a grant
ends, among all who asked up to and including that cycle; of those who asked in the same cycle the lower core goes
first, of one core the lower channel.
While only one requester is active its grants are served in one event; a newcomer takes over at the next grant
boundary, exactly as if each had been an event.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Generator
from itertools import accumulate
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
from npusim.machine.trace import INSTRUCTION_FETCH, Transfer


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


_IN_LINE = (True, -1)
"""The order of a transfer that has had a turn: nobody who asks later stands before it."""


class _Request:
    """A transfer on its way: its grants, the next one, whom it is accounted to, and the event that ends it.

    Sums up to and including each grant, so that any stretch of them takes two look-ups: bursts `passed`, rows `opened`,
    and the cycles to its `ends`, all as if the first grant opened a row. `landings` are those of the pace, but after
    the start of the first grant instead of each one's own.
    """

    __slots__ = (
        "account",
        "done",
        "ends",
        "fetches",
        "landed",
        "landings",
        "next",
        "opened",
        "order",
        "pace",
        "passed",
        "requester",
        "rows",
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
    ) -> None:
        self.requester = requester
        self.rows, bursts = grants
        cycles_of = {count: ceil(count * timing.burst_cycles - 1e-9) for count in set(bursts)}
        cycles = list(map(cycles_of.__getitem__, bursts))
        self.passed = list(accumulate(bursts))
        self.opened: list[int] = list(accumulate(map(ne, self.rows, [-1, *self.rows])))
        misses = map(timing.miss_cycles.__mul__, self.opened)
        self.ends: list[int] = list(map(add, accumulate(cycles), misses))
        self.landings: list[int] | None = None
        if pace.landing is not None:
            self.landings = list(map(add, map(sub, self.ends, cycles), pace.landing))
        self.write = write
        self.account = account
        self.next = 0
        self.done = done
        self.pace = pace
        self.fetches = requester.name == INSTRUCTION_FETCH
        self.order: tuple[object, ...] = (not self.fetches, came, requester)
        self.landed = 0


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
        self._open_row = -1
        self._active: deque[_Request] = deque()
        self._arrival = env.event()
        env.process(self._serve())

    def access(
        self,
        requester: Requester,
        region: Region,
        write: bool,
        account: dict[str, int],
        pace: Pace = UNPACED,
    ) -> simpy.Event:
        """Queue a transfer. Its bytes (whole bursts) and row activations are added to `account`; the addresses of the
        region count from the requester's first row.

        The event fires when the last byte has passed; its value is the cycle in which, by `pace.landing`, the
        other side can have finished.
        """
        now = int(self.env.now)
        grants = cut(region, self.timing)
        if requester.first_row:
            grants = Grants([row + requester.first_row for row in grants.rows], grants.bursts)
        request = _Request(requester, grants, write, account, self.env.event(), pace, now, self.timing)
        self._line_up(request)
        if not self._arrival.triggered:
            self._arrival.succeed()
        return request.done

    def _line_up(self, request: _Request) -> None:
        """To the end of the line, but before higher cores and channels that came in the same cycle; a fetch stands
        before all transfers.
        """
        place = len(self._active)
        order = request.order
        while place > 0 and self._active[place - 1].order > order:
            place -= 1
        self._active.insert(place, request)

    def _begin(self, request: _Request) -> int:
        """What `request.ends` count from, in cycles from now, when its next grant begins: the row that is open may be
        another than they took it to be.
        """
        first = request.next
        opens = request.rows[first] != self._open_row
        if not first:
            return (opens - 1) * self.timing.miss_cycles
        counted = request.rows[first] != request.rows[first - 1]
        return (opens - counted) * self.timing.miss_cycles - request.ends[first - 1]

    def _ends(self, request: _Request) -> tuple[list[int], int]:
        """Entries for all grants, and what to add to one for the end of a grant to come, in cycles from now."""
        begin, not_before = self._begin(request), request.pace.not_before
        if not_before is None:
            return request.ends, begin
        first, late = request.next, 0
        ends, origin = request.ends[:first], int(self.env.now) + begin
        for end, limit in zip(request.ends[first:], not_before[first:], strict=True):
            late = max(late, limit - origin - end)
            ends.append(end + late)
        return ends, begin

    def _next_end(self, request: _Request) -> int:
        """When the next grant ends, in cycles from now."""
        end, not_before = request.ends[request.next] + self._begin(request), request.pace.not_before
        return end if not_before is None else max(end, not_before[request.next] - int(self.env.now))

    def _serve(self) -> Generator[simpy.Event, Any, None]:
        env = self.env
        while True:
            if not self._active:
                self._arrival = env.event()
                yield self._arrival
                if self.clock is not None:
                    yield self.clock.edge()
                yield Settled(env, MEMORY_PORTS_DECIDE)
            request = self._active.popleft()
            start = int(env.now)
            if self._active:
                stop = request.next + 1
                yield self._end(request, stop, self._next_end(request))
            else:
                stop = yield from self._serve_alone(request)
            self._account(request, start, stop)
            if stop == len(request.rows):
                request.done.succeed(request.landed)
                yield Settled(
                    env, MEMORY_PORTS_DECIDE
                )  # whoever asks because this transfer has ended is in time
            elif request.fetches:
                self._active.appendleft(request)
            else:
                request.order = _IN_LINE
                self._active.append(request)

    def _serve_alone(self, request: _Request) -> Generator[simpy.Event, Any, int]:
        """Serve all grants unless somebody arrives; then only the one under way. Returns where it stopped."""
        env = self.env
        start = int(env.now)
        ends, begin = self._ends(request)
        self._arrival = env.event()
        yield self._end(request, len(ends), ends[-1] + begin) | self._arrival
        if self.clock is not None:
            yield self.clock.edge()
        elapsed = int(env.now) - start
        # A grant that ends just now is complete; at the very start the first one is under way.
        under_way = bisect_left(ends, max(elapsed, 1) - begin, request.next)
        if self._active:
            yield self._end(request, under_way + 1, ends[under_way] + begin - elapsed)
        return under_way + 1

    def _end(self, request: _Request, stop: int, delay: int) -> simpy.Event:
        """The end of the grants up to `stop`: of a whole transfer when everything else ends that ends in that cycle,
        else when the port decides who is next.
        """
        if stop == len(request.rows):
            return self.env.timeout(delay)
        return Settled(self.env, MEMORY_PORTS_DECIDE, delay)

    def _account(self, request: _Request, start: int, stop: int) -> None:
        """Book the grants from `request.next` up to `stop`, served from cycle `start` until now."""
        first, last = request.next, stop - 1
        before = request.passed[first - 1] if first else 0
        size = (request.passed[last] - before) * self.timing.burst_bytes
        name = self._actions.write if request.write else self._actions.read
        account = request.account
        account[name] = account.get(name, 0) + size
        activate = self._actions.activate
        if activate is not None:
            opened = request.opened[last] - request.opened[first] + (request.rows[first] != self._open_row)
            account[activate] = account.get(activate, 0) + opened
        if request.landings is not None:
            landed = start + self._begin(request) + max(request.landings[first:stop])
            request.landed = max(request.landed, landed)
        self._open_row = request.rows[last]
        request.next = stop
        core, name, _ = request.requester
        now = int(self.env.now)
        self.transfers.append(Transfer(name, start, now, size, request.write, core, self.space))
