"""Systems: jobs of one and of several launches, on one core and on two, alone and beside others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import npusim
from npusim.isa.base.elements import Workload
from npusim.isa.base.errors import ProgramError, SimulationError
from npusim.isa.base.tensor import Array, Placement
from npusim.isa.hardware.cpu import host_cycles
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.memories import Space
from npusim.isa.program.executable import OWN, Executable, If, Launch, Place, Step, Transfer, While
from npusim.isa.program.program import MemoryImage, Program
from npusim.machine.job import Bindings, Job
from npusim.machine.system import System, execute
from npusim.machine.trace import OTHER_CORE
from npusim.numbers.measure import measure
from npusim.session.host import host_functions

from .handmade import BENCH, barrier, bench, bytes_at, host_call, load, lookup, program, rows, store, waits

BYTES = np.arange(256, dtype=np.uint8)
TABLES = 4096
"""DRAM address of tables; in front of it lie inputs and outputs of `through`."""


def through(table: Array, size: int, hardware: Hardware = BENCH) -> Program:
    """A program that takes `size` bytes through a table: x at 0, y at 1024."""
    hardware = bench() if hardware is BENCH else hardware
    made = program(
        [
            load(TABLES, 0, 256),
            load(0, 1024, size, channel=1),
            lookup(1024, 2048, size, after=waits(dma0=1, dma1=1)),
            store(2048, 1024, size, after=waits(vector=1)),
        ],
        hardware,
        inputs=[bytes_at("x", 0, size)],
        outputs=[bytes_at("y", 1024, size)],
    )
    return replace(
        made, constants=table.astype(np.uint8).tobytes(), images=(MemoryImage(TABLES, table.size),)
    )


def plus(number: int) -> Array:
    return (np.arange(256) + number) % 256


def x_of(window: int, size: int = 1) -> Place:
    return Place(window, bytes_at("x", 0, size))


def y_of(window: int, size: int = 1) -> Place:
    return Place(window, bytes_at("y", 1024, size))


def run_alone(executable: Executable, inputs: Sequence[Array] | None, **how: Any) -> Job:
    system = System((executable.hardware,))
    job = system.submit(executable, None if inputs is None else Bindings(inputs), **how)
    system.run()
    return job


# One launch is what `execute` does, wherever it lies and whichever core it runs on.


@cache
def network(name: str) -> Program:
    return npusim.compile(npusim.load(name), "edge-128")


@cache
def alone(name: str) -> tuple[Any, tuple[Array, ...]]:
    program, inputs = network(name), values(name)
    execution = execute(program, inputs, host_functions=host_functions(program))
    assert execution.outputs is not None
    return execution, execution.outputs


def values(name: str) -> list[Array]:
    rng = np.random.default_rng(5)
    return [
        rng.integers(-128, 128, place.type.shape).astype(place.type.numpy_dtype)
        for place in network(name).inputs
    ]


def submit(system: System, name: str, **how: Any) -> Job:
    program = network(name)
    functions = host_functions(program)
    return system.submit(Executable.of(program), Bindings(values(name), host_functions=functions), **how)


def same_times(one: Any, other: Any) -> bool:
    columns = ("dispatched", "at_head", "ready", "started", "ended", "blocked_by")
    return all(np.array_equal(getattr(one.trace, name), getattr(other.trace, name)) for name in columns)


def test_a_program_may_lie_anywhere_and_begin_at_any_time() -> None:
    expected, outputs = alone("digits_cnn")
    system = System((network("digits_cnn").hardware,) * 2)
    first = submit(system, "digits_cnn")
    late = submit(system, "digits_cnn", cores=(1,), at=first_end(expected) + 1000)
    system.run()
    for job in (first, late):
        found = job.runs[0].parts[0].execution
        assert same_times(found, expected)
        assert found.layer_actions == expected.layer_actions
        np.testing.assert_array_equal(job.runs[0].outputs, outputs)
    # The second lies behind the first in DRAM, on the other core, and begins when it is told to.
    assert late.runs[0].parts[0].core == 1
    assert late.runs[0].start_cycle == first_end(expected) + 1000


def first_end(execution: Any) -> int:
    return int(execution.cycles)


# Two cores at one port.


def test_two_cores_run_two_networks_through_one_dram_port() -> None:
    names = ("digits_cnn", "ds_cnn")
    system = System((network(names[0]).hardware,) * 2)
    jobs = [submit(system, name, cores=(core,)) for core, name in enumerate(names)]
    system.run()
    for name, job in zip(names, jobs, strict=True):
        expected, outputs = alone(name)
        run = job.runs[0]
        execution = run.parts[0].execution
        # Same work: bytes of results, bytes through the port, actions but for DRAM rows that the other one closed.
        np.testing.assert_array_equal(run.outputs, outputs)
        assert execution.dram_read_bytes == expected.dram_read_bytes
        assert execution.dram_write_bytes == expected.dram_write_bytes
        assert execution.instruction_bytes == expected.instruction_bytes
        # More time, and the reason is told.
        assert execution.cycles > expected.cycles
        before, after = (
            measure(network(name), each).lost_cycles.get("stall_dram_contention", 0)
            for each in (expected, execution)
        )
        assert after > before
        assert any(transfer.requester == OTHER_CORE for transfer in execution.trace.transfers)
        assert not any(transfer.requester == OTHER_CORE for transfer in expected.trace.transfers)
    # Whoever has the port, has it alone.
    intervals = sorted((each.start_cycle, each.end_cycle) for each in system.ports[Space.DRAM].transfers)
    assert all(end <= begin for (_, end), (begin, _) in pairwise(intervals))
    assert system.cores[0].free.count == system.cores[1].free.count == 0


def test_the_cycles_of_two_cores_that_meet_at_the_port() -> None:
    # 256 bytes are one grant of the bench: a row miss of 10 and 8 bursts of 4, 42 cycles. A setup takes 16, the
    # latency 20. Alone: fetch of one instruction, 72 bytes in 3 bursts, 10 + 12 + 20 = 42, decode 1, setup 16, then
    # the port. Beside another: the second fetch goes behind the first, 22 later; the transfers then ask in 43 + 16 =
    # 59 and 65 + 16 = 81, and the second waits until the first is through, in 101.
    programs = [program([load(0, 0, 256)], bench()) for _ in range(2)]
    system = System([made.hardware for made in programs])
    jobs = [system.submit(Executable.of(made), cores=(core,)) for core, made in enumerate(programs)]
    system.run()
    assert execute(programs[0], data=False).cycles == 42 + 1 + 16 + 42 + 20
    assert [job.runs[0].cycles for job in jobs] == [42 + 1 + 16 + 42 + 20, 101 + 42 + 20]
    assert [tuple(each)[1:] for each in rows(jobs[1].runs[0].parts[0].execution)] == [(65, 65, 65, 163)]


def test_what_a_program_only_reads_is_in_memory_once() -> None:
    # As above, but of one program: the second fetch and the second transfer find the rows open that the first ones
    # opened, 10 cycles less each. The second asks at 55 + 16 = 71 and waits until the first is through, in 101.
    made = program([load(0, 0, 256)], bench())
    system = System((made.hardware,) * 2)
    jobs = [system.submit(Executable.of(made), cores=(core,)) for core in range(2)]
    system.run()
    assert [job.runs[0].cycles for job in jobs] == [42 + 1 + 16 + 42 + 20, 101 + 32 + 20]
    assert [tuple(each)[1:] for each in rows(jobs[1].runs[0].parts[0].execution)] == [(55, 55, 55, 153)]
    activated = [
        sum(each.get("dram_activate", 0) for each in job.runs[0].parts[0].execution.layer_actions)
        for job in jobs
    ]
    assert activated == [2, 0]


def test_jobs_of_one_program_have_what_they_write_apart() -> None:
    # Of the 4 MiB that the bench has, a program takes 128 KiB, of which it writes the first 1,028 bytes: two rows.
    made = through(plus(1), 4)
    system = System((made.hardware,) * 3)
    inputs = [BYTES[first : first + 4] for first in (3, 90, 7)]
    jobs = [
        system.submit(Executable.of(made), Bindings([values]), cores=(core,))
        for core, values in enumerate(inputs)
    ]
    system.run()
    assert [job.bases[Space.DRAM] for job in jobs] == [0, 128 << 10, 130 << 10]
    for job, values in zip(jobs, inputs, strict=True):
        assert job.runs[0].outputs is not None
        np.testing.assert_array_equal(job.runs[0].outputs[0], values + 1)


def test_cores_share_the_host() -> None:
    source, target = bytes_at("a", 0, 64), bytes_at("b", 64, 64)
    call, entry = host_call("invert", source, target, 64)
    made = program([call], bench(), inputs=[source], outputs=[target], host_calls=[entry])
    cycles = host_cycles(entry.workload, made.hardware)
    system = System((made.hardware,) * 2)
    jobs = [system.submit(Executable.of(made), cores=(core,)) for core in range(2)]
    system.run()
    first, second = (job.runs[0].parts[0].execution.trace for job in jobs)
    assert first.ended[0] - first.started[0] == second.ended[0] - second.started[0] == cycles
    assert second.ready[0] < second.started[0] == first.ended[0]


# Repetitions and tenants.


def test_a_batch_gives_the_same_bytes_every_time() -> None:
    expected, outputs = alone("digits_cnn")
    system = System((network("digits_cnn").hardware,))
    job = submit(system, "digits_cnn", repeat=4)
    system.run()
    assert len(job.runs) == 4
    for run in job.runs:
        # The scratchpad still holds what the run before left there: no instruction reads what none has written.
        np.testing.assert_array_equal(run.outputs, outputs)
        assert run.cycles == expected.cycles
    assert [run.start_cycle for run in job.runs] == [turn * expected.cycles for turn in range(4)]


def test_tenants_of_one_core_take_turns_in_the_order_of_submission() -> None:
    system = System((network("digits_cnn").hardware,))
    names = ("ds_cnn", "digits_cnn", "ds_cnn")
    jobs = [submit(system, name, tenant=f"tenant {number}") for number, name in enumerate(names)]
    system.run()
    start = 0
    for number, (name, job) in enumerate(zip(names, jobs, strict=True)):
        run = job.runs[0]
        assert job.tenant == f"tenant {number}"
        assert (run.start_cycle, run.waiting_cycles) == (start, start)
        np.testing.assert_array_equal(run.outputs, alone(name)[1])
        # As if alone, but for the DRAM row that the one before left open.
        assert abs(run.cycles - alone(name)[0].cycles) <= system.ports[Space.DRAM].timing.miss_cycles
        start = run.end_cycle


# Steps.


def counting(size: int = 1) -> Executable:
    """While the counter is not zero: take one from it, add three to the value. Both on the NPU."""
    hardware = bench()
    nonzero = (np.arange(256) != 0).astype(np.uint8)
    programs = (through(nonzero, 1), through(plus(-1), 1), through(plus(3), 1))
    counter, value, condition = x_of(1), x_of(2), y_of(0)
    steps: tuple[Step, ...] = (
        While(
            "loop",
            (Transfer("to test", ((counter, x_of(0)),)), Launch(0)),
            condition,
            (Launch(1), Launch(2), Transfer("next", ((y_of(1), counter), (y_of(2), value)))),
        ),
    )
    return Executable("counting", hardware, programs, steps, (counter, value), (counter, value))


def test_a_while_of_ten_turns() -> None:
    job = run_alone(counting(), [np.array([10], np.uint8), np.array([100], np.uint8)])
    run = job.runs[0]
    assert run.outputs is not None
    assert [output.tolist() for output in run.outputs] == [[0], [130]]
    assert run.decisions == (("loop", 10),)
    # Eleven tests and decisions, ten bodies; the range is empty them.
    names = [part.program.name for part in run.parts]
    assert names.count("loop") == names.count("to test") == 11
    assert names.count("next") == 10
    assert len(run.parts) == 3 * 11 + 3 * 10
    # The rows of a DRAM are 1024 bytes: each launch finds another row open than it begins with, so every turn takes
    # as long as the first, and a launch as long as it takes alone.
    test, step = (execute(each, data=False).cycles for each in counting().programs[:2])
    # A fetch of one instruction takes 10 + 3 * 4 + 20, another one 2 * 4 more; decode 1.
    # A transfer of one byte: setup 16, a burst read 10 + 4, latency 20, a burst written 10 + 4. Of two, on two
    # channels, the second decoded 8 later: it waits for the first's grant, reads, and when it writes, the
    # port is free again.
    decision = 42 + 1 + host_cycles(Workload("elementwise", elements=1, input_bytes=1), bench())
    one = 42 + 1 + 16 + 14 + 20 + 14
    two = 42 + 1 + 16 + 14 + 14 + 20 + 14
    assert {part.program.name: part.execution.cycles for part in run.parts} == {
        "to test": one,
        "hand": test,
        "loop": decision,
        "next": two,
    }
    assert test == step
    assert run.cycles == 11 * (one + test + decision) + 10 * (2 * step + two)


def test_a_while_without_data_takes_the_turns_that_are_said() -> None:
    exact = run_alone(counting(), [np.array([10], np.uint8), np.array([100], np.uint8)]).runs[0]
    timed = run_alone(counting(), None, decisions={"loop": 10}).runs[0]
    assert timed.outputs is None
    assert timed.decisions == exact.decisions
    assert timed.cycles == exact.cycles
    with pytest.raises(
        SimulationError,
        match=r'^counting: what "loop" decides depends on data; without data, decisions must say it: '
        r"its number of iterations$",
    ):
        run_alone(counting(), None)
    with pytest.raises(
        SimulationError, match=r'^counting: nothing named "lop" is decided, did you mean "loop"\?$'
    ):
        run_alone(counting(), None, decisions={"lop": 1})


def test_a_while_of_no_turn() -> None:
    run = run_alone(counting(), [np.array([0], np.uint8), np.array([7], np.uint8)]).runs[0]
    assert run.outputs is not None
    assert [output.tolist() for output in run.outputs] == [[0], [7]]
    assert run.decisions == (("loop", 0),)


@pytest.mark.parametrize(("most", "given_up"), [(9, True), (10, False)])
def test_a_while_that_does_not_end(most: int, given_up: bool) -> None:
    inputs = [np.array([10], np.uint8), np.array([100], np.uint8)]
    if given_up:
        with pytest.raises(SimulationError, match=r'^counting: "loop" still goes on after 9 iterations$'):
            run_alone(counting(), inputs, most_turns=most)
    else:
        assert run_alone(counting(), inputs, most_turns=most).runs[0].decisions == (("loop", 10),)


def branching() -> Executable:
    """The value plus one or minus one, as the condition says."""
    programs = (through(plus(1), 4), through(plus(-1), 4))
    condition, value, result = (
        Place(OWN, bytes_at("condition", 0, 1)),
        Place(OWN, bytes_at("value", 32, 4)),
        Place(OWN, bytes_at("result", 64, 4)),
    )

    def branch(number: int) -> tuple[Step, ...]:
        return (
            Transfer(f"in {number}", ((value, x_of(number, 4)),)),
            Launch(number),
            Transfer(f"out {number}", ((y_of(number, 4), result),)),
        )

    steps = (If("which", condition, branch(0), branch(1)),)
    return Executable("branching", bench(), programs, steps, (condition, value), (result,), values=bytes(96))


@pytest.mark.parametrize(("condition", "number"), [(1, 1), (0, -1), (255, 1)])
def test_both_branches_of_an_if(condition: int, number: int) -> None:
    inputs = [np.array([condition], np.uint8), BYTES[10:14]]
    run = run_alone(branching(), inputs).runs[0]
    assert run.outputs is not None
    assert run.outputs[0].tolist() == [value + number for value in range(10, 14)]
    taken = int(condition > 0)
    assert run.decisions == (("which", taken),)
    names = ["which", f"in {1 - taken}", "hand", f"out {1 - taken}"]
    assert [part.program.name for part in run.parts] == names
    assert run.cycles == sum(part.execution.cycles for part in run.parts)
    assert run_alone(branching(), None, decisions={"which": taken}).runs[0].cycles == run.cycles


def test_states_go_on_from_repetition_to_repetition() -> None:
    made = through(plus(5), 4)
    once = replace(Executable.of(made), states=(x_of(0, 4),))
    again = replace(once, steps=(Launch(0), Transfer("keep", ((y_of(0, 4), x_of(0, 4)),))))
    system = System((made.hardware,))
    job = system.submit(again, Bindings([BYTES[:4]]), repeat=3)
    system.run()
    assert [run.states[0].tolist() for run in job.runs] == [[5, 6, 7, 8], [10, 11, 12, 13], [15, 16, 17, 18]]


# What goes wrong.


def test_a_deadlock_names_core_and_program() -> None:
    fine, stuck = program([load(0, 0, 16)], bench()), program([barrier(dma0=1), load(0, 0, 16)], bench())
    system = System((fine.hardware,) * 2)
    system.submit(Executable.of(fine), cores=(0,))
    system.submit(Executable.of(replace(stuck, name="second")), cores=(1,))
    with pytest.raises(
        SimulationError,
        match=r"^core 1: second: deadlock with 2 instructions left: front_end with instruction 0 "
        r'\(ctl.barrier, layer "layer"\) waits for dma0 to complete 1 instructions, it has completed 0$',
    ):
        system.run()


def shifted(place: Place, address: int) -> Place:
    tensor = place.tensor
    return Place(place.window, Placement(tensor.name, tensor.type, address))


FAULTS: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "program": ({"steps": (Launch(2),)}, "program 2 is launched, there are 2"),
    "core": ({"steps": (Launch(0, core=-1),)}, "a step runs on core -1, must be 0 or more"),
    "window": ({"outputs": (x_of(2),)}, "outputs: window 2, there are 2 programs"),
    "outside": (
        {"outputs": (shifted(x_of(0), 131072),)},
        'outputs: tensor "x" at 131072 with 1 bytes lies outside the 131072 bytes of its window',
    ),
    "condition": (
        {"steps": (If("which", x_of(0, 4), (), ()),)},
        'condition of "which" has 4 bytes, must have 1',
    ),
    "twice": (
        {"steps": (If("which", x_of(0), (), ()), If("which", x_of(1), (), ()))},
        '2 decisions are named "which", each needs a name of its own',
    ),
    "sizes": (
        {"steps": (Transfer("in", ((x_of(0, 4), x_of(1, 2)),)),)},
        'transfer "in": 4 bytes to a tensor of 2',
    ),
    "swap": (
        {"steps": (Transfer("swap", ((x_of(0), x_of(1)), (x_of(1), x_of(0)))),)},
        'transfer "swap": a target lies in bytes that another move reads or writes',
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_an_executable_that_breaks_a_rule(fault: str) -> None:
    changes, message = FAULTS[fault]
    with pytest.raises(ProgramError, match=f"^branching: {message}$"):
        System((bench(),)).submit(replace(branching(), **changes))


def test_what_cannot_be_submitted() -> None:
    made = through(plus(1), 4)
    system = System((made.hardware,))
    with pytest.raises(SimulationError, match=r"^core 1 does not exist; the system has 0\.\.0$"):
        system.submit(Executable.of(made), cores=(1,))
    with pytest.raises(SimulationError, match=r"^hand: runs on core 1, there are 1$"):
        system.submit(replace(Executable.of(made), steps=(Launch(0, core=1),)))
    with pytest.raises(
        SimulationError, match=r"^hand: at cycle -1, 1 times; may be from cycle 0 on, once or more$"
    ):
        system.submit(Executable.of(made), at=-1)
    with pytest.raises(
        SimulationError, match=r"^hand: at cycle 0, 0 times; may be from cycle 0 on, once or more$"
    ):
        system.submit(Executable.of(made), repeat=0)
    with pytest.raises(SimulationError, match=r"^0 inputs given, the program takes 1: x$"):
        system.submit(Executable.of(made), Bindings([]))
    # The bench has 4 MiB, a program of these 128 KiB.
    for _ in range(32):
        system.submit(Executable.of(through(plus(1), 4)))
    with pytest.raises(
        SimulationError, match=r"^33 jobs need 4325376 bytes of DRAM, the hardware has 4194304$"
    ):
        system.submit(Executable.of(made))
