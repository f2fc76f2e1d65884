"""Recurrent layers of reals in parts: the parts together compute what the layer does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from npusim.isa.base.tensor import Array
from npusim.kernels.operator.expansion import Expansion
from npusim.kernels.operator.operator import Call
from npusim.kernels.table import operator

from .test_recurrent import Values, call_on, cell, rnn_operands, two_cells


def in_parts(
    name: str, values: Values, count: int, outputs: int, **parameters: Any
) -> tuple[list[Any], list[Any]]:
    """What a call gives, and what its parts give, each of which keeps the rules of its operator."""
    call = call_on(name, values, count, outputs, **parameters)
    entry = operator(name)
    assert entry.broken_rule(call) is None
    assert entry.expand is not None
    found = entry.expand(call)
    assert found is not None
    return list(entry.reference(call, [values.get(i) for i in range(count)])), evaluated(call, found, values)


def evaluated(call: Call, found: Expansion, operands: Values) -> list[Array]:
    values: dict[int, Array] = dict(operands)
    types = {number: tensor for number, tensor in enumerate(call.inputs) if tensor is not None}
    for number, constant in found.constants.items():
        values[number], types[number] = constant.data, constant.type
    types |= found.values
    for part in found.parts:
        inputs = tuple(None if number is None else types[number] for number in part.inputs)
        outputs = tuple(types[number] for number in part.outputs)
        one = Call(part.parameters, inputs, outputs, {})
        assert operator(part.op).broken_rule(one) is None, part.name
        given = [None if number is None else values[number] for number in part.inputs]
        values.update(zip(part.outputs, operator(part.op).reference(one, given), strict=True))
    assert len({part.name for part in found.parts}) == len(found.parts)
    return [values[number] for number in found.results]


def same(layer: list[Any], parts: list[Any]) -> None:
    assert len(layer) == len(parts)
    for one, other in zip(layer, parts, strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        assert np.allclose(one, other, atol=2e-6)


@pytest.mark.parametrize(
    ("extras", "parameters"),
    [
        ((), {}),
        (("cifg",), {"activation": "relu", "cell_clip": 0.3}),
        (("cifg", "peephole", "norm"), {"activation": "none"}),
        (("peephole", "projection", "norm"), {"proj_clip": 0.2, "activation": "sigmoid"}),
    ],
)
def test_an_lstm_step(extras: tuple[str, ...], parameters: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    values = cell(rng, 2, 4, 3 if "projection" in extras else 4, 3, *extras)
    values[0] = rng.uniform(-2, 2, (3, 2)).astype(np.float32)
    same(*in_parts("lstm", values, 24, 4, **parameters))


@pytest.mark.parametrize("time_major", [False, True])
def test_an_lstm_over_a_sequence(time_major: bool) -> None:
    rng = np.random.default_rng(1)
    values = cell(rng, 2, 4, 4, 3, "peephole")
    values[0] = rng.uniform(-2, 2, (5, 3, 2) if time_major else (3, 5, 2)).astype(np.float32)
    same(*in_parts("unidirectional_sequence_lstm", values, 24, 3, time_major=time_major))


@pytest.mark.parametrize(("auxiliary", "weights"), [(0, False), (6, False), (2, True)])
@pytest.mark.parametrize("merge", [False, True])
def test_lstms_both_ways(auxiliary: int, weights: bool, merge: bool) -> None:
    values, _, _ = two_cells(np.random.default_rng(2), auxiliary, weights)
    outputs = 5 if merge else 6
    same(*in_parts("bidirectional_sequence_lstm", values, 56, outputs, merge_outputs=merge))


@pytest.mark.parametrize("activation", ["none", "relu6", "tanh"])
def test_an_rnn_step(activation: str) -> None:
    rng = np.random.default_rng(3)
    operands = [rng.uniform(-1, 1, (2, 3)).astype(np.float32), *rnn_operands(rng, 3, 4, 2)]
    same(*in_parts("rnn", dict(enumerate(operands)), 5, 2, activation=activation))


@pytest.mark.parametrize("link", ["none", "parallel", "crossed"])
def test_rnns_over_a_sequence(link: str) -> None:
    rng = np.random.default_rng(4)
    forward, backward = rnn_operands(rng, 3, 4, 2), rnn_operands(rng, 6 if link == "parallel" else 3, 5, 2)
    x = rng.uniform(-1, 1, (4, 2, 3)).astype(np.float32)
    values = dict(enumerate([x, *forward, *backward]))
    if link == "none":
        one = dict(enumerate([x, *forward]))
        same(*in_parts("unidirectional_sequence_rnn", one, 5, 2, time_major=True))
    else:
        values[9] = rng.uniform(-1, 1, (4, 2, 6)).astype(np.float32)
    if link == "crossed":
        values |= {10 + way: rng.uniform(-1, 1, (4 + way, 6)).astype(np.float32) for way in (0, 1)}
    same(*in_parts("bidirectional_sequence_rnn", values, 12, 4, time_major=True, activation="tanh"))


@pytest.mark.parametrize("shift", ["before", "after"])
@pytest.mark.parametrize(("rank", "columns", "bias"), [(1, 5, True), (2, 3, False), (2, 1, True)])
def test_svdf(shift: str, rank: int, columns: int, bias: bool) -> None:
    rng = np.random.default_rng(5)
    shapes = (2, 3), (4 * rank, 3), (4 * rank, columns), (4,), (2, 4 * rank * columns)
    values = {
        i: rng.uniform(-1, 1, shape).astype(np.float32) for i, shape in enumerate(shapes) if bias or i != 3
    }
    same(*in_parts("svdf", values, 5, 2, rank=rank, shift=shift, activation="relu"))


def test_long_sequences_stay_whole() -> None:
    values = cell(np.random.default_rng(6), 2, 3, 3, 1)
    values[0] = np.zeros((1, 65, 2), np.float32)
    entry = operator("unidirectional_sequence_lstm")
    assert entry.expand is not None
    assert entry.expand(call_on(entry.name, values, 24, 1)) is None
