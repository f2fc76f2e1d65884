"""The port of a memory such as the DRAM: it arbitrates between transfers and models bursts and row misses.

Arbitration. A transfer is cut into *grants* of up to `grant_bytes` within one row. The DMA channels of all cores are
served round robin, one grant each. An instruction fetch has precedence over all channels while its core runs short of
instructions. Otherwise it comes after all channels, because instructions that are fetched too early only delay the
data of the instructions before them. The next grant is chosen when one ends, among all requests up to and including
that cycle. Requests of the same cycle are ordered by core, then by channel.

With `reorder_grants`, a controller prefers open rows instead (first ready, first come first served): the first in line
whose row is ready goes first, and the first in line if none is. At most `reorder_grants` grants of channels pass the
first in line. Who has had a grant goes to the end.

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

from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Generator
from typing import Any

import simpy
from simpy.events import NORMAL

from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.memories import Space
from npusim.isa.instructions.actions import port_actions
from npusim.isa.instructions.region import Region
from npusim.machine.banks import OpenRows
from npusim.machine.clock import MEMORY_PORTS_DECIDE, Clock, Settled, Wake
from npusim.machine.request import UNPACED, GrantTable, Pace, Request, Requester, Segment
from npusim.machine.trace import Source, TransferLog, Transfers
from npusim.machine.turns import Turns, take_run, take_turns

_IN_LINE = (-1,)
"""The sort key of a transfer that has had a grant: no later request is inserted before it."""

_FIRST_PLANNED, _MOST_PLANNED = 32, 512
"""Grants of competing transfers that are computed ahead: few at first, because a newcomer often makes them void."""


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
        self.log = TransferLog()
        self._table = GrantTable(self.timing)
        self._rows = OpenRows(self.timing.banks, self.timing.miss_cycles)
        self._active: deque[Request] = deque()
        self._fetches: deque[Request] = deque()
        self._wake = Wake(env)
        self._alone = False
        self._planned = _FIRST_PLANNED
        self._passed = 0  # grants that have passed the first channel in line
        self.process = env.process(self._serve())

    @property
    def transfers(self) -> Transfers:
        """The transfers so far, in the order in which they were served."""
        return self.log.since(0)

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
        source = Source(requester.name, write, requester.core, self.space)
        done = self.env.event()
        request = Request(requester, source, region, write, account, done, pace, now, self._table, urgent)
        self._line_up(request)
        # A fetch that is not urgent does not interrupt a channel that is served alone.
        if not self._wake.hastened and not (self._alone and urgent is not None and not urgent()):
            self._wake.hasten()
        return request.done

    def hurry(self) -> None:
        """Make the port choose its next grant again, because a fetch may have become urgent."""
        if self._fetches and not self._wake.hastened:
            self._wake.hasten()

    def _line_up(self, request: Request) -> None:
        """Append a request to its queue, but before those of the same cycle from higher cores and channels."""
        line = self._active if request.urgent is None else self._fetches
        place = len(line)
        while place > 0 and line[place - 1].order > request.order:
            place -= 1
        line.insert(place, request)

    def _next(self) -> Request:
        """Remove and return the next request to serve: an urgent fetch, else the first channel, else a fetch."""
        for fetch in self._fetches:
            if fetch.urgent is not None and fetch.urgent():
                self._fetches.remove(fetch)
                return fetch
        if self.timing.reorder_grants and self._active:
            return self._first_ready()
        return (self._active or self._fetches).popleft()

    def _first_ready(self) -> Request:
        """Remove and return the first channel whose row is ready, or the first of all if too many have passed it."""
        place, now = 0, int(self.env.now)
        if self._passed < self.timing.reorder_grants:
            rows = [request.visit_now()[1] for request in self._active]
            place = next((place for place, row in enumerate(rows) if self._rows.ready(row, now)), 0)
        if place == 0:
            self._passed = -1  # its first grant passes nobody
        request = self._active[place]
        del self._active[place]
        return request

    def _serve(self) -> Generator[simpy.Event, Any, None]:
        """Serve requests forever: those that compete in turns, a lone one whole, several grants in one event."""
        env = self.env
        while True:
            if not self._active and not self._fetches:
                # Without clocks the first request wakes the port when it decides, after all requests of the cycle.
                self._wake = Wake(env, NORMAL if self.clock else MEMORY_PORTS_DECIDE)
                yield self._wake
                if self.clock is not None:
                    yield self.clock.edge()
                    yield Settled(env, MEMORY_PORTS_DECIDE)
            request = self._next()
            # Fetches that wait while a channel is served are not urgent. `hurry` reports when one becomes so.
            if request.urgent is not None and (self._active or self._fetches):
                yield from self._serve_turns([request, *self._active], 1)
            elif self._active:
                request = yield from self._serve_channels([request, *self._active])
            else:
                yield from self._serve_alone(request)
                self._passed = 0
            if request.next == len(request.rows):
                if not request.done.triggered:
                    request.done.succeed(request.landed)
                # Wait for requests that the end of this transfer causes in the same cycle: they may come next.
                if self._active or self._fetches:
                    yield Settled(env, MEMORY_PORTS_DECIDE)
            elif request.urgent is None:
                request.order = _IN_LINE
                self._active.append(request)
            else:
                self._fetches.appendleft(request)

    def _serve_channels(self, line: list[Request]) -> Generator[simpy.Event, Any, Request]:
        """Serve competing channels in turns, line up the others again, and return the one that was served last."""
        self._active.clear()
        served = yield from self._serve_turns(line, self._planned)
        self._planned = _FIRST_PLANNED if self._wake.hastened else min(4 * self._planned, _MOST_PLANNED)
        self._passed += served
        if self.timing.reorder_grants:
            served = 1
        for request in line[:served]:
            request.order = _IN_LINE
        *others, last = line[served % len(line) :] + line[: served % len(line)]
        # Those that arrived in the meantime come after them, but before the last one.
        self._active.extendleft(reversed(others))
        return last

    def _serve_turns(self, line: list[Request], most: int) -> Generator[simpy.Event, Any, int]:
        """Serve the requests of a line in turns, or a run of the first one, and return the number of grants.

        It ends when a request is complete or after about `most` grants. If another request arrives or becomes urgent,
        it ends with the current grant.
        """
        env, start = self.env, int(self.env.now)
        if self.timing.reorder_grants and line[0].urgent is None:
            most = self.timing.reorder_grants - self._passed
            turns = take_run(line, start, self._rows, self.timing, most)
        else:
            turns = take_turns(line, start, self._rows, self.timing, most)
        stop = len(turns.ends)
        if most == 1:
            yield self._end_of_turns(line, turns, stop)
        else:
            self._wake, self._alone = self._end_of_turns(line, turns, stop), True
            yield self._wake
            self._alone = False
            if self._wake.hastened:
                if self.clock is not None:
                    yield self.clock.edge()
                stop = min(stop, bisect_left(turns.ends, max(int(env.now), start + 1)) + 1)
                yield self._end_of_turns(line, turns, stop)
        self._account_turns(line, turns, start, stop)
        return stop

    def _end_of_turns(self, line: list[Request], turns: Turns, stop: int) -> Wake:
        """Return an event at the end of the grant before `stop`."""
        request = line[(stop - 1) % turns.takers]
        return self._end(request, request.next + -(-stop // turns.takers), turns.ends[stop - 1])

    def _account_turns(self, line: list[Request], turns: Turns, start: int, stop: int) -> None:
        """Count and record the grants up to `stop` of requests that took turns from cycle `start` on."""
        opened = turns.open_rows(self._rows, stop, len(line))
        ends, number = turns.ends[:stop], turns.takers
        sizes = array("q", bytes(8 * stop))
        for position, request in enumerate(line):
            served = position < min(stop, number)
            if served or opened[position]:
                self._count_opened(request, opened[position])
            if served:
                first = request.next
                request.next = first + (stop - position + number - 1) // number
                sizes[position::number] = request.grants.sizes[first : request.next]
                self._count_bytes(request, first)
                request.land_at(first, ends[position::number])
        self.log.add_turns([request.source for request in line[: min(stop, number)]], start, ends, sizes)

    def _count_bytes(self, request: Request, first: int) -> int:
        """Count the bytes of a transfer's grants from `first` up to its next one, and return their number."""
        passed = request.grants.passed
        size_bytes = (
            passed[request.next - 1] - (passed[first - 1] if first else 0)
        ) * self.timing.burst_bytes
        name = self._actions.write if request.write else self._actions.read
        request.account[name] = request.account.get(name, 0) + size_bytes
        return size_bytes

    def _serve_alone(self, request: Request) -> Generator[simpy.Event, Any, None]:
        """Serve all grants of a request. If another request arrives or becomes urgent, stop after the current grant."""
        env, before = self.env, self._rows.opened
        start, stop = int(env.now), len(request.rows)
        if stop == 1 and request.pace.landing is None:
            # A newcomer would not change it, so the end is certain, and requester and port both wait for it.
            passed = request.pass_alone(stop, start, self._rows)
            request.done._ok, request.done._value = True, request.landed
            env.schedule(request.done, NORMAL, request.end(passed) - start)
            yield request.done
            self._count_opened(request, self._rows.opened - before)
            self._account(request, start, passed)
            return
        rows = self._rows.copy()
        passed = request.pass_alone(stop, start, rows)
        self._wake, self._alone = self._end(request, stop, request.end(passed)), request.urgent is None
        yield self._wake
        self._alone = False
        if self.clock is not None:
            yield self.clock.edge()
        # A grant that ends in this cycle is complete. In the start cycle the first grant is the current one.
        stop = request.under_way(passed, max(int(env.now), start + 1)) + 1
        if stop < len(request.rows):
            rows = self._rows
            passed = request.pass_alone(stop, start, rows)
        self._rows = rows
        if self._wake.hastened:
            yield self._end(request, stop, request.end(passed))
        self._count_opened(request, rows.opened - before)
        self._account(request, start, passed)

    def _end(self, request: Request, stop: int, end: int) -> Wake:
        """Return an event at cycle `end`, in which the grants up to `stop` end.

        A whole transfer ends in the first phase of the cycle, together with instructions. Otherwise the event comes
        in the last phase, in which the port chooses its next grant (`npusim.machine.clock`).
        """
        wake = Wake(self.env, NORMAL if stop == len(request.rows) else MEMORY_PORTS_DECIDE)
        wake.fire(end - int(self.env.now))
        return wake

    def _count_opened(self, request: Request, number: int) -> None:
        """Count row activations for a transfer, if the memory's energy model has them."""
        activate = self._actions.activate
        if activate is not None:
            request.account[activate] = request.account.get(activate, 0) + number

    def _account(self, request: Request, start: int, passed: list[Segment]) -> None:
        """Count the grants served since cycle `start`, from `request.next` on, and record them as one transfer."""
        first, request.next = request.next, passed[-1].stop
        request.land(passed)
        size_bytes = self._count_bytes(request, first)
        self.log.add(request.source, start, int(self.env.now), size_bytes)
