"""The DRAM port: how transfers are cut, what a grant costs, and who gets the next one."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from math import ceil
from typing import Any
from unittest import mock

import pytest
import simpy
from hypothesis import given
from hypothesis import strategies as st

from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.memories import Dram, PortTiming
from npusim.isa.instructions.region import Region, Space
from npusim.machine import request
from npusim.machine.port import MemoryPort
from npusim.machine.request import Requester, cut
from npusim.machine.trace import INSTRUCTION_FETCH
from npusim.scheduler.fit.costs import Transfers

from ...examples import examples

TIMING = PortTiming(
    burst_bytes=32, row_bytes=1024, grant_bytes=256, burst_cycles=4.0, miss_cycles=10, latency_cycles=20
)


def machine(**dram: Any) -> Hardware:
    """1 GHz, so that a nanosecond is a cycle: 32-byte bursts of 4 cycles, 10 cycles for a row, 20 of latency."""
    defaults = {
        "bandwidth_gb_per_s": 8.0,
        "latency_ns": 20.0,
        "row_miss_ns": 10.0,
        "row_bytes": 1024,
        "burst_bytes": 32,
        "grant_bytes": 256,
        "outstanding_requests": 16,
    }
    return Hardware(name="bench", clock_mhz=1000.0, dram=Dram(**(defaults | dram)))


def timing(hardware: Hardware) -> PortTiming:
    return hardware.port_timing(Space.DRAM)


def dram(address: int, counts: int | tuple[int, ...], strides: tuple[int, ...] = ()) -> Region:
    return Region(Space.DRAM, address, (counts,) if isinstance(counts, int) else counts, strides)


# Parameters in cycles.


def test_timing_in_cycles() -> None:
    assert timing(machine()) == TIMING


@pytest.mark.parametrize(
    ("changes", "burst_cycles"),
    [
        ({"bandwidth_gb_per_s": 0.5}, 64.0),  # 32 bytes at half a byte per cycle
        ({"bandwidth_gb_per_s": 3.0}, 32 / 3),
        # Four bursts in flight and 20 cycles until one comes back: no more than one every 5 cycles.
        ({"outstanding_requests": 4}, 5.0),
        ({"outstanding_requests": 5}, 4.0),
        ({"outstanding_requests": 1}, 20.0),
    ],
)
def test_bandwidth_is_bound_by_the_peak_and_by_requests_in_flight(
    changes: dict[str, Any], burst_cycles: float
) -> None:
    assert timing(machine(**changes)).burst_cycles == pytest.approx(burst_cycles)


def test_a_grant_is_at_most_a_row() -> None:
    assert timing(machine(grant_bytes=4096)).grant_bytes == 1024


# Cutting.


@pytest.mark.parametrize(
    ("region", "rows", "bursts"),
    [
        (dram(0, 1), [0], [1]),
        (dram(31, 2), [0], [2]),  # two bytes on either side of a burst boundary
        (dram(0, 256), [0], [8]),
        (dram(0, 257), [0, 0], [8, 1]),
        (dram(128, 256), [0, 0], [4, 4]),  # grants are aligned
        (dram(1024 - 64, 128), [0, 1], [2, 2]),
        (dram(2048, 1100), [2, 2, 2, 2, 3], [8, 8, 8, 8, 3]),
        # Runs of 8 bytes every 16: two share a burst, which is read once.
        (dram(0, (4, 8), (16,)), [0], [2]),
        # Runs of 8 bytes every 64: a burst each, one grant as they lie in one 256-byte block.
        (dram(0, (4, 8), (64,)), [0], [4]),
        # Every 512: another block each time.
        (dram(0, (4, 8), (512,)), [0, 0, 1, 1], [1, 1, 1, 1]),
        # A source that repeats: the burst just read is not read again.
        (dram(0, (3, 8), (0,)), [0], [1]),
        # But one that was read before another is.
        (dram(0, (2, 2, 8), (0, 512)), [0, 0, 0, 0], [1, 1, 1, 1]),
    ],
)
def test_cut(region: Region, rows: list[int], bursts: list[int]) -> None:
    assert cut(region, TIMING) == (rows, bursts)


@given(
    address=st.integers(0, 5000),
    inner=st.integers(1, 700),
    outer=st.lists(st.tuples(st.integers(1, 5), st.integers(0, 1500)), max_size=2),
)
@examples(100)
def test_cut_equals_a_walk_over_the_bytes(address: int, inner: int, outer: list[tuple[int, int]]) -> None:
    counts, strides = tuple(n for n, _ in outer), tuple(s for _, s in outer)
    columns = cut(dram(address, (*counts, inner), strides), TIMING)
    assert tuple(map(list, columns)) == walk(address, counts, strides, inner)


@given(
    address=st.integers(0, 1023),
    inner=st.integers(1, 3000),
    outer=st.lists(st.tuples(st.integers(1, 5), st.integers(0, 1500)), max_size=2),
    banks=st.sampled_from([1, 4]),
)
@examples(100)
def test_many_grants_are_described_as_few_are(
    address: int, inner: int, outer: list[tuple[int, int]], banks: int
) -> None:
    """Of many, numpy computes the same columns as lists give of few."""
    region = dram(address, (*(n for n, _ in outer), inner), tuple(s for _, s in outer))
    described = []
    for most in (0, 1 << 20):
        with mock.patch.object(request, "_FEW_GRANTS", most):
            grants = request.Grants(region, TIMING._replace(banks=banks))
        columns = grants.rows, grants.bursts, grants.cycles, grants.passed, grants.ends, grants.sizes
        described.append(([column.tolist() for column in columns], grants.visits, grants.settles))
    assert described[0] == described[1]


def walk(
    address: int, counts: tuple[int, ...], strides: tuple[int, ...], inner: int
) -> tuple[list[int], list[int]]:
    """Byte after byte: a new burst where it changes, a new grant where the aligned block changes.

    A run that begins in the burst where the one before it ended does not read it again.
    """
    starts = [address]
    for count, stride in zip(counts, strides, strict=True):
        starts = [start + step * stride for start in starts for step in range(count)]
    bursts: list[int] = []
    for start in starts:
        run = sorted({byte // 32 for byte in range(start, start + inner)})
        bursts += run[1:] if bursts and bursts[-1] == run[0] else run
    rows, sizes, block = [], [], -1
    for burst in bursts:
        if burst * 32 // 256 != block:
            block = burst * 32 // 256
            rows.append(block * 256 // 1024)
            sizes.append(0)
        sizes[-1] += 1
    return rows, sizes


# Who is served when: the port against a model that serves grant by grant.


@dataclass(frozen=True)
class Ask:
    """One transfer: how many cycles after the end of the requester's last one it is asked for."""

    gap: int
    region: Region
    write: bool = False


