"""Pools along one, two or three axes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from npusim.frontends.forms.conversion import MOST_CONSTANT
from npusim.frontends.forms.node_conversion import NodeConversion
from npusim.frontends.forms.pools import MOVES, pooled
from npusim.frontends.forms.row import Row
from npusim.frontends.forms.windows import NO_BORDER, Window
from npusim.frontends.onnx.operations.windows import window_of
from npusim.kernels.graph.builder import unshaped


def _window(c: NodeConversion) -> Window:
    shape, size = c.shape("X"), [int(number) for number in c.attribute("kernel_shape", ())]
    c.require(3 <= len(shape) <= 5, f"the input has shape {list(shape)}; npusim has pools along 1 to 3 axes")
    c.require(
        len(size) == len(shape) - 2,
        f"kernel_shape {size} is not one number for each of {len(shape) - 2} axes",
    )
    return window_of(c, shape[2:], size, ceil=c.flag("ceil_mode"))


def _by_columns(c: NodeConversion, window: Window) -> bool:
    """Whether ONNX Runtime adds the columns of a window up first: before version 19, with small steps."""
    return c.opset < 19 and window.stride[-1] <= 2


def _averaged(c: NodeConversion, x: int, window: Window, *, counted: bool = False) -> int:
    by_columns = _by_columns(c, window)
    return pooled(c, "average_pool_2d", x, window, counted=counted, by_columns=by_columns)


def _average(c: NodeConversion) -> Sequence[int]:
    window = _window(c)
    counted = c.flag("count_include_pad")
    return [_averaged(c, c.tensor("X"), window, counted=counted)]


def _largest(c: NodeConversion) -> Sequence[int]:
    window = _window(c)
    if len(c.outputs) > 1 and c.outputs[1]:
        return _with_indices(c, window)
    return [pooled(c, "max_pool_2d", c.tensor("X"), window)]


def _with_indices(c: NodeConversion, window: Window) -> Sequence[int]:
    """Positions count through the whole tensor, so those in a plane get the place where it begins."""
    x, shape = c.real("X"), c.shape("X")
    c.require(len(shape) == 4 and set(window.dilation) == {1}, "npusim has Indices of pools of [N, C, H, W]")
    c.require(not c.flag("storage_order"), "npusim has Indices row by row, not storage_order 1")
    c.small(shape[:2], MOST_CONSTANT)
    how = {"filter": window.size, "strides": window.stride, "padding": window.padding}
    kinds = [c.like(x), unshaped("int64")]
    largest, positions = c.nodes("max_pool_2d_with_positions", [x], kinds, **how)
    begin = np.arange(shape[0] * shape[1], dtype=np.int64).reshape(*shape[:2], 1, 1) * (shape[2] * shape[3])
    return [largest, c.step("add", [positions, c.constant(begin)])]


def _norm(c: NodeConversion) -> Sequence[int]:
    """The p-th root of sums of p-th powers, what lies around the image being 0: means, times their number."""
    x, window, p = c.real("X"), _window(c), int(c.attribute("p", 2))
    c.require(p > 0, f"p is {p}, must be 1 or more")
    around = (NO_BORDER, NO_BORDER, *window.padding)
    if any(border != NO_BORDER for border in around):
        x = c.step("pad", [x], paddings=around)
    window = window._replace(padding=(NO_BORDER,) * len(window.size), said=(NO_BORDER,) * len(window.size))
    powers = _power(c, x, p)
    means = _averaged(c, powers, window)
    return [_root(c, c.step("mul", [means, c.scalar(prod(window.size), means)]), p)]


def _power(c: NodeConversion, x: int, p: int) -> int:
    if p == 2:
        return c.step("square", [x])
    size = c.step("abs", [x])
    return size if p == 1 else c.step("pow", [size, c.scalar(p, size)])


def _root(c: NodeConversion, sums: int, p: int) -> int:
    if p == 1:
        return sums
    return c.node("sqrt", [sums]) if p == 2 else c.node("pow", [sums, c.scalar(1 / p, sums)])


def _space(c: NodeConversion) -> tuple[int, ...]:
    rank = len(c.shape("X"))
    c.require(rank > 2, f"the input has shape {list(c.shape('X'))}, must have 3 axes or more")
    return tuple(range(2, rank))


def _whole(op: str):  # type: ignore[no-untyped-def]
    def convert(c: NodeConversion) -> Sequence[int]:
        return [c.node(op, [c.tensor("X")], axes=_space(c), keep_dims=True)]

    return convert


def _whole_norm(c: NodeConversion) -> Sequence[int]:
    x, p, axes = c.real("X"), int(c.attribute("p", 2)), _space(c)
    c.require(p > 0, f"p is {p}, must be 1 or more")
    return [_root(c, c.step("sum", [_power(c, x, p)], axes=axes, keep_dims=True), p)]


_POWERS = ("square", "abs", "pow", "sqrt")

ROWS: tuple[Row, ...] = (
    Row("AveragePool", "X", _average, ("average_pool_2d", "add", "div", *MOVES)),
    Row("MaxPool", "X", _largest, ("max_pool_2d", "max_pool_2d_with_positions", "maximum", "add", *MOVES)),
    Row("LpPool", "X", _norm, ("average_pool_2d", "mul", *_POWERS, *MOVES)),
    Row("GlobalAveragePool", "X", _whole("mean"), ("mean",)),
    Row("GlobalMaxPool", "X", _whole("reduce_max"), ("reduce_max",)),
    Row("GlobalLpPool", "X", _whole_norm, ("sum", *_POWERS)),
)
