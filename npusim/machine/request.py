"""A transfer at a memory's port: its grants, and when each of them ends if no other transfer interferes."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from functools import cached_property, lru_cache
from itertools import accumulate, chain, compress, repeat
from operator import add, ne, sub
from typing import NamedTuple

import numpy as np
import simpy
from numpy.typing import NDArray

from npusim.isa.hardware.memories import CYCLE_ERROR, PortTiming, whole_cycles
from npusim.isa.instructions.region import Region
from npusim.machine.banks import OpenRows
from npusim.machine.clock import Clock
from npusim.machine.trace import Source


class Pace(NamedTuple):
    """The limits that the scratchpad side sets for a transfer, one entry per grant (see `npusim.machine.pacing`).

    not_before: earliest end cycle of each grant of a store, set by the arrival of its data; None without a limit.
    landing:    cycles from the start of each grant's first burst until the scratchpad side can have finished a load;
                None without a limit.
    """

    not_before: NDArray[np.int64] | None = None
    landing: NDArray[np.int64] | None = None

    @property
    def limits(self) -> list[int]:
        """Return `not_before` as a list, which is empty without limits."""
        return [] if self.not_before is None else self.not_before.tolist()

    def begun(self, begin: int, core: Clock | None, port: Clock | None) -> Pace:
        """Return the limits of a transfer that begins in a cycle of its core, in cycles of the memory port.

        core, port: their clocks; None if all clocks of the system are equal.
        """
        limits = self if self.not_before is None else Pace(not_before=self.not_before + begin)
        if core is None or port is None:
            return limits
        return Pace(*(None if column is None else port.cycles_of(column, core) for column in limits))


UNPACED = Pace()


def run_starts(region: Region) -> NDArray[np.int64]:
    """Return the start addresses of a region's contiguous runs, in transfer order."""
    starts = np.array([region.address], np.int64)
    for count, stride in zip(region.counts, region.strides, strict=False):
        starts = (starts[:, None] + np.arange(count, dtype=np.int64) * stride).ravel()
    return starts


Column = NDArray[np.int64]

_FEW_GRANTS = 64
"""Up to this many grants, lists are faster than numpy."""


def _packed(column: Column) -> array[int]:
    """Return a column of numpy as an array of Python, whose single elements are read faster."""
    return array("q", column.astype(np.int64, copy=False).tobytes())


class Grants:
    """A transfer cut into grants, with running sums that give the end of any of them without a loop.

    Rows count from the one in which the transfer begins, so that equal transfers in other rows share these columns.

    rows:     memory row of each grant.
    bursts:   number of bursts of each grant.
    cycles:   cycles of each grant's bursts.
    passed:   bursts up to and including each grant.
    visits:   the grants that enter another row than the one before.
    ends:     cycles up to the end of each grant, if every row change costs what it does in the steady state: the row
              miss with one bank, nothing with several, because rows are then opened ahead.
    even:     the grants pass through consecutive rows, and all but the first and the last are whole.
    paid:     cycles of a row change in the steady state.
    """

    def __init__(self, region: Region, timing: PortTiming) -> None:
        self.even = not region.strides
        self.paid = timing.miss_cycles if timing.banks == 1 else 0
        self._timing = timing
        rows, bursts = cut(region, timing)
        if isinstance(bursts, np.ndarray):
            self._from_columns(np.asarray(rows), bursts)
            return
        cycles_of = {number: whole_cycles(number * timing.burst_cycles) for number in set(bursts)}
        cycles = list(map(cycles_of.__getitem__, bursts))
        changes = list(map(ne, rows, [-1, *rows]))
        misses = map(self.paid.__mul__, changes)
        self.visits = list(compress(range(len(rows)), changes))
        self.rows, self.bursts, self.cycles = array("q", rows), array("q", bursts), array("q", cycles)
        self.passed = array("q", accumulate(bursts))
        self.ends = array("q", accumulate(map(add, cycles, misses) if self.paid else cycles))

    def _from_columns(self, rows: Column, bursts: Column) -> None:
        """Set what `__init__` sets, for many grants."""
        cycles = np.ceil(bursts * self._timing.burst_cycles - CYCLE_ERROR).astype(np.int64)
        changes = np.diff(rows, prepend=-1) != 0
        self.visits = np.flatnonzero(changes).tolist()
        self.rows, self.bursts, self.cycles = _packed(rows), _packed(bursts), _packed(cycles)
        self.passed = _packed(np.cumsum(bursts))
        self.ends = _packed(np.cumsum(cycles + self.paid * changes))

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def sizes(self) -> array[int]:
        """The bytes of each grant's bursts."""
        return _packed(np.multiply(self.bursts, self._timing.burst_bytes))

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """For each grant, the cycle up to its end without those of its own bursts."""
        return np.subtract(self.ends, self.cycles)

    @cached_property
    def settles(self) -> int | None:
        """The number of row visits after which each further visit costs the same, if no grant waits for its data.

        None if that is unknown. With one bank every visit pays the row miss, so it is one. With several banks, a
        transfer through consecutive rows has opened a row in every bank after as many visits. From then on each row is
        opened while the one before it is visited, and is ready in time if every visit takes at least `miss_cycles`.
        """
        timing = self._timing
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


