"""Products of two activations: random ones on random machines, their cycles by hand, and where they lie."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npusim.isa.base.tensor import TensorType
from npusim.isa.hardware.file import change, hardware
from npusim.isa.hardware.units import Unit
from npusim.isa.instructions.mac import Convolve
from npusim.isa.instructions.table import decode_all
from npusim.kernels.graph.graph import Graph
from npusim.kernels.graph.reference import evaluate
from npusim.machine.system import execute
from npusim.scheduler import compile_graph

from ..examples import examples
from ..graphs import Sketch, random_inputs, with_all_outputs
from ..npusim.machine.handmade import Row, bench, rows
from ..random_graphs import Pick
from .test_random_graphs import check, graphs, machines

pytestmark = pytest.mark.slow

EDGE = hardware("edge-128")


def random_products(pick: Pick) -> Graph:
    """Products of inputs, of what layers made of them, of a tensor with itself; then a layer that reads the product."""
    sketch = Sketch("random")
    rows, inner, columns = (pick(1, most) for most in (40, 150, 70))
    batch = tuple(pick(1, 3) for _ in range(pick(0, 2)))
    flips = bool(pick(0, 1)), bool(pick(0, 1))
    missing = pick(0, 3)
    batches = [batch, batch]
    if missing < 2 and batch:
        batches[missing] = tuple(1 if pick(0, 1) else size for size in batch)[pick(0, len(batch)) :]
    x, y = (
        sketch.input(*before, *(sizes[::-1] if flip else sizes))
        for before, sizes, flip in zip(batches, ((rows, inner), (inner, columns)), flips, strict=True)
    )
    if pick(0, 1):
        x = sketch.logistic(x)
    if pick(0, 1):
        y = sketch.quantize(y)
    product = sketch.product(x, y, adj_x=flips[0], adj_y=flips[1])
    last = sketch.softmax(product) if pick(0, 1) else product
    if pick(0, 1):
        last = sketch.product(last, last, adj_y=True)
    graph = sketch.graph([last])
    return with_all_outputs(graph) if pick(0, 1) else graph


@given(graphs(random_products), machines((2, 4, 6, 10, 16, 64)))
@examples(60)
def test_random_products(graph: Graph, chosen: object) -> None:
    check(graph, chosen)  # type: ignore[arg-type]


@given(st.sampled_from([(False, False), (True, False), (False, True), (True, True)]))
@examples(4)
def test_a_product_that_fits_nowhere_as_a_whole(flips: tuple[bool, bool]) -> None:
    """100 x 300 by 300 x 200 has 110,000 bytes; in 16 KiB each factor comes in parts, rows or columns of it."""
    sketch = Sketch("random")
    sizes = (100, 300), (300, 200)
    x, y = (sketch.input(2, *(s[::-1] if flip else s)) for s, flip in zip(sizes, flips, strict=True))
    graph = sketch.graph([sketch.product(x, y, adj_x=flips[0], adj_y=flips[1])])
    check(graph, change(EDGE, {"scratchpad.size_kib": 16, "scratchpad.banks": 1}))


def products(graph: Graph) -> list[Convolve]:
    code = decode_all(compile_graph(graph, EDGE).code)
    assert {each.unit for each in code} >= {Unit.MAC, Unit.DMA0}
    return [each for each in code if isinstance(each, Convolve)]


def test_heads_that_share_a_factor() -> None:
    """Four first factors by one second one are one product of four times the rows; by one each, four products."""
    sketch = Sketch()
    graph = sketch.graph([sketch.product(sketch.input(4, 5, 16), sketch.input(16, 8))])
    assert [each.ofm_height for each in products(graph)] == [20]
    sketch = Sketch()
    graph = sketch.graph([sketch.product(sketch.input(4, 5, 16), sketch.input(4, 16, 8))])
    assert [each.ofm_height for each in products(graph)] == [5] * 4
    # 2 groups of 2 heads, a second factor for each group.
    sketch = Sketch()
    graph = sketch.graph([sketch.product(sketch.input(2, 2, 5, 16), sketch.input(2, 1, 16, 8))])
    assert [each.ofm_height for each in products(graph)] == [10] * 2


def test_factors_are_read_as_they_lie() -> None:
    """Nothing is moved to turn a factor around: one load for each, one product, one store."""
    for adj_x, adj_y in ((False, False), (True, False), (False, True), (True, True)):
        sketch = Sketch()
        x, y = sketch.input(*((16, 5) if adj_x else (5, 16))), sketch.input(*((8, 16) if adj_y else (16, 8)))
        graph = sketch.graph([sketch.product(x, y, adj_x=adj_x, adj_y=adj_y)])
        program = compile_graph(graph, EDGE)
        code = decode_all(program.code)
        assert sorted(each.mnemonic for each in code) == ["dma.copy"] * 4 + ["mac.convolve"]
        (product,) = products(graph)
        assert (product.ifm_transposed, product.weight_stride) == (int(adj_x), 0 if adj_y else 8)
        inputs = random_inputs(graph)
        outputs = execute(program, inputs).outputs
        assert outputs is not None
        np.testing.assert_array_equal(outputs[0], evaluate(graph, inputs)[graph.outputs[0]])


def test_a_layer_whose_weights_are_computed() -> None:
    """Its second way: the weights are a factor like the other."""
    sketch = Sketch()
    weights = sketch.logistic(sketch.input(8, 16))
    source = sketch.input(3, 16)
    kind = TensorType("int8", (3, 8), sketch.quantization(0.5))
    graph = sketch.graph([sketch.node("fully_connected", (source, weights), kind)])
    program = compile_graph(graph, EDGE)
    assert [layer.unit for layer in program.layers] == ["vector", "mac"]
    inputs = random_inputs(graph)
    outputs = execute(program, inputs).outputs
    assert outputs is not None
    np.testing.assert_array_equal(outputs[0], evaluate(graph, inputs)[graph.outputs[0]])


def test_the_cycles_of_a_small_product() -> None:
    """2 x 4 by 4 x 3 on the bench, where everything lies in one DRAM row.

    Five instructions of 72 bytes end in bursts 3, 5, 7, 9 and 12, of 4 cycles; with the row, 10, and the latency, 20,
    the first is there in cycle 42. A load takes 16 to set up, a burst of 4 and the latency: 40. The product keeps its
    sums in a corner of 2 rows by 4 columns: 4 values stream, the last of them passes 2 + 4 - 2 cells, 2 rows of 3
    results leave in a cycle each: 4 + 4 + 2 = 10. The store takes 16 + 4.
    """
    sketch = Sketch()
    graph = sketch.graph([sketch.product(sketch.input(2, 4), sketch.input(4, 3))])
    result = execute(compile_graph(graph, bench()), random_inputs(graph))
    begun = 42 + 1
    assert rows(result) == [
        Row("dma0", begun, begun, begun, begun + 40),  # multiplier, shift, biases
        Row("dma0", begun + 8, begun + 40, begun + 40, begun + 80),  # the second factor, as it lies
        Row("dma0", begun + 16, begun + 80, begun + 80, begun + 120),
        Row("mac", begun + 24, begun + 24, begun + 120, begun + 130),
        Row("dma1", begun + 36, begun + 36, begun + 130, begun + 150),
    ]
    assert result.cycles == 43 + 3 * 40 + 10 + 20
