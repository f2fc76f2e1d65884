"""The LSTM cell: its operands, parameters and sizes, the equations of a step, and the rules of a call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from enum import IntEnum
from typing import Annotated, Literal, NamedTuple, Protocol, TypeVar

import numpy as np

from npusim.isa.base.elements import Workload
from npusim.isa.base.plain_values import Between
from npusim.isa.base.tensor import Array, TensorType
from npusim.kernels.operator import parameters
from npusim.kernels.operator.operands import elementwise, input_type, input_value
from npusim.kernels.operator.operator import Call, Rule, Values
from npusim.kernels.operators.sequence.recurrence import Numbers, by_steps, in_layout

GATES = ("input", "forget", "cell", "output")
PEEPHOLE_GATES = ("input", "forget", "output")
LAYER_NORM_EPSILON = 1e-8
"""The number added to the variance when float sums are normalized."""

Code = Annotated[int, Between(-(1 << 31), (1 << 31) - 1)]
Limit = Annotated[float, Between(0.0)]
"""The largest value of either sign; 0 for none."""


class CellParameters(parameters.Parameters):
    """activation: the function of the cell; the clips limit its state and its projection."""

    activation: Literal["tanh", "none", "relu", "relu6", "sigmoid"] = "tanh"
    cell_clip: Limit = 0.0
    proj_clip: Limit = 0.0


class IntegerParameters(CellParameters):
    """intermediates: of integer cells, (scale, zero point) of the sums of the four gates and of o tanh(c).

    Those of the sums only matter if the sums are normalized.
    """

    intermediates: tuple[tuple[float, Code] | None, ...] = ()


class LstmParameters(IntegerParameters):
    """time_major: the input of the layer is [steps, batch, ...] instead of [batch, steps, ...]."""

    time_major: bool = False


class Operand(IntEnum):
    """Positions of the operands of TFLite's UNIDIRECTIONAL_SEQUENCE_LSTM; for four gates the first one is named."""

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
    """Positions of a float cell's operands among the inputs of a call; for gates and peepholes the first one."""

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
"""The operands of a layer with one direction, and of a single step."""


V = TypeVar("V")


class LstmArithmetic(Protocol[V]):
    """How one arithmetic computes the terms of the LSTM equations."""

    @property
    def coupled(self) -> bool:
        """True if the input gate is 1 - forget gate, because the cell has no weights for it."""

    def opened(self, gate: str, sums: V) -> V:
        """Return the logistic function of the sums of a gate."""

    def complement(self, forget: V) -> V:
        """Return 1 - forget gate."""

    def candidate(self, sums: V) -> V:
        """Return the activation of the sums of the cell gate."""

    def mixed(self, forget: V, state: V, admitted: V, candidate: V) -> V:
        """Return forget * state + admitted * candidate, clipped."""

    def shown(self, gate: V, state: V) -> V:
        """Return gate * activation(state)."""


def equations(cell: LstmArithmetic[V], sums: Callable[[str, V], V], state: V) -> tuple[V, V]:
    """Return output and next state of an LSTM cell before its projection.

    `sums` gives the sums of a gate, whose peephole sees the state passed with it: the next one for the output gate.
    All arithmetics share this: float32, dynamic range, 16-bit words, and layers that are unrolled into operators.
    """
    forget = cell.opened("forget", sums("forget", state))
    candidate = cell.candidate(sums("cell", state))
    admitted = cell.complement(forget) if cell.coupled else cell.opened("input", sums("input", state))
    state = cell.mixed(forget, state, admitted, candidate)
    return cell.shown(cell.opened("output", sums("output", state)), state), state


class Sizes(NamedTuple):
    """The sizes of a layer; `outputs` equals `cells` unless there is a projection."""

    batch: int
    steps: int
    inputs: int
    cells: int
    outputs: int


def sizes_of(call: Call[LstmParameters]) -> Sizes:
    """Return the sizes of a layer, from its input and weights."""
    first, second, inputs = input_type(call, Operand.INPUT).shape
    batch, steps = (second, first) if call.parameters.time_major else (first, second)
    return Sizes(batch, steps, inputs, *sizes_at(call, CELL))


def weights_of(gate: str, first: Operand) -> int:
    """Return the position of a gate's operand in a group of four, which starts at `first`."""
    return first + GATES.index(gate)


def operand(call: Call, position: int) -> TensorType | None:
    """Return the type of an operand, None if it is absent."""
    return call.inputs[position] if position < len(call.inputs) else None


def present(call: Call, position: int) -> bool:
    """Return True if an operand is there."""
    return operand(call, position) is not None


def gates_of(call: Call) -> tuple[str, ...]:
    """Return the gates that have weights: all four, or all but the input gate, which is then 1 - forget gate."""
    return GATES if present(call, Operand.INPUT_WEIGHTS) else GATES[1:]


def initial_state(values: Values, position: Operand, shape: tuple[int, int], zero: int) -> Numbers:
    """Return the state tensor under its full shape; `zero` everywhere if the caller gives none."""
    value = values[position] if position < len(values) else None
    return np.full(shape, zero) if value is None else value.reshape(shape)


Step = Callable[[Numbers, Numbers, Numbers], tuple[Numbers, Numbers]]
"""Maps (input [batch, inputs], output state, cell state) to the new output state and cell state."""


