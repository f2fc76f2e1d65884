"""Basic recurrent cells and SVDF of reals as simpler operators."""

from __future__ import annotations

from npusim.kernels.operator.expansion import Expansion
from npusim.kernels.operator.operands import input_type
from npusim.kernels.operator.operator import Call
from npusim.kernels.operators.sequence.real_parts import MOST_STEPS, RealParts, one_way
from npusim.kernels.operators.sequence.rnn_cell import CELL, CellParameters, Positions, units_at


class CellParts:
    """A cell f(W x + A a + R h + b), taken from step to step."""

    def __init__(self, parts: RealParts, cell: Positions, batch: int) -> None:
        self.parts, self.cell, self.batch = parts, cell, batch
        self.shape = batch, units_at(parts.call, cell)
        given = input_type(parts.call, cell.state).shape
        self.output = cell.state if given == self.shape else parts.reshaped("state", cell.state, self.shape)

    @property
    def states(self) -> tuple[int, ...]:
        """The output."""
        return (self.output,)

    def step(self, x: int, auxiliary: int | None = None) -> None:
        """The next output."""
        parts, cell = self.parts, self.cell
        total = parts.product("input", x, self.batch, cell.weights, cell.bias)
        if auxiliary is not None and cell.auxiliary_weights is not None:
            linked = parts.product("auxiliary", auxiliary, self.batch, cell.auxiliary_weights)
            total = parts.sum("linked", total, linked, self.shape)
        recurrent = parts.product("recurrent", self.output, self.batch, cell.recurrent_weights)
        chosen: CellParameters = parts.call.parameters
        self.output = parts.sum("sums", total, recurrent, self.shape, chosen.activation)


def one_step(call: Call[CellParameters]) -> Expansion:
    """An rnn: output and next state are one."""
    parts = RealParts(call)
    cell = CellParts(parts, CELL, input_type(call).shape[0])
    cell.step(0)
    parts.found.results = [cell.output, cell.output]
    return parts.found


def sequence(call: Call[CellParameters], batch: int, count: int, time_major: bool) -> Expansion | None:
    """A unidirectional_sequence_rnn of `count` steps."""
    if not 0 < count <= MOST_STEPS:
        return None
    parts = RealParts(call)
    return one_way(parts, CellParts(parts, CELL, batch), count, time_major)
