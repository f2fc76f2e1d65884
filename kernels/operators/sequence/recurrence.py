"""Activation functions of the cells of all recurrent layers, and the run of a sequence in both directions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base.tensor import Array
from npusim.kernels.operator import parameters
from npusim.kernels.operator.operands import input_type, input_value
from npusim.kernels.operator.operator import Call, Shapes, Values

Numbers = NDArray[Any]

Function = Literal["none", "relu", "relu_n1_to_1", "relu6", "tanh", "sigmoid"]
"""The activation functions of cells."""


def activated(function: Function, x: Numbers) -> Numbers:
    """Apply a function to every element, in float32."""
    return _FUNCTIONS[function](x)


def _same(x: Numbers) -> Numbers:
    return x


def _relu(x: Numbers) -> Numbers:
    return np.maximum(x, np.float32(0))


def _relu_n1_to_1(x: Numbers) -> Numbers:
    return np.clip(x, np.float32(-1), np.float32(1))


def _relu6(x: Numbers) -> Numbers:
    return np.clip(x, np.float32(0), np.float32(6))


def _tanh(x: Numbers) -> Numbers:
    result: Numbers = np.tanh(x)
    return result


def _sigmoid(x: Numbers) -> Numbers:
    result: Numbers = 1 / (1 + np.exp(np.minimum(-x, np.float32(88))))
    return result


_FUNCTIONS: dict[Function, Callable[[Numbers], Numbers]] = {
    "none": _same,
    "relu": _relu,
    "relu_n1_to_1": _relu_n1_to_1,
    "relu6": _relu6,
    "tanh": _tanh,
    "sigmoid": _sigmoid,
}


def by_steps(x: Numbers, time_major: bool) -> Numbers:
    """Return a sequence as [steps, batch, ...]."""
    return x if time_major else x.swapaxes(0, 1)


def in_layout(outputs: list[Numbers], shape: tuple[int, ...], time_major: bool) -> Numbers:
    """Return the outputs of the steps, each [batch, size], as one tensor [steps, batch, size] or [batch, steps, size].

    `shape` is the shape of that tensor, which a sequence without steps cannot show.
    """
    if not outputs:
        return np.zeros(shape, np.float32)
    return np.ascontiguousarray(np.stack(outputs, axis=0 if time_major else 1))


_FORWARD, _BACKWARD = 0, 1


class BothWays(parameters.Parameters):
    """Parameters of a bidirectional layer.

    time_major: sequences are [steps, batch, ...] instead of [batch, steps, ...].

    merge_outputs: one output with the outputs of both directions along its last axis, instead of two.
    """

    time_major: bool = False
    merge_outputs: bool = False


class Linking(NamedTuple):
    """Positions of the auxiliary sequence and of its weights among the operands.

    The cells read a sequence as a second input if it has weights; without weights it is the input of the backward cell.
    """

    auxiliary: int
    weights: int

    def given(self, call: Call) -> bool:
        """Return True if there is an auxiliary sequence."""
        return call.inputs[self.auxiliary] is not None

    def crossed(self, call: Call) -> bool:
        """Return True if both cells read the auxiliary sequence beside the input, through weights of its own."""
        return self.given(call) and call.inputs[self.weights] is not None

    def source(self, call: Call, direction: int) -> int:
        """Return the position of the sequence that a cell reads as its input."""
        parallel = self.given(call) and not self.crossed(call)
        return self.auxiliary if parallel and direction == _BACKWARD else 0

    def depth(self, call: Call, direction: int) -> int:
        """Return the depth of the sequence that a cell reads as its input."""
        return input_type(call, self.source(call, direction)).shape[-1]


Run = Callable[[int, Numbers, Numbers | None], tuple[list[Numbers], list[Numbers]]]
"""Maps (direction, input by steps, auxiliary input by steps) to the outputs of the steps and the final states."""


def run_both_ways(call: Call[BothWays], values: Values, linking: Linking, run: Run) -> list[Array]:
    """Run both directions; return the outputs in the layout of the input, then the final states that the call has."""
    time_major = call.parameters.time_major
    outputs: list[Numbers] = []
    states: list[Numbers] = []
    for direction in (_FORWARD, _BACKWARD):
        order = slice(None, None, -1 if direction == _BACKWARD else 1)
        steps = by_steps(input_value(values, linking.source(call, direction)), time_major)[order]
        auxiliary = None
        if linking.crossed(call):
            auxiliary = by_steps(input_value(values, linking.auxiliary), time_major)[order]
        results, final = run(direction, steps, auxiliary)
        shape = (*input_type(call).shape[:2], final[0].shape[-1])
        outputs.append(in_layout(results[order], shape, time_major))
        states += final
    if call.parameters.merge_outputs:
        outputs = [np.concatenate(outputs, axis=-1)]
    stored = [
        state.reshape(tensor.shape)
        for state, tensor in zip(states, call.outputs[len(outputs) :], strict=False)
    ]
    return [*outputs, *stored]


def infer_both_ways(call: Call[BothWays], depths: Sequence[int], states: Sequence[tuple[int, ...]]) -> Shapes:
    """Return the shapes of the outputs, from their depths and the shapes of the states."""
    steps = input_type(call).shape[:2]
    merged = [sum(depths)] if call.parameters.merge_outputs else list(depths)
    return (*((*steps, depth) for depth in merged), *states)[: len(call.outputs)]


def sequences_fit(call: Call[BothWays], linking: Linking) -> bool:
    """Return True if input and auxiliary input have three axes, and the same number of steps and batch entries."""
    shape = input_type(call).shape
    if len(shape) != 3:
        return False
    if not linking.given(call):
        return True
    auxiliary = input_type(call, linking.auxiliary).shape
    return len(auxiliary) == 3 and auxiliary[:2] == shape[:2]
