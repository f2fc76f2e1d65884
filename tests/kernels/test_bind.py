"""Graphs with unknown sizes, and what binding makes of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import npusim
from npusim.isa.base.errors import GraphError
from npusim.isa.base.tensor import Quantization, TensorType
from npusim.kernels.graph.bind import bind
from npusim.kernels.graph.builder import GraphBuilder
from npusim.kernels.graph.check import check, check_bound
from npusim.kernels.graph.graph import UNRANKED, Graph, Node, State, Tensor
from npusim.kernels.operator.parameters import Activated
from npusim.kernels.operators.movement.permuting import TransposeParameters

CODES = Quantization((0.5,), (0,))


def eight(*shape: int) -> TensorType:
    return TensorType("int8", shape, CODES)


def graph() -> Graph:
    """a[batch, 4] + b[1, 4] -> relu -> transposed, of which no result says its shape."""
    tensors = (
        Tensor("a", eight(-1, 4), size_names=("batch",)),
        Tensor("b", eight(1, 4)),
        Tensor("sum", eight(*UNRANKED)),
        Tensor("positive", eight(-1, 4)),
        Tensor("turned", eight(4, -1)),
    )
    nodes = (
        Node("sum", "add", (0, 1), (2,), Activated()),
        Node("positive", "relu", (2,), (3,)),
        Node("turned", "transpose", (3,), (4,), TransposeParameters(perm=(1, 0))),
    )
    return Graph("net", tensors, nodes, (0, 1), (4,))


@pytest.mark.parametrize(
    "sizes",
    [
        {"batch": 3},
        {"batch": np.int32(3)},
        {"a": (3, 4)},
        {"a": [3, 4], "batch": 3},
        {"a": (3, 4), "b": (1, 4)},
    ],
)
def test_all_shapes_follow_from_those_of_the_inputs(sizes: dict[str, Any]) -> None:
    bound = bind(check(graph()), sizes)
    assert [tensor.type.shape for tensor in bound.tensors] == [(3, 4), (1, 4), (3, 4), (3, 4), (4, 3)]
    assert check_bound(bound) is bound
    assert npusim.compile(bound).outputs[0].type.shape == (4, 3)


def test_a_bound_graph_stays_as_it_is() -> None:
    bound = bind(graph(), {"batch": 2})
    assert bind(bound) == bound


def test_compile_takes_bound_graphs() -> None:
    with pytest.raises(GraphError) as fault:
        npusim.compile(graph())
    assert str(fault.value) == (
        'net: input "a": shape [batch, 4] has an unknown size; bind the graph to sizes (npusim.kernels.graph.bind), or '
        "convert the model with a fixed shape"
    )


def test_what_nothing_uses_needs_no_size() -> None:
    """Shapes that a reader computes leave the tensors behind that they were computed in."""
    bound = bind(graph(), {"batch": 2})
    left = replace(bound.tensors[0], name="left", type=replace(bound.tensors[0].type, shape=UNRANKED))
    with_left = replace(bound, tensors=(*bound.tensors, left))
    assert np.array_equal(npusim.compile(with_left).code, npusim.compile(bound).code)


@pytest.mark.parametrize(
    ("sizes", "text"),
    [
        (
            {},
            'input "a": has shape [-1, 4] with an unknown size, named batch; give --shape batch=N, in Python '
            'sizes={"batch": N}',
        ),
        ({"batch": (1, 2)}, 'input "a": batch is one size, [1, 2] was given'),
        ({"batch": 1.5}, 'size "batch": is 1.5, may be a whole number, or a list of them for a shape'),
        ({"a": "3,4"}, "size \"a\": is '3,4', may be a whole number, or a list of them for a shape"),
        ({"a": (3, 5)}, 'input "a": shape [-1, 4] in the graph, [3, 5] was given'),
        ({"a": (3, 4, 1)}, 'input "a": shape [-1, 4] in the graph, [3, 4, 1] was given'),
        ({"a": (-1, 4)}, 'input "a": shape [-1, 4] in the graph, [-1, 4] was given'),
        ({"a": (3, 4), "batch": 2}, 'input "a": batch is 3, elsewhere 2'),
        (
            {"bach": 3},
            'no input and no size is named "bach"; did you mean "batch"? there are "a", "batch", "b"',
        ),
    ],
)
def test_sizes_that_do_not_fit(sizes: dict[str, Any], text: str) -> None:
    with pytest.raises(GraphError) as fault:
        bind(graph(), sizes)
    assert str(fault.value) == text


def test_one_name_is_one_size() -> None:
    tensors = list(graph().tensors)
    tensors[1] = replace(tensors[1], type=eight(-1, 4), size_names=("batch",))
    both = replace(graph(), tensors=tuple(tensors))
    assert bind(both, {"a": (5, 4)}).tensors[1].type.shape == (5, 4)
    assert bind(both, {"b": (5, 4)}).tensors[0].type.shape == (5, 4)
    with pytest.raises(GraphError, match='input "b": batch is 2, elsewhere 5'):
        bind(both, {"a": (5, 4), "b": (2, 4)})


def test_a_result_that_says_something_else() -> None:
    tensors = list(graph().tensors)
    tensors[4] = replace(tensors[4], type=eight(5, -1))
    with pytest.raises(GraphError) as fault:
        bind(replace(graph(), tensors=tuple(tensors)), {"batch": 3})
    assert str(fault.value) == (
        'layer "turned" (transpose): output "turned" has shape [5, -1], [4, 3] by its operands and parameters'
    )


def test_a_result_of_which_nobody_says_the_shape() -> None:
    nodes = (*graph().nodes[:2], replace(graph().nodes[2], op="unheard_of"))
    with pytest.raises(GraphError) as fault:
        bind(replace(graph(), nodes=nodes), {"batch": 3})
    assert str(fault.value) == (
        'layer "turned" (unheard_of): output "turned" has shape [4, -1], and its operands do not say it either'
    )


def test_a_body_takes_the_shapes_of_its_operands() -> None:
    tensors = (Tensor("p", eight(-1, 4)), Tensor("q", eight(*UNRANKED)))
    body = Graph("body", tensors, (Node("relu", "relu", (0,), (1,)),), (0,), (1,))
    flag = Tensor("flag", TensorType("bool", (1,)))
    outer = Graph(
        "net",
        (flag, Tensor("x", eight(-1, 4)), Tensor("y", eight(*UNRANKED))),
        (Node("choose", "if", (0, 1), (2,), bodies=(body, body)),),
        (0, 1),
        (2,),
    )
    bound = bind(check(outer), {"x": (6, 4)})
    assert [inner.tensors[1].type.shape for inner in bound.nodes[0].bodies] == [(6, 4), (6, 4)]
    assert check_bound(bound).tensors[2].type.shape == (6, 4)


def test_a_state_of_unknown_size_has_none_to_begin_with() -> None:
    stateful = replace(graph(), inputs=(1,), states=(State(0, 3),))
    with pytest.raises(GraphError, match=r'state "a": shape \[-1, 4\] has an unknown size'):
        bind(stateful, {})


def test_an_input_of_one_axis_takes_a_number() -> None:
    builder = GraphBuilder("net", {"x": 3})
    assert builder.shape(builder.input("x", eight(-1))) == (3,)
    with pytest.raises(GraphError, match=r'input "x": shape \[-1, 2\] in the graph, \[3\] was given'):
        GraphBuilder("net", {"x": 3}).input("x", eight(-1, 2))


def test_inputs_that_are_added_share_the_sizes_with_names() -> None:
    builder = GraphBuilder("net", {"x": (3, 7, 5)})
    assert builder.shape(builder.input("x", eight(-1, 7, -1), ("batch", ""))) == (3, 7, 5)
    assert builder.shape(builder.input("y", eight(-1, 2), ("batch",))) == (3, 2)
    builder.check_sizes()
    with pytest.raises(GraphError) as fault:
        builder.input("z", eight(-1, 7, -1), ("batch", ""))
    assert str(fault.value) == (
        'input "z": has shape [-1, 7, -1] with an unknown size; give --shape z=N,7,N, in Python sizes={"z": [N, 7, N]}'
    )


def test_inputs_that_are_expected_share_the_sizes_of_later_ones() -> None:
    builder = GraphBuilder("net", {"y": (3, 2)})
    kinds = {"x": eight(-1, 7), "y": eight(-1, 2)}
    builder.expect([Tensor(name, kind, size_names=("batch",)) for name, kind in kinds.items()])
    numbers = [builder.input(name, kind, ("batch",)) for name, kind in kinds.items()]
    assert [builder.shape(number) for number in numbers] == [(3, 7), (3, 2)]
    builder.check_sizes()


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (
            {"imag": (1, 2)},
            'input "image": has shape [1, -1] with an unknown size; give --shape image=1,N, in Python '
            'sizes={"image": [1, N]} (is "imag" meant?)',
        ),
        (
            {"IMAGE": (1, 2)},
            'input "image": has shape [1, -1] with an unknown size; give --shape image=1,N, in Python '
            'sizes={"image": [1, N]} (is "IMAGE" meant?)',
        ),
        (
            {"image": (1, 2), "imag": (1, 2)},
            'no input and no size is named "imag"; did you mean "image"? there are "image"',
        ),
    ],
)
def test_a_name_that_is_none_is_said(given: dict[str, Any], text: str) -> None:
    def read() -> None:
        builder = GraphBuilder("net", given)
        builder.input("image", eight(1, -1))
        builder.check_sizes()

    with pytest.raises(GraphError) as fault:
        read()
    assert str(fault.value) == text
