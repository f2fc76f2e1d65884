"""What is known of results while a model is built: sizes, gears, and values that follow from shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import npusim
from npusim.frontends.nnadapter.model_building import Model
from npusim.frontends.nnadapter.nnadapter_codes import (
    FeatureNotSupported,
    InvalidDimensions,
    InvalidParameter,
    Lifetime,
    OperationType,
    Precision,
)
from npusim.frontends.nnadapter.operand import Operand
from npusim.frontends.nnadapter.operand_type import OperandType

FLOAT = Precision.FLOAT32
GEARS = [[1, 3, 4, 6], [2, 3, 5, 6], [4, 3, 8, 6]]


def real(*shape: int, dynamic: Sequence[Sequence[int]] = ()) -> OperandType:
    return OperandType(FLOAT, shape, dynamic=dynamic)


def finished(model: Model, inputs: Sequence[Operand], *outputs: Operand) -> Model:
    model.identify(inputs, outputs)
    model.finish()
    return model


def run(model: Model, *values: Any, shapes: Any = None) -> list[Any]:
    network = model.network(shapes)
    piece = network.piece(range(len(network.steps)))
    outputs = npusim.simulate(npusim.compile(piece.graph), list(values)).outputs
    by_number = dict(zip(piece.outputs, outputs, strict=True))
    return [by_number[number] for number in network.outputs]


def test_reshape_to_a_shape_that_is_computed() -> None:
    """shape(x)[0:1] and what is left over: SHAPE, SLICE and CONCAT of constants give RESHAPE its sizes."""
    m = Model()
    x = m.add_operand(real(2, 3, 4))
    shape = m.shape(x)
    first = m.slice(shape, axes=[0], starts=[0], ends=[1])
    wanted = m.concat([first, m.add_constant([-1])], 0)
    y = m.reshape(x, wanted)
    assert shape.type.lifetime is first.type.lifetime is wanted.type.lifetime is Lifetime.TEMPORARY_SHAPE
    assert [value.tolist() for value in wanted.values] == [[2, -1]]
    assert y.type.lifetime is Lifetime.TEMPORARY_VARIABLE
    assert y.type.dimensions == [2, 12]
    finished(m, [x], y)
    value = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    np.testing.assert_array_equal(run(m, value)[0], value.reshape(2, 12))


def test_arithmetic_of_shapes() -> None:
    """TILE as often as a dimension says, and EXPAND to a size that is a product."""
    m = Model()
    x = m.add_operand(real(1, 3))
    rows = m.gather(m.shape(x), m.add_constant([1]), 0)
    twice = m.mul(rows, m.add_constant([2]))
    wanted = m.concat([twice, rows], 0)
    y = m.expand(x, wanted)
    z = m.tile(y, m.fill([2], rows))
    assert y.type.dimensions == [6, 3]
    assert z.type.dimensions == [18, 9]


def test_values_are_constants_of_the_program() -> None:
    m = Model()
    x = m.add_operand(real(2, 3))
    numbers = m.range(np.float32([0]), np.float32([3]), np.float32([1]))
    y = m.add(x, numbers)
    finished(m, [x], y, numbers)
    network = m.network()
    graph = network.piece(range(len(network.steps))).graph
    assert [node.op for node in graph.nodes] == ["add"]
    value = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(run(m, value)[0], value + np.arange(3, dtype=np.float32))


def test_a_piece_has_values_of_operations_elsewhere_as_constants() -> None:
    m = Model()
    x = m.add_operand(real(2, 3))
    shape = m.shape(x)
    y = m.relu(x)
    z = m.reshape(y, m.concat([shape, m.add_constant([1])], 0))
    finished(m, [x], z)
    network = m.network()
    last = next(place for place, step in enumerate(network.steps) if step.kind == "reshape")
    piece = network.piece([last])
    assert [network.tensor_name(number) for number in piece.inputs] == [y.name]
    assert piece.graph.tensors[piece.graph.outputs[0]].type.shape == (2, 3, 1)


def test_gears_are_found_for_results() -> None:
    m = Model()
    x = m.add_operand(real(-1, 3, -1, 6, dynamic=GEARS))
    y = m.relu(x)
    flat = m.flatten(y, 1, -1)
    shape = m.shape(flat)
    assert y.type.dimensions == [-1, 3, -1, 6]
    assert y.type.dynamic == tuple(map(tuple, GEARS))
    assert flat.type.dimensions == [-1, -1]
    assert flat.type.dynamic == ((1, 72), (2, 90), (4, 144))
    assert shape.type.dimensions == [2]
    assert not shape.type.dynamic
    assert [value.tolist() for value in shape.values] == [[1, 72], [2, 90], [4, 144]]
    assert shape.known is None
    z = m.reshape(x, shape)
    assert z.type.dynamic == flat.type.dynamic
    finished(m, [x], z)
    for gear in GEARS:
        value = np.arange(np.prod(gear), dtype=np.float32).reshape(gear)
        np.testing.assert_array_equal(run(m, value, shapes={x: tuple(gear)})[0], value.reshape(gear[0], -1))


def test_sizes_that_are_the_same_in_all_gears_are_known() -> None:
    m = Model()
    x = m.add_operand(real(-1, 4, dynamic=[[2, 4], [3, 4]]))
    y = m.slice(x, axes=[0], starts=[0], ends=[1])
    assert y.type.dimensions == [1, 4]
    assert not y.type.dynamic


def test_inputs_have_one_number_of_gears() -> None:
    m = Model()
    x = m.add_operand(real(-1, 4, dynamic=[[2, 4], [3, 4]]), "x")
    y = m.add_operand(real(-1, 4, dynamic=[[2, 4], [3, 4], [5, 4]]), "y")
    one = m.add_operand(real(-1, 4, dynamic=[[1, 4]]), "one")
    assert m.add(x, one).type.dimensions == [-1, 4]
    count = len(m.operands)
    with pytest.raises(
        InvalidDimensions, match=r"ADD\): inputs have different numbers .*: x 2, y 3; shape k of each"
    ):
        m.add(x, y)
    assert len(m.operands) == count
    assert len(m.operations) == 1


def test_what_cannot_be_known_stays_unknown() -> None:
    m = Model()
    x = m.add_operand(real(-1, 4))
    y = m.relu(x)
    assert y.type.words() == "FLOAT32[...]"
    assert not y.type.known
    finished(m, [x], y)
    with pytest.raises(
        InvalidDimensions, match=r"operands\[0\]: is FLOAT32\[\?, 4\], its sizes must be known"
    ):
        m.network()
    assert m.network({x: (2, 4)}).tensor_type(y.index).shape == (2, 4)


def test_a_shape_that_only_a_run_gives_is_refused() -> None:
    m = Model()
    x, shape = m.add_operand(real(2, 3)), m.add_operand(OperandType(Precision.INT32, [1]))
    y = m.reshape(x, shape)
    assert not y.type.known
    finished(m, [x, shape], y)
    with pytest.raises(
        FeatureNotSupported, match=r"RESHAPE\): shape \(operands\[1\]\) decides shapes or parameters, so"
    ):
        m.network()


def test_operations_out_of_order_and_constants_set_later() -> None:
    m = Model()
    x = m.add_operand(real(2, 3))
    middle, y = m.add_operand(OperandType(FLOAT)), m.add_operand(OperandType(FLOAT))
    shape = m.add_operand(OperandType(Precision.INT32, [1]))
    m.add_operation(OperationType.RESHAPE, [middle, shape], [y])
    m.add_operation(OperationType.RELU, [x], [middle])
    m.set_operand_value(shape, np.array([6], np.int32))
    assert middle.type.dimensions == [2, 3]
    finished(m, [x], y)
    assert y.type.dimensions == [6]
    value = np.array([[-1, 2, -3], [4, -5, 6]], np.float32)
    np.testing.assert_array_equal(run(m, value)[0], [0, 2, 0, 4, 0, 6])


def test_a_finish_that_fails_leaves_the_model_as_it_was() -> None:
    m = Model()
    x = m.add_operand(real(2, 3))
    middle, y = m.add_operand(OperandType(FLOAT)), m.add_operand(OperandType(FLOAT))
    m.add_operation(OperationType.RESHAPE, [middle, m.add_constant([7])], [y])
    m.add_operation(OperationType.ASSIGN, [x], [middle])
    m.identify([x], [y])
    before = [operand.type.copy() for operand in m.operands]
    with pytest.raises(InvalidParameter, match=r"operations\[0\] \(RESHAPE\)"):
        m.finish()
    assert [operand.type for operand in m.operands] == before
    assert not m.finished


def test_long_values_are_computed_when_the_model_runs() -> None:
    m = Model()
    x = m.add_operand(real(1))
    long = m.fill([300, 300], np.float32([0.5]))
    y = m.mul(long, x)
    assert long.type.lifetime is Lifetime.TEMPORARY_VARIABLE
    finished(m, [x], y)
    np.testing.assert_array_equal(run(m, np.float32([3]))[0], np.full((300, 300), 1.5, np.float32))
