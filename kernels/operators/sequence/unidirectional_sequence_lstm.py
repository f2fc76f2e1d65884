"""unidirectional_sequence_lstm: a long short-term memory layer over a sequence, in float32 or integers.

The inputs are TFLite's by position (`lstm_cell.Operand`). Every step computes, with W, R, b of each gate,

    i, f, o = logistic(W x + R h + p c + b)    g = tanh(W x + R h + b)
    c = f c + i g                              h = o tanh(c), or its projection

with the new c in o. Peephole weights p and the projection may be absent; without weights of its own i = 1 - f.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import log2

from npusim.isa.base.tensor import Array, TensorType
from npusim.isa.base.workload import Workload
from npusim.kernels.operator.operands import by_type, elementwise, input_type
from npusim.kernels.operator.operator import Call, Operator, Shapes, Values
from npusim.kernels.operator.rescale import MOST_LEFT
from npusim.kernels.operators.sequence import lstm_cell, lstm_float, lstm_integer
from npusim.kernels.operators.sequence.lstm_cell import (
    GATES,
    PEEPHOLES,
    Operand,
    gates_of,
    operand,
    present,
    sizes_of,
    weights_of,
)

Parameters = lstm_cell.Parameters

_WEIGHTS = (*range(Operand.INPUT_WEIGHTS, Operand.CELL_TO_INPUT), Operand.PROJECTION_WEIGHTS)
_PEEPHOLES = tuple(PEEPHOLES.values())
_STATES = (Operand.OUTPUT_STATE, Operand.CELL_STATE)
_TYPES = (
    "int8*9, int16*3, int32*4, int8, int32, int8, int16 -> int8*2, int16",  # input and weights, peepholes, biases, ...
    "float32 -> float32",
)
_OPERATIONS_PER_CELL = 9  # three logistic functions, two tanh, three products, one sum


_COMPUTE = by_type({"float32": lstm_float.reference, "int8": lstm_integer.reference})


def _reference(call: Call[Parameters], values: Values) -> list[Array]:
    """The output, then the next values of the states if the call asks for them."""
    return _COMPUTE(call, values)[: len(call.outputs)]


def _workload(call: Call) -> Workload:
    sizes = sizes_of(call)
    inner_k = sizes.inputs + sizes.outputs
    macs = len(gates_of(call)) * sizes.cells * inner_k
    if present(call, Operand.PROJECTION_WEIGHTS):
        macs += sizes.cells * sizes.outputs
    steps = sizes.batch * sizes.steps
    work = elementwise(call, steps * sizes.cells * _OPERATIONS_PER_CELL)
    # The states stay in the caches from step to step.
    written = call.outputs[0].size_bytes
    return replace(work, kind="gemm", macs=steps * macs, inner_k=inner_k, output_bytes=written)


# Rules


def _given(call: Call, positions: Sequence[int]) -> list[TensorType]:
    """The types of those of the operands that are there."""
    return [tensor for position in positions if (tensor := operand(call, position)) is not None]


def _operand_count(call: Call) -> bool:
    """takes 20 or 24 operands and gives 1 output, or the next values of both states beside it"""
    return len(call.inputs) in (20, 24) and len(call.outputs) in (1, 1 + len(_STATES))


def _needed_operands(call: Call) -> bool:
    """input, states, and weights and bias of the forget, cell and output gates are there"""
    groups = (Operand.INPUT_WEIGHTS, Operand.RECURRENT_WEIGHTS, Operand.BIAS)
    needed = [weights_of(gate, group) for gate in GATES[1:] for group in groups]
    return all(present(call, position) for position in (Operand.INPUT, *_STATES, *needed))


def _input_gate(call: Call) -> bool:
    """weights and bias of the input gate are all there or all absent"""
    groups = (Operand.INPUT_WEIGHTS, Operand.RECURRENT_WEIGHTS, Operand.BIAS)
    return len({present(call, group) for group in groups}) == 1


def _peepholes(call: Call) -> bool:
    """the gates have peephole weights or none has"""
    found = {gate: present(call, position) for gate, position in PEEPHOLES.items()}
    return len({found[gate] for gate in PEEPHOLES if gate in gates_of(call)}) == 1


def _projection(call: Call) -> bool:
    """a projection bias comes with projection weights, and peephole weights without a projection"""
    if present(call, Operand.PROJECTION_WEIGHTS):
        return not _given(call, _PEEPHOLES)
    return not present(call, Operand.PROJECTION_BIAS)


def _no_layer_norm(call: Call) -> bool:
    """has no layer normalization: operands 20 to 23 are absent"""
    return not _given(call, range(Operand.LAYER_NORM, len(call.inputs)))


def _next_states(call: Call) -> bool:
    """the next value of a state is of its type"""
    after = zip(call.outputs[1:], _given(call, _STATES), strict=False)
    return all(state == before for state, before in after)


def _ranks(call: Call) -> bool:
    """the input has three axes, none empty, and weights have two"""
    shape = input_type(call).shape
    return len(shape) == 3 and min(shape) > 0 and all(len(t.shape) == 2 for t in _given(call, _WEIGHTS))


def _infer(call: Call) -> Shapes:
    shape = (*input_type(call).shape[:2], sizes_of(call).outputs)
    return (shape, *(state.shape for state in _given(call, _STATES)))[: len(call.outputs)]


def _shapes(call: Call) -> bool:
    """weights, biases, states and output have the sizes that input, cells and outputs ask for"""
    batch, _, inputs, cells, outputs = sizes_of(call)
    expected: dict[tuple[int, ...], Sequence[int]] = {
        (cells, inputs): range(Operand.INPUT_WEIGHTS, Operand.RECURRENT_WEIGHTS),
        (cells, outputs): range(Operand.RECURRENT_WEIGHTS, Operand.CELL_TO_INPUT),
        (cells,): (*_PEEPHOLES, *range(Operand.BIAS, Operand.PROJECTION_WEIGHTS)),
    }
    if not all(tensor.shape == shape for shape, group in expected.items() for tensor in _given(call, group)):
        return False
    states = [tensor.elements for tensor in _given(call, _STATES)]
    projection = [
        tensor.shape for tensor in _given(call, (Operand.PROJECTION_WEIGHTS, Operand.PROJECTION_BIAS))
    ]
    return (
        projection == [(outputs, cells), (outputs,)][: len(projection)]
        and (len(projection) > 0 or outputs == cells)
        and states == [batch * outputs, batch * cells]
        and _infer(call) == tuple(output.shape for output in call.outputs)
    )


def _integer_scales(call: Call) -> bool:
    """in integers every operand but the biases has one scale, and weights have no zero point"""
    if input_type(call).real:
        return True
    weights = _given(call, (*_WEIGHTS, *_PEEPHOLES))
    tensors = [*weights, *_given(call, (Operand.INPUT, *_STATES)), call.outputs[0]]
    if any(tensor.quantization is None or tensor.quantization.axis is not None for tensor in tensors):
        return False
    return all(tensor.quantization is not None and tensor.quantization.zero_point == 0 for tensor in weights)


def _cell_scale(call: Call) -> bool:
    """in integers the scale of the cell state is a power of two from 2**-15 to 2**-9, without zero point"""
    found = input_type(call, Operand.CELL_STATE).quantization
    if input_type(call).real or found is None:
        return input_type(call).real
    return log2(found.scale) in range(-15, -8) and found.zero_point == 0


def _hidden_scale(call: Call[Parameters]) -> bool:
    """in integers the fifth of the intermediates is the [scale, zero point] of o tanh(c)"""
    if input_type(call).real:
        return True
    intermediates = call.parameters.intermediates
    return len(intermediates) == 5 and intermediates[lstm_integer.HIDDEN] is not None


def _shifts(call: Call) -> bool:
    """in integers products of scales are less than 2**31 times the scale of their sum: C leaves more undefined"""
    return input_type(call).real or lstm_integer.largest_shift(call) <= MOST_LEFT


OPERATOR = Operator(
    name="unidirectional_sequence_lstm",
    parameters=Parameters,
    types=_TYPES,
    rules=(
        _operand_count,
        _needed_operands,
        _input_gate,
        _peepholes,
        _projection,
        _no_layer_norm,
        _next_states,
        _ranks,
        _shapes,
        _integer_scales,
        _cell_scale,
        _hidden_scale,
        _shifts,
    ),
    infer=_infer,
    reference=_reference,
    workload=_workload,
    on_host="the NPU has no 16-bit gates and cell states",
    states=tuple(map(int, _STATES)),
)