def walk(
    call: Call[LstmParameters], values: Values, output_state: Numbers, cell_state: Numbers, step: Step
) -> list[Array]:
    """Take the cell through the sequence.

    Return the outputs of all steps in the layout of the input, then its states.
    """
    sequence = by_steps(input_value(values, Operand.INPUT), call.parameters.time_major)
    outputs = []
    for x in sequence:
        output_state, cell_state = step(x, output_state, cell_state)
        outputs.append(output_state)
    stacked = in_layout(outputs, call.outputs[0].shape, call.parameters.time_major)
    return [stacked.astype(call.outputs[0].numpy_dtype), *_as_stored(call, output_state, cell_state)]


def _as_stored(call: Call, *states: Numbers) -> Iterator[Array]:
    """Yield states in the type and shape of their tensors."""
    for position, state in zip((Operand.OUTPUT_STATE, Operand.CELL_STATE), states, strict=True):
        tensor = operand(call, position)
        if tensor is not None:
            yield state.astype(tensor.numpy_dtype).reshape(tensor.shape)


OPERATIONS_PER_CELL = 9  # three logistic functions, two functions of the cell, three products, one sum


def given(call: Call, positions: Sequence[int]) -> list[TensorType]:
    """Return the types of those of the operands that are there."""
    return [tensor for position in positions if (tensor := operand(call, position)) is not None]


def weights_of_cell(layout: Layout) -> tuple[int, ...]:
    """Return the positions of the matrices of a cell."""
    groups = (layout.input_weights, layout.recurrent_weights)
    return (*(first + gate for first in groups for gate in range(len(GATES))), layout.projection_weights)


def gates_at(call: Call, layout: Layout) -> range:
    """Return the numbers of the gates that have weights: all four, or all but the input gate."""
    return range(0 if present(call, layout.input_weights) else 1, len(GATES))


def sizes_at(call: Call, layout: Layout) -> tuple[int, int]:
    """Return the cells and outputs of a cell."""
    cells, outputs = input_type(call, layout.recurrent_weights + len(GATES) - 1).shape
    return cells, outputs


def macs_per_step(call: Call, layout: Layout, inputs: int, auxiliary: int = 0) -> int:
    """Return the multiply-accumulates of a step of one sequence, from the sizes of input and auxiliary input."""
    cells, outputs = sizes_at(call, layout)
    macs = len(gates_at(call, layout)) * cells * (inputs + auxiliary + outputs)
    return macs + (cells * outputs if present(call, layout.projection_weights) else 0)


def work_of_step(call: Call) -> Workload:
    """Return the work of one step of a batch."""
    batch, inputs = input_type(call).shape
    cells, outputs = sizes_at(call, CELL)
    work = elementwise(call, batch * cells * OPERATIONS_PER_CELL)
    macs = batch * macs_per_step(call, CELL, inputs)
    return replace(work, kind="gemm", macs=macs, inner_k=inputs + outputs)


def two_axes(call: Call) -> bool:
    """the input has two axes"""
    return len(input_type(call).shape) == 2


def normalized(call: Call, layout: Layout) -> bool:
    """Return True if the sums of the gates are normalized."""
    return present(call, layout.layer_norm + len(GATES) - 1)


def operands_of_cell(layout: Layout) -> tuple[Rule, ...]:
    """Return the rules of which operands of a cell are there: they come before those of its sizes."""

    def needed(call: Call) -> bool:
        """input, states, and weights and bias of the forget, cell and output gates are there"""
        groups = (layout.input_weights, layout.recurrent_weights, layout.biases)
        gates = [first + gate for gate in range(1, len(GATES)) for first in groups]
        return all(
            present(call, position) for position in (0, layout.output_state, layout.cell_state, *gates)
        )

    def input_gate(call: Call) -> bool:
        """weights and bias of the input gate are all there or all absent"""
        groups = (layout.input_weights, layout.recurrent_weights, layout.biases)
        return len({present(call, group) for group in groups}) == 1

    def peepholes(call: Call) -> bool:
        """the gates have peephole weights or none has"""
        gates = gates_at(call, layout)
        numbered = [index for index, name in enumerate(PEEPHOLE_GATES) if GATES.index(name) in gates]
        return len({present(call, layout.peepholes + index) for index in numbered}) == 1

    def projection(call: Call) -> bool:
        """a projection bias comes with projection weights"""
        return present(call, layout.projection_weights) or not present(call, layout.projection_bias)

    def layer_norm(call: Call) -> bool:
        """the gates have weights of layer normalization or none has"""
        return len({present(call, layout.layer_norm + gate) for gate in gates_at(call, layout)}) == 1

    def ranks(call: Call) -> bool:
        """weights have two axes"""
        return all(len(tensor.shape) == 2 for tensor in given(call, weights_of_cell(layout)))

    return (needed, input_gate, peepholes, projection, layer_norm, ranks)


def sizes_fit(call: Call, layout: Layout, batch: int, inputs: int) -> bool:
    """Return True if weights, biases and states of a cell match each other, the batch and the size of the input."""
    cells, outputs = sizes_at(call, layout)
    four = range(len(GATES))
    expected = (
        ((cells, inputs), [layout.input_weights + gate for gate in four]),
        ((cells, outputs), [layout.recurrent_weights + gate for gate in four]),
        ((cells,), [layout.peepholes + gate for gate in range(len(PEEPHOLE_GATES))]),
        ((cells,), [first + gate for first in (layout.biases, layout.layer_norm) for gate in four]),
        ((outputs, cells), [layout.projection_weights]),
        ((outputs,), [layout.projection_bias]),
    )
    if not all(tensor.shape == shape for shape, group in expected for tensor in given(call, group)):
        return False
    states = [tensor.elements for tensor in given(call, (layout.output_state, layout.cell_state))]
    projected = present(call, layout.projection_weights)
    return states == [batch * outputs, batch * cells] and (projected or outputs == cells)
