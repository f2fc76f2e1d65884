"""Pools whose windows lie unevenly, or count what lies around the image: random ones of codes, on the NPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given

import npusim
from npusim.isa.base.tensor import Quantization, TensorType
from npusim.isa.hardware.file import hardware
from npusim.isa.instructions.table import decode_all
from npusim.isa.instructions.windows import Pool
from npusim.kernels.graph.builder import GraphBuilder, unshaped
from npusim.kernels.graph.graph import Graph
from npusim.kernels.table import operator
from npusim.scheduler import compile_graph

from ..examples import examples
from ..random_graphs import ACTIVATIONS, Pick
from .test_random_graphs import check, graphs, machines

EDGE = hardware("edge-128")
CODES = Quantization((0.05,), (3,))


def layer(op: str, shape: tuple[int, ...], dtype: str = "int8", **parameters: Any) -> Graph:
    """A graph of one pool of codes."""
    builder = GraphBuilder("net")
    source = builder.input("x", TensorType(dtype, shape, CODES))
    return builder.graph(
        builder.node(op, [source], [unshaped(dtype, CODES)], operator(op).parameters(**parameters))
    )


def random_pool(pick: Pick) -> Graph:
    """Bins of any number, or windows some of whose padding counts."""
    shape = (pick(1, 2), pick(1, 14), pick(1, 14), pick(1, 9))
    dtype, activation = ("int8", "uint8")[pick(0, 1)], ACTIVATIONS[max(0, pick(-2, 3))]
    if pick(0, 1):
        op = ("adaptive_average_pool_2d", "adaptive_max_pool_2d")[pick(0, 1)]
        return layer(op, shape, dtype, size=(pick(1, 18), pick(1, 18)), activation=activation)
    kernel = min(pick(1, 4), shape[1]), min(pick(1, 4), shape[2])
    padding = tuple((pick(0, side - 1), pick(0, side - 1)) for side in kernel)
    counted = tuple((pick(0, before), pick(0, behind)) for before, behind in padding)
    window = {"filter": kernel, "strides": (pick(1, 3), pick(1, 3)), "padding": padding, "counted": counted}
    return layer("average_pool_2d", shape, dtype, activation=activation, **window)


@pytest.mark.slow
@given(graphs(random_pool), machines((64, 1, 2, 3, 4, 6, 10)))
@examples(60)
def test_random_pools(graph: Graph, chosen: object) -> None:
    assert {layer.unit for layer in npusim.simulate(compile_graph(graph, EDGE), timing_only=True).layers} <= {
        "vector",
        "dma",
    }
    check(graph, chosen)  # type: ignore[arg-type]


def pools(graph: Graph) -> list[Pool]:
    return [each for each in decode_all(compile_graph(graph, EDGE).code) if isinstance(each, Pool)]


def test_bins_side_by_side_are_one_instruction() -> None:
    (found,) = pools(layer("adaptive_average_pool_2d", (1, 6, 8, 4), size=(3, 4)))
    assert (found.kernel_height, found.kernel_width, found.stride_height, found.stride_width) == (2, 2, 2, 2)


def test_each_run_of_even_bins_is_an_instruction() -> None:
    """7 pixels in 3 bins are 0..2, 2..4, 4..6: three of three, two apart. 8 are 0..2, 2..5, 5..7: 3, 4 and 3 pixels."""
    found = pools(layer("adaptive_max_pool_2d", (1, 7, 8, 4), size=(3, 3)))
    assert [(each.kernel_height, each.stride_height, each.ofm_height) for each in found] == [(3, 2, 3)] * 3
    assert [(each.kernel_width, each.ofm_width) for each in found] == [(3, 1), (4, 1), (3, 1)]


@pytest.mark.parametrize(("counted", "wanted"), [(((0, 0), (0, 0)), 8), (((1, 1), (1, 1)), 4)])
def test_padding_that_counts_is_real_zero(counted: Any, wanted: int) -> None:
    """One pixel of code 8, zero point 3, in a window of 2 x 2: alone 8, with three zeros 3 + 5 / 4, rounded to 4."""
    window = {"filter": (2, 2), "padding": ((1, 1), (1, 1)), "counted": counted}
    graph = layer("average_pool_2d", (1, 1, 1, 1), **window)
    outputs = npusim.simulate(npusim.compile(graph), [np.full((1, 1, 1, 1), 8, np.int8)]).outputs
    assert outputs[0].tolist() == np.full((1, 2, 2, 1), wanted).tolist()
