"""Every rule that an operation's row has is broken by some call: legal calls with one operand, or two, changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from npusim.frontends.nn_hal.enumerations import HalVersion, OperandType, OperationType, row_of
from npusim.frontends.nn_hal.fault import Fault
from npusim.frontends.nn_hal.model_check import FORM, check_model
from npusim.frontends.nn_hal.operations.named_arguments import Known
from npusim.frontends.nn_hal.operations.operation_row import Row, text
from npusim.frontends.nn_hal.operations.operation_table import OPERATIONS
from tests.npusim.frontends.nn_hal.calls import (
    BIAS,
    CALLS,
    CHANNELS,
    CODES,
    DEPTHWISE,
    FILTER,
    IMAGE,
    Case,
    Value,
)
from tests.npusim.frontends.nn_hal.single import LATEST, Spec, fault, model, tensor, vector
from tests.npusim.frontends.nn_hal.test_sequence_operations import LEGAL, cell, f, w

NO_STATE = Spec(tensor("F32", (1,)).type, (4,), omitted=True)
EXPLICIT = [1, 1, 1, 1]
WINDOW = [IMAGE, *EXPLICIT, 1, 2, 2, 3, 0]
ROIS = tensor("Q16A", (3, 4), 0.125)

FURTHER: tuple[tuple[str, Case], ...] = (
    ("MUL", ([tensor("I32", (2,)), tensor("I32", (2,)), 0], [tensor("I32", (2,))])),
    (
        "GROUPED_CONV_2D",
        (
            [
                *(CODES, tensor("Q8C", (4, 2, 2, 1), channels=((0.5,) * 4, 0)), tensor("I32", (4,))),
                *(2, 1, 1, 2, 0, False),
            ],
            [tensor("Q8", (1, 3, 3, 4), 1.0)],
        ),
    ),
    # Calls that only some rules look at, beside one of each operation: name, (inputs, outputs).
    ("AVERAGE_POOL_2D", ([IMAGE, 2, 1, 1, 2, 2, 0], [tensor("F32", (1, 3, 3, 2))])),
    ("MAX_POOL_2D", (WINDOW, [tensor("F32", (1, 2, 5, 2))])),
    ("L2_POOL_2D", (WINDOW, [tensor("F32", (1, 2, 5, 2))])),
    ("CONV_2D", ([CODES, FILTER, BIAS, *EXPLICIT, 1, 1, 0], [tensor("Q8", (1, 5, 5, 3), 1.0)])),
    (
        "DEPTHWISE_CONV_2D",
        (
            [CODES, DEPTHWISE, tensor("I32", (4,), 0.125), *EXPLICIT, 1, 1, 2, 0],
            [tensor("Q8", (1, 5, 5, 4), 1.0)],
        ),
    ),
    (
        "DEPTHWISE_CONV_2D",
        (
            [
                CODES,
                tensor("Q8C", (1, 2, 2, 4), channels=((0.5,) * 4, 3)),
                tensor("I32", (4,)),
                2,
                1,
                1,
                2,
                0,
            ],
            [tensor("Q8", (1, 3, 3, 4), 1.0)],
        ),
    ),
    (
        "GROUPED_CONV_2D",
        (
            [IMAGE, tensor("F32", (4, 2, 2, 1)), tensor("F32", (4,)), *EXPLICIT, 1, 1, 2, 0, False],
            [tensor("F32", (1, 5, 5, 4))],
        ),
    ),
    (
        "GROUPED_CONV_2D",
        (
            [CODES, tensor("Q8", (4, 2, 2, 1), 0.25), tensor("I32", (4,), 0.125), 2, 1, 1, 2, 0, False],
            [tensor("Q8", (1, 3, 3, 4), 1.0)],
        ),
    ),
    (
        "TRANSPOSE_CONV_2D",
        ([CODES, FILTER, BIAS, *EXPLICIT, 2, 2, 0, False], [tensor("Q8", (1, 6, 6, 3), 1.0)]),
    ),
    (
        "TRANSPOSE_CONV_2D",
        (
            [CODES, CHANNELS, tensor("I32", (3,)), vector(1, 8, 8, 3), 1, 2, 2, 0, False],
            [tensor("Q8", (1, 8, 8, 3), 1.0)],
        ),
    ),
    ("L2_NORMALIZATION", ([tensor("F32", (2, 3)), 1], [tensor("F32", (2, 3))])),
    ("L2_NORMALIZATION", ([tensor("F32", (2, 3))], [tensor("F32", (2, 3))])),
    ("LOCAL_RESPONSE_NORMALIZATION", ([IMAGE, 1, 1.0, 0.5, 0.5, 3], [IMAGE])),
    ("SOFTMAX", ([tensor("F32", (3,)), 1.0], [tensor("F32", (3,))])),
    ("LSH_PROJECTION", ([f(3, 30), tensor("I32", (4, 5)), NO_STATE, 3], [tensor("I32", (3,))])),
    ("LSH_PROJECTION", ([f(3, 2), tensor("I32", (4, 5)), w(4), 3], [tensor("I32", (3,))])),
    ("LSH_PROJECTION", ([f(3, 99), tensor("I32", (4, 5)), NO_STATE, 1], [tensor("I32", (3,))])),
    *(
        (name, case)
        for name in ("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")
        for case in (
            ([IMAGE, 3, 2, False, True, True], [tensor("F32", (1, 2, 3, 2))]),
            ([IMAGE, 0.5, 0.5, False], [tensor("F32", (1, 2, 2, 2))]),
            ([IMAGE, float("inf"), 0.5, False], [tensor("F32", (1, 2, 2, 2))]),
            ([IMAGE, 3, 2, False], [tensor("F32", (1, 2, 3, 2))]),
        )
    ),
    ("TRANSPOSE", ([tensor("F32", (2, 3)), vector(1, 0)], [tensor("F32", (3, 2))])),
    (
        "AXIS_ALIGNED_BBOX_TRANSFORM",
        (
            [ROIS, tensor("Q8", (3, 8), 0.05, 128), vector(0, 1, 0), tensor("Q16A", (2, 2), 0.125)],
            [tensor("Q16A", (3, 8), 0.125)],
        ),
    ),
    (
        "ROI_ALIGN",
        (
            [tensor("Q8", (2, 4, 6, 5)), ROIS, vector(0, 1, 0), 2, 3, 2.0, 4.0, 0, 2, False],
            [tensor("Q8", (3, 2, 3, 5), 0.1)],
        ),
    ),
    ("ROI_POOLING", ([f(2, 4, 6, 5), f(3, 4), vector(0, 1, 0), 2, 3, 2.0, 4.0, False], [f(3, 2, 3, 5)])),
    (
        "ROI_POOLING",
        (
            [tensor("Q8", (2, 4, 6, 5)), ROIS, tensor("I32", (3,)), 2, 3, 2.0, 4.0, False],
            [tensor("Q8", (3, 2, 3, 5))],
        ),
    ),
    (
        "BOX_WITH_NMS_LIMIT",
        (
            [
                *(tensor("Q8", (3, 2)), tensor("Q16A", (3, 8), 0.125), tensor("I32", (3,))),
                *(0.5, -1, 2, 0.5, 0.5, 0.125),
            ],
            [tensor("Q8", (0,)), tensor("Q16A", (0, 4), 0.125), tensor("I32", (0,)), tensor("I32", (0,))],
        ),
    ),
    (
        "GENERATE_PROPOSALS",
        (
            [
                *(tensor("Q8", (1, 3, 2, 2)), tensor("Q8", (1, 3, 2, 8))),
                *(tensor("Q16S", (2, 4), 0.125), tensor("Q16A", (1, 2), 0.125)),
                *(8.0, 8.0, -1, -1, 0.5, 1.0, False),
            ],
            [tensor("Q8", (0,)), tensor("Q16A", (0, 4), 0.125), tensor("I32", (0,))],
        ),
    ),
    *(
        (
            "UNIDIRECTIONAL_SEQUENCE_LSTM",
            ([f(2, 5, 3), *parts, f(2, 5), f(2, 4), 4, 0.0, 0.0, False, *norms], []),
        )
        for parts in (
            cell(3, 4, 5, "projection", "peephole"),
            [*cell(3, 4, 5, "projection")[:-2], NO_STATE, w(5)],
        )
        for norms in ([w(4)] * 4, [NO_STATE] * 4, [NO_STATE, w(4), w(4), w(4)])
    ),
    ("LSTM", ([f(2, 3), *cell(3, 4, 5)[:-1], w(5), f(2, 5), f(2, 4), 4, 0.0, 0.0], LEGAL["LSTM"][1])),
    ("LSTM", ([*LEGAL["LSTM"][0], *[w(4)] * 4], LEGAL["LSTM"][1])),
)


Change = Callable[[Value], Iterator[Value]]


def bases(operation: str) -> Iterator[tuple[Case, Change]]:
    """Calls of an operation and what to change of them: legal ones, further ones, and both with other types."""
    cases = [
        case for name, case in (*CALLS.items(), *LEGAL.items(), *FURTHER) if name.split()[0] == operation
    ]
    yield from ((case, changed) for case in cases)
    for inputs, outputs in cases:
        for kind in ("Q8", "I32"):
            case = [_retyped(value, kind) for value in inputs], [_retyped(value, kind) for value in outputs]
            if case != (inputs, outputs):
                yield case, rescaled


def rescaled(value: Value) -> Iterator[Value]:
    """An operand with other scales and zero points; another activation."""
    if isinstance(value, Spec):
        yield from (replace(value, scale=value.scale * factor) for factor in (0.01, 2) if value.scale)
    elif isinstance(value, int) and not isinstance(value, bool):
        yield 1


def _retyped(value: Value, kind: str) -> Any:
    if isinstance(value, Spec) and value.type is OperandType.TENSOR_FLOAT32 and value.value is None:
        return tensor(kind, value.dimensions)
    return value


RULED = [row for row in OPERATIONS if row.parameters or row.shapes or row.quantization]


def changed(value: Value) -> Iterator[Value]:
    """An operand in all the ways that rules look at: its rank, sizes, scale, zero point, value, absence."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (-7, -1, 0, 1, 2, 3, 5, 99)
    elif isinstance(value, float):
        yield from (-1.0, 0.0, 0.3, float("inf"))
    else:
        yield from _specs(value)


