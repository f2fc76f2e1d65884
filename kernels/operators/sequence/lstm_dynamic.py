"""The LSTM cell with int8 weights and float32 activations, bit by bit as LiteRT's.

Input, output state and what is projected are quantized row by row in every step. All else is float32, added up in
LiteRT's order: bias, input, auxiliary input, output state, peephole.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from npusim.kernels.operator import dynamic_range
from npusim.kernels.operator.operands import input_type
from npusim.kernels.operator.operator import Call, Rule, Values
from npusim.kernels.operators.sequence import litert_functions
from npusim.kernels.operators.sequence.lstm_cell import GATES, LAYER_NORM_EPSILON, PEEPHOLE_GATES, Layout
from npusim.kernels.operators.sequence.lstm_float import Cell
from npusim.kernels.operators.sequence.lstm_rules import weights_of_cell
from npusim.kernels.operators.sequence.recurrence import Numbers

CELL_TYPES = "int8*11, float32*4, int8, float32"
"""Weights of input, state and peepholes, biases, projection and its bias."""

_PLACES: tuple[str, ...] = ("input", "cell", "forget", "output")
"""The order of the gates in LiteRT's buffer, which has none for an input gate without weights."""
_BLOCK = 16
"""LiteRT's layer normalization adds up so many values at a time, and what is left one by one."""


class DynamicCell(Cell):
    """The weights of a cell, ready to take steps.

    rows_apart: LiteRT steps through the sequences of a batch one after the other, so that vectors of gates begin
                elsewhere in memory, which decides how their logistic function is rounded.
    """

    def __init__(self, call: Call, values: Values, layout: Layout, rows_apart: bool) -> None:
        super().__init__(values, layout, call.parameters)
        self._call, self._layout, self._rows_apart = call, layout, rows_apart
        self._asymmetric = dynamic_range.asymmetric(call)
        self.peepholes = {
            gate: weights * self._scales(layout.peepholes + PEEPHOLE_GATES.index(gate))
            for gate, weights in self.peepholes.items()
        }

    def _scales(self, position: int) -> Any:
        return dynamic_range.scales_of(input_type(self._call, position))

    def _product(self, rows: Numbers, weights: Any, position: int) -> Numbers:
        return dynamic_range.product(rows, weights, self._scales(position), self._asymmetric)

    def _products(self, gate: str, x: Numbers, output_state: Numbers, auxiliary: Numbers | None) -> Numbers:
        number, layout = GATES.index(gate), self._layout
        total: Numbers = np.zeros((len(x), len(self.biases[gate])), np.float32)
        if gate not in self.layer_norms:
            total += self.biases[gate]
        total = total + self._product(x, self.input_weights[gate], layout.input_weights + number)
        if auxiliary is not None and layout.auxiliary_weights is not None:
            weights = self.auxiliary_weights[gate]
            total = total + self._product(auxiliary, weights, layout.auxiliary_weights + number)
        recurrent = self.recurrent_weights[gate]
        return total + self._product(output_state, recurrent, layout.recurrent_weights + number)

    def _sums(self, gate: str, products: Numbers, cell_state: Numbers) -> Numbers:
        if gate in self.peepholes:
            products = products + cell_state * self.peepholes[gate]
        if gate not in self.layer_norms:
            return products
        return _normalized(products) * self.layer_norms[gate] + self.biases[gate]

    def _projected(self, output: Numbers) -> Numbers:
        if self.projection is None:
            return output
        bias = np.float32(0) if self.projection_bias is None else self.projection_bias
        product = self._product(output, self.projection, self._layout.projection_weights)
        return self._clipped(bias + product, self.parameters.proj_clip)

    def _admission(self, gate: str, sums: Numbers) -> Numbers:
        """The logistic function, each vector at its place in LiteRT's buffer, where gates lie one after the other."""
        batch, cells = sums.shape
        number = [name for name in _PLACES if name in self.input_weights].index(gate)
        begin, length = number * batch * cells, cells if self._rows_apart else batch * cells
        vectors = sums.reshape(-1, length)
        result = [
            litert_functions.logistic(vector, begin + place * length) for place, vector in enumerate(vectors)
        ]
        return np.concatenate(result).reshape(sums.shape) if result else sums

    def _activated(self, sums: Numbers) -> Numbers:
        return litert_functions.activated(self.parameters.activation, sums)


def _normalized(sums: Numbers) -> Numbers:
    """Each row with mean 0 and variance 1."""
    size = np.float32(max(sums.shape[1], 1))
    centred = sums - (litert_functions.added_up(sums, _BLOCK) / size)[:, None]
    variance = litert_functions.added_up(centred * centred, _BLOCK) / size
    inverse = np.float32(1) / np.sqrt(variance + np.float32(LAYER_NORM_EPSILON))
    result: Numbers = centred * inverse[:, None]
    return result


def scaled_matrices(layouts: tuple[Layout, ...]) -> Rule:
    """The rule for the quantization of the int8 operands of cells."""

    positions = [
        position
        for layout in layouts
        for first, count in ((layout.peepholes, len(PEEPHOLE_GATES)), (layout.auxiliary_weights, len(GATES)))
        if first is not None
        for position in range(first, first + count)
    ]
    matrices = [position for layout in layouts for position in weights_of_cell(layout)]
    return dynamic_range.symmetric_weights(None, *matrices, *positions)
