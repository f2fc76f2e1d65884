"""Attention in stripes of queries: scores and probabilities stay in the scratchpad, bytes are those of the parts."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from npusim.isa.base.errors import CompileError
from npusim.isa.hardware.file import change, hardware
from npusim.isa.hardware.hardware import Hardware
from npusim.kernels.graph.graph import Graph
from npusim.kernels.lowering import elementwise_work
from npusim.machine.system import execute
from npusim.scheduler.compile import Schedule, compile_graph, prepare, schedule
from npusim.scheduler.fit.cuts import FAST, Band, Choices

from ..examples import examples
from ..graphs import Sketch, random_inputs
from ..random_graphs import Pick
from .test_overlap import spans
from .test_search import check

EDGE = hardware("edge-128")
SMALL = change(EDGE, {"scratchpad.size_kib": 16, "scratchpad.banks": 1})
MACHINES = (
    SMALL,
    change(SMALL, {"scratchpad.size_kib": 8, "dma.channels": 1}),
    change(EDGE, {"mac_array.rows": 8}),
)
ROWS_OF_MASKS = mock.patch.object(elementwise_work, "_LARGEST_ROW", 16)
"""Rows of small masks are cut as those of large ones are."""


def attention(heads: int, queries: int, keys: int, size: int, *, masked: bool) -> Graph:
    """Return scores, their mask, softmax and the weighted sum of values, for heads that are inputs."""
    sketch = Sketch("attention", seed=heads + queries)
    x, k, v = (sketch.input(1, heads, rows, size) for rows in (queries, keys, keys))
    scores = sketch.product(x, k, adj_y=True)
    if masked:
        scores = sketch.add(scores, sketch.constant(queries, keys))
    return sketch.graph([sketch.product(sketch.softmax(scores), v)])


def random_attention(pick: Pick) -> tuple[Graph, Choices]:
    """Return an attention whose maps go to DRAM or stay, and a chain of some of its stages with any stripes."""
    masked = bool(pick(0, 1))
    queries = pick(1, 40)
    graph = attention(pick(1, 4), queries, pick(1, 60), pick(1, 20), masked=masked)
    maps = [node.outputs[0] for node in graph.nodes[:-1] if pick(0, 7)]
    bands = {0: Band(pick(2, len(graph.nodes)), pick(1, queries))}
    return graph, Choices(evicted=frozenset(maps), chains=bands)


@st.composite
def attentions(draw: st.DrawFn) -> tuple[Graph, Choices]:
    return random_attention(lambda low, high: draw(st.integers(low, high)))


@pytest.mark.slow
@given(attentions(), st.sampled_from(MACHINES))
@examples(80)
def test_any_attention(drawn: tuple[Graph, Choices], chosen: Hardware) -> None:
    graph, choices = drawn
    try:
        found = made(graph, chosen, choices)
    except CompileError:
        event("does not fit")
        return
    event(f"chains of {[len(chain.items) for chain in found.chains.values()]}")
    check(graph, found.program)


def made(graph: Graph, chosen: Hardware, choices: Choices = FAST) -> Schedule:
    with ROWS_OF_MASKS:
        return schedule(prepare(graph, chosen), choices)


@pytest.mark.parametrize("masked", [False, True])
def test_scores_never_leave_the_scratchpad(masked: bool) -> None:
    """3 heads of 60 x 80 scores take 14,400 bytes of 16 KiB; in parts they would go to DRAM and come back."""
    graph = attention(3, 60, 80, 16, masked=masked)
    fused, parts = made(graph, SMALL), made(graph, SMALL, Choices(chains=dict.fromkeys(range(9), Band(1))))
    (chain,) = fused.chains.values()
    assert len(chain.items) == 3 + masked
    assert not parts.chains
    inputs = random_inputs(graph)
    results = [execute(each.program, inputs) for each in (fused, parts)]
    np.testing.assert_array_equal(results[0].outputs[0], results[1].outputs[0])  # type: ignore[index]
    assert results[0].cycles < results[1].cycles
    # Whole bursts of 32 bytes, of which stripes may begin and end in the middle.
    size = graph.tensors[graph.outputs[0]].type.size_bytes
    assert size <= results[0].dram_write_bytes < 1.2 * size < results[1].dram_write_bytes


@pytest.mark.parametrize("masked", [False, True])
def test_stripes_pay_where_scores_fit_as_well(masked: bool) -> None:
    """The units work on different stripes: faster, though nothing goes to DRAM either way."""
    graph = attention(4, 200, 200, 64, masked=masked)
    roomy = hardware("mobile-1024")
    fused, parts = made(graph, roomy), made(graph, roomy, Choices(chains=dict.fromkeys(range(9), Band(1))))
    assert [len(chain.items) for chain in fused.chains.values()] == [3 + masked]
    check(graph, fused.program)
    cycles = [execute(each.program, data=False).cycles for each in (fused, parts)]
    assert cycles[0] < 0.95 * cycles[1]


def layer_of_attention(heads: int, tokens: int, size: int) -> Graph:
    """Return three products, their heads, scores, softmax, sums, the heads side by side, and a product of them."""
    sketch = Sketch("attention", seed=heads)
    x = sketch.fully_connected(sketch.input(tokens, heads * size), heads * size)
    q, k, v = (
        sketch.transpose(
            sketch.reshape(sketch.fully_connected(x, heads * size), 1, tokens, heads, size), (0, 2, 1, 3)
        )
        for _ in range(3)
    )
    sums = sketch.product(sketch.softmax(sketch.product(q, k, adj_y=True)), v)
    joined = sketch.reshape(sketch.transpose(sums, (0, 2, 1, 3)), tokens, heads * size)
    return sketch.graph([sketch.fully_connected(joined, heads * size)])


def test_heads_are_copied_while_products_are_computed() -> None:
    """Nobody waits for the copies of queries and keys, nor for that of the sums of all heads but the last."""
    graph = layer_of_attention(6, 100, 32)
    program = compile_graph(graph, hardware("mobile-1024"))
    check(graph, program)
    copies: dict[int, list[tuple[int, int]]] = {}
    products: dict[int, list[tuple[int, int]]] = {}
    for layer, computes, start, end in spans(program):
        (products if computes else copies).setdefault(layer, []).append((start, end))
    queries, key, keys, value, sums, joined = 3, 4, 6, 7, 12, 13
    assert copies[queries][0][0] == products[key][0][0]
    assert copies[keys][0][0] == products[value][0][0]
    most, last = copies[joined]
    assert most[1] < products[sums][-1][0] < products[sums][-1][1] <= last[0]
