"""Waits: enough of them on every program, and on a small network not one too many.

Enough: a race checker that knows bytes and waits only (tests/races.py). Not too many: each wait of a small
network is deleted in turn, and the machine must then give wrong bytes or stand still under some timing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from npusim.isa.base.errors import SimulationError
from npusim.isa.base.tensor import Array
from npusim.isa.hardware.file import change, hardware
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.units import PRODUCERS, UNIT_NAMES, Unit
from npusim.isa.instructions.control import Barrier
from npusim.isa.instructions.dma import Copy
from npusim.isa.instructions.instruction import Context, Cost, Instruction
from npusim.isa.instructions.mac import Convolve
from npusim.isa.instructions.memory import commit
from npusim.isa.instructions.region import Region, Space, dense
from npusim.isa.instructions.table import all_instructions, decode_all, encode_all
from npusim.isa.instructions.vector import Lookup
from npusim.isa.program.program import Program
from npusim.isa.program.start import memory_of
from npusim.kernels.graph.graph import Graph
from npusim.machine.system import execute
from npusim.scheduler import compile_graph
from npusim.scheduler.emit.sequence import Timeline
from npusim.scheduler.emit.synchronise import Accesses, ordered, overlap, synchronise

from ..graphs import Sketch, random_inputs, with_all_outputs
from ..npusim.machine.handmade import bench
from ..npusim.machine.handmade import program as handmade_program
from ..races import bytes_of, races, unwritten_reads
from ..random_graphs import random_graph

pytestmark = pytest.mark.slow


def small(size_kib: int, channels: int, **changes: Any) -> Hardware:
    """edge-128 with a small scratchpad."""
    base = {"scratchpad.size_kib": size_kib, "scratchpad.banks": 1, "dma.channels": channels}
    return change(hardware("edge-128"), base | changes)


def residual_network() -> Graph:
    """conv, depthwise, 1x1 conv, add, pool, fully connected: 2 to 4 KiB a layer."""
    sketch = Sketch("residual", seed=5)
    x = sketch.conv(sketch.input(1, 16, 16, 8), 16, padding=((1, 1), (1, 1)), activation="relu")
    y = sketch.conv(sketch.depthwise(x, padding=((1, 1), (1, 1))), 16, (1, 1), per_channel=True)
    pooled = sketch.pool("max_pool_2d", sketch.add(x, y), (4, 4), strides=(4, 4))
    sketch.fully_connected(pooled, 24)
    return sketch.graph()


def moving_network() -> Graph:
    """Concatenation, pad, split and a host operator between the layers that compute."""
    sketch = Sketch("moving", seed=6)
    x = sketch.conv(sketch.input(1, 12, 12, 8), 8, (1, 1))
    y = sketch.pool("average_pool_2d", x, (1, 1))
    joined = sketch.pad(sketch.concat([x, y], 3), [(0, 0), (1, 0), (0, 2), (0, 0)])
    left, right = sketch.split(sketch.conv(joined, 12, strides=(2, 2)), 3, (4, 8))
    sketch.add(sketch.resize(left, 7, 7), sketch.constant(1, 7, 7, 4))
    sketch.fully_connected(right, 9)
    return sketch.graph()


# Regions.


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (dense(Space.DRAM, 0, 10), dense(Space.SCRATCHPAD, 0, 10), False),
        (dense(Space.DRAM, 0, 10), dense(Space.DRAM, 9, 1), True),
        (dense(Space.DRAM, 0, 10), dense(Space.DRAM, 10, 1), False),
        # Columns of one matrix of 8 bytes a row.
        (Region(Space.DRAM, 0, (4, 3), (8,)), Region(Space.DRAM, 3, (4, 5), (8,)), False),
        (Region(Space.DRAM, 0, (4, 4), (8,)), Region(Space.DRAM, 3, (4, 5), (8,)), True),
        (
            Region(Space.DRAM, 6, (4, 4), (8,)),
            Region(Space.DRAM, 8, (4, 2), (8,)),
            True,
        ),  # wraps into the next row
        (Region(Space.DRAM, 6, (4, 2), (8,)), Region(Space.DRAM, 8, (4, 6), (8,)), False),
    ],
)
def test_overlap(a: Region, b: Region, expected: bool) -> None:
    assert overlap(a, b) is overlap(b, a) is expected


def test_overlap_never_misses_a_byte() -> None:
    rng = np.random.default_rng(3)
    missed, needless, trials = 0, 0, 3000
    for _ in range(trials):
        a, b = (random_region(rng) for _ in range(2))
        truth = bool(np.intersect1d(bytes_of(a), bytes_of(b)).size)
        missed += truth and not overlap(a, b)
        needless += overlap(a, b) and not truth
    assert missed == 0
    assert needless < trials / 4  # regions of unlike strides count as overlapping


def random_region(rng: np.random.Generator) -> Region:
    kind = int(rng.integers(3))
    address, inner = int(rng.integers(0, 120)), int(rng.integers(1, 12))
    if kind == 0:
        return dense(Space.DRAM, address, inner)
    pitch = int(rng.choice([8, 12, 24]))
    if kind == 1:
        return Region(Space.DRAM, address, (int(rng.integers(1, 6)), inner), (pitch,))
    return Region(Space.DRAM, address, (2, int(rng.integers(1, 4)), inner), (pitch * 4, pitch))


# What is waited for: small programs, waits written out. DRAM on the left of the comments, scratchpad on the right.


@pytest.mark.parametrize("seed", range(6))
def test_the_latest_access_is_found_however_far_back_it_lies(seed: int) -> None:
    rng = np.random.default_rng(seed)
    accesses = Accesses()
    before: list[tuple[Region, int]] = []
    found = set()
    for position in range(600):
        region = random_region(rng)
        far = region._replace(address=region.address + int(rng.integers(0, 4000)))
        certain = int(rng.integers(-1, max(position // 2, 1)))
        clashes = [at for other, at in before if at > certain and overlap(far, other)]
        assert accesses.latest(far, far.end, certain) == (clashes[-1] if clashes else None)
        found.add(position - clashes[-1] if clashes else 0)
        region = region._replace(
            address=region.address + int(rng.choice([0, 700, 3000, int(rng.integers(4000))]))
        )
        accesses.add(region, region.end, position)
        before.append((region, position))
    assert max(found) > 200  # far behind what is looked through one by one


def copy(channel: int, source: int, target: int, size: int = 16, *, to_dram: bool = False) -> Copy:
    spaces = {"target_space": Space.DRAM} if to_dram else {"source_space": Space.DRAM}
    return Copy(channel=channel, source=source, target=target, size=size, **spaces)


def lookup(source: int, target: int, size: int = 16) -> Lookup:
    return Lookup(input=source, output=target, size=size, table=4096)


@pytest.mark.parametrize(
    ("instructions", "waits"),
    [
        # read after write
        ([copy(0, 0, 0), lookup(0, 64)], [{}, {"dma0": 1}]),
        ([copy(0, 0, 0), lookup(16, 64)], [{}, {}]),
        # write after read
        ([lookup(0, 64), copy(0, 0, 0)], [{}, {"vector": 1}]),
        # write after write
        ([copy(0, 0, 0), copy(1, 64, 8)], [{}, {"dma0": 1}]),
        # reads do not disturb each other
        ([copy(0, 0, 0, to_dram=True), lookup(0, 64)], [{}, {}]),
        # the same unit needs no wait
        ([copy(0, 0, 0), copy(0, 0, 0)], [{}, {}]),
        # the last of several completions
        ([copy(0, 0, 0), copy(0, 16, 16), lookup(0, 64, 32)], [{}, {}, {"dma0": 2}]),
        # what another wait says already: dma1 reads what vector wrote from what dma0 brought, then dma1 overwrites it
        (
            [copy(0, 0, 0), lookup(0, 64), copy(1, 64, 128, to_dram=True), copy(1, 0, 0)],
            [{}, {"dma0": 1}, {"vector": 1}, {}],
        ),
        # two producers
        (
            [copy(0, 0, 0), copy(1, 64, 16), lookup(0, 64, 32)],
            [{}, {}, {"dma0": 1, "dma1": 1}],
        ),
        # writers of columns that interleave do not disturb each other; a reader of all waits for both
        (
            [
                Copy(channel=0, source_space=Space.DRAM, target_space=Space.DRAM, size=4, count2=3,
                     source_stride2=4, target=1024, target_stride2=8),
                Copy(channel=1, source_space=Space.DRAM, target_space=Space.DRAM, size=4, count2=3,
                     source_stride2=4, target=1028, target_stride2=8),
                copy(2, 1024, 0, 32),
            ],
            [{}, {}, {"dma0": 1, "dma1": 1}],
        ),
    ],
)  # fmt: skip
def test_waits(instructions: Sequence[Instruction], waits: list[dict[str, int]]) -> None:
    found = [
        {UNIT_NAMES[PRODUCERS[unit]]: count for unit, count in each}
        for each in synchronise(instructions, Context(hardware("edge-32")))
    ]
    assert found == waits


# Enough waits.


@pytest.mark.parametrize("channels", [1, 2, 4])
@pytest.mark.parametrize("size_kib", [6, 8, 12, 64])
@pytest.mark.parametrize("network", [residual_network, moving_network])
def test_no_races(network: Callable[[], Graph], size_kib: int, channels: int) -> None:
    for graph in (network(), with_all_outputs(network())):
        program = compile_graph(graph, small(size_kib, channels))
        assert races(program) == set()
        assert unwritten_reads(program) == []


@pytest.mark.parametrize("seed", range(40))
def test_no_races_in_random_networks(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = random_graph(lambda low, high: int(rng.integers(low, high + 1)), most_steps=8)
    program = compile_graph(graph, small(64, 2 + seed % 3))
    assert races(program) == set()
    assert unwritten_reads(program) == []


# Not one wait too many.


@contextmanager
def adversary(slow: Unit, late_reads: bool) -> Iterator[None]:
    """Every instruction of one unit takes a thousand times as long; if `late_reads`, it reads when it ends.

    Hardware reads its operands at some time while an instruction runs; the machine does so at the start.
    """
    originals = [(row, row.cost, row.execute) for row in all_instructions()]

    def slowed(cost: Any) -> Any:
        def changed(self: Instruction, *arguments: Any) -> Cost:
            found: Cost = cost(self, *arguments)
            if self.unit is not slow:
                return found
            more = found.cycles * 999
            return found._replace(cycles=found.cycles + more, setup_cycles=found.setup_cycles + more)

        return changed

    def postponed(execute: Any) -> Any:
        def changed(self: Instruction, memory: Any) -> Any:
            # A generator does nothing until the results are committed.
            return (
                (write for _ in (0,) for write in execute(self, memory))
                if self.unit is slow
                else execute(self, memory)
            )

        return changed

    try:
        for row, cost, execute_ in originals:
            changeable: Any = row
            changeable.cost = slowed(cost)
            if late_reads:
                changeable.execute = postponed(execute_)
        yield
    finally:
        for row, cost, execute_ in originals:
            changeable = row
            changeable.cost, changeable.execute = cost, execute_


@cache
def setting(name: str) -> tuple[Program, tuple[Array, ...], tuple[Array, ...], Any]:
    """A network compiled to a small scratchpad, inputs, and the outputs that it should give."""
    from npusim.session.api import host_functions

    graph, chosen = {
        "residual": (residual_network(), small(8, 2)),
        "residual, all outputs": (with_all_outputs(residual_network()), small(8, 4)),
        "moving": (moving_network(), small(6, 2)),
    }[name]
    program = compile_graph(graph, chosen)
    functions = host_functions(program)
    inputs = tuple(random_inputs(graph))
    outputs = execute(program, inputs, host_functions=functions).outputs
    assert outputs is not None
    return program, inputs, outputs, functions


def waits_of(instructions: Sequence[Instruction]) -> list[tuple[int, Unit]]:
    """Every wait of a program: (instruction, unit)."""
    return [
        (index, PRODUCERS[producer]) for index, each in enumerate(instructions) for producer, _ in each.waits
    ]


def without(instructions: Sequence[Instruction], index: int, unit: Unit) -> list[Instruction]:
    """The instructions with one wait deleted."""
    changed = list(instructions)
    others = tuple(wait for wait in changed[index].waits if wait[0] != unit)
    changed[index] = replace(changed[index], waits=others)
    return changed


def caught(name: str, instructions: list[Instruction], unit: Unit) -> bool:
    """Whether some timing makes the missing wait show; the unit that was waited for is slowed down first."""
    program, inputs, expected, functions = setting(name)
    broken = replace(program, code=encode_all(instructions))
    used = {each.unit for each in instructions}
    for slow in (unit, *sorted(used - {unit})):
        for late_reads in (True, False):
            with adversary(slow, late_reads):
                try:
                    outputs = execute(broken, inputs, host_functions=functions).outputs
                except SimulationError:
                    return True
            assert outputs is not None
            if any((a != b).any() for a, b in zip(outputs, expected, strict=True)):
                return True
    return False


def repeats(name: str) -> set[int]:
    """Instructions that, in program order, write only what is there already: a band loaded twice to one place."""
    program, inputs, _, functions = setting(name)
    memory = memory_of(program, functions)
    memory.store_inputs(inputs)
    found = set()
    for index, each in enumerate(decode_all(program.code)):
        writes = each.execute(memory)
        if all((target == values).all() for target, values in writes):
            found.add(index)
        commit(writes)
    return found


SETTINGS = {"residual": 30, "residual, all outputs": 40, "moving": 12}
"""The networks whose waits are all tried, with the number of waits that each has at least."""


@pytest.mark.parametrize("name", SETTINGS)
def test_no_timing_changes_the_bytes_of_a_complete_program(name: str) -> None:
    program, inputs, expected, functions = setting(name)
    for slow in sorted({each.unit for each in decode_all(program.code)}):
        for late_reads in (True, False):
            with adversary(slow, late_reads):
                outputs = execute(program, inputs, host_functions=functions).outputs
            assert outputs is not None
            for found, wanted in zip(outputs, expected, strict=True):
                np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("name", SETTINGS)
def test_every_wait_is_needed(name: str) -> None:
    program = setting(name)[0]
    instructions = decode_all(program.code)
    waits = waits_of(instructions)
    assert len(waits) >= SETTINGS[name]
    assert {each.unit for each in instructions} >= {Unit.DMA0, Unit.DMA1, Unit.MAC, Unit.VECTOR}
    # By the bytes: without it two instructions that share bytes are not in order.
    unordered = {wait: races(program, without(instructions, *wait)) for wait in waits}
    assert [wait for wait, pairs in unordered.items() if not pairs] == []
    # In the machine: without it some timing gives wrong bytes or a deadlock. Where none does, one of the two
    # instructions writes what is there already.
    harmless = [wait for wait in waits if not caught(name, without(instructions, *wait), wait[1])]
    repeated = repeats(name)
    assert len(harmless) <= 2
    assert all(repeated & set(pair) for wait in harmless for pair in unordered[wait])


# More waits than a word has room for.


def crowded() -> Timeline:
    """A convolution that reads what five units write."""
    fills = [Copy(fill=1, value=unit, channel=unit, target=16 * unit, size=16) for unit in range(4)]
    ones = (
        "ifm_height", "ifm_width", "ofm_height", "ofm_width", "ofm_depth", "kernel_height", "kernel_width",
        "stride_height", "stride_width", "dilation_height", "dilation_width", "weights_signed",
    )  # fmt: skip
    places = {"ifm": 0, "ifm_depth": 80, "weights": 1024, "parameters": 2048, "ofm": 3000}
    convolve = Convolve(**dict.fromkeys(ones, 1), **places, high=255)
    return Timeline([*fills, lookup(3072, 64), convolve], [0, 0, 0, 0, 1, 2])


def test_a_barrier_takes_the_waits_beyond_four() -> None:
    given = crowded()
    found = ordered(given, Context(bench()))
    *writers, convolve = given.instructions
    assert found.instructions == [*writers, Barrier(), convolve]
    assert found.layers == [0, 0, 0, 0, 1, 2, 2]
    assert found.waits == [(), (), (), (), (), ((0, 1),), ((1, 1), (2, 1), (3, 1), (5, 1))]
    assert [found.position(index) for index in range(6)] == [0, 1, 2, 3, 4, 6]


@pytest.mark.parametrize("slow", [Unit.DMA0, Unit.DMA3, Unit.VECTOR])
def test_nothing_begins_before_the_waits_of_its_barrier(slow: Unit) -> None:
    found = ordered(crowded(), Context(bench()))
    code = [replace(each, waits=waits) for each, waits in zip(found.instructions, found.waits, strict=True)]
    with adversary(slow, late_reads=False):
        trace = execute(handmade_program(code, bench(dma__channels=4)), data=False).trace
    assert trace.started[-1] >= trace.ended[:5].max() > 999


def test_a_network_needs_no_barrier_for_its_waits() -> None:
    # In all compiled programs so far no instruction waits for more than two units.
    program, *_ = setting("residual")
    assert max(len(each.waits) for each in decode_all(program.code)) == 2
