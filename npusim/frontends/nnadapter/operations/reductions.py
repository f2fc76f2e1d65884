"""Operations along axes: reductions, positions, running sums, softmax."""

from __future__ import annotations

from collections.abc import Sequence

from npusim.frontends.nnadapter.codes import OperationType
from npusim.frontends.nnadapter.operations.conversion import Conversion
from npusim.frontends.nnadapter.operations.row import Row
from npusim.kernels.graph.builder import unshaped


def _reduction(type_: OperationType, op: str) -> Row:
    """Without axes over all of them; what has one dimension keeps it."""

    def convert(c: Conversion) -> Sequence[int]:
        rank = len(c.shape("input"))
        axes = tuple(sorted(set(c.axes("axes")))) or tuple(range(rank))
        keep = c.flag("keepdim") or rank == 1
        if keep or len(axes) < rank or not _one_element(c):
            return c.node(op, [c.tensor("input")], axes=axes, keep_dims=keep)
        kind = unshaped(c.result().dtype, c.result().quantization)
        return (c.one("reshape", c.node(op, [c.tensor("input")], kind, axes=axes)[0], kind, shape=(1,)),)

    return Row(type_, "input axes:I keepdim:b=False > output=input", convert, (op,))


def _one_element(c: Conversion) -> bool:
    """Whether a result of no dimensions is declared as one of shape [1]."""
    kind = c.given("output").type
    return kind.ranked and len(kind.dimensions) == 1


def _position(type_: OperationType) -> Row:
    op = type_.name.lower()

    def convert(c: Conversion) -> Sequence[int]:
        axis, shape = c.axis("axis"), c.shape("input")
        found = c.node(op, [c.tensor("input")], unshaped(c.result().dtype), axis=axis)[0]
        if c.flag("keepdim") or (len(shape) == 1 and _one_element(c)):
            return (c.reshaped(found, (*shape[:axis], 1, *shape[axis + 1 :])),)
        return (found,)

    return Row(type_, "input axis:i keepdim:b=False dtype:i=7 > output@dtype", convert, (op, "reshape"))


def _softmax(type_: OperationType) -> Row:
    op = type_.name.lower()

    def convert(c: Conversion) -> Sequence[int]:
        return c.node(op, [c.tensor("input")], axis=c.axis("axis"))

    return Row(type_, "input axis:i=1 > output=input", convert, (op,))


def _cumulative_sum(c: Conversion) -> Sequence[int]:
    how = {name: c.flag(name) for name in ("exclusive", "reverse")}
    return c.node("cumsum", [c.tensor("input")], axis=c.axis("axis"), **how)


def _top(c: Conversion) -> Sequence[int]:
    """Results are sorted, whether they must be or not."""
    axis, k = c.axis("axis"), c.whole("k")
    size = c.shape("input")[axis]
    c.require(0 <= k <= size, f"k is {k}, must be 0..{size}, the size of axis {axis}")
    return c.node("topk_v2", [c.tensor("input")], k=k, axis=axis, smallest=not c.flag("largest"))


ROWS: tuple[Row, ...] = (
    _reduction(OperationType.REDUCE_MAX, "reduce_max"),
    _reduction(OperationType.REDUCE_MEAN, "mean"),
    _reduction(OperationType.REDUCE_SUM, "sum"),
    _position(OperationType.ARG_MAX),
    _position(OperationType.ARG_MIN),
    _softmax(OperationType.SOFTMAX),
    _softmax(OperationType.LOG_SOFTMAX),
    Row(
        OperationType.CUM_SUM,
        "input axis:i=-1 exclusive:b=False reverse:b=False > output=input",
        _cumulative_sum,
        ("cumsum",),
    ),
    Row(
        OperationType.TOP_K,
        "input k:i axis:i=-1 largest:b=True sorted:b=True return_indices_dtype:i=7"
        " > values=input indices@return_indices_dtype",
        _top,
        ("topk_v2",),
    ),
)
