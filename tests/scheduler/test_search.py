"""The search over schedules: never slower, always the same, no more schedules than asked for, and exact bytes."""

from __future__ import annotations

from itertools import count, pairwise

import numpy as np
import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st

import npusim
from npusim.isa.base.errors import CompileError, NpusimError
from npusim.isa.hardware.file import change, hardware
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.program.program import Program
from npusim.kernels.graph.graph import Graph
from npusim.kernels.graph.reference import evaluate
from npusim.machine.system import execute
from npusim.scheduler import compile_graph, prepare, schedule
from npusim.scheduler.fit.cuts import FAST, SINGLE, Band, Choices, Cut
from npusim.scheduler.search.search import Timing, search
from npusim.session.api import host_functions
from npusim.session.tuning import timing

from ..examples import NIGHT, examples
from ..graphs import Sketch, random_inputs
from ..races import races
from ..random_graphs import deep_graph, random_graph
from .test_random_graphs import graphs, machines

pytestmark = pytest.mark.slow


def layers() -> Graph:
    """Four convolutions, an addition across two of them and a pool."""
    sketch = Sketch("net", seed=3)
    first = sketch.conv(sketch.input(1, 24, 24, 8), 16, padding=((1, 1), (1, 1)))
    second = sketch.conv(first, 16, padding=((1, 1), (1, 1)))
    third = sketch.conv(second, 16, padding=((1, 1), (1, 1)))
    total = sketch.binary("add", third, first)
    sketch.pool("max_pool_2d", sketch.conv(total, 24, (1, 1)), (2, 2), strides=(2, 2))
    return sketch.graph()


def edge(size_kib: int) -> Hardware:
    return change(hardware("edge-128"), {"scratchpad.size_kib": size_kib})


@pytest.mark.cases(1)
@pytest.mark.parametrize("size_kib", [12, 16, 64])
def test_a_search_is_never_slower_and_always_the_same(size_kib: int) -> None:
    graph, machine = layers(), edge(size_kib)
    fast = execute(compile_graph(graph, machine), data=False).cycles
    seen, tries = [], 40 if NIGHT else 20
    found = [
        search(prepare(graph, machine), timing, tries, lambda *step: seen.append(step)) for _ in range(2)
    ]
    assert found[0].program.code.tobytes() == found[1].program.code.tobytes()
    assert found[0].choices.key() == found[1].choices.key()
    assert execute(found[0].program, data=False).cycles <= fast
    assert all(0 < done <= total == tries for done, total in seen)
    assert all(after[0] - before[0] in (1, 1 - seen[-1][0]) for before, after in pairwise(seen))


def test_a_search_finds_what_estimates_do_not() -> None:
    # 16 KiB hold two of the three maps of 9 KiB that the addition touches only if one waits in DRAM.
    graph, machine = layers(), edge(16)
    fast = execute(compile_graph(graph, machine), data=False).cycles
    best = search(prepare(graph, machine), timing, 60)
    assert best.choices.key() != FAST.key()
    assert execute(best.program, data=False).cycles < fast


def test_no_search_is_the_fast_effort_byte_for_byte() -> None:
    graph, machine = layers(), edge(16)
    fast, none = npusim.compile(graph, machine), npusim.compile(graph, machine, effort=0)
    assert fast.code.tobytes() == none.code.tobytes()
    assert fast.constants == none.constants


@pytest.mark.parametrize("effort", ["slow", -1, "-1", "1.5"])
def test_an_unknown_effort_says_what_may_be(effort: str | int) -> None:
    with pytest.raises(NpusimError) as caught:
        npusim.compile(layers(), effort=effort)
    assert str(caught.value) == (
        f"effort {effort!r}: may be fast, high, or how many schedules to try, 0 or more"
    )


@pytest.mark.parametrize(
    "choices",
    [
        Choices(cuts={0: Cut(5, 8, False, False), 2: Cut(24, 8, True, False)}),
        Choices(cuts=dict.fromkeys(range(4), Cut(10_000, 10_000, True, False))),  # too large: as estimated
        Choices(chains={0: Band(2, 3), 2: Band(3)}),
        Choices(chains=dict.fromkeys(range(6), Band(1))),
        Choices(chains={0: Band(9)}),  # there are no nine works in a row
        Choices(evicted=frozenset(range(12))),
        Choices(kept=frozenset(range(12))),
        Choices(apart=frozenset(range(12))),
        Choices(unpacked=frozenset({0, 2}), unhurried=frozenset({1})),
        Choices(depth=SINGLE),
        Choices(room=0.3, lead_slots=64),
    ],
    ids=lambda choices: str(choices.key())[:40],
)
@pytest.mark.parametrize("size_kib", [12, 64])
def test_choices_do_not_change_bytes(choices: Choices, size_kib: int) -> None:
    graph = layers()
    check(graph, schedule(prepare(graph, edge(size_kib)), choices).program)


def check(graph: Graph, program: Program) -> None:
    """The program has no races and gives the bytes of the references."""
    assert races(program) == set()
    inputs = random_inputs(graph)
    values = evaluate(graph, inputs)
    result = execute(program, inputs, host_functions=host_functions(program))
    assert result.outputs is not None
    for tensor, output in zip(graph.outputs, result.outputs, strict=True):
        np.testing.assert_array_equal(output, values[tensor], err_msg=graph.tensors[tensor].name)


@given(
    st.one_of(graphs(random_graph), graphs(deep_graph)),
    machines((64, 2, 3, 4, 6, 8, 12, 16, 24)),
    st.integers(1, 30),
)
@examples(25)
def test_a_walk_through_the_choices_keeps_the_bytes(graph: Graph, machine: Hardware, steps: int) -> None:
    # Every program counts as faster than the one before, so that the changes add up.
    better = count(0, -1)

    def pretend(program: Program) -> Timing:
        return Timing(next(better), [0] * len(program.layers))

    try:
        network = prepare(graph, machine)
        schedule(network, FAST)
    except CompileError:
        assume(False)
    best = search(network, pretend, steps)
    event("walked" if best.choices.key() != FAST.key() else "stayed")
    check(graph, best.program)
