"""An integer LSTM as matrix products and steps of the cell, which the NPU computes one by one."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from npusim.isa.arithmetic.integer import multiply_by_quantized_multiplier
from npusim.isa.base.elements import Workload
from npusim.isa.base.plain_values import Between
from npusim.isa.base.tensor import Array, TensorType
from npusim.kernels.lowering.cell_work import (
    StageParameters,
    block_of,
    lower_gate_sums,
    parameters_of,
)
from npusim.kernels.operator import parameters, rules
from npusim.kernels.operator.expansion import Expansion
from npusim.kernels.operator.operands import code_range, input_type, input_value, known
from npusim.kernels.operator.operator import Call, Lowering, Operator, Shapes, Values
from npusim.kernels.operators.convolution import weighted_sum
from npusim.kernels.operators.movement.joining import ConcatenationParameters
from npusim.kernels.operators.movement.shape_changes import ReshapeParameters
from npusim.kernels.operators.sequence.integer_cell import Addend, IntegerCell
from npusim.kernels.operators.sequence.lstm_cell import Operand, gates_of, two_axes
from npusim.kernels.operators.sequence.word_cell import step_parameters

Code = Annotated[int, Between(-128, 255)]


class GateSumsParameters(parameters.Parameters):
    """weight_zero: the zero point of the weights; zero, low, high: zero point and clamp of 8-bit results.

    Inputs have no zero point here: the biases already hold its product with the weights.
    """

    weight_zero: Code = 0
    zero: Code = 0
    low: Code = 0
    high: Code = 0


def _matrix(call: Call) -> bool:
    """the input is [rows, k], weights are [units, k], and there are 9 bytes of parameters for each unit"""
    (_, k), weights = input_type(call).shape[-2:], input_type(call, 1).shape
    if len(weights) != 2 or weights[1] != k or min(weights) == 0:
        return False
    return (
        input_type(call, 2).shape == (9 * weights[0],) and call.outputs[0].shape == _gate_sums_infer(call)[0]
    )


def _gate_sums_infer(call: Call[GateSumsParameters]) -> Shapes:
    return ((input_type(call).shape[0], input_type(call, 1).shape[0]),)


def _same_codes(call: Call) -> bool:
    """the output is int16, int32 or of the input's type"""
    return call.outputs[0].dtype in ("int16", "int32", input_type(call).dtype)


def _constants(call: Call) -> bool:
    """on the NPU weights and parameters are constants"""
    return {1, 2} <= call.constants.keys()


def _rows_on_npu(call: Call) -> bool:
    """on the NPU there are at most 65535 rows"""
    return input_type(call).shape[0] <= 65535


def _gate_sums_reference(call: Call[GateSumsParameters], values: Values) -> list[Array]:
    codes, weights = (input_value(values, at).astype(np.float64) for at in (0, 1))
    numbers = parameters_of(input_value(values, 2), len(weights))
    # float64 holds these sums exactly and multiplies matrices fast
    sums = (codes @ (weights - call.parameters.weight_zero).T).astype(np.int64) + numbers.bias.astype(
        np.int64
    )
    words = multiply_by_quantized_multiplier(sums.astype(np.int32), numbers.multiplier, numbers.shift)
    chosen, ofm = call.parameters, call.outputs[0]
    low, high = (chosen.low, chosen.high) if ofm.dtype == input_type(call).dtype else code_range(ofm.dtype)
    return [np.clip(words.astype(np.int64) + chosen.zero, low, high).astype(ofm.numpy_dtype)]


def _gate_sums_workload(call: Call) -> Workload:
    return weighted_sum.workload(call, "gemm", input_type(call, 1).shape[1])


GATE_SUMS = Operator(
    name="gate_sums",
    parameters=GateSumsParameters,
    types=("int8|uint8, int8|uint8, uint8 -> int16|int32|int8|uint8",),
    rules=(rules.operands(3), two_axes, _matrix, _same_codes),
    infer=_gate_sums_infer,
    reference=_gate_sums_reference,
    workload=_gate_sums_workload,
    lowerings=(Lowering("mac", (_constants, _rows_on_npu), lower_gate_sums),),
)
"""The matrix products of an integer recurrent cell, in words of 16 or 32 bits or in quantized values.

quantized values [rows, k], weights [units, k], parameters [9 * units] -> [rows, units]: the sums, each unit with bias,
multiplier and shift of its own, saturated. The parameters are the bytes that the output stage of the MAC array reads:
all biases, all multipliers (32 bits each), all shifts. Integer LSTM layers of all models become these
(`integer_steps`); no model has one.
"""


MOST_STEPS = 256
"""Maximum number of steps of a layer that is unrolled: each becomes three layers, which are all scheduled."""


