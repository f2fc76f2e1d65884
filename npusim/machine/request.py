"""A transfer at a memory's port: its grants, and when each of them ends if no other transfer interferes."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping
from functools import cached_property
from itertools import accumulate, chain, compress, repeat
from operator import add, ne, sub
from typing import NamedTuple

import numpy as np
import simpy
from numpy.typing import NDArray

from npusim.isa.hardware.memories import PortTiming, whole_cycles
from npusim.isa.instructions.region import Region
from npusim.machine.banks import OpenRows


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
    bursts = [per_grant] * (end - begin + 1)
    bursts[-1] = last - end * per_grant + 1
    bursts[0] -= first - begin * per_grant
    rows = range(begin // grants_per_row, end // grants_per_row + 1)
    of_whole_rows = list(chain.from_iterable(map(repeat, rows, repeat(grants_per_row))))
    skipped = begin % grants_per_row
    return Grants(of_whole_rows[skipped : skipped + len(bursts)], bursts)


NO_ROW = -2
"""A row that no memory has, and that no bank ever has open."""


def _running(first: int, each: int, last: int, count: int) -> list[int]:
    """Return the running sums of `count` numbers: `first`, then `each` repeatedly, then `last`."""
    if count == 1:
        return [last]
    return [*range(first, first + (count - 1) * each, each), first + (count - 2) * each + last]


class Requester(NamedTuple):
    """The source of a request: a unit of a core, and the memory row at which its program's addresses begin.

    Fields are in order of precedence.
    """

    core: int
    name: str
    first_row: int = 0


class Segment(NamedTuple):
    """The grants of a request from `first` up to `stop`, each of which ends at the request's `ends` plus `late`."""

    first: int
    stop: int
    late: int


