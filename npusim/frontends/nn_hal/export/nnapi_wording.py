"""Writes operators as NNAPI operations with their arguments.

The operation and the names of its arguments come from the reader's row. The functions here add what a row cannot
express: the choice between two operations, and arguments that follow from shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import Any

from npusim.frontends.nn_hal.enumerations import OperationType
from npusim.frontends.nn_hal.operations.operation_row import Row
from npusim.frontends.nn_hal.operations.operation_table import OPERATIONS as ROWS
from npusim.frontends.nn_hal.operations.operation_table import row
from npusim.frontends.nn_hal.operations.signatures import arguments_from
from npusim.frontends.rewriting import ends_of_slice
from npusim.isa.base.errors import GraphError
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.kernels.operator.geometry import covered
from npusim.kernels.operator.operator import Call

_T = OperationType


@dataclass(frozen=True, slots=True)
class Wording:
    """An operation of NNAPI without its operands.

    values:  arguments by their names in the signature.
    form:    the index of its signature.
    results: the results of the node in the operation's order, -1 for one that nobody reads; () for the same order.
    scratch: the shape of a result that nobody reads.
    """

    type: OperationType
    values: Mapping[str, Any] = field(default_factory=dict)
    form: int = 0
    results: tuple[int, ...] = ()
    scratch: tuple[int, ...] = ()


Finish = Callable[[Call, Wording], Wording]
"""Completes the wording that a row gives."""


def wording(op: str, call: Call) -> Wording:
    """Return the operation and arguments of an operator. Raises GraphError if NNAPI has no operation for it."""
    if op not in OPERATIONS:
        raise GraphError(f"NNAPI has no operation for {op}")
    entry = OPERATIONS[op]
    values: dict[str, Any] = {"nchw": False}
    for name, words in entry.words.items():
        if getattr(call.parameters, name, None) is not None:
            values |= arguments_from(words, getattr(call.parameters, name))
    plain = Wording(entry.type, values, results=entry.order)
    return _FINISH[op](call, plain) if op in _FINISH else plain


def _with(plain: Wording, **values: Any) -> Wording:
    return replace(plain, values={**plain.values, **values})


def _convolution(call: Call, plain: Wording) -> Wording:
    """Use GROUPED_CONV_2D for several groups."""
    image, weights = call.inputs[:2]
    assert image is not None
    assert weights is not None
    groups = image.shape[3] // weights.shape[3]
    return plain if groups == 1 else _with(replace(plain, type=_T.GROUPED_CONV_2D), groups=groups)


def _transposed(call: Call, plain: Wording) -> Wording:
    """Write the paddings if the size follows from them, otherwise the size and no padding."""
    parameters = call.parameters
    image, weights = call.inputs[:2]
    assert image is not None
    assert weights is not None
    axes = zip(image.shape[1:3], weights.shape[1:3], parameters.strides, strict=True)
    reached = [covered(*axis) - sum(pads) for axis, pads in zip(axes, parameters.padding, strict=True)]
    size = call.outputs[0].shape
    if parameters.padding[0][0] >= 0 and tuple(reached) == size[1:3]:
        return plain
    return _with(replace(plain, form=1), output_shape=size, padding=2)


def _pad(call: Call, plain: Wording) -> Wording:
    return plain if call.parameters.pad_value is None else replace(plain, type=_T.PAD_V2)


def _strided_slice(call: Call, plain: Wording) -> Wording:
    """Set the mask bit of an end before the first element, which has no number, and shrink axes that are dropped."""
    ends, masked, shrunk = ends_of_slice(call.parameters, call.outputs[0].shape)
    return _with(plain, end=ends, begin_mask=0, end_mask=masked, shrink_axis_mask=shrunk)


def _split(call: Call, plain: Wording) -> Wording:
    if len(set(call.parameters.sizes)) != 1:
        raise GraphError("NNAPI's SPLIT gives equal parts")
    return _with(plain, count=len(call.outputs))


def _reverse(call: Call, plain: Wording) -> Wording:
    if len(call.parameters.axes) != 1:
        raise GraphError("NNAPI's REVERSE has one axis")
    return plain


def _gather(call: Call, plain: Wording) -> Wording:
    if call.parameters.batch_dims:
        raise GraphError("NNAPI's GATHER has no batch dimensions")
    return plain


def _lstm(call: Call, plain: Wording) -> Wording:
    """Set the shape of the scratch memory, a column per gate and unit; it is a result that a graph may leave out."""
    cell = call.inputs[19]
    assert cell is not None
    gates = 4 if call.inputs[1] is not None else 3
    has_scratch = len(call.outputs) > _LSTM_RESULTS
    results = plain.results if has_scratch else (-1, *plain.results[1:])
    return replace(plain, results=results, scratch=(cell.shape[0], gates * cell.shape[1]))


_LSTM_RESULTS = 3

_FINISH: dict[str, Finish] = {
    "conv_2d": _convolution,
    "floor_div": lambda call, plain: _with(plain, activation="none"),
    "gather": _gather,
    "lstm": _lstm,
    "pad": _pad,
    "reshape": lambda call, plain: _with(plain, shape=call.outputs[0].shape),
    "reverse_v2": _reverse,
    "split": _split,
    "strided_slice": _strided_slice,
    "transpose_conv": _transposed,
}

_NOT_WRITTEN = ("detection_postprocessing", "fill", "generate_proposals", "lsh_projection", "quantized_lstm")
"""Operators whose parameters do not determine all arguments of their operation."""


def _rows() -> dict[str, Row]:
    """Return the row of each operator, the first that has it, with the parameters of all that have it."""
    rows: dict[str, Row] = {}
    for entry in ROWS:
        if entry.op and entry.type is not _T.OEM_OPERATION and entry.op not in _NOT_WRITTEN:
            first = rows.setdefault(entry.op, entry)
            rows[entry.op] = replace(first, words={**entry.words, **first.words})
    division = row(_T.DIV)
    assert division is not None
    return rows | {"floor_div": division}


OPERATIONS: dict[str, Row] = _rows()
"""The row of each operator that NNAPI has an operation for."""
