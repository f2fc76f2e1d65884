"""NNAdapter operations along axes: reductions, positions of extrema, softmax, normalizations, products of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from npusim.frontends.forms.axes import response, without
from npusim.frontends.nnadapter.nnadapter_codes import OperationType
from npusim.frontends.nnadapter.operation_conversion import Conversion, Row, plain
from npusim.kernels.graph.builder import unshaped

_T = OperationType

# Reductions and positions


def _reduction(type_: OperationType, op: str) -> Row:
    """Return the row of a reduction; without axes it reduces all of them, and one-dimensional results keep an axis."""

    def convert(c: Conversion) -> int:
        rank, kind = len(c.shape("input")), c.result()
        axes = tuple(sorted(set(c.axes_of()))) or tuple(range(rank))
        keep = c.flag("keepdim") or rank == 1
        if keep or len(axes) < rank or not _one_element(c):
            return c.node(op, [c.tensor("input")], axes=axes, keep_dims=keep)
        reduced = c.node(op, [c.tensor("input")], axes=axes)
        return c.one("reshape", reduced, unshaped(kind.dtype, kind.quantization), shape=(1,))

    return Row(type_, "input axes:I keepdim:b=False", convert, op)


def _one_element(c: Conversion) -> bool:
    """Return whether the output is declared with shape [1], which upstream takes for a scalar too."""
    kind = c.given("output").type
    return kind.ranked and len(kind.dimensions) == 1


def _position(type_: OperationType) -> Row:
    """Return the row of ARG_MAX or ARG_MIN."""
    op = type_.name.lower()

    def convert(c: Conversion) -> int:
        axis, shape = c.axis_of(), c.shape("input")
        position = c.node(op, [c.tensor("input")], axis=axis)
        if c.flag("keepdim") or (len(shape) == 1 and _one_element(c)):
            return c.reshaped(position, without(shape, axis))
        return position

    return Row(type_, "input axis:i keepdim:b=False dtype:i=7 > output@dtype", convert, f"{op} reshape")


def _top(c: Conversion) -> Sequence[int]:
    """Add a TOPK node; its results are sorted even if the operation does not ask for that."""
    axis, k = c.axis_of(), c.whole("k")
    size = c.shape("input")[axis]
    c.require(0 <= k <= size, f"k is {k}, must be 0..{size}, the size of axis {axis}")
    return c.nodes(
        "topk_v2", [c.tensor("input")], c.results(), k=k, axis=axis, smallest=not c.flag("largest")
    )


# Normalizations

_NEGLIGIBLE = 1e-6
"""An epsilon up to this does not change the norm of quantized values."""


def _channels(c: Conversion) -> int:
    """Return the number of channels of the input."""
    shape = c.shape("input")
    c.require(len(shape) >= 2, f"input has shape {list(shape)}, must have 2 dimensions or more")
    return shape[1]


def _vector(c: Conversion, name: str, shape: Sequence[int]) -> int:
    """Return an argument with as many elements as a shape, reshaped to it, in the input's floating-point type."""
    given = c.shape(name)
    c.require(prod(given) == prod(shape), f"{name} has shape {list(given)}, must have shape {list(shape)}")
    return c.in_float_type_of_input(c.reshaped(c.tensor(name), shape))


def _vectors(c: Conversion, shape: Sequence[int], *names: str) -> list[int]:
    """Return the input, and arguments of this shape."""
    return [c.tensor("input"), *(_vector(c, name, shape) for name in names)]


def _batch(c: Conversion) -> int:
    operands = _vectors(c, (_channels(c),), "scale", "bias", "mean", "variance")
    return c.node("batch_normalization", operands, axis=1, epsilon=c.real("epsilon"))


def _instance(c: Conversion) -> int:
    return _normalized_by_group(c, max(_channels(c), 1))


def _group(c: Conversion) -> int:
    groups = c.whole("groups")
    c.require(groups > 0, f"groups is {groups}, must be 1 or more")
    return _normalized_by_group(c, groups)


def _normalized_by_group(c: Conversion, groups: int) -> int:
    operands = _vectors(c, (_channels(c),), "scale", "bias")
    return c.node("group_normalization", operands, axis=1, groups=groups, epsilon=c.real("epsilon"))


def _layer(c: Conversion) -> int:
    begin = c.axis_of("begin_norm_axis")
    operands = _vectors(c, c.shape("input")[begin:], "scale", "bias")
    return c.node("layer_normalization", operands, begin_axis=begin, epsilon=c.real("epsilon"))


