"""An integer LSTM as matrix products and steps, which the NPU does one by one.

The products with the inputs are one for all steps of a sequence; then each step has one with the output before it, the
gates, and perhaps a projection. Peepholes and normalized sums stay on the host, as does what needs weights that are no
constants.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from npusim.isa.base.tensor import Array, TensorType
from npusim.kernels.operator.expansion import Expansion, known
from npusim.kernels.operator.operands import input_type
from npusim.kernels.operator.operator import Call
from npusim.kernels.operators.movement import concatenation, reshape
from npusim.kernels.operators.sequence import gate_sums, lstm_integer, lstm_step
from npusim.kernels.operators.sequence.lstm_cell import Operand, gates_of

MOST_STEPS = 256
"""Longer sequences stay one layer: each step is three, and all of them are scheduled."""
_ORDER = ("input", "forget", "cell", "output")


def steps(call: Call, count: int, time_major: bool) -> Expansion | None:
    """A layer over `count` steps, its results the outputs, output state and cell state; None for one that needs the
    host.
    """
    if count > MOST_STEPS or not _constant(call):
        return None
    cell = lstm_integer.Cell(call, known(call))
    if any(gate.peephole is not None or gate.layer_norm is not None for gate in cell.gates.values()):
        return None
    if not -128 <= cell.hidden_zero <= 127 or not 0 <= 15 + cell.state_exponent <= 15:
        return None
    found = Expansion(len(call.inputs))
    batch, cells = input_type(call, Operand.CELL_STATE).shape
    x = input_type(call)
    codes = int(Operand.INPUT)
    if len(x.shape) != 2:
        flat = TensorType(x.dtype, (batch * count, x.shape[-1]), x.quantization)
        (codes,) = found.call("inputs", "reshape", (codes,), (flat,), reshape.Parameters(shape=flat.shape))
    order = [cell.gates[gate] for gate in _ORDER if gate in gates_of(call)]
    sums = _sums(found, "input_sums", codes, (batch * count, "int16"), [gate.from_input for gate in order])
    output, state = int(Operand.OUTPUT_STATE), int(Operand.CELL_STATE)
    results = []
    for step in range(count):
        where = f"step_{step}/" if count > 1 else ""
        # The sums saturate when these are added, and not before.
        name, addends = f"{where}state_sums", [gate.from_output for gate in order]
        recurrent = _sums(found, name, output, (batch, "int32"), addends)
        hidden = TensorType("int8", (batch, cells), call.outputs[0].quantization)
        output, state = found.call(
            f"{where}cells",
            "lstm_step",
            (sums, recurrent, state),
            (hidden, input_type(call, Operand.CELL_STATE)),
            lstm_step.Parameters(
                step=step,
                steps=count,
                time_major=time_major,
                coupled="input" not in cell.gates,
                state_integer_bits=15 + cell.state_exponent,
                limit=cell.cell_limit,
                rescale=cell.hidden_rescale,
                zero=cell.hidden_zero,
            ),
        )
        if cell.projection is not None:
            output = _projected(found, call, f"{where}projection", output, cell)
        results.append(output)
    found.results = [_joined(found, call, results, time_major), output, state]
    return found


def _constant(call: Call) -> bool:
    """Whether all weights and biases are constants at hand."""
    states = (Operand.INPUT, Operand.OUTPUT_STATE, Operand.CELL_STATE)
    pairs = enumerate(zip(call.inputs, known(call), strict=True))
    return all(tensor is None or data is not None or at in states for at, (tensor, data) in pairs)


def _sums(
    found: Expansion, name: str, codes: int, result: tuple[int, str], addends: list[lstm_integer.Addend]
) -> int:
    """The sums of all gates from one operand; rows and element type of the result."""
    rows, dtype = result
    weights = np.concatenate([each.weights for each in addends]).astype(np.int8)
    offsets = np.concatenate([each.offset for each in addends])
    rescales = tuple([each.rescale for each in addends])
    kind = TensorType(dtype, (rows, len(weights)))
    return _product(found, name, codes, kind, weights, offsets, rescales=rescales)


def _projected(found: Expansion, call: Call, name: str, codes: int, cell: lstm_integer.Cell) -> int:
    assert cell.projection is not None
    outputs = input_type(call, Operand.OUTPUT_STATE).shape
    limit = cell.output_limit or 128
    return _product(
        found,
        name,
        codes,
        TensorType("int8", outputs, call.outputs[0].quantization),
        cell.projection.weights.astype(np.int8),
        cell.projection.offset,
        rescales=(cell.projection.rescale,),
        zero=cell.output_zero,
        low=max(-128, -limit),
        high=min(127, limit),
    )


def _product(
    found: Expansion, name: str, codes: int, result: TensorType, weights: Array, offsets: Array, **chosen: Any
) -> int:
    """A matrix product with constant weights; the offsets wrap to 32 bits as the sums do."""
    operands = codes, found.constant(weights), found.constant(offsets.astype(np.int32))
    return found.call(name, "gate_sums", operands, (result,), gate_sums.Parameters(**chosen))[0]


def _joined(found: Expansion, call: Call, outputs: list[int], time_major: bool) -> int:
    """The outputs of all steps as the layer gives them."""
    result = call.outputs[0]
    if len(result.shape) == 2:
        return outputs[0]
    axis = 0 if time_major else 1
    shape = tuple(1 if at == axis else size for at, size in enumerate(result.shape))
    kind = TensorType(result.dtype, shape, result.quantization)
    parts = [
        found.call(f"step_{number}/output", "reshape", (each,), (kind,), reshape.Parameters(shape=shape))[0]
        for number, each in enumerate(outputs)
    ]
    return found.call("outputs", "concatenation", parts, (result,), concatenation.Parameters(axis=axis))[0]
