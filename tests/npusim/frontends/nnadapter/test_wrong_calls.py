"""Random sequences of calls of a model, right ones and wrong ones: what is refused says so, and changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npusim.frontends.nnadapter import operation_table
from npusim.frontends.nnadapter.model_building import Model
from npusim.frontends.nnadapter.nnadapter_codes import NNAdapterError, OperationType, Precision
from npusim.frontends.nnadapter.operand import Operand
from npusim.frontends.nnadapter.operand_type import OperandType
from tests.examples import examples

Draw = Callable[[Any], Any]

OTHER = Model("other")
STRANGER = OTHER.add_operand(OperandType(Precision.FLOAT32, [2, 3]), "stranger")

WRONG: list[Any] = [
    *(
        None,
        "text",
        b"12345678",
        1.5,
        float("nan"),
        float("inf"),
        1 << 70,
        -1,
        0,
        7,
        True,
        [],
        {},
        (),
        [None],
    ),
    *(
        [1, [2, 3]],
        [1 << 70],
        ["a"],
        object(),
        STRANGER,
        np.array([]),
        np.array(["a"]),
        np.array([1 + 2j]),
        np.float64(2),
    ),
    *(
        np.array([None]),
        np.zeros((2, 3), np.float64),
        np.zeros((2,), ">i4"),
        np.datetime64("2020-01-01"),
        range(3),
        3 + 4j,
    ),
    *(
        np.zeros((1,) * 9, np.float32),
        np.array(5),
        np.zeros(3, np.uint64),
        np.ones((2, 3))[::-1],
        Operand,
        OperandType,
    ),
]
"""What is hardly ever right."""

SMALL: list[Any] = [
    0,
    1,
    2,
    3,
    -1,
    0.5,
    -2.0,
    [1],
    [2, 3],
    [1, 1],
    [0, 1],
    [1, 1, 1, 1],
    [],
    True,
    False,
    100,
    1e30,
    -(1 << 31),
]
"""What may be the value of a parameter."""

SHAPES: list[Any] = [
    [],
    [1],
    [4],
    [2, 3],
    [1, 4, 6, 6],
    [2, 3, 4],
    [4, 4, 3, 3],
    [4, 1, 3, 3],
    [-1, 4, 6, 6],
    [0, 3],
    [1, 4],
]
PLAIN = [
    *(Precision.FLOAT32, Precision.INT32, Precision.INT64, Precision.BOOL8),
    Precision.FLOAT16,
    Precision.UINT16,
]
LAYER = [
    Precision.QUANT_INT8_SYMM_PER_LAYER,
    Precision.QUANT_UINT8_ASYMM_PER_LAYER,
    Precision.QUANT_INT32_SYMM_PER_LAYER,
]
GEARS = [[1, 4, 6, 6], [2, 4, 6, 6]]


def wrong_or(draw: Draw, right: Any, one_in: int = 12) -> Any:
    """Something right, and now and then something wrong."""
    return draw(st.sampled_from(WRONG)) if draw(st.integers(1, one_in)) == 1 else right


def operand_type(draw: Draw) -> Any:
    shape = draw(st.sampled_from(SHAPES))
    fields: dict[str, Any] = {"precision": draw(st.sampled_from([*PLAIN, *LAYER])), "dimensions": shape}
    if fields["precision"] in LAYER:
        fields["scale"] = draw(st.sampled_from([0.5, 0.003, 1e-30, 1e30]))
    elif draw(st.integers(1, 6)) == 1:
        fields["precision"] = Precision.QUANT_INT8_SYMM_PER_CHANNEL
        fields |= {"channel_dim": 0, "scales": [0.5, 0.25, 2.0, 0.1][: max(shape[:1], default=0)]}
    if -1 in shape and draw(st.booleans()):
        fields["dynamic"] = GEARS[: draw(st.integers(1, 2))]
    if draw(st.integers(1, 6)) == 1:
        names = (
            "precision",
            "dimensions",
            "scale",
            "zero_point",
            "scales",
            "channel_dim",
            "layout",
            "dynamic",
        )
        fields[draw(st.sampled_from(names))] = draw(st.sampled_from(WRONG))
    try:
        return OperandType(**fields)
    except TypeError:
        return fields


def operand(draw: Draw, model: Model) -> Any:
    own = draw(st.sampled_from(model.operands)) if model.operands else None
    return wrong_or(draw, own, 15)


def value(draw: Draw, kind: Any) -> Any:
    """The value of a constant of a type."""
    try:
        array = np.full(kind.shape, draw(st.sampled_from([0, 1, 2, 3])), kind.dtype)
    except Exception:
        array = np.zeros(3, np.float32)
    return wrong_or(draw, draw(st.sampled_from([array, array.tobytes(), array.ravel()])), 6)


def add_operand(draw: Draw, model: Model) -> Any:
    return model.add_operand(operand_type(draw), wrong_or(draw, ""))


def add_constant(draw: Draw, model: Model) -> Any:
    if draw(st.booleans()):
        return model.add_constant(wrong_or(draw, draw(st.sampled_from(SMALL)), 5))
    kind = operand_type(draw)
    return model.add_constant(value(draw, kind), kind, wrong_or(draw, "", 20))


def set_operand_value(draw: Draw, model: Model) -> Any:
    of = operand(draw, model)
    buffer = value(draw, getattr(of, "type", None))
    length = wrong_or(draw, getattr(buffer, "nbytes", None))
    return model.set_operand_value(of, buffer, length, draw(st.booleans()))


def arguments(draw: Draw, model: Model, row: Any, plain: bool) -> list[Any]:
    """Inputs of an operation: operands; of its method also plain values."""
    made: list[Any] = []
    for argument in row.signature.inputs:
        if argument.kind in ("", "s"):
            tensors = [
                operand(draw, model) for _ in range(draw(st.integers(1, 3)) if argument.repeats else 1)
            ]
            made += [tensors] if plain and argument.repeats else tensors
        elif plain:
            made.append(wrong_or(draw, draw(st.sampled_from(SMALL)), 8))
        else:
            constants = [one for one in model.operands if one.buffer is not None] or model.operands or [None]
            made.append(wrong_or(draw, draw(st.sampled_from(constants)), 10))
    if draw(st.integers(1, 10)) == 1:
        made = made[:-1]
    return made


def add_operation(draw: Draw, model: Model) -> Any:
    row = draw(st.sampled_from(operation_table.OPERATIONS))
    inputs = wrong_or(draw, arguments(draw, model, row, plain=False), 20)
    outputs = None
    if draw(st.booleans()):
        count = len(row.signature.outputs)
        outputs = wrong_or(draw, [operand(draw, model) for _ in range(count)])
    return model.add_operation(wrong_or(draw, row.type, 20), inputs, outputs)


def method(draw: Draw, model: Model) -> Any:
    row = draw(st.sampled_from(operation_table.OPERATIONS))
    given = arguments(draw, model, row, plain=True)
    named = {}
    if draw(st.integers(1, 8)) == 1:
        named[draw(st.sampled_from(["axis", "outputs", "fuse_code", "nothing", "input"]))] = draw(
            st.sampled_from(WRONG)
        )
    return getattr(model, row.type.name.lower())(*given, **named)


def identify(draw: Draw, model: Model) -> Any:
    ends = [[operand(draw, model) for _ in range(draw(st.integers(0, 3)))] for _ in range(2)]
    if draw(st.booleans()):  # what would be right
        written = [one for operation in model.operations for one in operation.output_operands]
        ends[0] = [one for one in model.operands if one.buffer is None and one not in written]
        ends[1] = written
    return model.identify(wrong_or(draw, ends[0], 20), wrong_or(draw, ends[1], 20))


def finish(draw: Draw, model: Model) -> Any:
    if model.output_operands or draw(st.integers(1, 4)) == 1:
        model.finish()


def network(draw: Draw, model: Model) -> Any:
    gears = {one: (2, 4, 6, 6) for one in model.input_operands if not one.type.known}
    made = model.network(gears if draw(st.booleans()) else None)
    return made.piece(range(len(made.steps))) if made.steps else None


CALLS = [
    *(add_operand, add_operand, add_constant, add_constant, set_operand_value, add_operation, add_operation),
    *(method, method, method, method, identify, finish, network),
]


def state(model: Model) -> Any:
    """All that a failed call must leave alone."""
    return (
        [
            (one.name, one.type.copy(), [value.tobytes() for value in one.values], id(one.buffer))
            for one in model.operands
        ],
        list(model.operations),
        (model.input_operands, model.output_operands, model.finished),
    )


def check(error: NNAdapterError) -> None:
    """It says something, on one line."""
    assert "\n" not in str(error)
    assert len(str(error)) > 10


@pytest.mark.slow
@given(data=st.data())
@examples(150)
def test_calls_in_any_order_raise_nothing_but_errors_of_the_door(data: st.DataObject) -> None:
    model = Model()
    for _ in range(data.draw(st.integers(1, 25))):
        call = data.draw(st.sampled_from(CALLS))
        before = state(model)
        try:
            call(data.draw, model)
        except NNAdapterError as error:
            check(error)
            assert state(model) == before


@pytest.mark.cases(24)
@pytest.mark.parametrize("kind", OperationType)
@given(data=st.data())
@examples(4)
def test_methods_with_any_arguments(kind: OperationType, data: st.DataObject) -> None:
    model = Model()
    row = operation_table.row(kind)
    for _ in range(4):
        try:
            model.add_operand(operand_type(data.draw))
        except NNAdapterError:
            continue
    before = state(model)
    try:
        getattr(model, kind.name.lower())(*arguments(data.draw, model, row, plain=True))
    except NNAdapterError:
        assert state(model) == before


def test_images_of_another_rank_are_refused() -> None:
    model = Model()
    x = model.add_operand(OperandType(Precision.FLOAT32, [2, 3]))
    grid = model.add_operand(OperandType(Precision.FLOAT32, [1, 4, 3, 2]))
    with pytest.raises(NNAdapterError, match=r"operations\[0\] \(GRID_SAMPLE\): "):
        model.grid_sample(x, grid, False, 1, 1)


def test_lists_of_different_precisions_are_refused() -> None:
    model = Model()
    reals, numbers = (
        model.add_operand(OperandType(kind, [2])) for kind in (Precision.FLOAT32, Precision.INT32)
    )
    with pytest.raises(NNAdapterError, match=r"MESHGRID\): inputs have different precisions, must have one"):
        model.meshgrid([reals, numbers])