_MOST_GRANTS = 1 << 18
"""Number of grants that a table of transfers keeps, some 10 MiB. When there are more, it begins anew. A decode step of
Llama 3.2 1B has 130,000 to 200,000, so a smaller table would cut its transfers again and again."""


class _Known:
    """The grants of transfers by the key of their shape, and how many grants there are."""

    def __init__(self) -> None:
        self.of: dict[object, Grants] = {}
        self.number = 0


@lru_cache(maxsize=4)
def _known(timing: PortTiming) -> _Known:
    """Return what is known of transfers at ports of one timing. Further runs at such a port use it again."""
    return _Known()


class GrantTable:
    """The grants of the transfers at one port. Programs transfer few shapes, each of them often.

    The key of a transfer is its shape and where it begins in a row, or its bursts if that is a single grant.
    """

    def __init__(self, timing: PortTiming) -> None:
        self._timing = timing
        self._known = _known(timing)

    def of(self, region: Region) -> tuple[int, Grants]:
        """Return the row in which a transfer begins, and its grants."""
        timing, known = self._timing, self._known
        row, offset = divmod(region.address, timing.row_bytes)
        key: object = (offset, region.counts, region.strides)
        if not region.strides:
            last = offset + region.counts[0] - 1
            if offset // timing.grant_bytes == last // timing.grant_bytes:  # as most are
                key = last // timing.burst_bytes - offset // timing.burst_bytes
        grants = known.of.get(key)
        if grants is None:
            grants = Grants(region._replace(address=offset), timing)
            known.number += len(grants)
            if known.number > _MOST_GRANTS:
                known.of.clear()
                known.number = len(grants)
            known.of[key] = grants
        return row, grants


_Cut = tuple[list[int], list[int]] | tuple[Column, Column]
"""The memory row and the number of bursts of each grant: lists of few, columns of many."""


def cut(region: Region, timing: PortTiming) -> _Cut:
    """Cut a region into grants, and return the memory row of each and its number of bursts.

    A burst that two consecutive runs share is transferred once.
    """
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
    return (rows, bursts) if len(rows) > _FEW_GRANTS else (rows.tolist(), bursts.tolist())


