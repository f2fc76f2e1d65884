"""Tensors that share memory: networks in which one part is read while another is still to be written.

Each of these once gave, or would without a rule of `scheduler.storage` give, wrong bytes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from npusim.isa.base.errors import CompileError
from npusim.isa.hardware.file import hardware
from npusim.isa.hardware.memories import Scratchpad
from npusim.isa.program.interpreter import interpret
from npusim.kernels.graph.graph import Graph
from npusim.kernels.graph.reference import evaluate
from npusim.scheduler import compile_graph
from npusim.scheduler.compile import estimated, prepare
from npusim.scheduler.fit.cuts import FAST
from npusim.scheduler.place.residency import fit
from npusim.session.api import host_functions

from ..graphs import Sketch, random_inputs
from ..races import unwritten_reads

SAME = ((1, 1), (1, 1))


def host_results_joined() -> Graph:
    """Two results of the host lie in one tensor; the second part is read before the first is written."""
    sketch = Sketch("net", seed=1)
    x = sketch.input(1, 8, 8, 8)
    lower = sketch.resize(x, 16, 8)
    sketch.conv(lower, 3, (1, 1))
    sketch.conv(sketch.concat([sketch.resize(x, 12, 8), lower], 1), 3, (1, 1))
    return sketch.graph()


def results_in_place_of_a_residual() -> Graph:
    """The sum may take the place of x, which the layer before it reads with its neighbours."""
    sketch = Sketch("net", seed=2)
    x = sketch.conv(sketch.input(1, 32, 32, 4), 8, (1, 1))
    y = sketch.depthwise(sketch.depthwise(x, padding=SAME), padding=SAME)
    sketch.conv(sketch.add(x, y), 4, (1, 1))
    return sketch.graph()


def factors_inside_the_other_operand() -> Graph:
    """One value per row, taken from the first row of the map that the product may overwrite."""
    sketch = Sketch("net", seed=3)
    x = sketch.conv(sketch.input(1, 32, 16, 4), 16, (1, 1))
    head, rest = sketch.split(sketch.reshape(x, 1, 32 * 16 * 16), 1, (32, 32 * 16 * 16 - 32))
    sketch.conv(sketch.binary("mul", x, sketch.reshape(head, 1, 32, 1, 1)), 4, (1, 1))
    sketch.quantize(rest)
    graph = sketch.graph()
    # The second reader of x comes first, so that the product is the last.
    order = [*range(4), 6, 4, 5]
    return Graph(graph.name, graph.tensors, tuple(graph.nodes[k] for k in order), graph.inputs, graph.outputs)


def a_sum_of_one_map_and_itself() -> Graph:
    sketch = Sketch("net", seed=4)
    x = sketch.conv(sketch.input(1, 24, 24, 4), 12, (1, 1))
    sketch.conv(sketch.add(x, x), 4)
    return sketch.graph()


def layers_that_shrink() -> Graph:
    """Maps of DRAM are reused; where layers run band by band, one writes while the other still reads."""
    sketch = Sketch("net", seed=5)
    x = sketch.conv(sketch.input(1, 48, 48, 3), 8, strides=(2, 2), padding=((0, 1), (0, 1)))
    for _ in range(3):
        x = sketch.conv(sketch.depthwise(x, padding=SAME), 8, (1, 1))
    sketch.mean(x, (1, 2))
    return sketch.graph()


def pieces_of_one_map() -> Graph:
    """Parts of a split are used alone, together, and as a whole."""
    sketch = Sketch("net", seed=6)
    x = sketch.conv(sketch.input(1, 16, 8, 8), 8, (1, 1))
    upper, lower = sketch.split(x, 1, (5, 11))
    sketch.conv(sketch.concat([lower, upper], 1), 4)
    sketch.add(sketch.conv(upper, 8, (1, 1)), upper)
    sketch.pool("max_pool_2d", x, (2, 2))
    return sketch.graph()


def a_gated_product(up_first: bool = False) -> Graph:
    """The product may replace its gate, which itself replaces what it is computed from, or the other factor."""
    sketch = Sketch("net", seed=7)
    x = sketch.fully_connected(sketch.input(32, 16), 16)
    up = sketch.fully_connected(x, 256) if up_first else -1
    gate = sketch.logistic(sketch.fully_connected(x, 256))
    up = up if up_first else sketch.fully_connected(x, 256)
    sketch.fully_connected(sketch.binary("mul", gate, up), 16)
    return sketch.graph()


NETWORKS = (
    host_results_joined,
    results_in_place_of_a_residual,
    factors_inside_the_other_operand,
    a_sum_of_one_map_and_itself,
    layers_that_shrink,
    pieces_of_one_map,
    a_gated_product,
    lambda: a_gated_product(up_first=True),
)


@pytest.mark.parametrize("network", NETWORKS)
def test_bytes_at_every_size(network: Callable[[], Graph]) -> None:
    graph, fitted = network(), 0
    inputs = random_inputs(graph)
    values = evaluate(graph, inputs)
    for size_kib in (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 24, 32, 64):
        scratchpad = Scratchpad(size_kib=size_kib, banks=1)
        chosen = hardware("edge-128").model_copy(update={"scratchpad": scratchpad})
        try:
            program = compile_graph(graph, chosen)
        except CompileError:
            assert fitted == 0  # what fits a small scratchpad fits a larger one
            continue
        fitted += 1
        assert unwritten_reads(program) == []
        outputs = interpret(program, inputs, host_functions(program))
        for tensor, output in zip(graph.outputs, outputs, strict=True):
            np.testing.assert_array_equal(output, values[tensor], err_msg=f"{size_kib} KiB")
    assert fitted >= 6


@pytest.mark.parametrize("up_first", [False, True])
def test_a_factor_read_once_is_evicted_before_a_storage_of_three_results(up_first: bool) -> None:
    """Of two storages of 8 KiB, 14 KiB hold one: the gate, the gate's activation and their product stay."""
    graph = a_gated_product(up_first)
    scratchpad = Scratchpad(size_kib=14, banks=1)
    chosen = hardware("edge-128").model_copy(update={"scratchpad": scratchpad})
    residents = estimated(prepare(graph, chosen))
    gate, up = (2, 1) if up_first else (1, 3)
    assert {graph.nodes[node].op for node in (gate, up)} == {"fully_connected"}
    assert residents.evicted == {graph.nodes[up].outputs[0]}
    product = graph.nodes[-1].inputs[0]
    assert product is not None
    assert residents.sharing.forest.root(product)[0] == graph.nodes[gate].outputs[0]


def test_a_storage_larger_than_the_scratchpad_takes_no_room_from_others() -> None:
    """The middle map has 32 KiB of 16. The residual x is not used there, but has room beside its tiles."""
    sketch = Sketch("net", seed=8)
    x = sketch.conv(sketch.input(1, 16, 16, 4), 8, (1, 1))
    wide = sketch.conv(x, 128, (1, 1))
    sketch.add(sketch.conv(sketch.logistic(wide), 8, (1, 1)), x)
    graph = sketch.graph()
    scratchpad = Scratchpad(size_kib=16, banks=1)
    chosen = hardware("edge-128").model_copy(update={"scratchpad": scratchpad})
    assert graph.nodes[0].outputs[0] in fit(prepare(graph, chosen), FAST).roots
