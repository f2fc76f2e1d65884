"""Rules and work of an LSTM cell, wherever among the operands of a call it lies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from npusim.isa.base.tensor import TensorType
from npusim.isa.base.workload import Workload
from npusim.kernels.operator.operands import elementwise, input_type
from npusim.kernels.operator.operator import Call, Rule
from npusim.kernels.operators.sequence.lstm_cell import CELL, GATES, PEEPHOLE_GATES, Layout, operand, present

OPERATIONS_PER_CELL = 9  # three logistic functions, two functions of the cell, three products, one sum


def given(call: Call, positions: Sequence[int]) -> list[TensorType]:
    """The types of those of the operands that are there."""
    return [tensor for position in positions if (tensor := operand(call, position)) is not None]


def weights_of_cell(layout: Layout) -> tuple[int, ...]:
    """The positions of the matrices of a cell."""
    groups = (layout.input_weights, layout.recurrent_weights)
    return (*(first + gate for first in groups for gate in range(len(GATES))), layout.projection_weights)


def gates_at(call: Call, layout: Layout) -> range:
    """The numbers of the gates that have weights: all four, or all but the input gate."""
    return range(0 if present(call, layout.input_weights) else 1, len(GATES))


def sizes_at(call: Call, layout: Layout) -> tuple[int, int]:
    """Cells and outputs of a cell."""
    cells, outputs = input_type(call, layout.recurrent_weights + len(GATES) - 1).shape
    return cells, outputs


def macs_per_step(call: Call, layout: Layout, inputs: int, auxiliary: int = 0) -> int:
    """Multiply-accumulates of a step of one sequence, from sizes of input and auxiliary input."""
    cells, outputs = sizes_at(call, layout)
    macs = len(gates_at(call, layout)) * cells * (inputs + auxiliary + outputs)
    return macs + (cells * outputs if present(call, layout.projection_weights) else 0)


def work_of_step(call: Call) -> Workload:
    """The work of one step of a batch, of an operator that is one cell and one step."""
    batch, inputs = input_type(call).shape
    cells, outputs = sizes_at(call, CELL)
    work = elementwise(call, batch * cells * OPERATIONS_PER_CELL)
    macs = batch * macs_per_step(call, CELL, inputs)
    return replace(work, kind="gemm", macs=macs, inner_k=inputs + outputs)


def two_axes(call: Call) -> bool:
    """the input has two axes"""
    return len(input_type(call).shape) == 2


def normalized(call: Call, layout: Layout) -> bool:
    """Whether the sums of the gates are normalized."""
    return present(call, layout.layer_norm + len(GATES) - 1)


def operands_of_cell(layout: Layout) -> tuple[Rule, ...]:
    """The rules of which operands of a cell are there: they come before those of its sizes."""

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
        gates = [GATES.index(name) for name in PEEPHOLE_GATES]
        found = [present(call, layout.peepholes + index) for index in range(len(gates))]
        return (
            len({there for gate, there in zip(gates, found, strict=True) if gate in gates_at(call, layout)})
            == 1
        )

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
    """Whether weights, biases and states of a cell have the sizes that go with its input."""
    cells, outputs = sizes_at(call, layout)
    four = range(len(GATES))
    expected: dict[tuple[int, ...], list[int]] = {}
    for shape, positions in (
        ((cells, inputs), [layout.input_weights + gate for gate in four]),
        ((cells, outputs), [layout.recurrent_weights + gate for gate in four]),
        ((cells,), [layout.peepholes + gate for gate in range(len(PEEPHOLE_GATES))]),
        ((cells,), [first + gate for first in (layout.biases, layout.layer_norm) for gate in four]),
        ((outputs, cells), [layout.projection_weights]),
        ((outputs,), [layout.projection_bias]),
    ):
        expected.setdefault(shape, []).extend(positions)
    if not all(tensor.shape == shape for shape, group in expected.items() for tensor in given(call, group)):
        return False
    states = [tensor.elements for tensor in given(call, (layout.output_state, layout.cell_state))]
    projected = present(call, layout.projection_weights)
    return states == [batch * outputs, batch * cells] and (projected or outputs == cells)
