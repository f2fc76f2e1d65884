"""Networks at the ends of what there is: no nodes, no bytes to move, more of something than an instruction can hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from npusim.isa.hardware.file import hardware
from npusim.kernels.graph.graph import Graph
from npusim.kernels.graph.reference import evaluate
from npusim.kernels.lowering.work import Move
from npusim.machine.system import execute
from npusim.scheduler import compile_graph
from npusim.scheduler.network.network import pieces
from npusim.session.api import host_functions

from ..graphs import Sketch, random_inputs

Draw = Callable[[Sketch], object]


def quantized(sketch: Sketch) -> tuple[int, int]:
    x = sketch.input(1, 8)
    return x, sketch.quantize(x)


def one_output_twice() -> Graph:
    sketch = Sketch()
    _, y = quantized(sketch)
    return sketch.graph([y, y])


def an_input_as_output() -> Graph:
    sketch = Sketch()
    x, y = quantized(sketch)
    return sketch.graph([y, x])


def nothing_but_an_input() -> Graph:
    sketch = Sketch()
    x, _ = quantized(sketch)
    return replace(sketch.graph([x]), nodes=())


def a_constant_as_output() -> Graph:
    sketch = Sketch()
    _, y = quantized(sketch)
    return sketch.graph([y, sketch.constant(1, 8)])


def an_input_that_nobody_reads() -> Graph:
    sketch = Sketch()
    quantized(sketch)
    sketch.input(3, 3)
    return sketch.graph()


def an_output_that_is_read_on() -> Graph:
    sketch = Sketch()
    _, y = quantized(sketch)
    return sketch.graph([sketch.logistic(y), y])


@pytest.mark.parametrize(
    "network",
    [
        one_output_twice,
        an_input_as_output,
        nothing_but_an_input,
        a_constant_as_output,
        an_input_that_nobody_reads,
        an_output_that_is_read_on,
    ],
)
def test_unusual_ends(network: Callable[[], Graph]) -> None:
    check(network(), 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layer", "on_host"),
    [
        # Rows, columns and counts of 16 bits, kernels of 8, strides of 5: what is beyond runs on the host.
        (lambda s: s.fully_connected(s.input(65535, 3), 4), 0),
        (lambda s: s.fully_connected(s.input(65536, 3), 4), 1),
        (lambda s: s.conv(s.input(1, 1, 65535, 2), 2, (1, 1)), 0),
        (lambda s: s.conv(s.input(1, 1, 65536, 2), 2, (1, 1)), 1),
        (lambda s: s.depthwise(s.input(1, 65536, 1, 2), (1, 1)), 1),
        (lambda s: s.pool("max_pool_2d", s.input(1, 65536, 2, 1), (2, 1)), 1),
        (lambda s: s.pool("average_pool_2d", s.input(1, 257, 257, 1), (255, 255)), 0),
        (lambda s: s.pool("average_pool_2d", s.input(1, 257, 257, 1), (256, 256)), 1),
        (lambda s: s.conv(s.input(1, 32, 32, 2), 2, strides=(31, 31)), 0),
        (lambda s: s.conv(s.input(1, 33, 33, 2), 2, strides=(32, 32)), 1),
        (lambda s: s.conv(s.input(1, 300, 2, 1), 2, (255, 1)), 0),
        (lambda s: s.conv(s.input(1, 300, 2, 1), 2, (256, 1)), 1),
        # Copies are made of several where counts are beyond 16, 16 and 20 bits.
        (lambda s: s.pad(s.input(65537, 2, 1, 2), [(0, 0), (1, 0), (0, 0), (1, 0)]), 0),
        (lambda s: s.split(s.input((1 << 20) + 1, 2), 1, (1, 1)), 0),
        (lambda s: s.add(s.input(5, 1000, 77), s.constant(77)), 0),
    ],
)
def test_what_an_instruction_cannot_hold(layer: Draw, on_host: int) -> None:
    sketch = Sketch()
    layer(sketch)
    check(sketch.graph(), on_host)


def check(graph: Graph, on_host: int) -> None:
    """Bytes of the references, with so many host calls, and the same time without data."""
    program = compile_graph(graph, hardware("edge-128"))
    assert len(program.host_calls) == on_host
    inputs = random_inputs(graph)
    values = evaluate(graph, inputs)
    result = execute(program, inputs, host_functions=host_functions(program))
    assert result.outputs is not None
    for tensor, output in zip(graph.outputs, result.outputs, strict=True):
        np.testing.assert_array_equal(output, values[tensor])
    assert execute(program, data=False).cycles == result.cycles


@pytest.mark.parametrize(
    ("counts", "parts"),
    [
        # (first repetition along each dimension, counts) of each part
        ((5,), [((0,), (5,))]),
        ((65_536, 65_536, 1, 9), [((0, 0, 0, 0), (65_536, 65_536, 1, 9))]),
        ((1 << 20, 2), [((0, 0), (1 << 20, 2))]),
        (((1 << 20) + 1, 2), [((0, 0), (1 << 20, 2)), (((1 << 20), 0), (1, 2))]),
        ((65_537, 2, 3), [((0, 0, 0), (65_536, 2, 3)), ((65_536, 0, 0), (1, 2, 3))]),
        (
            (140_000, 70_000, 2, 3),
            [
                ((0, 0, 0, 0), (65_536, 65_536, 2, 3)),
                ((0, 65_536, 0, 0), (65_536, 4_464, 2, 3)),
                ((65_536, 0, 0, 0), (65_536, 65_536, 2, 3)),
                ((65_536, 65_536, 0, 0), (65_536, 4_464, 2, 3)),
                ((131_072, 0, 0, 0), (8_928, 65_536, 2, 3)),
                ((131_072, 65_536, 0, 0), (8_928, 4_464, 2, 3)),
            ],
        ),
        (((1 << 30) + 5,), [((0,), ((1 << 30) - 1,)), (((1 << 30) - 1,), (6,))]),
    ],
)
def test_pieces_of_a_move(
    counts: tuple[int, ...], parts: list[tuple[tuple[int, ...], tuple[int, ...]]]
) -> None:
    targets = (1_000_000, 10_000, 100)[4 - len(counts) :]
    sources = (2_000_000, 30_000, 500)[4 - len(counts) :]
    move = Move(("out", 0), 7, counts, targets, ("in", 0), 11, sources)
    assert list(pieces(move)) == [
        replace(
            move,
            counts=part,
            target_offset=7 + sum(k * stride for k, stride in zip(first, (*targets, 1), strict=True)),
            source_offset=11 + sum(k * stride for k, stride in zip(first, (*sources, 1), strict=True)),
        )
        for first, part in parts
    ]


def test_pieces_of_a_fill_have_no_source() -> None:
    fill = Move(("out", 0), 0, (65_537, 1, 4), (100, 10), value=9)
    assert [(part.target_offset, part.source_offset, part.value) for part in pieces(fill)] == [
        (0, 0, 9),
        (6_553_600, 0, 9),
    ]
