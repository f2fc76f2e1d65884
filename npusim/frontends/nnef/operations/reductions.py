"""Operations along axes, which stay as axes of one element."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from npusim.frontends.nnef.operations.call_conversion import CallConversion
from npusim.frontends.nnef.operations.row import Row
from npusim.kernels.graph.builder import unshaped


def _reduced(c: CallConversion, op: str) -> Sequence[int]:
    x = c.tensor("input")
    axes = c.axes("axes", len(c.shape(x)))
    if not axes:
        return [x]
    return [c.node(op, [x], axes=tuple(axes), keep_dims=True)]


def _sum(c: CallConversion) -> Sequence[int]:
    return _reduced(c, "mean" if c.value("normalize") else "sum")


def _reduction(name: str, op: str) -> Row:
    return Row(name, lambda c: _reduced(c, op), (op,))


def _extreme(name: str, op: str) -> Row:
    """The result is one of the elements: in their codes."""

    def convert(c: CallConversion) -> Sequence[int]:
        x = c.tensor("input")
        axes = c.axes("axes", len(c.shape(x)))
        return c.moved(op, [x], axes=tuple(axes), keep_dims=True) if axes else [x]

    return Row(name, convert, (op,))


def _position(name: str, op: str) -> Row:
    """Over several axes the position among their elements, row by row."""

    def convert(c: CallConversion) -> Sequence[int]:
        x, shape = c.tensor("input"), c.shape("input")
        axes = c.axes("axes", len(shape))
        c.require(bool(axes), "axes are empty")
        kept = [1 if axis in axes else extent for axis, extent in enumerate(shape)]
        if len(axes) > 1:
            others = [axis for axis in range(len(shape)) if axis not in axes]
            turned = c.transposed(x, [*others, *axes])
            x = c.reshaped(turned, (*(shape[axis] for axis in others), prod(shape[axis] for axis in axes)))
            axes = [len(others)]
        return [c.reshaped(c.node(op, [x], unshaped("int32"), axis=axes[0]), kept)]

    return Row(name, convert, (op, "reshape", "transpose"))


def _moments(c: CallConversion) -> Sequence[int]:
    x, axes = c.as_real(c.tensor("input")), c.wholes("axes")
    mean = c.apply("mean_reduce", x, axes=axes)
    square = c.apply("sqr", c.apply("sub", x, mean))
    return [mean, c.apply("mean_reduce", square, axes=axes)]


ROWS: tuple[Row, ...] = (
    Row("sum_reduce", _sum, ("sum", "mean")),
    _reduction("mean_reduce", "mean"),
    _extreme("max_reduce", "reduce_max"),
    _extreme("min_reduce", "reduce_min"),
    _extreme("any_reduce", "reduce_any"),
    _extreme("all_reduce", "reduce_all"),
    _position("argmax_reduce", "arg_max"),
    _position("argmin_reduce", "arg_min"),
    Row("moments", _moments, ("mean", "sub", "square")),
)
