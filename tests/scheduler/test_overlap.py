"""What `overlap` forbids does not happen, and no byte changes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from npusim.isa.base.errors import CompileError
from npusim.isa.hardware.file import change, hardware
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.units import ADVANCING, MOVING
from npusim.isa.program.program import Program
from npusim.kernels.graph.graph import Graph
from npusim.machine.system import execute
from npusim.scheduler import compile_graph

from ..examples import examples
from ..graphs import Sketch
from ..random_graphs import random_graph
from .test_random_graphs import graphs, machines
from .test_search import check

ONE = ((1, 1), (1, 1))
MODES = ("all", "loads", "reloads", "none")


def network() -> Graph:
    """Layers 0 to 5: three convolutions, a sum beside the last of them, a pool to one pixel, a product."""
    sketch = Sketch("net", seed=11)
    a = sketch.conv(sketch.input(1, 16, 16, 8), 32, padding=ONE)
    b = sketch.conv(a, 32, padding=ONE)
    c = sketch.conv(b, 32, padding=ONE)
    total = sketch.binary("add", a, b)
    both = sketch.binary("add", c, total)
    pooled = sketch.pool("average_pool_2d", both, (16, 16))
    sketch.fully_connected(pooled, 100)
    return sketch.graph()


NETWORK = network()
PRODUCT = 6


def machine(overlap: str, preset: str = "edge-128") -> Hardware:
    return change(hardware(preset), {"overlap": overlap})


def spans(program: Program) -> Iterator[tuple[int, bool, int, int]]:
    """(layer, whether it computes, start, end) of each instruction of a unit."""
    trace = execute(program, data=False).trace
    layers = program.layer_of.tolist()
    for layer, unit, start, end in zip(
        layers, trace.unit.tolist(), trace.started.tolist(), trace.ended.tolist(), strict=True
    ):
        if unit in ADVANCING or unit in MOVING:
            yield layer, unit in ADVANCING, start, end


@pytest.mark.parametrize("preset", ["edge-128", "ethos-u55-128"])
@pytest.mark.parametrize("mode", MODES)
def test_bytes_do_not_change(mode: str, preset: str) -> None:
    check(NETWORK, compile_graph(NETWORK, machine(mode, preset)))


@pytest.mark.parametrize("mode", MODES[1:])
def test_one_computation_at_a_time(mode: str) -> None:
    computing = sorted(
        (start, end)
        for _, computes, start, end in spans(compile_graph(NETWORK, machine(mode)))
        if computes and end > start
    )
    assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(computing))


def test_by_default_the_sum_runs_beside_a_convolution() -> None:
    computing = sorted(
        (start, end) for _, computes, start, end in spans(compile_graph(NETWORK, machine("all"))) if computes
    )
    assert any(begin < end for (_, end), (begin, _) in itertools.pairwise(computing))


def begun(mode: str, layer: int) -> tuple[int, dict[int, int]]:
    """When the first load of a layer starts, and when each layer has computed."""
    found = list(spans(compile_graph(NETWORK, machine(mode))))
    done = {each: max(end for at, computes, _, end in found if at == each and computes) for each in range(7)}
    return min(start for at, computes, start, _ in found if at == layer and not computes), done


@pytest.mark.parametrize("layer", [1, 2])
def test_when_loads_begin(layer: int) -> None:
    """Weights of the convolutions are read by several blocks of pixels: those of `reloads` go ahead."""
    start, done = begun("all", layer)
    assert start < done[layer - 1]
    for mode in ("loads", "reloads"):
        start, done = begun(mode, layer)
        assert start >= max([done[each] for each in range(layer - 1)], default=0)
        assert start < done[layer - 1]
    start, done = begun("none", layer)
    assert start >= done[layer - 1]


def test_weights_that_are_read_once_wait_for_their_operator() -> None:
    """The product has one pixel, and its 3,200 weights take longer to come than to multiply."""
    before = PRODUCT - 1
    start, done = begun("loads", PRODUCT)
    assert start < done[before]
    for mode in ("reloads", "none"):
        start, done = begun(mode, PRODUCT)
        assert start >= done[before], mode


def test_what_is_forbidden_costs_time() -> None:
    cycles = [execute(compile_graph(NETWORK, machine(mode)), data=False).cycles for mode in MODES]
    assert cycles == sorted(cycles)
    assert cycles[0] < cycles[1] < cycles[3]


@pytest.mark.slow
@given(graphs(random_graph), machines((64, 4, 8, 16)), st.sampled_from(MODES[1:]))
@examples(15)
def test_random_graphs_keep_their_bytes(graph: Graph, chip: Hardware, mode: str) -> None:
    try:
        program = compile_graph(graph, chip.model_copy(update={"overlap": mode}))
    except CompileError:
        assume(False)
    check(graph, program)
