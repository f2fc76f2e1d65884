"""Operations along axes: reductions, positions, running sums, shares."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from npusim.frontends.forms.node_conversion import NodeConversion
from npusim.frontends.forms.row import Convert, Row
from npusim.kernels.graph.builder import unshaped


def axes_of(c: NodeConversion, rank: int, name: str = "axes") -> list[int]:
    """The axes of a node, an attribute or an input; those that are not said are all."""
    said = c.attribute(name)
    if said is None and c.has(name):
        said = c.wholes(name)
    axes = [c.axis(int(axis), rank, name) for axis in said or ()]
    c.require(len(set(axes)) == len(axes), f"{name} {list(said or ())} name an axis twice")
    return sorted(axes)


def _combined(c: NodeConversion, rank: int) -> list[int] | None:
    """What a reduction combines; None where it leaves everything as it is."""
    axes = axes_of(c, rank)
    if c.flag("noop_with_empty_axes") and not axes:
        return None
    return axes or list(range(rank))


def _reduction(name: str, op: str) -> Row:
    def convert(c: NodeConversion) -> Sequence[int]:
        x = c.tensor("data")
        axes = _combined(c, len(c.shape(x)))
        if axes is None or not c.shape(x):
            return [c.node("reshape", [x], shape=c.shape(x))]
        return [c.node(op, [x], axes=tuple(axes), keep_dims=c.flag("keepdims", True))]

    return Row(name, "data axes?", convert, (op, "cast", "reshape"))


def _composed(name: str, before: str, after: str) -> Row:
    """Sums of a function, then a function of the sums."""

    def convert(c: NodeConversion) -> Sequence[int]:
        x = c.real("data")
        axes = _combined(c, len(c.shape(x)))
        terms = c.step(before, [x]) if before else x
        if axes is not None and c.shape(x):
            terms = c.step("sum", [terms], axes=tuple(axes), keep_dims=c.flag("keepdims", True))
        return [c.node(after, [terms]) if after else c.node("reshape", [terms], shape=c.shape(terms))]

    return Row(name, "data axes?", convert, tuple(filter(None, ("sum", before, after, "reshape"))))


def _log_sum_exp(c: NodeConversion) -> Sequence[int]:
    """Of differences from the largest element, which is added again: nothing overflows."""
    x = c.real("data")
    axes = _combined(c, len(c.shape(x)))
    if axes is None or not c.shape(x):
        return [c.node("reshape", [x], shape=c.shape(x))]
    how: dict[str, Any] = {"axes": tuple(axes), "keep_dims": True}
    most = c.step("reduce_max", [x], **how)
    sums = c.step("sum", [c.step("exp", [c.step("sub", [x, most])])], **how)
    made = c.step("add", [c.step("log", [sums]), most])
    kept = c.shape(made)
    if not c.flag("keepdims", True):
        kept = tuple(size for axis, size in enumerate(kept) if axis not in axes)
    return [c.node("reshape", [made], shape=kept)]


def _position(name: str, op: str) -> Row:
    """The first of equals, or the last: the first from behind."""

    def convert(c: NodeConversion) -> Sequence[int]:
        x, shape = c.real("data"), c.shape(c.real("data"))
        axis = c.axis(int(c.attribute("axis", 0)), len(shape))
        last = c.flag("select_last_index")
        if last:
            x = c.step("reverse_v2", [x], axes=(axis,))
        made = c.step(op, [x], "int64", axis=axis)
        if last:
            made = c.step("sub", [c.scalar(shape[axis] - 1, made), made])
        if c.flag("keepdims", True):
            made = c.reshaped(made, [1 if place == axis else size for place, size in enumerate(shape)])
        return [made]

    return Row(name, "data", convert, (op, "reverse_v2", "sub", "reshape"), groups=False)


def _top(c: NodeConversion) -> Sequence[int]:
    x = c.real("X")
    axis, [k] = c.axis(int(c.attribute("axis", -1)), len(c.shape(x))), c.wholes("K")
    c.require(0 <= k <= c.shape(x)[axis], f"K is {k}, axis {axis} has {c.shape(x)[axis]} elements")
    how: dict[str, Any] = {"k": k, "axis": axis, "smallest": not c.flag("largest", True)}
    return c.nodes("topk_v2", [x], [c.like(x), unshaped("int64")], **how)


def _running(c: NodeConversion) -> Sequence[int]:
    x = c.real("x")
    [axis] = c.wholes("axis")
    how: dict[str, Any] = {
        "exclusive": c.flag("exclusive"),
        "reverse": c.flag("reverse"),
    }
    return [c.node("cumsum", [x], axis=c.axis(axis, len(c.shape(x))), **how)]


def _along(op: str) -> Convert:
    """Before version 13 of the operations along all axes from one on, as if they were one."""

    def convert(c: NodeConversion) -> Sequence[int]:
        x, shape = c.tensor("input"), c.shape("input")
        older = c.opset < 13
        axis = c.axis(int(c.attribute("axis", 1 if older else -1)), max(len(shape), 1))
        if not older or axis == len(shape) - 1:
            return [c.node(op, [x], axis=axis)]
        flat = c.reshaped(x, (prod(shape[:axis]), prod(shape[axis:])))
        return [c.reshaped(c.node(op, [flat], axis=1), shape)]

    return convert


def _hardmax(c: NodeConversion) -> Sequence[int]:
    """1 at the first of the largest elements, 0 elsewhere."""
    x, shape = c.real("input"), c.shape(c.real("input"))
    axis = c.axis(int(c.attribute("axis", 1 if c.opset < 13 else -1)), max(len(shape), 1))
    flat = c.reshaped(x, (prod(shape[:axis]), prod(shape[axis:]))) if c.opset < 13 else x
    axis = 1 if c.opset < 13 else axis
    sizes = c.shape(flat)
    place = c.step("arg_max", [flat], "int64", axis=axis)
    place = c.reshaped(place, [1 if at == axis else size for at, size in enumerate(sizes)])
    along = np.arange(sizes[axis], dtype=np.int64).reshape(
        [-1 if at == axis else 1 for at in range(len(sizes))]
    )
    there = c.step("equal", [place, c.constant(along)], "bool")
    return [c.reshaped(c.step("cast", [there], c.builder.type(x).dtype), shape)]


ROWS: tuple[Row, ...] = (
    _reduction("ReduceSum", "sum"),
    _reduction("ReduceMean", "mean"),
    _reduction("ReduceMax", "reduce_max"),
    _reduction("ReduceMin", "reduce_min"),
    _reduction("ReduceProd", "reduce_prod"),
    _composed("ReduceL1", "abs", ""),
    _composed("ReduceL2", "square", "sqrt"),
    _composed("ReduceSumSquare", "square", ""),
    _composed("ReduceLogSum", "", "log"),
    Row("ReduceLogSumExp", "data axes?", _log_sum_exp, ("sum", "reduce_max", "sub", "exp", "log", "add")),
    _position("ArgMax", "arg_max"),
    _position("ArgMin", "arg_min"),
    Row("TopK", "X K", _top, ("topk_v2",), groups=False),
    Row("CumSum", "x axis", _running, ("cumsum",), groups=False),
    Row("Softmax", "input", _along("softmax"), ("softmax", "reshape")),
    Row("LogSoftmax", "input", _along("log_softmax"), ("log_softmax", "reshape")),
    Row("Hardmax", "input", _hardmax, ("arg_max", "equal", "cast", "reshape"), groups=False),
)