def _specs(value: Spec) -> Iterator[Spec]:
    yield replace(value, value=None, omitted=True)
    if value.omitted:
        yield from (replace(value, dimensions=sizes, omitted=False) for sizes in ((1,), (4,), (2, 4)))
        return
    if row_of(value.type).tensor and not isinstance(value.value, list):
        sizes = value.dimensions
        yield replace(value, dimensions=(*sizes, 2))
        yield replace(value, dimensions=(*sizes, 1, 1, 1, 1))
        if len(sizes) > 1:
            yield replace(value, dimensions=sizes[:-1])
            yield replace(value, dimensions=sizes[1:])
        for axis, size in enumerate(sizes):
            for other in (size + 1, size * 2, max(size - 1, 1), 1):
                yield replace(value, dimensions=(*sizes[:axis], other, *sizes[axis + 1 :]))
        if value.scale:
            yield from (replace(value, scale=value.scale * factor) for factor in (0.01, 2, 300))
            if value.type is not OperandType.TENSOR_QUANT16_SYMM:
                yield replace(value, zero_point=7)
        if value.channels is not None:
            scales, axis = value.channels
            for other in range(len(sizes)):
                yield replace(value, channels=((scales[0],) * sizes[other], other))
    if isinstance(value.value, list):
        yield from _lists(value)


