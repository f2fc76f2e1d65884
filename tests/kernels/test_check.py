"""The check of a graph as a whole, as every door and the compiler make it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import npusim
from npusim.isa.base.errors import GraphError
from npusim.isa.base.tensor import SIZE_ONLY, Quantization, TensorType
from npusim.kernels.graph.check import check
from npusim.kernels.graph.graph import Graph, Node, State, Tensor

EIGHT = TensorType("int8", (1, 4), Quantization((0.5,), (0,)))


def graph(**changes: Any) -> Graph:
    """x -> first -> y -> second -> z, and a constant k."""
    tensors = (*(Tensor(name, EIGHT) for name in "xyz"), Tensor("k", EIGHT, np.zeros((1, 4), np.int8)))
    nodes = (Node("first", "relu", (0,), (1,)), Node("second", "relu", (1,), (2,)))
    return replace(Graph("net", tensors, nodes, (0,), (2,)), **changes)


def with_type(number: int, type_: TensorType, data: Any = None) -> Graph:
    tensors = list(graph().tensors)
    tensors[number] = replace(tensors[number], type=type_, data=data)
    return graph(tensors=tuple(tensors))


FIRST, SECOND = graph().nodes
FAULTS: list[tuple[Graph, str]] = [
    (graph(nodes=(SECOND, FIRST)),
     'layer "second" (relu): reads tensor 1 "y", which has no data and nothing before it writes; '
     'layer "first" writes it later'),
    (graph(nodes=(SECOND,)),
     'layer "second" (relu): reads tensor 1 "y", which has no data and nothing before it writes'),
    (graph(nodes=(FIRST, replace(SECOND, outputs=(1,)))),
     'layer "second" (relu): writes tensor 1 "y", which is an input, has data or is written already'),
    (graph(nodes=(replace(FIRST, outputs=(0,)),)),
     'layer "first" (relu): writes tensor 0 "x", which is an input, has data or is written already'),
    (graph(nodes=(replace(FIRST, outputs=(3,)),)),
     'layer "first" (relu): writes tensor 3 "k", which is an input, has data or is written already'),
    (graph(nodes=(replace(FIRST, outputs=(2, 2)),)),
     'layer "first" (relu): writes tensor 2 "z", which is an input, has data or is written already'),
    (graph(nodes=(FIRST,)), 'model output "z": no operator writes it'),
    (graph(nodes=(replace(FIRST, inputs=(9,)),)), 'layer "first" (relu): tensor 9, the model has 4'),
    (graph(nodes=(replace(FIRST, inputs=(-1,)),)), 'layer "first" (relu): tensor -1, the model has 4'),
    (graph(nodes=(replace(FIRST, outputs=()),)), 'layer "first" (relu): has no output'),
    (graph(inputs=(0, 0)), "model inputs [0, 0]: a tensor is named twice"),
    (graph(inputs=(4,)), "model inputs: tensor 4, the model has 4"),
    (graph(inputs=(3,)), 'model input "k" is a constant'),
    (graph(states=(State(3, 2),)), 'model state "k" is a constant'),
    (graph(states=(State(0, 2),)), 'model input "x" is a state too'),
    (graph(states=(State(1, 2), State(1, 0)), nodes=(SECOND,)), "model states [1, 1]: a tensor is named twice"),
    (graph(states=(State(1, 1),), nodes=(SECOND,)), 'model state "y" is its own next value; make it a constant'),
    (graph(states=(State(2, 1),), nodes=()), 'model next value of state "y": no operator writes it'),
    (replace(graph(states=(State(1, 4),), nodes=(SECOND,)),
             tensors=(*graph().tensors, Tensor("next", replace(EIGHT, shape=(4,))))),
     'model state "y" is int8[1, 4] with scales, its next value int8[4] with scales'),
    (graph(outputs=()), "the model has no output"),
    (graph(outputs=(-2,)), "model outputs: tensor -2, the model has 4"),
    (with_type(0, replace(EIGHT, shape=(-1, 4))),
     'input "x": shape [-1, 4] has an unknown size; bind the graph to sizes (npusim.kernels.graph.bind), or convert '
     "the model with a fixed shape"),
    (with_type(0, replace(EIGHT, shape=(-3, 4))), 'tensor 0 "x": shape [-3, 4], sizes are 0 or more'),
    (with_type(3, replace(EIGHT, shape=(-1, 4)), SIZE_ONLY), 'tensor 3 "k": shape [-1, 4], sizes are 0 or more'),
    (with_type(1, replace(EIGHT, shape=(4, 1))),
     'layer "first" (relu): output "y" has shape [4, 1], [1, 4] by its operands and parameters'),
    (graph(nodes=(FIRST, replace(SECOND, op="softmax"))),
     'layer "second" (softmax): has parameters.Parameters, must have softmax.SoftmaxParameters'),
    (graph(nodes=(FIRST, replace(SECOND, parameters={"alpha": 1.0}))),  # type: ignore[arg-type]
     'layer "second" (relu): has builtins.dict, must have parameters.Parameters'),
    (graph(nodes=(FIRST, replace(SECOND, name="first"))),
     '2 layers are named "first"; every layer has a name of its own'),
    (graph(nodes=(FIRST, replace(SECOND, bodies=(Graph("body", (), (), (), ()),)))),
     'layer "second" (relu): has 1 bodies, may have none'),
    (with_type(0, replace(EIGHT, shape=(0, 1 << 32, 1 << 32))),
     f'tensor 0 "x": shape [0, 4294967296, 4294967296] spans {1 << 64} bytes, may be {(1 << 63) - 1}'),
    (with_type(0, replace(EIGHT, shape=(1.5, 4))), 'tensor 0 "x": shape [1.5, 4], sizes must be whole numbers'),  # type: ignore[arg-type]
    (with_type(1, replace(EIGHT, dtype="int4")),
     "tensor 1 \"y\": element type 'int4', may be int8, uint8, int16, uint16, int32, uint32, int64, "
     "uint64, float16, float32, float64, bool, complex64, complex128"),
    (with_type(3, EIGHT, np.zeros(4, np.int8)), 'tensor 3 "k": is int8[1, 4], its data int8[4]'),
    (with_type(3, EIGHT, np.zeros((1, 4), np.uint8)), 'tensor 3 "k": is int8[1, 4], its data uint8[1, 4]'),
]  # fmt: skip


@pytest.mark.parametrize(("made", "text"), FAULTS, ids=range(len(FAULTS)))
@pytest.mark.parametrize("effort", ["fast", 3])
def test_compile_refuses_what_is_not_well_formed(made: Graph, text: str, effort: str | int) -> None:
    with pytest.raises(GraphError) as fault:
        npusim.compile(made, effort=effort)
    assert str(fault.value) == f"net: {text}"


@pytest.mark.parametrize(
    "made",
    [graph, lambda: graph(outputs=(2, 2, 1, 0, 3)), lambda: graph(states=(State(1, 2),), nodes=(SECOND,))],
)
def test_what_is_well_formed_passes_as_it_is(made: Callable[[], Graph]) -> None:
    given = made()
    assert check(given) is given