def _lp(c: Conversion) -> int:
    """Add an LP normalization; for 8 bits LiteRT's integer arithmetic, which has L2 along one axis and scale 1/128."""
    axes, p, epsilon = sorted(set(c.axes_of("axis"))), c.whole("p"), c.real("epsilon")
    c.require(p in (1, 2), f"p is {p}, must be 1 or 2")
    c.require(bool(axes), "axis is empty, must name one or more")
    kind = c.result()
    scaling = kind.quantization if kind.quantized8 else None
    if (
        scaling is not None
        and p == 2
        and len(axes) == 1
        and epsilon <= _NEGLIGIBLE
        and scaling.scale == 1 / 128
    ):
        return c.node("l2_normalization", [c.tensor("input")], axis=axes[0])
    return c.node("lp_normalization", [c.tensor("input")], axes=tuple(axes), p=p, epsilon=epsilon)


def _lrn(c: Conversion) -> int:
    """Add a local response normalization over channels."""
    size = c.whole("size")
    c.require(size > 0, f"size is {size}, must be 1 or more")
    _channels(c)
    return response(c, c.tensor("input"), size, **{name: c.real(name) for name in ("bias", "alpha", "beta")})


# Products of matrices


def _fully_connected(c: Conversion) -> int:
    shape, weight = c.shape("input"), c.shape("weight")
    c.require(len(shape) >= 2, f"input has shape {list(shape)}, must have 2 dimensions or more")
    c.require(len(weight) == 2, f"weight has shape {list(weight)}, must be [units, size]")
    operands = [c.tensor("input"), c.tensor("weight"), c.bias("weight")]
    return c.node("fully_connected", operands, activation=c.activation)


def _mat_mul(c: Conversion) -> int:
    """Multiply matrices; a vector x is a row, a vector y a column, and the product lacks its dimension.

    A product of two vectors may be declared as shape [1], as upstream does.
    """
    shapes = c.shape("x"), c.shape("y")
    c.require(min(map(len, shapes)) > 0, "x and y must have a dimension or more")
    vectors = tuple(len(shape) == 1 for shape in shapes)
    x = c.reshaped(c.tensor("x"), (1, *shapes[0])) if vectors[0] else c.tensor("x")
    y = c.reshaped(c.tensor("y"), (*shapes[1], 1)) if vectors[1] else c.tensor("y")
    product = c.node(
        "batch_matmul",
        [x, y],
        adj_x=c.flag("transpose_x") and not vectors[0],
        adj_y=c.flag("transpose_y") and not vectors[1],
    )
    if not any(vectors):
        return product
    *batch, rows, columns = c.shape(product)
    kept = [size for size, vector in zip((rows, columns), vectors, strict=True) if not vector]
    shape = (*batch, *kept)
    scalar = c.given("output").type.shape == (1,) and not shape
    return c.one("reshape", product, c.result(), shape=(1,) if scalar else shape)


ROWS: tuple[Row, ...] = (
    _reduction(_T.REDUCE_MAX, "reduce_max"),
    _reduction(_T.REDUCE_MEAN, "mean"),
    _reduction(_T.REDUCE_SUM, "sum"),
    _position(_T.ARG_MAX),
    _position(_T.ARG_MIN),
    plain(_T.SOFTMAX, "input axis:i=1"),
    plain(_T.LOG_SOFTMAX, "input axis:i=1"),
    plain(_T.CUM_SUM, "input axis:i=-1 exclusive:b=False reverse:b=False", "cumsum"),
    Row(
        _T.TOP_K,
        "input k:i axis:i=-1 largest:b=True sorted:b=True return_indices_dtype:i=7"
        " > values=input indices@return_indices_dtype",
        _top,
        "topk_v2",
    ),
    Row(
        _T.BATCH_NORMALIZATION, "input scale bias mean variance epsilon:f=1e-5", _batch, "batch_normalization"
    ),
    Row(_T.INSTANCE_NORMALIZATION, "input scale bias epsilon:f=1e-5", _instance, "group_normalization"),
    Row(_T.GROUP_NORMALIZATION, "input scale bias epsilon:f=1e-5 groups:i", _group, "group_normalization"),
    Row(
        _T.LAYER_NORMALIZATION,
        "input scale bias begin_norm_axis:i epsilon:f=1e-5",
        _layer,
        "layer_normalization",
    ),
    Row(_T.LP_NORMALIZATION, "input axis:I=1 p:i=2 epsilon:f=1e-5", _lp, "lp_normalization l2_normalization"),
    Row(_T.LRN, "input size:i=5 bias:f=1.0 alpha:f=1e-4 beta:f=0.75", _lrn, "local_response_normalization"),
    Row(_T.FULLY_CONNECTED, "input weight bias? fuse_code:i=0", _fully_connected, "fully_connected"),
    Row(
        _T.MAT_MUL, "x y transpose_x:b=False transpose_y:b=False > output=x", _mat_mul, "batch_matmul reshape"
    ),
)