def _lists(value: Spec) -> Iterator[Spec]:
    """A constant list with other elements, more, and fewer of them."""
    held = value.value
    if isinstance(held[0], list):
        others = [held[:-1], [*held, held[0]], *([[one, (-1, 0)] for one in held])]
        pairs = [[[-1, 2], *held[1:]], [[99, 99], *held[1:]], held[:-1], [*held, held[0]], others[0]]
        for other in pairs:
            if other:
                yield Spec(value.type, (len(other), 2), other)
        return
    for position in range(len(held)):
        for element in (-9, -1, 0, 1, 2, 3, 99):
            other = [*held[:position], element, *held[position + 1 :]]
            yield Spec(value.type, (len(other),), other)
    for other in (held[:-1], [*held, 1], [*held, *held]):
        if other:
            yield Spec(value.type, (len(other),), other)
    yield Spec(value.type, (len(held), 1), [[element] for element in held])


def messages(row: Row) -> Iterator[str]:
    """What changed calls are told, by the versions whose rules differ."""
    operation = row.type.name
    versions = {row.since, max(row.since, HalVersion.V1_1), LATEST}
    for (inputs, outputs), change in bases(operation):
        operands: Sequence[Value] = [*inputs, *outputs]
        for version in versions:
            yield fault(operation, inputs, outputs, version=version)
            for position, value in enumerate(operands):
                for other in change(value):
                    call = [*operands[:position], other, *operands[position + 1 :]]
                    yield fault(operation, call[: len(inputs)], call[len(inputs) :], version=version)
        yield from of_empty(row, inputs, outputs, LATEST)


