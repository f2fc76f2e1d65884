"""What prepares a layer takes its time in front of it, and nothing else changes."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from npusim.isa.base.errors import CompileError, HardwareError
from npusim.isa.hardware.file import change, hardware
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.units import Unit
from npusim.isa.instructions.control import Barrier
from npusim.isa.instructions.table import decode_all
from npusim.isa.program.program import Program
from npusim.kernels.graph.graph import Graph
from npusim.machine.system import execute
from npusim.numbers.losses import accounts
from npusim.scheduler import compile_graph

from ..examples import examples
from ..npusim.machine.handmade import bench, lookup, rows, run
from ..random_graphs import random_graph
from .test_overlap import MODES, NETWORK, machine
from .test_random_graphs import graphs, machines
from .test_search import check

CYCLES = 5_000


def prepared(mode: str, cycles: int, preset: str = "edge-128") -> Hardware:
    return change(machine(mode, preset), {"front_end.layer_cycles": cycles})


def barriers(program: Program) -> list[int]:
    """The places of the barriers that take time."""
    return [
        at for at, each in enumerate(decode_all(program.code)) if isinstance(each, Barrier) and each.cycles
    ]


def test_a_barrier_takes_its_cycles() -> None:
    """A look-up of 64 bytes takes 8 + 256 / 8 + 64 / 8 cycles and is decoded in one, behind the barrier's or,
    if that takes none, when it is there: two bursts of 4 cycles later.
    """
    (without, plain), (held, late) = (
        rows(run([Barrier(cycles=cycles), lookup(0, 1024, 64)], bench())) for cycles in (0, CYCLES)
    )
    assert (without.ended, plain.dispatched) == (without.dispatched, without.dispatched + 8)
    assert (held.dispatched, held.started) == (without.dispatched, without.dispatched)
    assert held.ended == held.started + CYCLES
    assert late.dispatched == held.ended + 1
    assert late.ended == late.dispatched + 8 + 32 + 8


@pytest.mark.parametrize("preset", ["edge-128", "ethos-u55-128", "gap9", "stm32n6"])
@pytest.mark.parametrize("mode", MODES)
def test_bytes_do_not_change(mode: str, preset: str) -> None:
    check(NETWORK, compile_graph(NETWORK, prepared(mode, CYCLES, preset)))


@pytest.mark.parametrize("mode", MODES)
def test_one_barrier_for_each_layer_in_front_of_it(mode: str) -> None:
    program = compile_graph(NETWORK, prepared(mode, CYCLES))
    layer_of, at = program.layer_of.tolist(), barriers(program)
    assert [layer_of.index(layer) for layer in dict.fromkeys(layer_of)] == [
        place - (mode != "all" and _waits_before(program, place)) for place in at
    ]
    assert {decode_all(program.code)[place].cycles for place in at} == {CYCLES}


def _waits_before(program: Program, place: int) -> int:
    """Barriers in front of one for waits that it has no room for."""
    rows = decode_all(program.code)
    before = 0
    while (
        place - before
        and isinstance(rows[place - before - 1], Barrier)
        and not rows[place - before - 1].cycles
    ):
        before += 1
    return before


def test_a_layer_is_prepared_behind_everything() -> None:
    program = compile_graph(NETWORK, prepared("none", CYCLES))
    trace = execute(program, data=False).trace
    for place in barriers(program):
        assert trace.unit[place] == Unit.FRONT_END
        assert trace.ended[place] == trace.started[place] + CYCLES
        assert trace.started[place] >= max(trace.ended[:place], default=0)
        assert min(trace.dispatched[place + 1 :]) > trace.ended[place]


def test_the_cycles_of_all_layers_add_up() -> None:
    """One after the other, each layer takes so many cycles more, from the second one on: none is hidden."""
    few, many = (
        execute(compile_graph(NETWORK, prepared("none", cycles)), data=False).cycles
        for cycles in (CYCLES, 3 * CYCLES)
    )
    layers = len(set(compile_graph(NETWORK, prepared("none", CYCLES)).layer_of.tolist()))
    assert many - few == 2 * CYCLES * layers


@pytest.mark.parametrize("layer_cycles", [0, CYCLES])
@pytest.mark.parametrize("mode", MODES)
def test_an_inference_is_prepared_once(mode: str, layer_cycles: int) -> None:
    """In front of everything else, beside the preparation of the first layer."""
    chip = change(prepared(mode, layer_cycles), {"front_end.inference_cycles": 3_000})
    program = compile_graph(NETWORK, chip)
    found = [decode_all(program.code)[place].cycles for place in barriers(program)]
    layers = len(set(program.layer_of.tolist()))
    assert found == [layer_cycles + 3_000, *(layer_cycles for _ in range(layers - 1) if layer_cycles)]
    assert barriers(program)[0] == 0
    without = compile_graph(NETWORK, prepared(mode, layer_cycles))
    more = execute(program, data=False).cycles - execute(without, data=False).cycles
    assert 2_400 < more < 3_100  # commands are fetched meanwhile, that of the barrier too


def test_losses_add_up() -> None:
    program = compile_graph(NETWORK, prepared("none", CYCLES, "gap9"))
    found = accounts(program, execute(program, data=False))
    for account in (found.network, *found.layers):
        assert account.bound.cycles + sum(account.lost.values()) == account.cycles
    layers = len(set(program.layer_of.tolist()))
    waited = found.network.lost["stall_front_end"] + found.network.lost["start_up"]
    assert layers * CYCLES <= waited < (layers + 0.5) * CYCLES


def test_without_it_there_is_no_barrier() -> None:
    plain = compile_graph(NETWORK, hardware("edge-128"))
    assert not barriers(plain)
    assert compile_graph(NETWORK, prepared("all", 0)).code.tobytes() == plain.code.tobytes()


@pytest.mark.parametrize("cycles", [-1, 10_000_001])
def test_what_it_may_be(cycles: int) -> None:
    with pytest.raises(HardwareError, match=r"front_end\.layer_cycles"):
        prepared("all", cycles)


@pytest.mark.slow
@given(graphs(random_graph), machines((64, 4, 8, 16)), st.sampled_from(MODES))
@examples(15)
def test_random_graphs_keep_their_bytes(graph: Graph, chip: Hardware, mode: str) -> None:
    slow = chip.front_end.model_copy(update={"layer_cycles": 700})
    try:
        program = compile_graph(graph, chip.model_copy(update={"overlap": mode, "front_end": slow}))
    except CompileError:
        assume(False)
    check(graph, program)
