"""Cuts finer than the hardware is made for, where nothing else fits: channel by channel, maps in slices."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from npusim.isa.base.errors import CompileError
from npusim.isa.hardware.file import hardware
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.memories import Scratchpad
from npusim.isa.program.interpreter import interpret
from npusim.kernels.graph.graph import Graph
from npusim.kernels.graph.reference import evaluate
from npusim.machine.system import execute
from npusim.scheduler import compile_graph
from npusim.session.api import host_functions

from ..graphs import Sketch, random_inputs


def tiny(size_kib: int) -> Hardware:
    """edge-128 with a scratchpad as small as a hardware file could not make it."""
    return hardware("edge-128").model_copy(
        update={"name": "tiny", "scratchpad": Scratchpad(size_kib=size_kib, banks=1)}
    )


def mean() -> Graph:
    sketch = Sketch("net")
    sketch.mean(sketch.input(1, 7, 7, 100), (1, 2))
    return sketch.graph()


def means_side_by_side() -> Graph:
    sketch = Sketch("net")
    sketch.mean(sketch.input(3, 30, 70), (1,))
    return sketch.graph()


def depthwise() -> Graph:
    sketch = Sketch("net")
    sketch.depthwise(sketch.input(1, 9, 11, 53), per_channel=True)
    return sketch.graph()


def strided_depthwise() -> Graph:
    sketch = Sketch("net")
    sketch.depthwise(sketch.conv(sketch.input(1, 12, 12, 4), 48, (1, 1)), (3, 3))
    return sketch.graph()


def convolution() -> Graph:
    sketch = Sketch("net")
    sketch.conv(sketch.input(1, 5, 5, 24), 13)
    return sketch.graph()


def matrix() -> Graph:
    sketch = Sketch("net")
    sketch.fully_connected(sketch.input(2, 500), 11)
    return sketch.graph()


@pytest.mark.parametrize(
    "draw", [mean, means_side_by_side, depthwise, strided_depthwise, convolution, matrix]
)
@pytest.mark.parametrize("size_kib", [1, 2, 3, 4])
def test_bytes_are_those_of_the_reference(draw: Callable[[], Graph], size_kib: int) -> None:
    graph = draw()
    try:
        program = compile_graph(graph, tiny(size_kib))
    except CompileError:
        # The smallest tiles of all but the largest fit.
        assert size_kib < 3
        return
    inputs = random_inputs(graph, np.random.default_rng(size_kib))
    functions = host_functions(program)
    values = evaluate(graph, inputs)
    expected = [values[output] for output in graph.outputs]
    for run in (
        execute(program, inputs, host_functions=functions).outputs,
        interpret(program, inputs, functions),
    ):
        assert run is not None
        for found, wanted in zip(run, expected, strict=True):
            assert np.array_equal(found, wanted)


@pytest.mark.parametrize(
    ("draw", "size_kib"),
    [
        # 49 bytes of a channel, and its mean; all 100 channels would need 4,900.
        (mean, 1),
        # A band of 3 rows of 11 pixels of a few channels; of all 53 channels 1,749 and as much again.
        (depthwise, 2),
    ],
)
def test_what_needs_few_bytes_fits_few(draw: Callable[[], Graph], size_kib: int) -> None:
    assert compile_graph(draw(), tiny(size_kib)).scratchpad_peak_bytes <= size_kib * 1024


@pytest.mark.slow
def test_resnet_50_fits_64_kib() -> None:
    from npusim import load

    small = hardware("edge-128").model_copy(update={"scratchpad": Scratchpad(size_kib=64, banks=1)})
    assert compile_graph(load("resnet50"), small).scratchpad_peak_bytes <= 64 * 1024
