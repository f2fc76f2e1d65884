"""What float and integer LSTM cells share: operand positions, sizes, the walk over the sequence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import Annotated, Literal, NamedTuple

import numpy as np

from npusim.isa.base.plain_values import Between
from npusim.isa.base.tensor import Array, TensorType
from npusim.kernels.operator import parameters
from npusim.kernels.operator.operands import input_type, input_value
from npusim.kernels.operator.operator import Call, Values
from npusim.kernels.operators.sequence.recurrence import Numbers, by_steps, in_layout

GATES = ("input", "forget", "cell", "output")
PEEPHOLE_GATES = ("input", "forget", "output")
LAYER_NORM_EPSILON = 1e-8
"""What is added to the variance of normalized sums of reals."""

Code = Annotated[int, Between(-(1 << 31), (1 << 31) - 1)]
Limit = Annotated[float, Between(0.0)]
"""The largest value of either sign; 0 for none."""


class CellParameters(parameters.Parameters):
    """activation: of the cell; the clips limit its state and its projection."""

    activation: Literal["tanh", "none", "relu", "relu6", "sigmoid"] = "tanh"
    cell_clip: Limit = 0.0
    proj_clip: Limit = 0.0


class IntegerParameters(CellParameters):
    """intermediates: of integer cells, (scale, zero point) of the sums of the four gates and of o tanh(c).

    Those of the sums matter only where they are normalized.
    """

    intermediates: tuple[tuple[float, Code] | None, ...] = ()


class Parameters(IntegerParameters):
    """Of a layer over a sequence; time_major: the input is [steps, batch, ...] instead of [batch, steps, ...]."""

    time_major: bool = False


class Operand(IntEnum):
    """Positions of the operands of TFLite's UNIDIRECTIONAL_SEQUENCE_LSTM; of four gates the first is named."""

    INPUT = 0
    INPUT_WEIGHTS = 1  # 1..4, one per gate, [cells, inputs]
    RECURRENT_WEIGHTS = 5  # 5..8, [cells, outputs]
    CELL_TO_INPUT = 9  # peephole weights, [cells]; the cell gate has none
    CELL_TO_FORGET = 10
    CELL_TO_OUTPUT = 11
    BIAS = 12  # 12..15, [cells]
    PROJECTION_WEIGHTS = 16  # [outputs, cells]
    PROJECTION_BIAS = 17  # [outputs]
    OUTPUT_STATE = 18  # [batch, outputs]
    CELL_STATE = 19  # [batch, cells]
    LAYER_NORM = 20  # 20..23


PEEPHOLES = {
    "input": Operand.CELL_TO_INPUT,
    "forget": Operand.CELL_TO_FORGET,
    "output": Operand.CELL_TO_OUTPUT,
}


class Layout(NamedTuple):
    """Where the operands of one float cell lie among the inputs of a call: of gates and peepholes the first."""

    input_weights: int
    recurrent_weights: int
    peepholes: int
    biases: int
    projection_weights: int
    projection_bias: int
    output_state: int
    cell_state: int
    layer_norm: int
    auxiliary_weights: int | None = None


CELL = Layout(
    Operand.INPUT_WEIGHTS,
    Operand.RECURRENT_WEIGHTS,
    Operand.CELL_TO_INPUT,
    Operand.BIAS,
    Operand.PROJECTION_WEIGHTS,
    Operand.PROJECTION_BIAS,
    Operand.OUTPUT_STATE,
    Operand.CELL_STATE,
    Operand.LAYER_NORM,
)
"""Of a layer of one direction, and of a single step."""


class Sizes(NamedTuple):
    """The sizes of a layer; `outputs` equals `cells` unless there is a projection."""

    batch: int
    steps: int
    inputs: int
    cells: int
    outputs: int


def sizes_of(call: Call[Parameters]) -> Sizes:
    """The sizes that input and weights say."""
    first, second, inputs = input_type(call, Operand.INPUT).shape
    batch, steps = (second, first) if call.parameters.time_major else (first, second)
    cells, outputs = input_type(call, weights_of("output", Operand.RECURRENT_WEIGHTS)).shape
    return Sizes(batch, steps, inputs, cells, outputs)


def weights_of(gate: str, first: Operand) -> int:
    """The position of a gate's operand in a group of four, which starts at `first`."""
    return first + GATES.index(gate)


def operand(call: Call, position: int) -> TensorType | None:
    """The type of an operand, None if it is absent."""
    return call.inputs[position] if position < len(call.inputs) else None


def present(call: Call, position: int) -> bool:
    """True if the operand is there."""
    return operand(call, position) is not None


def gates_of(call: Call) -> tuple[str, ...]:
    """The gates that have weights: all four, or all but the input gate, which is then 1 - forget gate."""
    return GATES if present(call, Operand.INPUT_WEIGHTS) else GATES[1:]


def initial_state(values: Values, position: Operand, shape: tuple[int, int], zero: int) -> Numbers:
    """The state tensor under its full shape; `zero` everywhere if the caller gives none."""
    value = values[position] if position < len(values) else None
    return np.full(shape, zero) if value is None else value.reshape(shape)


Step = Callable[[Numbers, Numbers, Numbers], tuple[Numbers, Numbers]]
"""(input [batch, inputs], output state, cell state) -> new output state, new cell state."""


def walk(
    call: Call[Parameters], values: Values, output_state: Numbers, cell_state: Numbers, step: Step
) -> list[Array]:
    """Take the cell through the sequence: the outputs of all its steps, in the layout of the input; then its states."""
    sequence = by_steps(input_value(values, Operand.INPUT), call.parameters.time_major)
    outputs = []
    for x in sequence:
        output_state, cell_state = step(x, output_state, cell_state)
        outputs.append(output_state)
    stacked = in_layout(outputs, call.outputs[0].shape, call.parameters.time_major)
    return [stacked.astype(call.outputs[0].numpy_dtype), *_as_stored(call, output_state, cell_state)]


def _as_stored(call: Call, *states: Numbers) -> Iterator[Array]:
    """States in the type and shape of their tensors."""
    for position, state in zip((Operand.OUTPUT_STATE, Operand.CELL_STATE), states, strict=True):
        tensor = operand(call, position)
        if tensor is not None:
            yield state.astype(tensor.numpy_dtype).reshape(tensor.shape)
