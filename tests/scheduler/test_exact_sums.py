"""Weighted sums with the rescale "float32" on the machine: the bytes of the references, whatever shapes and tiles."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npusim.isa.hardware.file import change, hardware
from npusim.isa.instructions.instruction import Context
from npusim.isa.instructions.mac import Convolve, Depthwise
from npusim.isa.instructions.table import decode_all
from npusim.kernels.graph.builder import unshaped
from npusim.kernels.graph.graph import Graph
from npusim.machine.system import execute
from npusim.scheduler import compile_graph

from ..exact_sums import OPERATORS, Drawn
from ..examples import examples
from ..graphs import Sketch
from .test_random_graphs import check, machines

EDGE = hardware("edge-128")


@pytest.mark.cases(2)
@pytest.mark.slow
@pytest.mark.parametrize("name", OPERATORS)
@given(st.data(), machines((64, 1, 2, 4, 8, 16)))
@examples(40)
def test_random_calls(name: str, draw: st.DataObject, chosen: Any) -> None:
    """Codes of all signs, sums as they are, filters that are computed; on machines of any size."""
    drawn = Drawn(
        lambda low, high: draw.draw(st.integers(low, high)), zeros=draw.draw(st.integers(0, 7)) == 0
    )
    check(drawn.graph(name), chosen)


@given(st.data())
@examples(20)
def test_a_machine_without_it_leaves_it_to_the_host(draw: st.DataObject) -> None:
    drawn = Drawn(lambda low, high: draw.draw(st.integers(low, high)))
    check(drawn.graph(draw.draw(st.sampled_from(OPERATORS))), change(EDGE, {"float32_rescale": False}))


def convolution(rescale: str) -> Graph:
    sketch = Sketch(seed=3)
    x = sketch.input(1, 12, 12, 16)
    w = sketch.weights((32, 3, 3, 16), 0, True)
    output = unshaped("int8", sketch.quantization(4.0, "int8"))
    sketch.node("conv_2d", (x, w), output, padding=[[1, 1], [1, 1]], rescale=rescale)
    return sketch.graph()


def test_takes_the_cycles_of_fixed_point_but_for_what_it_does_not_load() -> None:
    """A scale by channel is 4 bytes, not 5: 32 bytes less to load from a DRAM that gives one a cycle. Array and output
    stage take the same.
    """
    fixed, in_float = (compile_graph(convolution(rescale), EDGE) for rescale in ("fixed_point", "float32"))
    convolutions = [
        [each for each in decode_all(program.code) if isinstance(each, Convolve | Depthwise)]
        for program in (fixed, in_float)
    ]
    assert [len(each) for each in convolutions] == [len(convolutions[0])] * 2
    assert {each.rescale for each in convolutions[1]} == {1}
    assert {each.rescale for each in convolutions[0]} == {0}
    counted = [
        sum(each.cost(Context(EDGE)).actions[name] for each in made)
        for made, name in zip(convolutions, ("requantise", "requantise_float32"), strict=True)
    ]
    assert counted == [12 * 12 * 32] * 2
    fixed_cycles, float_cycles = ([each.cost(Context(EDGE)).cycles for each in made] for made in convolutions)
    assert fixed_cycles == float_cycles
    whole = [execute(program, data=False).cycles for program in (fixed, in_float)]
    assert whole[0] - 200 < whole[1] < whole[0]
