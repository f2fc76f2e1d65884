"""Fused pairs: what may run tile by tile, that two units then work at once, and that no byte changes."""

from __future__ import annotations

import pytest

from npusim.isa.hardware.file import change, hardware
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.units import Unit
from npusim.kernels.graph.graph import Graph
from npusim.machine.system import execute
from npusim.scheduler import prepare, schedule
from npusim.scheduler.fit.cuts import FAST, Choices

from ..graphs import Sketch
from .test_search import check

pytestmark = pytest.mark.slow

ONE = ((1, 1), (1, 1))
EDGE = hardware("edge-128")


def sum_of_two(first_is_new: bool) -> Graph:
    """conv, conv, and the sum of both; the sum may take the place of either."""
    sketch = Sketch("net", seed=5)
    a = sketch.conv(sketch.input(1, 32, 32, 16), 32, padding=ONE)
    b = sketch.conv(a, 32, padding=ONE)
    total = sketch.binary("add", b, a) if first_is_new else sketch.binary("add", a, b)
    sketch.conv(total, 8, (1, 1))
    return sketch.graph()


def pooled() -> Graph:
    """A pool whose windows reach into rows of the next tile."""
    sketch = Sketch("net", seed=6)
    a = sketch.conv(sketch.input(1, 32, 32, 8), 64, padding=ONE)
    sketch.pool("max_pool_2d", a, (3, 3), strides=(2, 2), padding=((0, 1), (0, 1)))
    return sketch.graph()


def residual(own_input: bool) -> Graph:
    """conv, then the sum of its result with its own input, or with what its input was made of."""
    sketch = Sketch("net", seed=7)
    a = sketch.conv(sketch.input(1, 32, 32, 16), 16, padding=ONE)
    b = a if own_input else sketch.conv(a, 16, padding=ONE)
    total = sketch.binary("add", a, sketch.conv(b, 16, padding=ONE))
    sketch.conv(total, 8, (1, 1))
    return sketch.graph()


GRAPHS = {
    "result first": sum_of_two(True),
    "result second": sum_of_two(False),
    "pool": pooled(),
    "own input": residual(True),
    "older input": residual(False),
}


def machines() -> list[Hardware]:
    return [change(EDGE, {"scratchpad.size_kib": size_kib}) for size_kib in (24, 64, 2048)]


@pytest.mark.cases(2, each="name")
@pytest.mark.parametrize("parts", [None, 2, 3, 16])
@pytest.mark.parametrize("name", GRAPHS)
def test_fused_pairs_do_not_change_bytes(name: str, parts: int | None) -> None:
    for machine in machines():
        network = prepare(GRAPHS[name], machine)
        asked = Choices(fused_pairs=dict.fromkeys(range(len(network.items)), parts)) if parts else FAST
        check(GRAPHS[name], schedule(network, asked).program)


@pytest.mark.parametrize("name", sorted(GRAPHS))
def test_two_units_work_at_once(name: str) -> None:
    network = prepare(GRAPHS[name], EDGE)
    fused = schedule(network, FAST)
    apart = schedule(network, Choices(fused_pairs=dict.fromkeys(range(len(network.items)), 1)))
    assert fused.fused_pairs
    assert not apart.fused_pairs
    executions = [execute(each.program, data=False) for each in (fused, apart)]
    vector = [
        int((each.trace.ended - each.trace.started)[each.trace.unit == Unit.VECTOR].sum())
        for each in executions
    ]
    saved = executions[1].cycles - executions[0].cycles
    # All but the last of at least two tiles is hidden, less what the extra instructions take.
    assert saved > vector[1] / 3


def test_what_later_tiles_still_read_is_not_overwritten() -> None:
    # The sum can only take the place of the convolution's own input (the result of the convolution is read once
    # more): rows below those of its tile are still needed.
    sketch = Sketch("net", seed=9)
    a = sketch.conv(sketch.input(1, 32, 32, 16), 16, padding=ONE)
    b = sketch.conv(a, 16, padding=ONE)
    total = sketch.binary("add", a, b)
    sketch.binary("mul", total, b)
    graph = sketch.graph()
    network = prepare(graph, EDGE)
    found = schedule(network, Choices(fused_pairs={1: 4}))
    assert found.residents.sharing.forest.root(total) == (a, 0)
    assert 1 not in found.fused_pairs
    # With a place of its own it may.
    fused = schedule(network, Choices(fused_pairs={1: 4}, apart=frozenset({total})))
    assert 1 in fused.fused_pairs
    check(graph, fused.program)


def test_a_tile_follows_when_its_rows_are_there() -> None:
    # Output rows 0..6 of the pool need input rows 0..14, row 7 needs row 16 as well.
    network = prepare(GRAPHS["pool"], EDGE)
    (fused_pair,) = schedule(network, Choices(fused_pairs={0: 2})).fused_pairs.values()
    rows = [(a.first_row, a.last_row, b and (b.first_row, b.last_row)) for (a,), b in fused_pair.tiles]
    assert rows == [(0, 16, (0, 7)), (16, 32, (7, 16))]