@dataclass
class Served:
    """What a port did: grants as (requester, start, end), when each transfer was done, and the counts."""

    busy: list[tuple[str, int, int]]
    done: dict[str, list[int]]
    counts: dict[str, int]


Load = dict[str, list[Ask]]
"""What each requester asks for, one transfer after the other."""


def is_urgent(cycle: int, calm: int) -> bool:
    """Whether a fetch goes first: never in the first `calm` cycles, always in the next ones, and so on."""
    return not calm or bool(cycle // calm % 2)


def serve(hardware: Hardware, load: Load, calm: int = 0) -> Served:
    """Run requesters against the product's port."""
    env = simpy.Environment()
    port = MemoryPort(env, hardware)
    done: dict[str, list[int]] = {name: [] for name in load}
    counts: dict[str, int] = {}

    def requester(name: str) -> Generator[simpy.Event, Any, None]:
        for ask in load[name]:
            if ask.gap:
                yield env.timeout(ask.gap)
            urgent = (lambda: is_urgent(int(env.now), calm)) if name == INSTRUCTION_FETCH else None
            yield port.access(Requester(0, name), ask.region, ask.write, counts, urgent=urgent)
            done[name].append(int(env.now))

    def hurry() -> Generator[simpy.Event, Any, None]:
        while any(len(done[name]) < len(asks) for name, asks in load.items()):
            yield env.timeout(calm)
            port.hurry()

    for name in load:
        env.process(requester(name))
    if calm:
        env.process(hurry())
    env.run()
    return Served(merged([(t.requester, t.start_cycle, t.end_cycle) for t in port.transfers]), done, counts)


class Counting(simpy.Environment):
    """An environment that counts its events."""

    events = 0

    def step(self) -> None:
        self.events += 1
        super().step()


@pytest.mark.parametrize(("size", "number"), [(32, 2), (256, 2), (10_000, 3)])
def test_a_transfer_that_nobody_meets_takes_few_events(size: int, number: int) -> None:
    """The port wakes up, the last grant ends, and the requester goes on; of one grant the end is certain before."""

    def events(transfers: int) -> int:
        env = Counting()
        port = MemoryPort(env, machine())

        def requester() -> Generator[simpy.Event, Any, None]:
            for position in range(transfers):
                region = Region(Space.DRAM, position * size, (size,), ())
                yield port.access(Requester(0, "dma0"), region, False, {})

        env.process(requester())
        env.run()
        return env.events

    assert events(7) - events(2) == 5 * number


def merged(busy: list[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
    """Adjacent stretches of one requester as one."""
    found: list[tuple[str, int, int]] = []
    for name, start, end in busy:
        if found and found[-1][0] == name and found[-1][2] == start:
            found[-1] = (name, found[-1][1], end)
        else:
            found.append((name, start, end))
    return found


def serve_grant_by_grant(hardware: Hardware, load: Load, calm: int = 0) -> Served:
    """The contract in its plainest form: no events, no stretches, one grant after the other."""
    timing = hardware.port_timing(Space.DRAM)
    asks = {name: deque(each) for name, each in load.items()}
    coming: list[tuple[int, str]] = []  # (cycle, requester): the lower channel first
    queue: deque[tuple[str, deque[tuple[int, int]], bool]] = deque()
    fetches: deque[tuple[str, deque[tuple[int, int]], bool]] = deque()
    served = Served([], {name: [] for name in load}, {})
    now, banks, passed = 0, timing.banks, 0
    opened = dict.fromkeys(range(banks), (-1, 0))  # by bank: its row, and when that is open

    def count(name: str, number: int) -> None:
        served.counts[name] = served.counts.get(name, 0) + number

    def announce(name: str) -> None:
        if asks[name]:
            coming.append((now + asks[name][0].gap, name))

    def admit() -> None:
        for cycle, name in sorted(each for each in coming if each[0] <= now):
            coming.remove((cycle, name))
            ask = asks[name].popleft()
            grants = deque(zip(*cut(ask.region, timing), strict=True))
            (fetches if name == INSTRUCTION_FETCH else queue).append((name, grants, ask.write))

    for name in load:
        announce(name)
    while coming or queue or fetches:
        if not queue and not fetches:
            now = min(coming)[0]
            admit()
        line = fetches if fetches and (is_urgent(now, calm) or not queue) else queue
        place = 0
        if line is queue:
            for number, (_, waiting, _) in enumerate(queue if passed < timing.reorder_grants else ()):
                open_row, open_from = opened[waiting[0][0] % banks]
                if open_row == waiting[0][0] and open_from <= now:
                    place = number
                    break
            passed = passed + 1 if place else 0
        name, grants, write = line[place]
        del line[place]
        row, bursts = grants.popleft()
        start = now
        needs = [(row, next_row(row, grants)), *((g[0][0], next_row(g[0][0], g)) for _, g, _ in queue)]
        if opened[row % banks][0] != row:
            opened[row % banks] = row, now + timing.miss_cycles
            count("dram_activate", 1)
        for ahead in [now_row for now_row, _ in needs[1:]] + [needs[0][1]]:
            there = opened[ahead % banks][0]
            if (
                ahead >= 0
                and there != ahead
                and there not in {each for both in needs for each in both} - {-1}
            ):
                opened[ahead % banks] = ahead, now + timing.miss_cycles
                count("dram_activate", 1)
                break
        now = max(now, opened[row % banks][1]) + ceil(bursts * timing.burst_cycles - 1e-9)
        count("dram_write_byte" if write else "dram_read_byte", bursts * timing.burst_bytes)
        served.busy.append((name, start, now))
        if not grants:
            served.done[name].append(now)
            announce(name)
        admit()
        if grants:
            (fetches if name == INSTRUCTION_FETCH else queue).append((name, grants, write))
    served.busy = merged(served.busy)
    return served


def next_row(row: int, grants: Iterable[tuple[int, int]]) -> int:
    """The first other row of a transfer's grants to come; -1 if there is none."""
    return next((other for other, _ in grants if other != row), -1)


strided = st.builds(
    lambda address, inner, count, stride: dram(address * 16, (count, inner), (stride,)),
    st.integers(0, 300), st.one_of(st.integers(1, 1500), st.sampled_from([32, 256, 1024])), st.integers(1, 3),
    st.sampled_from([0, 24, 512, 3000]),
)  # fmt: skip
# Long enough that channels in turns open every bank several times.
long = st.builds(lambda address, size: dram(address * 32, size), st.integers(0, 2000), st.integers(1, 40_000))
regions = st.one_of(strided, long)
# Gaps that are whole grants let requests fall on the very cycle in which another grant ends.
gaps = st.one_of(st.integers(0, 90), st.sampled_from([0, 4, 8, 10, 14, 32, 42, 64, 74]))
asks = st.builds(Ask, gaps, regions, st.booleans())
loads = st.dictionaries(
    st.sampled_from([INSTRUCTION_FETCH, "dma0", "dma1", "dma2"]), st.lists(asks, min_size=1, max_size=4),
    min_size=1, max_size=4,
)  # fmt: skip
hardwares = st.builds(
    lambda bandwidth, latency, miss, grant, banks, row, reorder: machine(
        bandwidth_gb_per_s=bandwidth, latency_ns=latency, row_miss_ns=miss, grant_bytes=grant, banks=banks,
        row_bytes=row, reorder_grants=reorder,
    ),
    st.sampled_from([0.5, 3.0, 8.0, 32.0]), st.sampled_from([0.0, 20.0]), st.sampled_from([0.0, 10.0, 80.0]),
    st.sampled_from([32, 256, 1024]), st.sampled_from([1, 2, 4, 8]), st.sampled_from([128, 1024]),
    st.sampled_from([0, 0, 1, 3, 16]),
)  # fmt: skip


@pytest.mark.slow
@given(hardwares, loads, st.sampled_from([0, 5, 42, 300, 10_000]))
@examples(300)
def test_stretches_served_in_one_event_equal_single_grants(hardware: Hardware, load: Load, calm: int) -> None:
    assert serve(hardware, load, calm) == serve_grant_by_grant(hardware, load, calm)


# Turns and preemption, with the sums written out. A full grant is 8 bursts of 4 cycles: 32, plus 10 where the
# row is not open.

LONG = dram(0, 1024)  # one row, four grants: ends at 42, 74, 106, 138
SHORT = dram(4096, 32)  # another row: 10 + 4 cycles


def busy(load: Load, calm: int = 0) -> list[tuple[str, int, int]]:
    return serve(machine(), load, calm).busy


def test_two_channels_take_turns() -> None:
    rows = dram(4096, 512)
    # Each turn of 32 cycles opens the requester's own row again: 10 more.
    assert busy({"dma0": [Ask(0, dram(0, 512))], "dma1": [Ask(0, rows)]}) == [
        ("dma0", 0, 42), ("dma1", 42, 84), ("dma0", 84, 126), ("dma1", 126, 168),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "begins"),
    [
        (0, 42),  # with the first grant: it is dma0's turn
        (1, 42),
        (41, 42),
        (42, 42),  # exactly at the boundary: in time
        (43, 74),  # one cycle later: the second grant is under way
        (73, 74),
        (74, 74),
        (75, 106),
        (106, 106),  # the last grant has not begun
        (107, 138),
        (138, 138),
        (139, 139),  # the port stood still for a cycle
    ],
)
def test_a_newcomer_takes_over_at_the_next_grant_boundary(asked: int, begins: int) -> None:
    served = busy({"dma0": [Ask(0, LONG)], "dma1": [Ask(asked, SHORT)]})
    assert ("dma1", begins, begins + 14) in served
    # The stream goes on behind it and pays for its row again, if anything is left of it.
    rest = 138 - begins
    assert served[-1] == (
        ("dma0", begins + 14, begins + 14 + 10 + rest) if rest > 0 else ("dma1", begins, begins + 14)
    )


def test_instruction_fetch_goes_first() -> None:
    # All three ask during dma0's first grant: the fetch asks last and is served first.
    load = {
        "dma0": [Ask(0, LONG)],
        "dma1": [Ask(5, SHORT)],
        "dma2": [Ask(6, SHORT)],
        INSTRUCTION_FETCH: [Ask(7, SHORT)],
    }
    assert busy(load) == [
        ("dma0", 0, 42), (INSTRUCTION_FETCH, 42, 56), ("dma1", 56, 60), ("dma2", 60, 64), ("dma0", 64, 170),
    ]  # fmt: skip


@pytest.mark.parametrize(("pause", "begins"), [(41, 56), (42, 56), (43, 88)])
def test_instruction_fetch_that_asks_between_two_turns_is_in_time(pause: int, begins: int) -> None:
    # The first fetch ends at 14, dma0's grant at 14 + 42 = 56, dma1's in the same row at 88.
    load = {
        "dma0": [Ask(0, LONG)],
        "dma1": [Ask(0, LONG)],
        INSTRUCTION_FETCH: [Ask(0, SHORT), Ask(pause, SHORT)],
    }
    assert busy(load)[:2] == [(INSTRUCTION_FETCH, 0, 14), ("dma0", 14, 56)]
    assert (INSTRUCTION_FETCH, begins, begins + 14) in busy(load)


@pytest.mark.parametrize(
    ("calm", "begins"),
    [
        (41, 42),
        (42, 42),  # short of instructions exactly at the boundary: in time
        (43, 74),
        (106, 106),
        (107, 138),
        (10_000, 138),  # never: when the channel is done
    ],
)
def test_a_fetch_that_is_not_urgent_waits_for_the_channels(calm: int, begins: int) -> None:
    load = {"dma0": [Ask(0, LONG)], INSTRUCTION_FETCH: [Ask(1, SHORT)]}
    assert (INSTRUCTION_FETCH, begins, begins + 14) in busy(load, calm)
    assert busy({INSTRUCTION_FETCH: [Ask(1, SHORT)]}, calm) == [(INSTRUCTION_FETCH, 1, 15)]


def test_row_hits_and_misses() -> None:
    one_burst = 4
    load = {"dma0": [Ask(0, dram(0, 32)), Ask(0, dram(512, 32)), Ask(0, dram(1024, 32)), Ask(0, dram(0, 32))]}
    served = serve(machine(), load)
    ends = [10 + one_burst, 18, 18 + 10 + one_burst, 46]  # miss, hit, miss, miss
    assert served.done == {"dma0": ends}
    assert served.counts == {"dram_read_byte": 4 * 32, "dram_activate": 3}


def test_whole_bursts_are_counted() -> None:
    served = serve(machine(), {"dma0": [Ask(0, dram(30, 4), write=True)]})
    assert served.counts == {"dram_write_byte": 64, "dram_activate": 1}


def test_the_cycles_of_a_grant_are_rounded_up() -> None:
    # 7 bursts of 32/3 cycles: 74.67, so 75; with the row 85.
    assert serve(machine(bandwidth_gb_per_s=3.0), {"dma0": [Ask(0, dram(0, 224))]}).done == {"dma0": [85]}


# Banks. Rows of 1,024 bytes are four grants of 32 cycles; row r is in bank r modulo `banks`.


def ends(load: Load, **changes: Any) -> tuple[dict[str, list[int]], int]:
    """When the transfers are done, and how many rows were opened."""
    served = serve(machine(**changes), load)
    return served.done, served.counts["dram_activate"]


@pytest.mark.parametrize(
    ("banks", "miss", "cycles"),
    [
        (1, 10, 4 * (10 + 128)),
        (2, 10, 10 + 4 * 128),  # but for the first, rows open while the one before them streams
        (8, 10, 10 + 4 * 128),
        (2, 128, 128 + 4 * 128),  # just in time
        # The second opens beside the first, until 300. The third begins to open with the second's grants in 428 and
        # is waited for when they have passed; the fourth opens while the third is waited for.
        (2, 300, 300 + 128 + 0 + 128 + (300 - 128) + 128 + 0 + 128),
        (1, 300, 4 * (300 + 128)),
    ],
)
def test_the_next_row_opens_while_one_streams(banks: int, miss: int, cycles: int) -> None:
    stream = {"dma0": [Ask(0, dram(0, 4096))]}
    assert ends(stream, banks=banks, row_miss_ns=float(miss)) == ({"dma0": [cycles]}, 4)


def test_each_bank_keeps_its_row() -> None:
    # Bursts of 4 cycles in rows 0, 1, 0, 1: with two banks each is opened once, after the request for it.
    far = [Ask(0, dram(address, 32)) for address in (0, 1024, 0, 1024)]
    assert ends({"dma0": far}, banks=2) == ({"dma0": [14, 28, 32, 36]}, 2)
    assert ends({"dma0": far}, banks=1) == ({"dma0": [14, 28, 42, 56]}, 4)
    # Rows 0 and 2 share a bank of two.
    near = [Ask(0, dram(address, 32)) for address in (0, 2048, 0, 2048)]
    assert ends({"dma0": near}, banks=2) == ({"dma0": [14, 28, 42, 56]}, 4)


def test_the_row_of_the_next_in_line_opens_ahead() -> None:
    # dma1 asks with dma0; its row opens from cycle 0 on, and is open when dma0's grant of 42 cycles ends.
    load = {"dma0": [Ask(0, dram(0, 256))], "dma1": [Ask(0, dram(1024, 32))]}
    assert ends(load, banks=2) == ({"dma0": [42], "dma1": [46]}, 2)
    # In the cycle in which the grant has begun it is too late: nothing is opened until the next grant begins.
    late = {"dma0": [Ask(0, dram(0, 256))], "dma1": [Ask(1, dram(1024, 32))]}
    assert ends(late, banks=2) == ({"dma0": [42], "dma1": [56]}, 2)
    # In the bank that dma0 is at work in it has to wait.
    same = {"dma0": [Ask(0, dram(0, 256))], "dma1": [Ask(0, dram(2048, 32))]}
    assert ends(same, banks=2) == ({"dma0": [42], "dma1": [56]}, 2)


def test_a_row_that_somebody_needs_stays_open() -> None:
    # Rows 0, 1 of dma0 and 3 of dma1, with two banks. Beside dma0's grant row 3 opens, dma1 being next in line. Row 1,
    # in the same bank, is not opened ahead: dma1 needs row 3. It pays its 10 cycles when its turn comes.
    load = {"dma0": [Ask(0, dram(768, 512))], "dma1": [Ask(0, dram(3072, 32))]}
    assert ends(load, banks=2) == ({"dma0": [42 + 4 + 42], "dma1": [46]}, 3)


@pytest.mark.parametrize("banks", [1, 2, 8])
@pytest.mark.parametrize("miss", [0.0, 10.0, 100.0, 128.0, 300.0])
@pytest.mark.parametrize("grant", [64, 256, 1024])
def test_the_estimate_of_a_long_run_is_what_the_port_takes(banks: int, miss: float, grant: int) -> None:
    hardware = machine(banks=banks, row_miss_ns=miss, grant_bytes=grant)
    size = 64 * 1024
    found, opened = ends({"dma0": [Ask(0, dram(0, size))]}, banks=banks, row_miss_ns=miss, grant_bytes=grant)
    # What an endless run takes for these bytes; the first row has nothing to hide behind.
    most = hardware.port_timing(Space.DRAM).miss_cycles
    assert 0 <= found["dma0"][0] - Transfers(hardware).cycles(Space.DRAM, size) <= most
    assert opened == 64


@given(
    st.sampled_from([0.5, 3.0, 8.0, 15.0, 32.0]),
    st.sampled_from([0.0, 10.0, 30.0]),
    st.sampled_from([256, 512, 1024]),
    st.sampled_from([1, 8, 16]),
    st.sampled_from([1024, 2048]),
    st.integers(0, 3),
    st.sampled_from([0, 32, 500]),
)
@examples(40)
def test_streams_together_lose_no_bandwidth_if_open_rows_go_first(
    bandwidth: float, miss: float, grant: int, banks: int, row: int, apart: int, offset: int
) -> None:
    """Two equal streams get 95 % of what they get one behind the other, and more streams never less than fewer."""
    hardware = machine(
        bandwidth_gb_per_s=bandwidth, row_miss_ns=miss, grant_bytes=grant, banks=banks, row_bytes=row,
        reorder_grants=16,
    )  # fmt: skip
    size = 40 * row
    streams = [dram((number << 20) + apart * number * row + offset, size) for number in range(4)]
    rates = []
    for number in range(1, 5):
        done = serve(hardware, {f"dma{at}": [Ask(0, streams[at])] for at in range(number)}).done
        rates.append(number * size / max(ends[-1] for ends in done.values()))
    assert rates[1] >= 0.95 * rates[0]
    assert all(rate >= 0.98 * max(rates[:number]) for number, rate in enumerate(rates) if number)


def test_grants_that_pass_the_first_in_line() -> None:
    # LONG is a row of four grants, SHORT waits for another row of the only bank. Strictly in turn SHORT comes second,
    # and LONG opens its row again. With one grant that may pass, it is third; with three or more, it is last.
    load = {"dma0": [Ask(0, LONG)], "dma1": [Ask(0, SHORT)]}
    ended = [serve(machine(reorder_grants=number), load).done for number in (0, 1, 3, 16)]
    assert ended == [
        {"dma0": [42 + 14 + 42 + 32 + 32], "dma1": [42 + 14]},
        {"dma0": [42 + 32 + 14 + 42 + 32], "dma1": [42 + 32 + 14]},
        {"dma0": [42 + 3 * 32], "dma1": [42 + 3 * 32 + 14]},
        {"dma0": [42 + 3 * 32], "dma1": [42 + 3 * 32 + 14]},
    ]