class Request:
    """A running or waiting transfer, with running sums that give the end of any of its grants without a loop.

    rows:     memory row of each grant.
    bursts:   number of bursts of each grant.
    cycles:   cycles of each grant's bursts.
    passed:   bursts up to and including each grant.
    visits:   the grants that enter another row than the one before.
    ends:     cycles up to the end of each grant, if every row change costs what it does in the steady state: the row
              miss with one bank, nothing with several, because rows are then opened ahead.
    landings: the pace's `landing`, counted from the end of each grant instead of the start of its first burst.
    settles:  number of visits after which the steady state is reached; None if it may never be.
    even:     the grants pass through consecutive rows, and all but the first and the last are whole.
    account:  the action counts to which bytes and row activations are added.
    """

    def __init__(
        self,
        requester: Requester,
        region: Region,
        write: bool,
        account: dict[str, int],
        done: simpy.Event,
        pace: Pace,
        came: int,
        timing: PortTiming,
        urgent: Callable[[], bool] | None = None,
    ) -> None:
        self.requester = requester
        self.even = not region.strides
        self.pace = pace
        self.landed = 0
        self.write = write
        self.account = account
        self.next = 0
        self.done = done
        self.urgent = urgent
        self.order: tuple[object, ...] = (came, requester)
        self.paid = timing.miss_cycles if timing.banks == 1 else 0
        if not (self.even and self._add_only_grant(region, timing)):
            self._add_grants(region, timing)
        self.settles = self._settles(timing)
        self.landings = None if pace.landing is None else list(map(sub, pace.landing, self.cycles))

    def _add_only_grant(self, region: Region, timing: PortTiming) -> bool:
        """Compute the running sums of a dense transfer of one grant, as most are; return False if there are more."""
        address, grant_bytes = region.address, timing.grant_bytes
        last = address + region.counts[0] - 1
        if address // grant_bytes != last // grant_bytes:
            return False
        bursts = last // timing.burst_bytes - address // timing.burst_bytes + 1
        cycles = whole_cycles(bursts * timing.burst_cycles)
        self.rows, self.bursts = [self.requester.first_row + address // timing.row_bytes], [bursts]
        self.cycles, self.passed, self.visits = [cycles], [bursts], [0]
        self.ends = [cycles + self.paid]
        return True

    def _add_grants(self, region: Region, timing: PortTiming) -> None:
        """Cut a transfer into grants and compute their running sums."""
        self.rows, self.bursts = cut(region, timing)
        if self.requester.first_row:
            self.rows = list(map(self.requester.first_row.__add__, self.rows))
        cycles_of = {number: whole_cycles(number * timing.burst_cycles) for number in set(self.bursts)}
        if self.even:
            self._add_up_evenly(cycles_of, timing.row_bytes // timing.grant_bytes)
        else:
            self._add_up(cycles_of)

    def _add_up(self, cycles_of: Mapping[int, int]) -> None:
        """Compute the running sums of any transfer. cycles_of: cycles of a grant by its number of bursts."""
        self.cycles = list(map(cycles_of.__getitem__, self.bursts))
        self.passed = list(accumulate(self.bursts))
        changes = list(map(ne, self.rows, [-1, *self.rows]))
        self.visits = list(compress(range(len(self.rows)), changes))
        misses = map(self.paid.__mul__, changes)
        self.ends = list(accumulate(map(add, self.cycles, misses) if self.paid else self.cycles))

    def _add_up_evenly(self, cycles_of: Mapping[int, int], per_row: int) -> None:
        """Compute the running sums of a transfer through consecutive rows, without a step for each grant.

        per_row: grants of a row. All grants but the first and the last are alike.
        """
        count, first, last = len(self.rows), self.bursts[0], self.bursts[-1]
        whole = self.bursts[1] if count > 2 else last
        self.cycles = [cycles_of[whole]] * count
        self.cycles[0], self.cycles[-1] = cycles_of[first], cycles_of[last]
        self.passed = _running(first, whole, last, count)
        in_first_row = bisect_right(self.rows, self.rows[0], 0, min(per_row, count))
        self.visits = [0, *range(in_first_row, count, per_row)]
        if self.paid:
            misses = [self.paid, *[0] * (count - 1)]
            misses[in_first_row::per_row] = [self.paid] * (len(self.visits) - 1)
            self.ends = list(accumulate(map(add, self.cycles, misses)))
        else:
            self.ends = _running(cycles_of[first], cycles_of[whole], cycles_of[last], count)

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
        if self.even:
            # Only the first and the last visit may be shorter than those between them.
            if len(self.visits) < 3:
                return timing.banks
            visit_cycles = timing.row_bytes // timing.grant_bytes * self.cycles[1]
            return timing.banks if visit_cycles >= timing.miss_cycles else None
        visited = [self.rows[first] for first in self.visits]
        begins = [self.ends[first - 1] for first in self.visits[1:]]
        long_enough = all(map(timing.miss_cycles.__le__, map(sub, begins[1:], begins)))
        rising = visited == list(range(visited[0], visited[0] + len(visited)))
        return timing.banks if rising and long_enough else None

    @cached_property
    def further(self) -> list[int]:
        """For each grant, the next row that the transfer enters after the grant's own, or `NO_ROW` in the last row."""
        if self.even:
            last_row = self.visits[-1]
            return [*map((1).__add__, self.rows[:last_row]), *[NO_ROW] * (len(self.rows) - last_row)]
        lengths = map(sub, [*self.visits[1:], len(self.rows)], self.visits)
        following = [*(self.rows[visit] for visit in self.visits[1:]), NO_ROW]
        return list(chain.from_iterable(map(repeat, following, lengths)))

    def pass_alone(self, stop: int, now: int, rows: OpenRows) -> list[Segment]:
        """Return the timing of the grants from the next one up to `stop` if no other request interferes.

        rows: the open rows at cycle `now`; updated with all rows that the grants open, on demand and ahead.
        """
        segments: list[Segment] = []
        visits, first, seen, begin = self.visits, self.next, 0, now
        visit = bisect_right(visits, first)  # the visit after the current one
        last_visit = bisect_right(visits, stop - 1)
        while first < stop:
            if seen == self.settles and visit < last_visit:
                # In the steady state every visit is alike: skip to the last one at once.
                target = visits[last_visit - 1]
                rows.skip(self.rows[target], self.rows[target - 1], last_visit - visit)
                segments.append(Segment(first, target, segments[-1].late))
                first, visit, begin = target, last_visit, self.ends[target - 1] + segments[-1].late
            last = min(visits[visit], stop) if visit < len(visits) else stop
            ready = rows.need(self.rows[first], begin)
            if visit < len(visits):
                rows.open_ahead(self.rows[visits[visit]], begin, self.rows[first])
            segments += self.segments(first, last, ready)
            first, visit, seen = last, visit + 1, seen + 1
            begin = self.ends[last - 1] + segments[-1].late
        return segments

    def segments(self, first: int, stop: int, ready: int) -> list[Segment]:
        """Return the timing of the grants `first` up to `stop` of one row that is open from cycle `ready` on."""
        before = self.ends[first - 1] if first else 0
        comes = not first or self.rows[first] != self.rows[first - 1]
        late = ready - before - comes * self.paid
        if self.pace.not_before is None:
            return [Segment(first, stop, late)]
        paced = []
        for grant in range(first, stop):
            late = max(late, self.pace.not_before[grant] - self.ends[grant])
            paced.append(Segment(grant, grant + 1, late))
        return paced

    def end(self, segments: list[Segment]) -> int:
        """Return the cycle in which the last grant of the segments ends."""
        return self.ends[segments[-1].stop - 1] + segments[-1].late

    def under_way(self, segments: list[Segment], cycle: int) -> int:
        """Return the first grant that does not end before a cycle; the last one if all do."""
        for first, stop, late in segments:
            if self.ends[stop - 1] + late >= cycle:
                return bisect_left(self.ends, cycle - late, first, stop)
        return segments[-1].stop - 1
