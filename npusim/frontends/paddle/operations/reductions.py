"""Operators along axes: reductions, positions, running sums, shares."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from math import prod
from typing import Any

from npusim.frontends.forms.conversion import Conversion
from npusim.frontends.forms.row import Row
from npusim.frontends.paddle.operations.row import axis_of, element_type, numbers, op, renamed, without_axes
from npusim.kernels.graph.builder import unshaped


def _reduction(name: str, operator: str, role: str = "") -> list[Row]:
    """Along some axes or, where none are said, all."""

    def convert(c: Conversion) -> Sequence[int]:
        x, rank = c.tensor("X"), len(c.shape("X"))
        said = [] if c.flag("reduce_all") else numbers(c, "dim")
        axes = sorted({c.axis(axis, rank, "dim") for axis in said}) or range(rank)
        made = c.node(operator, [x], axes=tuple(axes), keep_dims=c.flag("keep_dim")) if rank else x
        return [c.reshaped(made, without_axes(c, c.shape(made)))]

    return op(name, "X", convert, f"{operator} cast reshape", role=role)


def _position(name: str) -> list[Row]:
    def convert(c: Conversion) -> Sequence[int]:
        x = c.reshaped(c.real("X"), (prod(c.shape("X")),)) if c.flag("flatten") else c.real("X")
        shape = c.shape(x)
        axis = axis_of(c, len(shape), default=-1)
        made = c.step(name, [x], element_type(c, default=3), axis=axis)
        if c.flag("keepdims"):
            return [c.reshaped(made, [1 if at == axis else size for at, size in enumerate(shape)])]
        return [c.reshaped(made, without_axes(c, [size for at, size in enumerate(shape) if at != axis]))]

    return op(name, "X", convert, f"{name} reshape", groups=False)


def _top(c: Conversion) -> Sequence[int]:
    """The first elements in order, and where they were; of argsort all."""
    x, every = c.real("X"), c.source.operation == "argsort"
    axis = axis_of(c, len(c.shape(x)), default=-1)
    size = c.shape(x)[axis]
    k = size if every else c.wholes("K")[0] if c.has("K") else int(c.attribute("k", 1))
    c.require(0 < k <= size, f"k is {k}, axis {axis} has {size} elements")
    falling = c.flag("descending") if every else c.flag("largest", True)
    how: dict[str, Any] = {"k": k, "axis": axis, "smallest": not falling}
    return c.nodes("topk_v2", [x], [c.like(x), unshaped("int64")], **how)


def _running(c: Conversion) -> Sequence[int]:
    x = c.reshaped(c.real("X"), (prod(c.shape("X")),)) if c.flag("flatten") else c.real("X")
    how: dict[str, Any] = {name: c.flag(name) for name in ("exclusive", "reverse")}
    return [c.node("cumsum", [x], axis=axis_of(c, len(c.shape(x)), default=-1), **how)]


ROWS: tuple[Row, ...] = tuple(
    chain(
        _reduction("reduce_mean", "mean"),
        _reduction("mean", "mean"),
        _reduction("reduce_sum", "sum"),
        _reduction("reduce_max", "reduce_max", "ReduceMax"),
        _reduction("reduce_min", "reduce_min", "ReduceMin"),
        *(_reduction(name, name) for name in ("reduce_prod", "reduce_all", "reduce_any")),
        *(_position(name) for name in ("arg_max", "arg_min")),
        op("top_k top_k_v2", "X K?", _top, "topk_v2", "Out Indices", groups=False),
        op("argsort", "X", _top, "topk_v2", "Out Indices", groups=False),
        op("cumsum", "X", _running, "cumsum", groups=False),
        renamed("softmax", "Softmax", "input=X", axis=("axis", -1)),
        renamed("log_softmax", "LogSoftmax", "input=X", axis=("axis", -1)),
    )
)
