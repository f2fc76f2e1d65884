"""The table of operators, and how a graph's node becomes a call."""

from __future__ import annotations

from importlib import import_module
from inspect import getclosurevars

import numpy as np
import pytest

from npusim.isa.base.errors import GraphError
from npusim.isa.base.tensor import TensorType
from npusim.isa.hardware.parameters import parameters
from npusim.kernels.graph.graph import Graph, Node, Tensor, call_of
from npusim.kernels.operator.operator import ROOM
from npusim.kernels.operator.parameters import Activated
from npusim.kernels.table import FILES, NAMES, operator, operators


def test_names_are_unique() -> None:
    assert len(NAMES) == len({entry.name for entry in operators()})


def test_every_operator_of_a_file_is_listed_beside_it() -> None:
    for file, names in FILES.items():
        rows = import_module(f"npusim.kernels.operators.{file}").OPERATORS
        assert {row.name for row in rows} == set(names), file


@pytest.mark.parametrize("name", NAMES)
def test_every_rule_says_in_one_line_what_it_demands(name: str) -> None:
    entry = operator(name)
    assert entry.name == name
    for rule in (*entry.rules, *(rule for row in entry.lowerings for rule in row.rules)):
        assert rule.__doc__
        assert "\n" not in rule.__doc__


def test_every_deferred_lowering_names_a_function() -> None:
    lowers = [lowering.lower for entry in operators() for _, lowering in entry.every_lowering]
    names = [
        getclosurevars(lower).nonlocals for lower in lowers if lower.__qualname__.startswith("deferred.")
    ]
    assert len(names) >= 6
    for name in names:
        assert callable(getattr(import_module(f"npusim.kernels.lowering.{name['module']}"), name["name"]))


@pytest.mark.parametrize("name", NAMES)
def test_every_need_names_the_key_that_brings_it(name: str) -> None:
    for need in {need for row in operator(name).lowerings for need in row.needs}:
        keys = {need.key.format(dtype=dtype) for dtype in ("float16", "float32")}
        assert keys <= {each.path for each in parameters()}
        assert need.key == ROOM or all(key in need.words for key in keys)
        assert need.words.startswith("room") == (need.key == ROOM)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "conv_2",
            "operator 'conv_2' is not one that npusim has; the nearest is 'conv_2d'; `npusim ops` lists them",
        ),
        ("?", "operator '?' is not one that npusim has; `npusim ops` lists them"),
    ],
)
def test_an_unknown_operator_is_refused_with_the_nearest_name(name: str, message: str) -> None:
    with pytest.raises(GraphError) as caught:
        operator(name)
    assert str(caught.value) == message


def test_call_of_collects_types_and_constants_by_position() -> None:
    x, y = TensorType("float32", (2,)), TensorType("int32", (1,))
    data = np.array([7], np.int32)
    tensors = (Tensor("x", x), Tensor("c", y, data), Tensor("y", x))
    node = Node("n", "add", inputs=(0, None, 1), outputs=(2,), parameters=Activated(activation="relu"))
    call = call_of(Graph("g", tensors, (node,), inputs=(0,), outputs=(2,)), node)
    assert call.inputs == (x, None, y)
    assert call.outputs == (x,)
    assert dict(call.constants) == {2: data}
    assert call.parameters == Activated(activation="relu")


def test_an_operator_has_lowerings_or_a_reason_why_not() -> None:
    for entry in operators():
        assert bool(entry.lowerings) != bool(entry.on_host), entry.name
