"""Networks of thousands of operators: the work per operator stays nearly what it is in a small one.

Counted in executed lines, which do not depend on the computer: a pass of a loop is one, in a comprehension too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from npusim.isa.hardware.file import hardware
from npusim.isa.instructions.region import Space, dense
from npusim.kernels.graph.rewrite import simplify
from npusim.scheduler import compile_graph
from npusim.scheduler.emit.synchronise import Accesses
from npusim.scheduler.fit.allocate import Allocator
from npusim.scheduler.fit.cuts import FAST
from npusim.scheduler.network.network import prepare
from npusim.scheduler.place.residency import fit

from ..graphs import Sketch, with_all_outputs

EDGE = hardware("edge-128")

LEAST, MOST = 500, 4000
MOST_GROWTH = 2.0 * MOST / LEAST
"""Eight times the operators may take sixteen times the work; looking through all of them took sixty-four times."""


def lines(work: Callable[[], object]) -> int:
    """How many lines are executed."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def short_lives(many: int) -> Callable[[], object]:
    """Buffers that live for two moments each, many of them asked for ahead."""

    def work() -> None:
        memory = Allocator(1 << 20)
        for moment in range(many):
            assert memory.place(256, moment, moment + 1) is not None
        for moment in range(many):
            assert memory.place(16, moment // 2, moment, from_top=True) is not None

    return work


def never_waited_for(many: int) -> Callable[[], object]:
    """A unit of which another never knows that it has completed anything, and new bytes each time."""

    def work() -> None:
        accesses = Accesses()
        for position in range(many):
            region = dense(Space.SCRATCHPAD, position * 64, 64)
            accesses.add(region, region.end, position)
            asked = dense(Space.SCRATCHPAD, position // 3 * 64, 32)
            assert accesses.latest(asked, asked.end, -1) == position // 3

    return work


def long_lives(many: int) -> Callable[[], object]:
    """Results that all live to the end."""
    sketch = Sketch("long")
    source = sketch.input(1, 4, 4, 4)
    for _ in range(many // 4):
        sketch.quantize(source)
    network = prepare(with_all_outputs(sketch.graph()), hardware("edge-128"))
    return lambda: fit(network, FAST)


@pytest.mark.slow
@pytest.mark.parametrize("work", [short_lives, never_waited_for, long_lives])
def test_work_per_operator_does_not_grow_with_their_number(
    work: Callable[[int], Callable[[], object]],
) -> None:
    assert lines(work(MOST)) < MOST_GROWTH * lines(work(LEAST))


@pytest.mark.slow
def test_a_thousand_paddings_are_folded() -> None:
    # One call of itself per padding was too deep for Python.
    sketch = Sketch("pads")
    x = sketch.input(1, 4, 4, 1)
    for _ in range(1100):
        sketch.conv(sketch.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0))), 1)
    folded = simplify(sketch.graph(), EDGE)
    assert [node.op for node in folded.nodes] == ["conv_2d"] * 1100


def test_paddings_one_behind_the_other_are_folded_together() -> None:
    sketch = Sketch("pads")
    x = sketch.input(1, 6, 6, 4)
    for border in ((0, 0), (1, 0), (0, 1), (0, 0)), ((0, 0), (0, 2), (1, 1), (0, 0)):
        x = sketch.pad(x, border)
    sketch.conv(x, 8)
    (node,) = simplify(sketch.graph(), EDGE).nodes
    assert node.parameters.padding == ((1, 2), (1, 2))
    assert compile_graph(sketch.graph(), hardware("edge-128")).instructions > 0