def of_empty(row: Row, inputs: Sequence[Value], outputs: Sequence[Any], version: HalVersion) -> Iterator[str]:
    """What a call is told of sizes of 0, which only values of an execution have: in a model 0 is an open size."""
    checked = check_model(model(row.type.name, inputs, outputs, version), FORM)
    if isinstance(checked, Fault):
        return
    for operand in checked.main.operands:
        for axis in range(len(operand.dimensions or ())):
            known = Known(checked.main)
            sizes = list(operand.dimensions or ())
            sizes[axis] = 0
            known.shapes[operand.index] = tuple(sizes)
            call = row.call(checked.main.operations[0], known, version)
            found = call if isinstance(call, Fault) else row.fault(call)
            if found is not None:
                yield found.message


TOGETHER = {
    text(rule)
    for row in OPERATIONS
    if row.type is OperationType.LSTM
    for rule in row.shapes
    if " beside " in text(rule) or "all have values" in text(rule)
}
"""Rules of several arguments that are omitted together: one function for all LSTMs, broken at LSTM."""

UNBROKEN: dict[OperationType, tuple[str, ...]] = {
    # Whatever has no dimensions is no tensor, or not known yet.
    OperationType.LSH_PROJECTION: ("input has 1 or more dimensions",),
    # What else is wrong then is said first.
    OperationType.HEATMAP_MAX_KEYPOINT: ("heatmaps has dimensions",),
    OperationType.BIDIRECTIONAL_SEQUENCE_RNN: (
        "fw_state_out has",
        "bw_state_out has",
        "auxiliary weights both",
    ),
    # The operation has no such arguments; the rule is that of all cells.
    OperationType.QUANTIZED_16BIT_LSTM: ("cell_to_", "norm has", "input_norm", "output_state_out has"),
}
"""The beginnings of rules that no call of these breaks alone."""


def rules(row: Row) -> list[str]:
    return [text(rule) for rule in (*row.parameters, *row.shapes, *row.quantization)]


@pytest.mark.slow
@pytest.mark.cases(8)
@pytest.mark.parametrize("row", RULED, ids=lambda row: row.type.name)
def test_every_rule_is_broken_by_a_call(row: Row) -> None:
    said = set(messages(row))
    unbroken = {rule for rule in rules(row) if not any(rule in message for message in said)}
    if row.type is not OperationType.LSTM:
        unbroken -= TOGETHER
    excused = UNBROKEN.get(row.type, ())
    assert {rule for rule in unbroken if not any(part in rule for part in excused)} == set()
