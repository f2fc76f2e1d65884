"""Cores of one system with clocks of their own: ticks, edges, and sums written out.

The first core is the bench at 1 GHz: a cycle is a nanosecond, and so it is at the ports. A fetch of one instruction
takes 10 for the row, 12 for three bursts and 20 until it has arrived: 42; of two 50, of four 66.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npusim.isa.base.errors import HardwareError
from npusim.isa.hardware.cpu import host_cycles
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.instructions.instruction import Instruction
from npusim.isa.instructions.region import Space
from npusim.isa.program.executable import Executable, Launch
from npusim.isa.program.interpreter import interpret
from npusim.isa.program.program import Area, Program
from npusim.machine.clock import CoreTime, frequency, ticks_of
from npusim.machine.job import Bindings, Job, Part
from npusim.machine.system import System, execute

from ...examples import examples
from .handmade import Row, bench, bytes_at, host_call, load, lookup, program, rows, store, traffic, waits
from .test_machine import AREA, copies, lookups, near_memory, same, scrambled, transposes

LOOKUP = 8 + 32 + 8
"""Cycles of a look-up of 64 bytes, whatever the clock."""


def at(clock_mhz: float, **changes: Any) -> Hardware:
    """The bench at another clock, its memories as they are."""
    return bench(clock_mhz=clock_mhz, **changes)


def part_of(made: Program, clocks: Sequence[float], core: int = 1) -> Part:
    """The launch of a program on a core beside others that do nothing."""
    (job,) = run_on(clocks, {core: made})
    return job.runs[0].parts[0]


def run_on(clocks: Sequence[float], programs: dict[int, Program], **how: Any) -> list[Job]:
    """A job for each of some cores, all from the beginning."""
    hardware = next(iter(programs.values())).hardware
    system = System([hardware.model_copy(update={"clock_mhz": clock}) for clock in clocks])
    jobs = [system.submit(Executable.of(made), cores=(core,), **how) for core, made in programs.items()]
    system.run()
    return jobs


# Ticks.


@pytest.mark.parametrize(
    ("clocks", "ticks"),
    [
        ((500.0,), (1,)),
        ((500.0, 500.0, 500.0), (1, 1, 1)),
        ((1000.0, 500.0), (1, 2)),
        ((1000.0, 750.0), (3, 4)),
        ((333.3, 500.0), (5000, 3333)),
        ((0.1, 0.3), (3, 1)),  # 0.1 + 0.2 is not 0.3 in binary; a clock is what is written
        ((2.5, 1.25, 0.5), (1, 2, 5)),
    ],
)
def test_ticks_are_the_fewest_that_divide_all_periods(
    clocks: tuple[float, ...], ticks: tuple[int, ...]
) -> None:
    assert ticks_of(clocks) == ticks
    assert len({frequency(clock) * tick for clock, tick in zip(clocks, ticks, strict=True)}) == 1


@pytest.mark.slow
@given(st.fractions(0, 40), st.fractions(Fraction(1, 99), 99), st.lists(st.integers(0, 10**12), max_size=9))
@examples(80)
def test_times_of_a_core_are_rounded_up_to_the_systems(
    late: Fraction, ratio: Fraction, cycles: list[int]
) -> None:
    time = CoreTime(late, ratio)
    found = time.cycles(np.array(cycles, np.int64)).tolist()
    for cycle, rounded in zip(cycles, found, strict=True):
        assert rounded == time.cycle(cycle)
        assert 0 <= rounded - (late + cycle * ratio) < 1


def test_times_that_64_bits_do_not_hold_on_the_way() -> None:
    time = CoreTime(Fraction(1, 3), Fraction(10**15 + 1, 10**15 - 1))
    assert time.cycles(np.array([10**9])).tolist() == [10**9 + 1]


# One core, beside others that do nothing.


def test_a_core_of_half_the_clock_takes_twice_the_time() -> None:
    # But for the fetch, which is the memory's: 42 of the system, 21 of the core. Decode 1, and a look-up.
    made = program([lookup(0, 0, 64)], bench())
    part = part_of(made, (1000.0, 500.0))
    assert execute(made, data=False).cycles == 42 + 1 + LOOKUP
    assert part.execution.cycles == 21 + 1 + LOOKUP
    assert rows(part.execution) == [Row("vector", 22, 22, 22, 22 + LOOKUP)]
    assert (part.start_cycle, part.end_cycle) == (0, 42 + 2 * (1 + LOOKUP))
    # Where the memory is half as fast as well, nothing but the length of a cycle is another.
    slow = {"dram__latency_ns": 40.0, "dram__row_miss_ns": 20.0, "dram__bandwidth_gb_per_s": 4.0}
    half = program([lookup(0, 0, 64), store(0, 0, 64, after=waits(vector=1))], at(500.0, **slow))
    fast = program([lookup(0, 0, 64), store(0, 0, 64, after=waits(vector=1))], bench())
    assert same(execute(half, data=False), execute(fast, data=False))


def test_what_comes_from_a_port_is_taken_at_the_next_edge() -> None:
    # At 750 MHz a cycle is 4 ticks, at the port 3. The fetch is there in 42 of the port, which is 31.5 of the core.
    made = program([lookup(0, 0, 64)], bench())
    part = part_of(made, (1000.0, 750.0))
    assert rows(part.execution) == [Row("vector", 33, 33, 33, 33 + LOOKUP)]
    assert part.execution.cycles == 32 + 1 + LOOKUP == 81
    assert part.end_cycle == 81 * 4 // 3
    # A faster core waits for it as long as in time: 42 of the port are 63 at 1.5 GHz.
    assert part_of(made, (1000.0, 1500.0)).execution.cycles == 63 + 1 + LOOKUP


def test_a_transfer_of_another_clock() -> None:
    # At 750 MHz: the first instruction is there in 42 of the port (31.5 of the core, 32), decode 33. Setup 16 until
    # 49, which is cycle 65.33 of the port, 66: the row and 8 bursts until 108, there in 128, in 96 of the core.
    # The store, fetched until 50 of the port, 38 of the core: setup 16 from 96 to 112, cycle 150 of the port: the row
    # is open, 32 until 182: 137.
    made = program([load(0, 0, 256), store(0, 512, 256, channel=0)], bench())
    part = part_of(made, (1000.0, 750.0))
    begin, second = -(-42 * 3 // 4) + 1, -(-50 * 3 // 4) + 1
    assert (begin, second) == (33, 39)
    asked = -(-(begin + 16) * 4 // 3)
    passed = asked + 10 + 32
    there = -(-(passed + 20) * 3 // 4)
    stored = -(-(there + 16) * 4 // 3) + 32
    end = -(-stored * 3 // 4)
    assert (asked, passed, there, stored, end) == (66, 108, 96, 182, 137)
    assert rows(part.execution) == [
        Row("dma0", begin, begin, begin, there),
        Row("dma0", second, there, there, end),
    ]
    # Transfers are told in the core's cycles, rounded up on both sides.
    assert traffic(part.execution) == [
        ("fetch", 0, -(-22 * 3 // 4), 96),
        ("fetch", -(-22 * 3 // 4), -(-30 * 3 // 4), 64),
        ("dma0", -(-asked * 3 // 4), -(-passed * 3 // 4), 256),
        ("dma0", -(-(stored - 32) * 3 // 4), end, 256),
    ]
    assert part.end_cycle == -(-end * 4 // 3) == 183


def test_a_launch_begins_at_an_edge_and_ends_at_one_of_the_system() -> None:
    # 1000 and 300 MHz: 3 and 10 ticks. Asked for in cycle 4 of the system, which is tick 12; the core has edges in 10
    # and 20, so it begins in its cycle 2, 8/3 of the system later. The fetch comes in cycle 7 of the port and
    # takes 42: tick 147, cycle 15 of the core; decode, look-up.
    made = program([lookup(0, 0, 64)], bench())
    (job,) = run_on((1000.0, 300.0), {1: made}, at=4)
    run = job.runs[0]
    part = run.parts[0]
    assert (part.asked_cycle, part.start_cycle) == (4, 4)
    assert part.time == (Fraction(8, 3), Fraction(10, 3))
    assert part.execution.cycles == 15 - 2 + 1 + LOOKUP == 62
    assert part.end_cycle == -(-(2 + 62) * 10 // 3) == 214
    assert (run.start_cycle, run.end_cycle, run.cycles) == (4, 214, 210)


def test_launches_follow_one_another_without_a_gap() -> None:
    made = program([lookup(0, 0, 64)], bench())
    steps = (Launch(0, 0), Launch(0, 1), Launch(0, 0), Launch(0, 1))
    executable = Executable("both", bench(), (made,), steps, (), ())
    system = System((bench(), at(300.0)))
    job = system.submit(executable)
    system.run()
    run = job.runs[0]
    assert [part.core for part in run.parts] == [0, 1, 0, 1]
    for one, other in pairwise(run.parts):
        assert one.end_cycle == other.asked_cycle == other.start_cycle
    assert run.cycles == sum(part.end_cycle - part.asked_cycle for part in run.parts)
    assert all(0 <= part.time.late < part.time.ratio for part in run.parts)


# Several at a time.


def test_cores_of_two_clocks_that_meet_at_the_port() -> None:
    # Both fetch in cycle 0, the lower core first: 22, then the other's row and bursts until 44. The first: 42, decode
    # 43, setup 59, at the port until 59 + 42 = 101, there in 121. The second, at 500 MHz: 64, which is its 32;
    # decode 33, setup 49, which is 98 at the port; its turn comes in 101, until 143, there in 163; its edge is in 164.
    first, second = run_on((1000.0, 500.0), {core: program([load(0, 0, 256)], bench()) for core in range(2)})
    assert [job.runs[0].cycles for job in (first, second)] == [121, 164]
    assert rows(second.runs[0].parts[0].execution) == [Row("dma0", 33, 33, 33, 82)]
    assert second.runs[0].parts[0].execution.cycles == 82


def test_who_asks_between_two_edges_of_the_port_is_heard_at_the_later_one() -> None:
    # 1000 and 2000 MHz. Core 1 has its fetch behind that of core 0, in 44 + 20 = 64 of the port, 128 of its own; decode
    # 129, setup of 16: it asks in 145, half a cycle of the port behind 72. The port is idle, hears it in 73, and is
    # through in 115; there in 135, 270 of its own.
    alone = program([lookup(0, 0, 64)], bench())
    made = program([load(0, 0, 256)], bench())
    _, job = run_on((1000.0, 2000.0), {0: alone, 1: made})
    assert rows(job.runs[0].parts[0].execution) == [Row("dma0", 129, 129, 129, 270)]
    # A grant that is under way when somebody asks half a cycle before it ends is the last one before his turn: a
    # load of 512 bytes are two grants of 32. It asks in 59, its first grant ends in 101. The other's fetch, by then
    # of one that asks between 100 and 101, goes before the second grant.
    both = program([load(0, 0, 512)], bench())
    system = System((bench(), at(2000.0)))
    first = system.submit(Executable.of(both), cores=(0,))
    other = system.submit(Executable.of(alone), cores=(1,), at=100)
    system.run()
    assert other.runs[0].start_cycle == 100
    assert rows(first.runs[0].parts[0].execution)[0].ended == 42 + 1 + 16 + 42 + 22 + (10 + 32) + 20
    assert other.runs[0].parts[0].execution.cycles == 2 * (1 + 22 + 20) + 1 + LOOKUP


def test_the_host_is_taken_at_an_edge_of_the_core() -> None:
    source, target = bytes_at("a", 0, 64), bytes_at("b", 64, 64)
    call, entry = host_call("invert", source, target, 64)
    made = program([call], bench(), inputs=[source], outputs=[target], host_calls=[entry])
    clocks = (1000.0, 750.0)
    first, second = (job.runs[0].parts[0] for job in run_on(clocks, {0: made, 1: made}))
    ends = int(first.execution.trace.ended[0])
    trace = second.execution.trace
    assert trace.started[0] == -(-ends * 3 // 4) > trace.ready[0]
    assert trace.ended[0] - trace.started[0] == host_cycles(entry.workload, at(750.0))


def test_memories_must_be_the_same() -> None:
    other = at(500.0, dram__latency_ns=21.0).model_copy(update={"name": "other"})
    with pytest.raises(
        HardwareError,
        match=r"^bench and other differ in DRAM or memory; the cores of a system share them$",
    ):
        System((bench(), other))


# Random programs.

instructions_of = st.lists(st.one_of(copies(), transposes(), lookups()), min_size=1, max_size=20)
CLOCKS = (1000.0, 500.0, 750.0, 333.3, 1700.0)


@pytest.mark.slow
@given(
    instructions_of,
    st.sampled_from([0.0, 20.0, 40.0]),
    st.sampled_from([4.0, 8.0]),
    st.sampled_from([1, 16]),
    st.sampled_from([0, 16]),
)
@examples(100)
def test_a_slow_core_beside_a_fast_one_is_a_slow_core_alone(
    instructions: list[Instruction], latency: float, bandwidth: float, port: int, setup: int
) -> None:
    # All times of the memories are whole cycles of both clocks, so it does not matter whose edges the ports have.
    changes: dict[str, Any] = {
        "dram__latency_ns": latency, "dram__bandwidth_gb_per_s": bandwidth, "memory": near_memory(8.0),
        "dma__port_bytes_per_cycle": port, "dma__setup_cycles": setup,
    }  # fmt: skip
    made = scrambled([replace(each) for each in instructions], at(500.0, **changes))
    system = System((at(1000.0, **changes), made.hardware))
    job = system.submit(Executable.of(made), cores=(1,))
    system.run()
    found = job.runs[0].parts[0].execution
    transfers = tuple(replace(each, core=0) for each in found.trace.transfers)
    moved = replace(found, trace=replace(found.trace, transfers=transfers))
    assert same(moved, execute(made, data=False))
    assert job.runs[0].cycles == 2 * found.cycles


@pytest.mark.slow
@given(
    st.lists(instructions_of, min_size=1, max_size=3),
    st.lists(st.sampled_from(CLOCKS), min_size=3, max_size=3),
    st.integers(0, 99),
    st.integers(0, 300),
)
@examples(100)
def test_random_programs_on_random_clocks(
    programs: list[list[Instruction]], clocks: list[float], seed: int, begin: int
) -> None:
    near = [{**near_memory(8.0)[0], "size_kib": 16}]
    machines = [at(clock, memory=near) for clock in clocks]
    made = [
        replace(
            scrambled([replace(each) for each in instructions], machine), areas=(Area(Space.MEMORY2, 4096),)
        )
        for instructions, machine in zip(programs, machines, strict=False)
    ]
    rng = np.random.default_rng(seed)
    inputs = [[rng.integers(0, 256, AREA).astype(np.uint8) for _ in each.inputs] for each in made]

    def runs(data: bool) -> tuple[System, list[Job]]:
        system = System(machines)
        jobs = [
            system.submit(
                Executable.of(each), Bindings(inputs[core]) if data else None, at=core * begin, cores=(core,)
            )
            for core, each in enumerate(made)
        ]
        system.run()
        return system, jobs

    system, jobs = runs(data=True)
    timed = runs(data=False)[1]
    for core, (job, without) in enumerate(zip(jobs, timed, strict=True)):
        run = job.runs[0]
        part = run.parts[0]
        assert run.outputs is not None
        for output, expected in zip(run.outputs, interpret(made[core], inputs[core]), strict=True):
            np.testing.assert_array_equal(output, expected)
        assert same(part.execution, without.runs[0].parts[0].execution)
        # In time no run is shorter than its work alone; it begins within a cycle of its core.
        assert 0 <= part.time.late < part.time.ratio
        assert (
            0
            <= part.end_cycle - part.start_cycle - part.time.late - part.execution.cycles * part.time.ratio
            < 1
        )
        assert part.execution.trace.busy.max() <= part.execution.cycles
        moved = [each for each in part.execution.trace.transfers if each.requester != "other core"]
        assert (
            sum(each.size_bytes for each in moved if each.requester == "fetch")
            == part.execution.instruction_bytes
        )
    for port in system.ports.values():
        assert all(one.end_cycle <= other.start_cycle for one, other in pairwise(port.transfers))