def integer_steps(call: Call, count: int, time_major: bool) -> Expansion | None:
    """Return a layer of `count` steps as simpler operators; results are outputs, output state and cell state.

    None for a layer that needs the host: one with peepholes, normalized sums, or weights that are no constants.
    """
    if count > MOST_STEPS or not _constant(call):
        return None
    cell = IntegerCell(call, known(call))
    if any(gate.peephole is not None or gate.layer_norm is not None for gate in cell.gates.values()):
        return None
    if not -128 <= cell.words.zero <= 127 or not 0 <= cell.words.state_integer_bits <= 15:
        return None
    body = Expansion(len(call.inputs))
    batch, cells = input_type(call, Operand.CELL_STATE).shape
    x = input_type(call)
    codes = int(Operand.INPUT)
    if len(x.shape) != 2:
        flat = TensorType(x.dtype, (batch * count, x.shape[-1]), x.quantization)
        (codes,) = body.call("inputs", "reshape", (codes,), (flat,), ReshapeParameters(shape=flat.shape))
    order = [cell.gates[gate] for gate in gates_of(call)]
    from_input, from_output = (
        _Product.of(body, [getattr(gate, side) for gate in order]) for side in ("from_input", "from_output")
    )
    projection = None if cell.projection is None else _Product.of(body, [cell.projection])
    sums = from_input.sums(body, "input_sums", codes, TensorType("int16", (batch * count, from_input.units)))
    output, state = int(Operand.OUTPUT_STATE), int(Operand.CELL_STATE)
    results = []
    for step in range(count):
        where = f"step_{step}/" if count > 1 else ""
        # The sums saturate when these are added, and not before.
        wide = TensorType("int32", (batch, from_output.units))
        recurrent = from_output.sums(body, f"{where}state_sums", output, wide)
        hidden = TensorType("int8", (batch, cells), call.outputs[0].quantization)
        output, state = body.call(
            f"{where}cells",
            "lstm_step",
            (sums, recurrent, state),
            (hidden, input_type(call, Operand.CELL_STATE)),
            step_parameters(cell.words, step=step, steps=count, time_major=time_major),
        )
        if projection is not None:
            kind = TensorType("int8", (batch, projection.units), call.outputs[0].quantization)
            limit = cell.output_limit or 128
            chosen = {"zero": cell.output_zero, "low": max(-128, -limit), "high": min(127, limit)}
            output = projection.sums(body, f"{where}projection", output, kind, **chosen)
        results.append(output)
    body.results = [_joined(body, call, results, time_major), output, state]
    return body


def _constant(call: Call) -> bool:
    """Return True if all weights and biases are constants with data."""
    states = (Operand.INPUT, Operand.OUTPUT_STATE, Operand.CELL_STATE)
    pairs = enumerate(zip(call.inputs, known(call), strict=True))
    return all(tensor is None or data is not None or at in states for at, (tensor, data) in pairs)


class _Product(NamedTuple):
    """A matrix product that all steps share: its weights, output stage parameters and number of units."""

    weights: int
    parameters: int
    units: int

    @classmethod
    def of(cls, body: Expansion, addends: list[Addend]) -> _Product:
        """Return the product that computes several addends side by side."""
        weights = np.concatenate([addend.weights for addend in addends]).astype(np.int8)
        offsets = np.concatenate([addend.offset for addend in addends])
        block = stage_parameters(offsets, [addend.rescale for addend in addends])
        return cls(body.constant(weights), body.constant(block), len(weights))

    def sums(self, body: Expansion, name: str, codes: int, result: TensorType, **chosen: int) -> int:
        """Add the product with quantized values and return its number."""
        operands = codes, self.weights, self.parameters
        return body.call(name, "gate_sums", operands, (result,), GateSumsParameters(**chosen))[0]


def stage_parameters(offsets: Array, rescales: list[tuple[int, int]]) -> Array:
    """Return the bytes that the output stage reads; offsets wrap to 32 bits as sums do."""
    pairs = np.repeat(np.array(rescales), len(offsets) // len(rescales), axis=0)
    shifts = pairs[:, 1].astype(np.int8)
    return block_of(StageParameters(offsets.astype(np.int32), pairs[:, 0].astype(np.int32), shifts))


def _joined(body: Expansion, call: Call, outputs: list[int], time_major: bool) -> int:
    """Return the outputs of all steps as one tensor in the layout of the layer."""
    result = call.outputs[0]
    if len(result.shape) == 2:
        return outputs[0]
    axis = 0 if time_major else 1
    shape = tuple(1 if at == axis else size for at, size in enumerate(result.shape))
    kind = TensorType(result.dtype, shape, result.quantization)
    parts = [
        body.call(f"step_{number}/output", "reshape", (output,), (kind,), ReshapeParameters(shape=shape))[0]
        for number, output in enumerate(outputs)
    ]
    return body.call("outputs", "concatenation", parts, (result,), ConcatenationParameters(axis=axis))[0]


OPERATORS = (GATE_SUMS,)
