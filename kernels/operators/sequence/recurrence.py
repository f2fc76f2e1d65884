"""What layers that go through a sequence share: functions of cells, and the order of steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[Any]

Function = Literal["none", "relu", "relu_n1_to_1", "relu6", "tanh", "sigmoid"]
"""What a cell may take of its sums."""


def activated(function: Function, x: Numbers) -> Numbers:
    """The function of every element, in float32."""
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
    """A sequence as [steps, batch, ...]."""
    return x if time_major else x.swapaxes(0, 1)


def in_layout(outputs: list[Numbers], shape: tuple[int, ...], time_major: bool) -> Numbers:
    """The outputs of the steps, each [batch, size], as one tensor [steps, batch, size] or [batch, steps, size].

    `shape` is that of the tensor, which no step says where there are none.
    """
    if not outputs:
        return np.zeros(shape, np.float32)
    return np.ascontiguousarray(np.stack(outputs, axis=0 if time_major else 1))
