"""A call on floats as simpler calls, for what the float lanes do not do in one instruction."""

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


class RealSteps:
    """The steps of a call, all of its element type; halves are rounded after each. Numbers are those of the expansion.

    The operands of the call are numbers 0, 1, ...
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
        """Return the result of an operator, of `shape` and the call's element type, or of another `kind`."""
        name = f"{op}_{len(self._expansion.parts)}"
        kind = kind or TensorType(input_type(self._call).dtype, shape)
        [number] = self._expansion.call(name, op, inputs, (kind,), parameters)
        self.shapes[number] = shape
        return number

    def number(self, value: float) -> int:
        """Return a constant that broadcasts with everything."""
        with np.errstate(over="ignore"):  # what is beyond float16 is infinite
            number = self._expansion.constant(np.array(value, input_type(self._call).dtype))
        self.shapes[number] = ()
        return number

    def on_host(self, op: str, inputs: Sequence[int], shapes: Sequence[Shape]) -> tuple[int, ...]:
        """Return the results of an operator that the host may compute between the other steps."""
        kinds = [TensorType(input_type(self._call).dtype, shape) for shape in shapes]
        name = f"{op}_{len(self._expansion.parts)}"
        numbers = self._expansion.call(name, op, inputs, kinds, NONE)
        self._expansion.on_host.add(name)
        self.shapes |= dict(zip(numbers, shapes, strict=True))
        return numbers

    def constant(self, data: Array) -> int:
        """Return a constant of the call's element type."""
        number = self._expansion.constant(data)
        self.shapes[number] = data.shape
        return number

    def function(self, op: str, x: int) -> int:
        """Return a function of every element."""
        return self.step(op, [x], self.shapes[x])

    def pair(self, op: str, a: int, b: int) -> int:
        """add, sub, mul, div, maximum or minimum of two tensors that broadcast."""
        shape = np.broadcast_shapes(self.shapes[a], self.shapes[b])
        return self.step(op, [a, b], shape, Activated() if op in _WITH_ACTIVATION else ByValue())

    def reduction(self, op: str, x: int, axes: Shape) -> int:
        """mean or sum over axes in ascending order, which keep one element each: neighbours at once."""
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
        """Return the expansion whose results are these."""
        self._expansion.results = list(numbers)
        return self._expansion
