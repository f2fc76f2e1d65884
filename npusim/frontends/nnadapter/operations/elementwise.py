"""Functions of elements: of two tensors that broadcast, and of a condition and two tensors."""

from __future__ import annotations

from collections.abc import Sequence
from math import isinf

from npusim.frontends.nnadapter.codes import OperationType
from npusim.frontends.nnadapter.operations.conversion import Conversion
from npusim.frontends.nnadapter.operations.row import Convert, Row, plain
from npusim.kernels.graph.builder import unshaped
from npusim.kernels.operator.activation import REAL_RANGES


def _activated(op: str) -> Row:
    """ADD and its kin: an operator that has the activation itself."""

    def convert(c: Conversion) -> Sequence[int]:
        return c.node(op, [c.tensor("input0"), c.tensor("input1")], activation=c.activation())

    return _arithmetic(OperationType[op.upper()], convert, op)


def _selection(type_: OperationType, op: str) -> Row:
    """MAX and MIN: of what codes stand for."""

    def convert(c: Conversion) -> Sequence[int]:
        pair = [c.tensor("input0"), c.tensor("input1")]
        return _behind(c, c.node(op, pair, c.result(), by_value=True)[0])

    return _arithmetic(type_, convert, op)


def _of_numbers(op: str) -> Row:
    """POW and FLOOR_DIV: of real numbers, and of whole ones that are no codes."""

    def convert(c: Conversion) -> Sequence[int]:
        pair = [c.tensor("input0"), c.tensor("input1")]
        add = c.node_in_reals if c.result().quantized else c.node
        return _behind(c, add(op, pair, c.result())[0])

    return _arithmetic(OperationType[op.upper()], convert, op)


def _arithmetic(type_: OperationType, convert: Convert, op: str) -> Row:
    return Row(type_, "input0 input1 fuse_code:i=0 > output=input0", convert, (op,))


def _behind(c: Conversion, x: int) -> Sequence[int]:
    """The fused activation of an operator that has none itself."""
    activation = c.activation()
    kind = unshaped(c.result().dtype, c.result().quantization)
    if activation == "none":
        return (x,)
    if kind.real or kind.quantized:
        return c.node(activation, [x], kind)
    least, most = kind.element.limits
    for limit, op in zip(REAL_RANGES[activation], ("maximum", "minimum"), strict=True):
        if not isinf(limit):
            nearest = min(max(int(limit), least), most)
            [x] = c.node(op, [x, c.constant(kind.numpy_dtype.type(nearest))], kind)
    return (x,)


def _sum(c: Conversion) -> Sequence[int]:
    """The first two, then each of the others; codes as real numbers, so that they are rounded once."""
    first, *others = [c.as_real(tensor) for tensor in c.tensors("inputs")]
    kind = c.result()
    wide = unshaped("float32") if kind.quantized else kind
    for other in others:
        first = c.node("add", [first, other], wide)[0]
    return (c.as_code(first, kind),) if others or kind.quantized else (c.copied(first),)


def _where(c: Conversion) -> Sequence[int]:
    names = ("condition", "input0", "input1")
    return c.node("select_v2", [c.tensor(name) for name in names], by_value=True)


def _pair(type_: OperationType, op: str = "") -> Row:
    """A truth of two tensors that broadcast."""
    name = op or type_.name.lower()
    return Row(type_, "input0 input1 > output:BOOL8", plain(name, "input0", "input1"), (name,))


ROWS: tuple[Row, ...] = (
    _activated("add"),
    _activated("sub"),
    _activated("mul"),
    _activated("div"),
    _selection(OperationType.MAX, "maximum"),
    _selection(OperationType.MIN, "minimum"),
    _of_numbers("pow"),
    _of_numbers("floor_div"),
    _pair(OperationType.EQUAL),
    _pair(OperationType.NOT_EQUAL),
    _pair(OperationType.GREATER),
    _pair(OperationType.GREATER_EQUAL),
    _pair(OperationType.LESS),
    _pair(OperationType.LESS_EQUAL),
    _pair(OperationType.AND, "logical_and"),
    _pair(OperationType.OR, "logical_or"),
    _pair(OperationType.XOR, "logical_xor"),
    Row(OperationType.WHERE, "condition input0 input1 > output=input0", _where, ("select_v2",)),
    Row(OperationType.SUM, "inputs+ > output=inputs", _sum, ("add",)),
)
