"""Products of matrices, normalizations, and operators along axes: reductions, positions, shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from math import prod
from typing import Any

from npusim.frontends.forms.matrices import product
from npusim.frontends.forms.node_conversion import NodeConversion
from npusim.frontends.forms.row import Row
from npusim.frontends.paddle.operations.row import axis_of, element_type, numbers, op, renamed, without_axes
from npusim.kernels.graph.builder import unshaped

_TURNED = (("trans_x", "trans_y"), ("transpose_X", "transpose_Y"))
"""The attributes that exchange the last two axes of a factor, by version of the operator."""


def _turned(c: NodeConversion, name: str, place: int) -> int:
    tensor, rank = c.tensor(name), len(c.shape(name))
    turn = any(c.flag(names[place]) for names in _TURNED) and rank > 1
    return c.transposed(tensor, (*range(rank - 2), rank - 1, rank - 2)) if turn else tensor


def _matmul(c: NodeConversion) -> Sequence[int]:
    alpha = float(c.attribute("alpha", 1.0))
    made = product(c, _turned(c, "X", 0), _turned(c, "Y", 1), final=alpha == 1)
    return [made if alpha == 1 else c.node("mul", [made, c.scalar(alpha, made)])]


def _role(said: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    turned = any(said.get(names[1]) for names in _TURNED)
    return "Gemm", {"transB": int(turned), "alpha": said.get("alpha", 1.0)}


def _columns(c: NodeConversion, tensor: int, count: int, name: str) -> int:
    """A tensor as a matrix, whose rows are the first `count` axes."""
    shape = c.shape(tensor)
    c.require(0 < count < len(shape), f"{name} is {count}, must be 1..{len(shape) - 1}")
    return c.reshaped(tensor, (prod(shape[:count]), prod(shape[count:])))


def _mul(c: NodeConversion) -> Sequence[int]:
    """Of tensors as matrices; the result has the axes of both again."""
    x, y = c.tensor("X"), c.tensor("Y")
    rows, columns = (int(c.attribute(f"{each}_num_col_dims", 1)) for each in "xy")
    shape = (*c.shape(x)[:rows], *c.shape(y)[columns:])
    made = product(c, _columns(c, x, rows, "x_num_col_dims"), _columns(c, y, columns, "y_num_col_dims"))
    return [c.reshaped(made, shape)]


def _fully_connected(c: NodeConversion) -> Sequence[int]:
    x, rows, activation = (
        c.real("Input"),
        int(c.attribute("in_num_col_dims", 1)),
        c.attribute("activation_type", ""),
    )
    c.require(activation in ("", "relu"), f"activation_type is {activation!r}, must be '' or 'relu'")
    made = product(c, _columns(c, x, rows, "in_num_col_dims"), c.real("W"))
    shape = (*c.shape(x)[:rows], *c.shape(made)[1:])
    if c.has("Bias"):
        made = c.node("add", [made, c.reshaped(c.real("Bias"), shape[-1:])])
    return [c.reshaped(c.node("relu", [made]) if activation else made, shape)]


def _unit_length(c: NodeConversion) -> Sequence[int]:
    """x / sqrt(sum of squares + epsilon)."""
    x = c.real("X")
    axis = axis_of(c, len(c.shape(x)), default=1)
    squares = c.step("sum", [c.step("square", [x])], axes=(axis,), keep_dims=True)
    epsilon = c.scalar(float(c.attribute("epsilon", 1e-10)), squares)
    return [c.node("div", [x, c.step("sqrt", [c.step("add", [squares, epsilon])])])]


_EPSILON = ("epsilon", 1e-5)
_MOMENTS = "X=X scale=Scale B=Bias input_mean=Mean input_var=Variance"
_LAYER, _GROUPS, _ALONE = (
    "X=X Scale=Scale? B=Bias?",
    "X=X scale=Scale bias=Bias",
    "input=X scale=Scale B=Bias",
)
_PRODUCTS = "fully_connected batch_matmul transpose reshape mul"


def _reduction(name: str, operator: str, role: str = "") -> list[Row]:
    """Along some axes or, where none are said, all."""

    def convert(c: NodeConversion) -> Sequence[int]:
        x, rank = c.tensor("X"), len(c.shape("X"))
        said = [] if c.flag("reduce_all") else numbers(c, "dim")
        axes = sorted({c.axis(axis, rank, "dim") for axis in said}) or range(rank)
        made = c.node(operator, [x], axes=tuple(axes), keep_dims=c.flag("keep_dim")) if rank else x
        return [c.reshaped(made, without_axes(c, c.shape(made)))]

    return op(name, "X", convert, f"{operator} cast reshape", role=role)


def _position(name: str) -> list[Row]:
    def convert(c: NodeConversion) -> Sequence[int]:
        x = c.reshaped(c.real("X"), (prod(c.shape("X")),)) if c.flag("flatten") else c.real("X")
        shape = c.shape(x)
        axis = axis_of(c, len(shape), default=-1)
        made = c.step(name, [x], element_type(c, default=3), axis=axis)
        if c.flag("keepdims"):
            return [c.reshaped(made, [1 if at == axis else size for at, size in enumerate(shape)])]
        return [c.reshaped(made, without_axes(c, [size for at, size in enumerate(shape) if at != axis]))]

    return op(name, "X", convert, f"{name} reshape", groups=False)


def _top(c: NodeConversion) -> Sequence[int]:
    """The first elements in order, and where they were; of argsort all."""
    x, every = c.real("X"), c.source.operation == "argsort"
    axis = axis_of(c, len(c.shape(x)), default=-1)
    size = c.shape(x)[axis]
    k = size if every else c.wholes("K")[0] if c.has("K") else int(c.attribute("k", 1))
    c.require(0 < k <= size, f"k is {k}, axis {axis} has {size} elements")
    falling = c.flag("descending") if every else c.flag("largest", True)
    how: dict[str, Any] = {"k": k, "axis": axis, "smallest": not falling}
    return c.nodes("topk_v2", [x], [c.like(x), unshaped("int64")], **how)


def _running(c: NodeConversion) -> Sequence[int]:
    x = c.reshaped(c.real("X"), (prod(c.shape("X")),)) if c.flag("flatten") else c.real("X")
    how: dict[str, Any] = {name: c.flag(name) for name in ("exclusive", "reverse")}
    return [c.node("cumsum", [x], axis=axis_of(c, len(c.shape(x)), default=-1), **how)]


ROWS: tuple[Row, ...] = tuple(
    chain(
        op("matmul matmul_v2 bmm", "X Y", _matmul, _PRODUCTS, role=_role),
        op("mul", "X Y", _mul, _PRODUCTS, role="MatMul"),
        op("fc", "Input W Bias?", _fully_connected, f"{_PRODUCTS} add relu", groups=False),
        renamed("batch_norm sync_batch_norm", "BatchNormalization", _MOMENTS, "Y", epsilon=_EPSILON),
        renamed(
            "layer_norm", "LayerNormalization", _LAYER, "Y", axis=("begin_norm_axis", 1), epsilon=_EPSILON
        ),
        renamed("group_norm", "GroupNormalization", _GROUPS, "Y", num_groups=("groups", 1), epsilon=_EPSILON),
        renamed("instance_norm", "InstanceNormalization", _ALONE, "Y", epsilon=_EPSILON),
        op("norm", "X", _unit_length, "div sum square sqrt add", groups=False),
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