def _cut_dense(region: Region, timing: PortTiming) -> _Cut:
    """Cut one contiguous run into grants, which are aligned to `grant_bytes`, a divisor of the row size."""
    per_grant = timing.grant_bytes // timing.burst_bytes
    grants_per_row = timing.row_bytes // timing.grant_bytes
    first, last = region.address // timing.burst_bytes, (region.end - 1) // timing.burst_bytes
    begin, end = first // per_grant, last // per_grant
    if end - begin >= _FEW_GRANTS:
        many = np.full(end - begin + 1, per_grant)
        many[-1] = last - end * per_grant + 1
        many[0] -= first - begin * per_grant
        return np.arange(begin, end + 1) // grants_per_row, many
    bursts = [per_grant] * (end - begin + 1)
    bursts[-1] = last - end * per_grant + 1
    bursts[0] -= first - begin * per_grant
    rows = range(begin // grants_per_row, end // grants_per_row + 1)
    of_whole_rows = list(chain.from_iterable(map(repeat, rows, repeat(grants_per_row))))
    skipped = begin % grants_per_row
    return of_whole_rows[skipped : skipped + len(bursts)], bursts


NO_ROW = -1 << 62
"""A row that no memory has, wherever its transfer begins."""


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
    """A running or waiting transfer.

    source:    the fields that its records share.
    first_row: the memory row from which the rows of its grants count.
    grants:    its grants. They may be those of other transfers, too.
    next:      the first grant that it has not had.
    rows:      their rows.
    ends:      cycles up to the end of each (see `Grants`).
    settles:   number of visits after which the steady state is reached; None if it may never be.
    account:   the action counts to which bytes and row activations are added.
    """

    def __init__(
        self,
        requester: Requester,
        source: Source,
        region: Region,
        write: bool,
        account: dict[str, int],
        done: simpy.Event,
        pace: Pace,
        came: int,
        table: GrantTable,
        urgent: Callable[[], bool] | None = None,
    ) -> None:
        self.requester, self.source = requester, source
        self.pace = pace
        self.landed = 0
        self.write = write
        self.account = account
        self.next = 0
        self.done = done
        self.urgent = urgent
        self.order: tuple[object, ...] = (came, requester)
        row, self.grants = table.of(region)
        self.first_row = requester.first_row + row
        self.rows, self.ends = self.grants.rows, self.grants.ends
        self.settles = self.grants.settles if pace.not_before is None else None
        self._visit = 0, 0, NO_ROW, 0

    def visit_now(self) -> tuple[int, int, int, int]:
        """Return `visit_of` the next grant."""
        if self.next >= self._visit[3]:
            self._visit = self.visit_of(self.next)
        return self._visit

    def visit_of(self, grant: int) -> tuple[int, int, int, int]:
        """Return the number of visits up to that of a grant, its row, the row of the next visit, and its first grant.

        Behind the last visit, the row is `NO_ROW`, and the grant the number of all grants.
        """
        visits = self.grants.visits
        number = bisect_right(visits, grant)
        row = self.first_row + self.rows[grant]
        if number == len(visits):
            return number, row, NO_ROW, len(self.rows)
        return number, row, self.first_row + self.rows[visits[number]], visits[number]

    def land(self, passed: list[Segment]) -> None:
        """Note when the scratchpad side can have finished the grants of segments, if the pace says when it can."""
        if self.pace.landing is None:
            return
        first, stop = passed[0].first, passed[-1].stop
        late = np.repeat([segment.late for segment in passed], [part.stop - part.first for part in passed])
        landed = self.grants.starts[first:stop] + self.pace.landing[first:stop] + late
        self.landed = max(self.landed, int(landed.max()))

    @cached_property
    def _lag(self) -> array[int]:
        """For each grant of a load with a pace, the cycles from its end until the scratchpad side can have finished."""
        assert self.pace.landing is not None
        return _packed(np.subtract(self.pace.landing, self.grants.cycles))

    def land_at(self, first: int, ends: array[int]) -> None:
        """Note when the scratchpad side can have finished the grants from `first` on, which end in these cycles."""
        if self.pace.landing is not None:
            self.landed = max(self.landed, max(map(add, ends, self._lag[first : first + len(ends)])))

    def pass_alone(self, stop: int, now: int, rows: OpenRows) -> list[Segment]:
        """Return the timing of the grants from the next one up to `stop` if no other request interferes.

        rows: the open rows at cycle `now`; updated with all rows that the grants open, on demand and ahead.
        """
        segments: list[Segment] = []
        visits, base = self.grants.visits, self.first_row
        first, seen, begin = self.next, 0, now
        visit = bisect_right(visits, first)  # the visit after the current one
        last_visit = bisect_right(visits, stop - 1)
        while first < stop:
            if seen == self.settles and visit < last_visit:
                # In the steady state every visit is alike: skip to the last one at once.
                target = visits[last_visit - 1]
                rows.skip(base + self.rows[target], base + self.rows[target - 1], last_visit - visit)
                segments.append(Segment(first, target, segments[-1].late))
                first, visit, begin = target, last_visit, self.ends[target - 1] + segments[-1].late
            last = min(visits[visit], stop) if visit < len(visits) else stop
            ready = rows.need(base + self.rows[first], begin)
            if visit < len(visits):
                rows.open_ahead(base + self.rows[visits[visit]], begin, base + self.rows[first])
            segments += self.segments(first, last, ready)
            first, visit, seen = last, visit + 1, seen + 1
            begin = self.ends[last - 1] + segments[-1].late
        return segments

    def segments(self, first: int, stop: int, ready: int) -> list[Segment]:
        """Return the timing of the grants `first` up to `stop` of one row that is open from cycle `ready` on."""
        before = self.ends[first - 1] if first else 0
        comes = not first or self.rows[first] != self.rows[first - 1]
        late = ready - before - comes * self.grants.paid
        if self.pace.not_before is None:
            return [Segment(first, stop, late)]
        paced = []
        for grant, limit in enumerate(self.pace.not_before[first:stop].tolist(), first):
            late = max(late, limit - self.ends[grant])
            paced.append(Segment(grant, grant + 1, late))
        return paced

    def end(self, segments: list[Segment]) -> int:
        """Return the cycle in which the last grant of the segments ends."""
        last = segments[-1]
        return int(self.ends[last.stop - 1] + last.late)

    def under_way(self, segments: list[Segment], cycle: int) -> int:
        """Return the first grant that does not end before a cycle; the last one if all do."""
        for first, stop, late in segments:
            if self.ends[stop - 1] + late >= cycle:
                current: int = bisect_left(self.ends, cycle - late, first, stop)
                return current
        return segments[-1].stop - 1
