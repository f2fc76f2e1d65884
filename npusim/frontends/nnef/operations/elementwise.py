"""Functions of elements: of one tensor, of several that broadcast, and of a condition."""

from __future__ import annotations

from collections.abc import Sequence
from math import log

import numpy as np

from npusim.frontends.nnef.operations.call_conversion import DTYPES, CallConversion
from npusim.frontends.nnef.operations.row import Convert, Row
from npusim.kernels.graph.builder import unshaped


def _function(name: str, op: str = "") -> Row:
    def convert(c: CallConversion) -> Sequence[int]:
        return [c.node(op or name, [c.tensor("x")])]

    return Row(name, convert, (op or name,))


def _pair(c: CallConversion) -> list[int]:
    return c.aligned([c.tensor("x"), c.tensor("y")])


def _sum(name: str) -> Row:
    """Operators that have an activation of their own."""

    def convert(c: CallConversion) -> Sequence[int]:
        return [c.node(name, _pair(c), activation=c.activation)]

    return Row(name, convert, (name,), activated=True)


def _choice(name: str, op: str) -> Row:
    """Operators of what codes stand for."""

    def convert(c: CallConversion) -> Sequence[int]:
        return [c.node(op, _pair(c), by_value=True)]

    return Row(name, convert, (op,))


def _comparison(name: str, op: str) -> Row:
    def convert(c: CallConversion) -> Sequence[int]:
        pair = _pair(c)
        alike = {c.builder.type(tensor).dtype for tensor in pair}
        if len(alike) > 1:
            pair = [c.as_real(tensor) for tensor in pair]
        return [c.node(op, pair)]

    return Row(name, convert, (op,))


def _plain(name: str, op: str) -> Row:
    def convert(c: CallConversion) -> Sequence[int]:
        return [c.node(op, _pair(c))]

    return Row(name, convert, (op,))


def _power(c: CallConversion) -> Sequence[int]:
    """Powers that an operator of its own has are that one."""
    op = {2.0: "square", 0.5: "sqrt", -0.5: "rsqrt"}.get(c.number("y") or 0.0)
    if op is not None and len(c.shape("y")) <= len(c.shape("x")):
        return [c.node(op, [c.tensor("x")])]
    return [c.node("pow", _pair(c))]


def _reciprocal(op: str = "") -> Convert:
    """1 / x, or 1 / op(x)."""

    def convert(c: CallConversion) -> Sequence[int]:
        x = c.as_real(c.tensor("x"))
        divisor = c.node(op, [x], unshaped("float32")) if op else x
        return [c.node("div", [c.literal(1.0, divisor), divisor])]

    return convert


def _log2(c: CallConversion) -> Sequence[int]:
    natural = c.apply("log", c.tensor("x"))
    return [c.node("div", [natural, c.literal(log(2.0), natural)])]


def _round(c: CallConversion) -> Sequence[int]:
    """The nearest whole number, halves away from zero; every step is exact."""
    real, x = unshaped("float32"), c.as_real(c.tensor("x"))
    size = c.node("abs", [x], real)
    whole = c.node("floor", [size], real)
    rest = c.node("sub", [size, whole], real)
    half = c.node("floor", [c.node("add", [rest, rest], real)], real)
    nearest = c.node("add", [whole, half], real)
    return [c.node("mul", [c.node("sign", [x], real), nearest])]


def _copy(c: CallConversion) -> Sequence[int]:
    x = c.tensor("x")
    return [x if c.kind().quantization is None else c.in_type(x, c.kind())]


def _select(c: CallConversion) -> Sequence[int]:
    """Codes of both choices become those of the result."""
    condition, *values = c.aligned([c.tensor(name) for name in ("condition", "true_value", "false_value")])
    kind = c.kind()
    if kind.real or kind.quantization is not None:
        values = [c.in_type(value, kind) for value in values]
    return [c.node("select_v2", [condition, *values], kind)]


def _copies(c: CallConversion) -> Sequence[int]:
    x = c.tensor("x")
    return [x] * max(int(c.value("times")), 0)


def _added(c: CallConversion) -> Sequence[int]:
    """The first two, then each of the others; the sum is rounded once."""
    first, *others = c.aligned(c.tensors("x"))
    if not others:
        return [first]
    for other in others[:-1]:
        first = c.apply("add", first, other)
    return [c.node("add", [first, others[-1]])]


def _cast(c: CallConversion) -> Sequence[int]:
    x, wanted = c.as_real(c.tensor("input")), unshaped(DTYPES[c.call.item or "scalar"])
    if c.builder.type(x).dtype == wanted.dtype:
        return [x]
    data = c.builder.tensors[x].array
    if data is not None:
        with np.errstate(invalid="ignore"):
            return [c.constant(data.astype(wanted.numpy_dtype))]
    return [c.node("cast", [x], wanted)]


ROWS: tuple[Row, ...] = (
    *(_sum(name) for name in ("add", "sub", "mul", "div")),
    _choice("min", "minimum"),
    _choice("max", "maximum"),
    Row("pow", _power, ("pow", "square", "sqrt", "rsqrt")),
    *(
        _comparison(*names)
        for names in (
            ("lt", "less"),
            ("gt", "greater"),
            ("le", "less_equal"),
            ("ge", "greater_equal"),
            ("eq", "equal"),
            ("ne", "not_equal"),
        )
    ),
    _plain("and", "logical_and"),
    _plain("or", "logical_or"),
    _function("not", "logical_not"),
    *(_function(name) for name in ("exp", "log", "sin", "cos", "tan", "sinh", "cosh", "tanh")),
    *(_function(name) for name in ("asin", "acos", "atan", "asinh", "acosh", "atanh")),
    *(_function(name) for name in ("abs", "sign", "neg", "floor", "ceil", "sqrt", "rsqrt")),
    _function("sqr", "square"),
    Row("rcp", _reciprocal(), ("div",)),
    Row("rsqr", _reciprocal("square"), ("square", "div")),
    Row("log2", _log2, ("log", "div")),
    Row("round", _round, ("abs", "floor", "sub", "add", "sign", "mul")),
    Row("copy", _copy, ("quantize",)),
    Row("copy_n", _copies, ()),
    Row("add_n", _added, ("add",)),
    Row("select", _select, ("select_v2",)),
    Row("cast", _cast, ("cast",)),
)
