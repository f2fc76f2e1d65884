"""A call on float values as simpler calls, for functions that the float lanes need several instructions for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npusim.isa.base.tensor import Array, TensorType
from npusim.kernels.operator.axes import Reduction
from npusim.kernels.operator.expansion import Expansion
from npusim.kernels.operator.operands import input_type
from npusim.kernels.operator.operator import Call
from npusim.kernels.operator.parameters import NONE, Activated, ByValue, Parameters

Shape = tuple[int, ...]

_WITH_ACTIVATION = ("add", "sub", "mul", "div")


class FloatSteps:
    """Builds the steps of a call, all of its element type, as an expansion; steps are named by their numbers.

    The operands of the call have the numbers 0, 1, ... float16 results are rounded after each step.
    """

    def __init__(self, call: Call) -> None:
        self._expansion = Expansion(len(call.inputs))
        self._call = call
        self.shapes = {
            number: tensor.shape for number, tensor in enumerate(call.inputs) if tensor is not None
        }

    def step(
        self,
        op: str,
        inputs: Sequence[int],
        shape: Shape,
        parameters: Parameters = NONE,
        kind: TensorType | None = None,
    ) -> int:
        """Add an operator and return the number of its result.

        Its type is the call's element type with `shape`, or `kind`.
        """
        name = f"{op}_{len(self._expansion.parts)}"
        kind = kind or TensorType(input_type(self._call).dtype, shape)
        [number] = self._expansion.call(name, op, inputs, (kind,), parameters)
        self.shapes[number] = shape
        return number

    def number(self, value: float) -> int:
        """Add a constant number that broadcasts with everything."""
        with np.errstate(over="ignore"):  # what is beyond float16 is infinite
            number = self._expansion.constant(np.array(value, input_type(self._call).dtype))
        self.shapes[number] = ()
        return number

    def on_host(self, op: str, inputs: Sequence[int], shapes: Sequence[Shape]) -> tuple[int, ...]:
        """Add an operator that the host may compute between the other steps; return its results."""
        kinds = [TensorType(input_type(self._call).dtype, shape) for shape in shapes]
        name = f"{op}_{len(self._expansion.parts)}"
        numbers = self._expansion.call(name, op, inputs, kinds, NONE)
        self._expansion.on_host.add(name)
        self.shapes |= dict(zip(numbers, shapes, strict=True))
        return numbers

    def constant(self, data: Array) -> int:
        """Add a constant of the call's element type."""
        number = self._expansion.constant(data)
        self.shapes[number] = data.shape
        return number

    def function(self, op: str, x: int) -> int:
        """Add a function of every element."""
        return self.step(op, [x], self.shapes[x])

    def pair(self, op: str, a: int, b: int) -> int:
        """Add a function of two tensors that broadcast: add, sub, mul, div, maximum or minimum."""
        shape = np.broadcast_shapes(self.shapes[a], self.shapes[b])
        return self.step(op, [a, b], shape, Activated() if op in _WITH_ACTIVATION else ByValue())

    def reduction(self, op: str, x: int, axes: Shape) -> int:
        """Add a mean, sum or extremum over ascending axes, which keep size 1; neighbouring axes are one step."""
        runs: list[list[int]] = []
        for axis in axes:
            if runs and runs[-1][-1] == axis - 1:
                runs[-1].append(axis)
            else:
                runs.append([axis])
        for run in runs:
            shape = tuple(1 if axis in run else size for axis, size in enumerate(self.shapes[x]))
            x = self.step(op, [x], shape, Reduction(axes=tuple(run), keep_dims=True))
        return x

    def result(self, *numbers: int) -> Expansion:
        """Return the expansion with these results."""
        self._expansion.results = list(numbers)
        return self._expansion
