"""Parameters of operators: values checked when they are made, plain values and back, and what hostile ones give."""

from __future__ import annotations

import copy
import pickle
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any, get_type_hints

import numpy as np
import pytest

from npusim.isa.base.errors import GraphError, NpusimError
from npusim.isa.base.plain_values import Misfit
from npusim.isa.base.tensor import Quantization, TensorType
from npusim.isa.program.record import codec
from npusim.kernels.operator.operator import Call
from npusim.kernels.operator.parameters import NONE, Activated, Parameters, Unchecked
from npusim.kernels.operators.convolution import conv_2d, fully_connected
from npusim.kernels.operators.movement.padding import PadParameters
from npusim.kernels.operators.movement.shape_changes import ReshapeParameters
from npusim.kernels.operators.movement.slicing import StridedSliceParameters
from npusim.kernels.operators.reduction.sums_and_means import MeanParameters
from npusim.kernels.table import NAMES, operator


def test_lists_are_tuples_and_numbers_of_numpy_those_of_python() -> None:
    window = conv_2d.Parameters(strides=[np.int64(2), 1], padding=[[0, 1], (2, 3)])  # type: ignore[arg-type,list-item]
    assert window.strides == (2, 1)
    assert {type(step) for step in window.strides} == {int}
    assert window.padding == ((0, 1), (2, 3))
    assert (window.dilations, window.activation) == ((1, 1), "none")
    assert PadParameters(paddings=(), pad_value=np.float32(0.5)).pad_value == 0.5  # type: ignore[arg-type]
    assert type(PadParameters(paddings=(), pad_value=1 << 60).pad_value) is int


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: conv_2d.Parameters(strides=(0, 1)), "strides[0]: 0 is not a whole number from 1 to 2147483647"),
        (lambda: conv_2d.Parameters(strides=(1, True)), "strides[1]: true is not a whole number"),
        (lambda: conv_2d.Parameters(strides=(1, 1, 1)), "strides: 3 entries; there must be 2"),
        (lambda: conv_2d.Parameters(strides=2), "strides: 2 is not a list"),
        (lambda: conv_2d.Parameters(padding=((0, 0), (0, -1))),
         "padding[1][1]: -1 is not a whole number from 0 to 2147483647"),
        (lambda: conv_2d.Parameters(activation="gelu"),
         'activation: "gelu" is not one of none, relu, relu6, relu_n1_to_1'),
        (lambda: conv_2d.Parameters(stride=(1, 1)), "stride: unknown parameter, did you mean strides?"),
        (lambda: Activated(x=1), "x: unknown parameter, known here: activation, rescale"),
        (lambda: Parameters(x=1), "x: unknown parameter, known here: rescale"),
        (lambda: MeanParameters(keep_dims=True), "axes: is missing"),
        (lambda: MeanParameters(axes=(1,), keep_dims=1), "keep_dims: 1 is not true or false"),
        (lambda: ReshapeParameters(shape=(-2,)), "shape[0]: -2 is not a whole number from -1 to 2147483647"),
        (lambda: PadParameters(paddings=(), pad_value=float("nan")), "pad_value: nan is not a finite number"),
        (lambda: PadParameters(paddings=(), pad_value=1 << 64),
         "pad_value: 18446744073709551616 is not a whole number of 64 bits"),
        (lambda: StridedSliceParameters(begin=(), size=(), shape="x"), 'shape: "x" is not a list'),
    ],
)  # fmt: skip
def test_what_a_field_may_not_be_is_refused(make: Callable[[], Parameters], text: str) -> None:
    with pytest.raises(GraphError) as fault:
        make()
    assert str(fault.value) == text


def test_parameters_are_values() -> None:
    one, other = MeanParameters(axes=(1, 2)), MeanParameters(axes=[1, 2])  # type: ignore[arg-type]
    assert one == other
    assert hash(one) == hash(other)
    assert one != one.changed(keep_dims=True)
    assert fully_connected.Parameters() != Activated()
    assert repr(one) == "Reduction(axes=(1, 2), keep_dims=False)"
    assert copy.deepcopy(one) == pickle.loads(pickle.dumps(one)) == one
    with pytest.raises(AttributeError, match="keep_dims: parameters do not change; `changed` makes others"):
        one.keep_dims = True  # type: ignore[misc]
    with pytest.raises(AttributeError, match="parameters do not change"):
        del one.axes
    with pytest.raises(GraphError, match="did you mean axes"):
        one.changed(axis=1)


def test_plain_values_leave_out_what_is_default() -> None:
    assert conv_2d.Parameters(strides=(2, 2)).plain() == {"strides": [2, 2]}
    assert conv_2d.Parameters.of({"strides": [2, 2]}) == conv_2d.Parameters(strides=(2, 2))
    assert NONE.plain() == {}
    assert Unchecked.of({"axis": 1}).plain() == {"axis": 1}
    assert (Unchecked() == Unchecked(values={}), Unchecked().plain()) == (True, {})


# Hostile values

CHAOS: list[Any] = [
    None, True, False, 0, 1, -1, 2, 3, 1 << 31, 1 << 63, -(1 << 80), 0.0, 0.5, -1e300, float("nan"), float("inf"),
    "", "relu", "none", "fixed_point", "float32", "tanh", "reflect", "hard", "dense", "before", "zeros",
    "\n", [], {}, [0], [1, 1], [2, 2], [-1, 5],
    [[0, 0], [0, 0]], [[1]], [None] * 5,
    {"a": []}, [1] * 4, [1] * 20, [[0.5, 0]] * 5,
]  # fmt: skip
TYPES = [
    TensorType(dtype, shape, scaling)
    for dtype in ("int8", "float32", "int32", "bool")
    for shape in ((), (0,), (4,), (1, 4, 4, 2), (2, 3), (1, 1, 1, 1, 1))
    for scaling in (None, Quantization((0.5,), (0,)), Quantization((0.5, 1.0), (0, 0), 0))
]


def fitting(annotation: Any) -> list[Any]:
    """Those of the values that a field of an annotation may have."""
    found = []
    for value in CHAOS:
        with suppress(Misfit):
            codec(annotation).read(value)
            found.append(value)
    return found


@pytest.mark.cases(12)
@pytest.mark.parametrize("name", NAMES)
def test_no_values_from_outside_give_anything_but_a_refusal(name: str) -> None:
    """What a program file says goes through `of` and the rules before anything is computed."""
    entry = operator(name)
    good = {
        field: fitting(kind) for field, kind in get_type_hints(entry.parameters, include_extras=True).items()
    }
    rng, made, refusals = random.Random(name), 0, set()
    for _ in range(3000):
        chaotic = rng.random() < 0.3
        values = {field: rng.choice(CHAOS if chaotic else fits) for field, fits in good.items()}
        if rng.random() < 0.1:
            values[rng.choice(["activation", "axis", "self", "cls", "plain", "two\nlines"])] = 0
        inputs = tuple(rng.choice([None, *TYPES]) for _ in range(rng.choice([0, 1, 1, 2, 3, 20])))
        outputs = tuple(rng.choice(TYPES) for _ in range(rng.choice([0, 1, 1, 2, 4])))
        try:
            parameters = entry.parameters.of(values)
        except NpusimError as fault:
            refusals.add(str(fault))
            continue
        made += 1
        assert entry.parameters.of(parameters.plain()) == parameters
        refusals.add(entry.broken_rule(Call(parameters, inputs, outputs, {})) or "")
    assert 1500 < made < 3000
    assert all("\n" not in refusal for refusal in refusals)
