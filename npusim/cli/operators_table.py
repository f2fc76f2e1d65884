"""The table of `npusim ops`: for each operator and element type, the computing unit, its conditions, and all names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, product

from npusim.frontends.nn_hal.operations.operation_row import text
from npusim.frontends.nn_hal.operations.operation_table import OPERATIONS
from npusim.frontends.nnadapter import operation_table as nnadapter
from npusim.frontends.nnef.operations import nnef_table as nnef
from npusim.frontends.onnx.operations import onnx_table as onnx
from npusim.frontends.paddle import paddle_program as paddle
from npusim.frontends.tflite.operators import OPERATORS as TFLITE
from npusim.isa.base.elements import element
from npusim.isa.base.errors import NpusimError, nearest
from npusim.isa.base.tensor import Quantization, TensorType
from npusim.kernels.graph import control
from npusim.kernels.operator.element_types import ANY_ALIKE, entries, first_operand
from npusim.kernels.operator.operator import Call, Lowering, Operator, requantized
from npusim.kernels.operator.parameters import Parameters, Rescale
from npusim.kernels.table import operators
from npusim.reports.run.coverage import HOST, Coverage, Operation, Standard, Way

TFLITE_NAME, HAL_NAME, NNADAPTER_NAME = "TensorFlow Lite", "NN HAL", "NNAdapter"
NNEF_NAME, ONNX_NAME, PADDLE_NAME = "NNEF", "ONNX", "Paddle"
MIXED = "float32 x int8"
"""The element types of dynamic range models: activations and weights."""


def coverage() -> list[Coverage]:
    """Return the rows of all operators; IF and WHILE come last."""
    return [*map(_covered, operators()), *(_deciding(op) for op in (control.IF, control.WHILE))]


def chosen(rows: Sequence[Coverage], names: Sequence[str]) -> list[Coverage]:
    """Return the rows with these names, in npusim or a front end. Raises NpusimError for an unknown name."""
    by_name = {name.lower(): row for row in reversed(rows) for name in (*chain(*row.names.values()), row.op)}
    for name in names:
        if name.lower() not in by_name:
            near = nearest(name.lower(), by_name)
            hint = f"did you mean {near}? " if near else ""
            raise NpusimError(f"{name}: no operator has this name; {hint}npusim ops lists them")
    return list(dict.fromkeys(by_name[name.lower()] for name in names))


def operations() -> list[Operation]:
    """Return every operation of the NN HAL, by code."""
    return [
        Operation(
            int(row.type),
            row.type.name,
            row.since.name,
            tuple(kind.name for kind in row.tensor_types()),
            row.operators,
            tuple(text(rule) for rule in (*row.parameters, *row.shapes, *row.quantization)),
        )
        for row in OPERATIONS
    ]


_DEFAULT = re.compile(r"(?<=[\w?])=[-(\d]\S*")
"""Pattern of the default values of arguments in the text of a row."""

Entry = tuple[int | None, str, str, tuple[str, ...]]
"""Code, name, arguments and operators of an operation of a front end."""

FRONT_ENDS: Mapping[str, tuple[str, Callable[[], Iterable[Entry]]]] = {
    "nnadapter": (
        NNADAPTER_NAME,
        lambda: (
            (int(row.type), row.type.name, _DEFAULT.sub("", row.text), row.operators)
            for row in nnadapter.OPERATIONS
        ),
    ),
    "onnx": (ONNX_NAME, lambda: ((None, row.kind, row.inputs, row.operators) for row in onnx.ROWS)),
    "paddle": (PADDLE_NAME, lambda: ((None, row.name, row.inputs, row.operators) for row in paddle.ROWS)),
}
"""The front ends whose operations `npusim ops --format` lists, by its value: name and operations."""


def standard(
    rows: Sequence[Coverage], names: Sequence[str] = (), format: str = "nnadapter"
) -> list[Standard]:
    """Return the operations of a front end with these names, or all; those of NNAdapter are by code.

    Raises NpusimError for an unknown name, with the most similar known one.
    """
    front_end, table = FRONT_ENDS[format]
    by_op = {row.op: row for row in rows}
    by_name = {
        name.lower(): Standard(code, name, arguments, operators, by_op[operators[0]] if operators else None)
        for code, name, arguments, operators in table()
    }
    for name in names:
        if name.lower() not in by_name:
            near = nearest(name.lower(), by_name)
            hint = f"did you mean {by_name[near].name}? " if near else ""
            advice = f"npusim ops --format {front_end.lower()} lists them"
            raise NpusimError(f"{name}: no operation of {front_end}; {hint}{advice}")
    return [by_name[name.lower()] for name in names] if names else list(by_name.values())


def _covered(entry: Operator) -> Coverage:
    any_type = entry.types == ANY_ALIKE
    types = first_operand(_type_rows(entry))
    ways = tuple(_way(entry, rescales, row, types) for rescales, row in entry.every_lowering)
    reached = {name for way in ways for name in way.types}
    left = tuple(name for name in types if name not in reached)
    if not ways:
        ways = (Way(HOST, types, (entry.on_host,)),)
    shown = ("any",) if any_type else types
    if any_type:
        ways = tuple(
            Way(way.unit, ("any",) if way.types == types else way.types, way.conditions) for way in ways
        )
    mixed = tuple(
        Way(HOST, (MIXED if "int8" in row.types[0] else row.types[0].partition(",")[0],), (row.on_host,))
        for row in entry.arithmetics
        if row.on_host and row.types
    )
    return Coverage(entry.name, _names(entry.name), shown, ways, left, mixed)


def _type_rows(entry: Operator) -> tuple[str, ...]:
    """Return the rows of element types; those of other arithmetics count if fixed point has no quantized values."""
    if any("int8" in row for row in entry.types):
        return entry.types
    others = (row for row in entry.arithmetics if row.lowerings and not row.in_float)
    return (*entry.types, *(types for row in others for types in row.types or ()))


def _deciding(op: str) -> Coverage:
    words = "the host decides between programs: it reads the condition and starts the next one"
    return Coverage(op, _names(op), ("bool",), (Way(HOST, ("bool",), (words,)),), ("bool",))


def _names(op: str) -> dict[str, tuple[str, ...]]:
    # An operation of the HAL is this operator if it does not only use it beside another.
    hal = [
        row.type.name
        for row in OPERATIONS
        if (op == row.type.name.lower() and op in (row.operators or (op,))) or row.operators[:1] == (op,)
    ]
    control_flow = (op.upper(),) if op in (control.IF, control.WHILE) else ()

    def main(rows: Iterable[tuple[str, tuple[str, ...]]]) -> tuple[str, ...]:
        return tuple(name for name, operators in rows if operators[:1] == (op,))

    return {
        TFLITE_NAME: tuple(kind for kind, row in TFLITE.items() if row.op == op) or control_flow,
        HAL_NAME: tuple(hal),
        NNADAPTER_NAME: main((row.type.name, row.operators) for row in nnadapter.OPERATIONS),
        NNEF_NAME: main((row.name, row.operators) for row in nnef.ROWS),
        ONNX_NAME: main((row.kind, row.operators) for row in onnx.ROWS),
        PADDLE_NAME: main((row.name, row.operators) for row in paddle.ROWS),
    }


def _way(entry: Operator, rescales: Sequence[Rescale], row: Lowering, types: Sequence[str]) -> Way:
    """Return a lowering with the element types that it accepts.

    A rule is about types if some types keep it and others break it in otherwise equal calls.
    """
    probes = {name: list(_probes(entry, name)) for name in types}
    kept = set(types)
    for rule in row.rules:
        passing = {name for name, calls in probes.items() if any(_keeps(rule, call) for call in calls)}
        if passing:
            kept &= passing
    requantization = [] if "fixed_point" in rescales else [requantized(rescales)]
    return Way(row.unit, tuple(name for name in types if name in kept), (*requantization, *row.conditions))


def _keeps(rule: Callable[[Call], bool], call: Call) -> bool:
    with suppress(Exception):  # a rule may count on rules about shapes and parameters that a probe breaks
        return bool(rule(call))
    return False


def _probes(entry: Operator, first: str) -> Iterator[Call]:
    """Return calls of an operator whose first input has an element type, one for each matching row of its types."""
    for row in _type_rows(entry):
        inputs, outputs = entries(row)
        if first not in inputs[0]:
            continue
        operands = [first, *(_like(allowed, first) for allowed in inputs[1:])]
        operands += [operands[-1]] * (3 - len(operands))
        for count, results in product((1, 2, 3), product(*map(sorted, outputs))):
            yield Call(_Anything(), tuple(map(_tensor, operands[:count])), tuple(map(_tensor, results)), {})


class _Anything(Parameters):
    """Parameters of a probe that have no values, so that rules about parameters do not apply."""


def _like(allowed: frozenset[str], first: str) -> str:
    return first if first in allowed else sorted(allowed)[0]


def _tensor(dtype: str) -> TensorType:
    codes = element(dtype).codes and element(dtype).bits <= 16
    return TensorType(dtype, (1, 4, 4, 4), Quantization((1.0,), (0,)) if codes else None)
