"""The table of operations as a whole: signatures, versions, what its rows promise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from npusim.frontends.nn_hal.checked import CheckedGraph, CheckedOperand, CheckedOperation, Location
from npusim.frontends.nn_hal.enumerations import HalVersion, OperandLifeTime, OperandType, OperationType
from npusim.frontends.nn_hal.operations import signatures as signature
from npusim.frontends.nn_hal.operations.named_arguments import Call, Known
from npusim.frontends.nn_hal.operations.operation_row import Row, text
from npusim.frontends.nn_hal.operations.operation_table import OPERATIONS, row
from npusim.frontends.nn_hal.operations.signatures import Binding, Slot
from npusim.kernels.operator.registered import custom
from npusim.kernels.table import known as known_operator

ROWS = pytest.mark.parametrize("entry", OPERATIONS, ids=lambda entry: entry.type.name)
UNNAMED = (OperationType.IF, OperationType.WHILE, OperationType.OEM_OPERATION)
"""Operations whose rows say nothing of types."""

Signature = tuple[list[OperandType], list[OperandType]]


def test_every_operation_has_one_row_in_the_order_of_codes() -> None:
    codes = [entry.type for entry in OPERATIONS]
    assert codes == sorted(OperationType)
    assert all(row(code) is entry for code, entry in zip(codes, OPERATIONS, strict=True))


@ROWS
def test_operators_exist(entry: Row) -> None:
    named = [name for name in entry.operators if name != custom(entry.type.name)]
    assert [name for name in named if not known_operator(name)] == []
    assert entry.supported is (entry.type not in UNNAMED)


@ROWS
def test_the_first_signature_comes_with_the_operation(entry: Row) -> None:
    assert signatures(entry, entry.since)
    if entry.type not in UNNAMED:
        assert min(since for since, _ in signature.assignments(entry.types)) is entry.since


@ROWS
def test_legal_signatures_are_found_and_others_are_not(entry: Row) -> None:
    for version in HalVersion:
        if version < entry.since:
            continue
        legal = signatures(entry, version)
        keys = {_key(one) for one in legal}
        for one in legal:
            assert isinstance(_bound(entry, version, one), Binding), one
            for other in _spoiled(one):
                if _key(other) not in keys and entry.type not in UNNAMED and not _repeats(entry):
                    assert not isinstance(_bound(entry, version, other), Binding), (one, other)


@ROWS
def test_what_is_not_known_breaks_no_rule(entry: Row) -> None:
    """Neither sizes nor values: all operands are of unknown rank."""
    for inputs, outputs in signatures(entry, HalVersion.AIDL_V3):
        call = _call(entry, inputs, outputs)
        assert [text(rule) for rule in (*entry.parameters, *entry.shapes) if rule(call) is not None] == []


@ROWS
def test_rules_have_their_text(entry: Row) -> None:
    for rule in (*entry.parameters, *entry.shapes, *entry.quantization):
        assert 0 < len(text(rule)) < 200, rule


def test_the_type_of_one_input_tells_forms_apart() -> None:
    """CONV_2D with ten inputs: explicit padding, or a layout and dilations."""
    conv, float32, int32 = row(OperationType.CONV_2D), OperandType.TENSOR_FLOAT32, OperandType.INT32
    assert conv is not None
    explicit = [float32] * 3 + [int32] * 7
    implicit = [*explicit[:7], OperandType.BOOL, int32, int32]
    for inputs, name in ((explicit, "padding_left"), (implicit, "nchw")):
        found = _bound(conv, HalVersion.V1_2, (inputs, [float32]))
        assert isinstance(found, Binding)
        assert name in [slot.name for slot in found.inputs]


def test_messages_say_what_would_be_right() -> None:
    relu, int32 = row(OperationType.RELU), OperandType.TENSOR_INT32
    assert relu is not None
    one = _bound(relu, HalVersion.V1_0, ([int32], [int32]))
    assert one == signature.Mismatch("inputs", 0, "TENSOR_FLOAT32 or TENSOR_QUANT8_ASYMM")
    two = _bound(relu, HalVersion.V1_0, ([int32, int32], [int32]))
    assert two == signature.Mismatch("", 0, "has 2 inputs and 1 outputs, takes 1 and gives 1")


def signatures(entry: Row, version: HalVersion) -> list[Signature]:
    """Every signature that a row's texts say for a version; what repeats stands twice."""
    found = []
    for form in (one for one in map(signature.form, entry.forms) if one.since <= version):
        for inputs in form.inputs.lists(version):
            for outputs in form.outputs.lists(version):
                for since, types in signature.assignments(entry.types) if entry.types else ((version, {}),):
                    if since <= version:
                        found.append((_types(inputs, types), _types(outputs, types)))
    return found


def _types(slots: Sequence[Slot], types: signature.Types) -> list[OperandType]:
    half = types.get("T") is OperandType.TENSOR_FLOAT16
    kinds = {
        "i": OperandType.INT32,
        "f": OperandType.FLOAT32,
        "h": OperandType.FLOAT16,
        "b": OperandType.BOOL,
        "g": OperandType.SUBGRAPH,
        "any": OperandType.TENSOR_FLOAT32,
        "s": OperandType.FLOAT16 if half else OperandType.FLOAT32,
        **signature.TENSORS,
        **types,
    }
    return [kinds[slot.kind] for slot in slots for _ in range(2 if slot.repeats else 1)]


def _spoiled(one: Signature) -> Iterator[Signature]:
    """The same with an input or output more or less, and with another type in each place."""
    inputs, outputs = one
    yield [*inputs, OperandType.UINT32], outputs
    yield inputs[:-1], outputs
    yield inputs, [*outputs, OperandType.TENSOR_OEM_BYTE]
    for place in range(len(inputs)):
        yield [*inputs[:place], OperandType.UINT32, *inputs[place + 1 :]], outputs
    for place in range(len(outputs)):
        yield inputs, [*outputs[:place], OperandType.TENSOR_OEM_BYTE, *outputs[place + 1 :]]


def _repeats(entry: Row) -> bool:
    forms = map(signature.form, entry.forms)
    return any(slot.repeats for form in forms for slot in (*form.inputs.every, *form.outputs.every))


def _key(one: Signature) -> tuple[tuple[OperandType, ...], tuple[OperandType, ...]]:
    return tuple(one[0]), tuple(one[1])


def _bound(entry: Row, version: HalVersion, one: Signature) -> Binding | signature.Mismatch:
    return signature.bind(entry.forms, entry.types, version, *one)


def _call(entry: Row, inputs: Sequence[OperandType], outputs: Sequence[OperandType]) -> Call:
    types, count = [*inputs, *outputs], len(inputs)
    operands = tuple(
        CheckedOperand(
            f"operands[{index}]",
            index,
            type_,
            None,
            0,
            0.0,
            0,
            OperandLifeTime.MODEL_INPUT if index < count else OperandLifeTime.MODEL_OUTPUT,
            Location(0, 0, 0),
        )
        for index, type_ in enumerate(types)
    )
    given, made = tuple(range(count)), tuple(range(count, len(types)))
    operation = CheckedOperation("operations[0]", 0, entry.type, given, made)
    graph = CheckedGraph("", operands, (operation,), given, made)
    call = entry.call(operation, Known(graph), HalVersion.AIDL_V3)
    assert isinstance(call, Call)
    return call
