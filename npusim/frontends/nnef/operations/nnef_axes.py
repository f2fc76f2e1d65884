"""Reductions and normalizations of NNEF."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from npusim.frontends.forms.axes import response
from npusim.frontends.nnef.operations.call_conversion import CallConversion, Row
from npusim.kernels.graph.builder import unshaped

REDUCTIONS = {
    "sum": "sum_reduce",
    "mean": "mean_reduce",
    "reduce_max": "max_reduce",
    "reduce_min": "min_reduce",
    "reduce_all": "all_reduce",
    "reduce_any": "any_reduce",
    "arg_max": "argmax_reduce",
    "arg_min": "argmin_reduce",
}
"""The NNEF operation of each reduction, for the reader and the writer."""


def _reduced(c: CallConversion, op: str) -> Sequence[int]:
    x = c.tensor("input")
    axes = c.axes("axes", len(c.shape(x)))
    if not axes:
        return [x]
    return [c.node(op, [x], axes=tuple(axes), keep_dims=True)]


def _sum(c: CallConversion) -> Sequence[int]:
    return _reduced(c, "mean" if c.value("normalize") else "sum")


def _extreme(op: str) -> Row:
    """Return the row of a reduction whose result is one of the elements, in their quantization."""

    def convert(c: CallConversion) -> Sequence[int]:
        x = c.tensor("input")
        axes = c.axes("axes", len(c.shape(x)))
        return c.moved(op, [x], axes=tuple(axes), keep_dims=True) if axes else [x]

    return Row(REDUCTIONS[op], convert, op)


def _position(op: str) -> Row:
    """Return the row of an arg-extremum; over several axes the position counts their elements row by row."""

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

    return Row(REDUCTIONS[op], convert, f"{op} reshape transpose")


def _moments(c: CallConversion) -> Sequence[int]:
    x, axes = c.as_real(c.tensor("input")), c.wholes("axes")
    mean = c.apply("mean_reduce", x, axes=axes)
    square = c.apply("sqr", c.apply("sub", x, mean))
    return [mean, c.apply("mean_reduce", square, axes=axes)]


_REAL = unshaped("float32")


def _response(c: CallConversion) -> Sequence[int]:
    """Normalize by a window; along the channels alone it is one operator, which sums squares where NNEF has their
    mean.
    """
    x = c.tensor("input")
    size, rank = c.wholes("size"), len(c.shape(x))
    alpha, beta, bias = (float(c.value(name)) for name in ("alpha", "beta", "bias"))
    fits = len(size) == rank and min(size, default=1) >= 1
    c.require(fits, f"size {size} is not one number above 0 for each axis of {list(c.shape(x))}")
    if rank > 1 and all(extent == 1 for axis, extent in enumerate(size) if axis != 1):
        return [response(c, x, size[1], alpha=alpha / size[1], beta=beta, bias=bias)]
    energy = _energy(c, c.as_real(x), size)
    sums = c.node("add", [c.node("mul", [energy, c.literal(alpha, x)], _REAL), c.literal(bias, x)], _REAL)
    return [c.node("div", [x, c.node("pow", [sums, c.literal(beta, x)], _REAL)])]


def _energy(c: CallConversion, x: int, size: Sequence[int]) -> int:
    """Return the mean of squares around each element."""
    return c.apply("box", c.apply("sqr", x), size=list(size), normalize=True)


def _local_mean(c: CallConversion) -> Sequence[int]:
    x = c.as_real(c.tensor("input"))
    return [c.node("sub", [x, c.apply("box", x, size=c.wholes("size"), normalize=True)])]


def _divided(c: CallConversion, x: int, norm: int) -> int:
    """Return x / max(norm + bias, epsilon)."""
    bias, epsilon = float(c.value("bias")), float(c.value("epsilon"))
    if bias:
        norm = c.node("add", [norm, c.literal(bias, norm)], _REAL)
    if epsilon > bias:
        norm = c.node("maximum", [norm, c.literal(epsilon, norm)], _REAL)
    return c.node("div", [x, norm])


def _local_variance(c: CallConversion) -> Sequence[int]:
    x = c.as_real(c.tensor("input"))
    return [_divided(c, x, c.node("sqrt", [_energy(c, x, c.wholes("size"))], _REAL))]


def _local_contrast(c: CallConversion) -> Sequence[int]:
    size = c.wholes("size")
    x = c.apply("local_mean_normalization", c.tensor("input"), size=size)
    return [_divided(c, x, c.node("sqrt", [_energy(c, x, size)], _REAL))]


def _norm(p: int) -> Row:
    name = f"l{p}_normalization"

    def convert(c: CallConversion) -> Sequence[int]:
        x = c.tensor("input")
        axes = c.axes("axes", len(c.shape(x)))
        bias, epsilon = float(c.value("bias")), float(c.value("epsilon"))
        if axes and epsilon <= bias:  # a norm is 0 or more
            if p == 2 and len(axes) == 1 and not bias and c.kind().quantization is not None:
                return [c.node("l2_normalization", [x], axis=axes[0])]
            return [c.node("lp_normalization", [x], axes=tuple(axes), p=p, epsilon=bias)]
        real = c.as_real(x)
        terms = c.apply("abs" if p == 1 else "sqr", real)
        sums = c.apply("sum_reduce", terms, axes=axes)
        return [_divided(c, real, sums if p == 1 else c.apply("sqrt", sums))]

    return Row(name, convert, "lp_normalization l2_normalization abs square sum sqrt div")


def _batch(c: CallConversion) -> Sequence[int]:
    """Normalize with one number per channel by one operator, and with other shapes by several."""
    x, shape = c.tensor("input"), c.shape("input")
    names = ("scale", "offset", "mean", "variance")
    c.require(len(shape) >= 2, f"input has shape {list(shape)}, of rank below 2")
    vectors = []
    for name in names:
        number, tensor = c.number(name), c.tensor(name)
        own = c.shape(tensor)
        if number is not None:
            vectors.append(c.filled((shape[1],), number))
        elif len(own) > 1 and own[1] == shape[1] and max((*own[:1], *own[2:])) == 1:
            vectors.append(c.reshaped(c.as_real(tensor), (shape[1],)))
    epsilon = float(c.value("epsilon"))
    if len(vectors) == len(names):
        return [c.node("batch_normalization", [x, *vectors], axis=1, epsilon=epsilon)]
    x, scale, offset, mean, variance = c.aligned([x, *(c.as_real(c.tensor(name)) for name in names)])
    apart = c.apply("mul", c.apply("sub", x, mean), scale)
    spread = c.apply("sqrt", c.apply("add", variance, c.literal(epsilon, variance)))
    return [c.node("add", [c.apply("div", apart, spread), offset])]


_BY_PARTS = "square average_pool_2d sqrt add maximum div sub"


ROWS: tuple[Row, ...] = (
    Row("sum_reduce", _sum, "sum mean"),
    Row("mean_reduce", lambda c: _reduced(c, "mean"), "mean"),
    *map(_extreme, ("reduce_max", "reduce_min", "reduce_any", "reduce_all")),
    *map(_position, ("arg_max", "arg_min")),
    Row("moments", _moments, "mean sub square"),
    Row("local_response_normalization", _response, f"local_response_normalization pow {_BY_PARTS}"),
    Row("local_mean_normalization", _local_mean, "average_pool_2d sub"),
    Row("local_variance_normalization", _local_variance, _BY_PARTS),
    Row("local_contrast_normalization", _local_contrast, _BY_PARTS),
    _norm(1),
    _norm(2),
    Row("batch_normalization", _batch, "batch_normalization sub mul sqrt div add"),
)
