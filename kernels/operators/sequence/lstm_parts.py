"""An integer LSTM as matrix products and steps, which the NPU does one by one.

The products with the inputs are one for all steps of a sequence; then each step has one with the output before it, the
gates, and perhaps a projection. Peepholes and normalized sums stay on the host, as does what needs weights that are no
constants.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from npusim.isa.base.tensor import Array, TensorType
from npusim.kernels.lowering.cell import Parameters, block_of
from npusim.kernels.operator.expansion import Expansion
from npusim.kernels.operator.operands import input_type, known
from npusim.kernels.operator.operator import Call
from npusim.kernels.operators.movement.joining import ConcatenationParameters
from npusim.kernels.operators.movement.reshaping import ReshapeParameters
from npusim.kernels.operators.sequence import gate_sums, lstm_integer, lstm_step
from npusim.kernels.operators.sequence.lstm_cell import Operand, gates_of

MOST_STEPS = 256
"""Longer sequences stay one layer: each step is three, and all of them are scheduled."""


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
        (codes,) = found.call("inputs", "reshape", (codes,), (flat,), ReshapeParameters(shape=flat.shape))
    order = [cell.gates[gate] for gate in gates_of(call)]
    from_input, from_output = (
        _Product.of(found, [getattr(gate, side) for gate in order]) for side in ("from_input", "from_output")
    )
    projection = None if cell.projection is None else _Product.of(found, [cell.projection])
    sums = from_input.sums(found, "input_sums", codes, TensorType("int16", (batch * count, from_input.units)))
    output, state = int(Operand.OUTPUT_STATE), int(Operand.CELL_STATE)
    results = []
    for step in range(count):
        where = f"step_{step}/" if count > 1 else ""
        # The sums saturate when these are added, and not before.
        wide = TensorType("int32", (batch, from_output.units))
        recurrent = from_output.sums(found, f"{where}state_sums", output, wide)
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
                output_rescale=cell.hidden_rescale,
                zero=cell.hidden_zero,
            ),
        )
        if projection is not None:
            kind = TensorType("int8", (batch, projection.units), call.outputs[0].quantization)
            limit = cell.output_limit or 128
            chosen = {"zero": cell.output_zero, "low": max(-128, -limit), "high": min(127, limit)}
            output = projection.sums(found, f"{where}projection", output, kind, **chosen)
        results.append(output)
    found.results = [_joined(found, call, results, time_major), output, state]
    return found


def _constant(call: Call) -> bool:
    """Whether all weights and biases are constants at hand."""
    states = (Operand.INPUT, Operand.OUTPUT_STATE, Operand.CELL_STATE)
    pairs = enumerate(zip(call.inputs, known(call), strict=True))
    return all(tensor is None or data is not None or at in states for at, (tensor, data) in pairs)


class _Product(NamedTuple):
    """Weights and parameters of a matrix product, which all steps share, and how many units it has."""

    weights: int
    parameters: int
    units: int

    @classmethod
    def of(cls, found: Expansion, addends: list[lstm_integer.Addend]) -> _Product:
        """The product that gives some addends side by side."""
        weights = np.concatenate([each.weights for each in addends]).astype(np.int8)
        offsets = np.concatenate([each.offset for each in addends])
        block = parameters(offsets, [each.rescale for each in addends])
        return cls(found.constant(weights), found.constant(block), len(weights))

    def sums(self, found: Expansion, name: str, codes: int, result: TensorType, **chosen: int) -> int:
        """The product with some codes."""
        operands = codes, self.weights, self.parameters
        return found.call(name, "gate_sums", operands, (result,), gate_sums.Parameters(**chosen))[0]


def parameters(offsets: Array, rescales: list[tuple[int, int]]) -> Array:
    """What the output stage reads; offsets wrap to 32 bits as sums do."""
    pairs = np.repeat(np.array(rescales), len(offsets) // len(rescales), axis=0)
    shifts = pairs[:, 1].astype(np.int8)
    return block_of(Parameters(offsets.astype(np.int32), pairs[:, 0].astype(np.int32), shifts))


def _joined(found: Expansion, call: Call, outputs: list[int], time_major: bool) -> int:
    """The outputs of all steps as the layer gives them."""
    result = call.outputs[0]
    if len(result.shape) == 2:
        return outputs[0]
    axis = 0 if time_major else 1
    shape = tuple(1 if at == axis else size for at, size in enumerate(result.shape))
    kind = TensorType(result.dtype, shape, result.quantization)
    parts = [
        found.call(f"step_{number}/output", "reshape", (each,), (kind,), ReshapeParameters(shape=shape))[0]
        for number, each in enumerate(outputs)
    ]
    return found.call("outputs", "concatenation", parts, (result,), ConcatenationParameters(axis=axis))[0]
