"""Operators that work along axes: their parameters, rules, and the shapes of what they give."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base.elements import Workload
from npusim.kernels.operator import parameters, rules
from npusim.kernels.operator.operands import elementwise, input_type, input_value
from npusim.kernels.operator.operator import Call, Rule, Shapes, Values
from npusim.kernels.operator.parameters import Sizes, Step

MOST_CODES = 1 << 23
"""Maximum number of 8-bit values whose sum is sure to fit a 32-bit accumulator."""


class Along(parameters.Parameters):
    """axis: the axis along which an operator works; negative ones count from the back."""

    axis: Step = -1


def axis_of(call: Call[Along]) -> int:
    """Return the axis counted from the front."""
    return call.parameters.axis % len(input_type(call).shape)


def an_axis(call: Call[Along]) -> bool:
    """axis is an axis of the input"""
    rank = len(input_type(call).shape)
    return -rank <= call.parameters.axis < rank


def all_read(call: Call) -> Workload:
    """Return the work of one elementwise step for every element of the input."""
    return elementwise(call, input_type(call).elements)


class Reduction(parameters.Parameters):
    """axes: the combined axes, counted from the front; keep_dims: they stay in the output, with size 1."""

    axes: Sizes
    keep_dims: bool = False


def combined(call: Call[Reduction]) -> int:
    """Return how many elements make up one element of the output."""
    shape = input_type(call).shape
    return prod(shape[axis] for axis in call.parameters.axes)


def ascending_axes(call: Call[Reduction]) -> bool:
    """axes are different dimensions of the input, in ascending order"""
    axes = list(call.parameters.axes)
    return axes == sorted(set(axes)) and all(axis < len(input_type(call).shape) for axis in axes)


def reduced(call: Call[Reduction]) -> Shapes:
    """Return the input's shape without the axes, or with size 1 along each."""
    shape, axes = input_type(call).shape, call.parameters.axes
    if call.parameters.keep_dims:
        return (tuple(1 if axis in axes else size for axis, size in enumerate(shape)),)
    return (tuple(size for axis, size in enumerate(shape) if axis not in axes),)


def reduced_shape(call: Call[Reduction]) -> bool:
    """the output has the input's shape without the reduced dimensions (with keep_dims: as ones)"""
    return reduced(call) == (call.outputs[0].shape,)


REDUCTION_RULES: tuple[Rule, ...] = (rules.operands(1), rules.per_tensor, ascending_axes, reduced_shape)
"""The rules of every reduction over axes, to which an operator adds its own."""


def in_order(call: Call[Reduction], x: NDArray[Any]) -> NDArray[Any]:
    """Return [n, m]: in C order, the n elements that are combined for each of the m elements of the output."""
    axes = call.parameters.axes
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    return x.transpose(*axes, *kept).reshape(combined(call), prod(x.shape[axis] for axis in kept))


def wide_sums(call: Call[Reduction], values: Values) -> NDArray[np.float64]:
    """Return float values added up over the axes in float64."""
    x: Any = input_value(values)
    return np.asarray(x.sum(axis=call.parameters.axes, dtype=np.float64))


def accumulated(call: Call[Reduction], x: NDArray[Any], combine: np.ufunc) -> NDArray[Any]:
    """Combine elements one after the other in their own type, from `combine.identity` on, as LiteRT's loop does.

    The result has the shape of the output.
    """
    begin = x.dtype.type(combine.identity)
    shape = call.outputs[0].shape
    if not combined(call):
        return np.full(shape, begin)
    with np.errstate(over="ignore", invalid="ignore"):
        result: NDArray[Any] = combine(
            combine.accumulate(in_order(call, x), axis=0, dtype=x.dtype)[-1], begin
        )
    return result.reshape(shape)
