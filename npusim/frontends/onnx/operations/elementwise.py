"""Functions of elements of several tensors that broadcast, and conversions of one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npusim.frontends.forms.elements import held_type
from npusim.frontends.forms.elementwise import converted, limited
from npusim.frontends.forms.node_conversion import NodeConversion
from npusim.frontends.forms.row import Row
from npusim.isa.base.elements import is_element


def binary(name: str, op: str) -> Row:
    """A function of two tensors."""
    return Row(name, "A B", lambda c: [c.node(op, [c.tensor("A"), c.tensor("B")])], (op, "cast"))


def _comparison(name: str, op: str) -> Row:
    def convert(c: NodeConversion) -> Sequence[int]:
        return [c.step(op, [c.real("A"), c.real("B")], "bool")]

    return Row(name, "A B", convert, (op, "cast"), groups=False)


def _logic(name: str, op: str) -> Row:
    return Row(name, "A B", lambda c: [c.node(op, [c.real("A"), c.real("B")])], (op,), groups=False)


def _several(name: str, op: str) -> Row:
    """Two and two; of one it is that one."""

    def convert(c: NodeConversion) -> Sequence[int]:
        tensors = c.tensors("data_0")
        c.require(bool(tensors), "has no inputs")
        if len(tensors) == 1:
            return [c.node("reshape", tensors, shape=c.shape(tensors[0]))]
        if len(tensors) > 2:
            tensors = [c.as_real(tensor) for tensor in tensors]
        total = tensors[0]
        for tensor in tensors[1:-1]:
            total = c.step(op, [total, tensor])
        return [c.node(op, [total, tensors[-1]])]

    return Row(name, "data_0*", convert, (op, "cast", "reshape"))


def _mean(c: NodeConversion) -> Sequence[int]:
    tensors = c.tensors("data_0")
    c.require(bool(tensors), "has no inputs")
    total, *others = [c.as_real(tensor) for tensor in tensors]
    for tensor in others:
        total = c.step("add", [total, tensor])
    return [c.node("div", [total, c.scalar(len(tensors), total)])]


def _power(c: NodeConversion) -> Sequence[int]:
    """In the element type of the base; powers that are functions of their own are those."""
    base, power = c.real("X"), c.real("Y")
    dtype = c.builder.type(base).dtype
    number = c.known("Y")
    op = None
    if number is not None and number.size == 1 and number.ndim <= len(c.shape(base)):
        op = {2.0: "square", 0.5: "sqrt"}.get(float(number.reshape(())))
        if op is not None and c.builder.type(base).real:
            return [c.node(op, [base])]
    if c.builder.type(base).real:
        return [c.node("pow", [base, c.cast(power, dtype)])]
    if c.builder.type(power).real:
        wide = [c.cast(tensor, "float32") for tensor in (base, power)]
        return [c.cast(c.step("pow", wide), dtype)]
    return [c.cast(c.step("pow", [c.cast(tensor, "int64") for tensor in (base, power)]), dtype)]


def _remainder(c: NodeConversion) -> Sequence[int]:
    """With the divisor's sign, or (fmod) the dividend's: what is left of magnitudes."""
    a, b = c.real("A"), c.real("B")
    if not c.flag("fmod"):
        return [c.node("floor_mod", [a, b])]
    left = c.step("floor_mod", [c.step("abs", [a]), c.step("abs", [b])])
    return [c.node("mul", [c.step("sign", [a]), left])]


def _where(c: NodeConversion) -> Sequence[int]:
    x, y = c.tensor("X"), c.tensor("Y")
    codes = c.kind().quantization
    if codes is not None:
        x, y = (c.in_type(tensor, c.kind()) for tensor in (x, y))
        return c.nodes("select_v2", [c.real("condition"), x, y], [c.kind()])
    return c.nodes("select_v2", [c.real("condition"), x, y], [c.like(x)])


def _cast(c: NodeConversion) -> Sequence[int]:
    dtype, bits = held_type(int(c.attribute("to", 0)))
    c.require(is_element(dtype), f"casts to {dtype}, which npusim lacks")
    return [_narrowed(c, dtype, bits)]


def _cast_like(c: NodeConversion) -> Sequence[int]:
    return [_narrowed(c, c.builder.type(c.real("target_type")).dtype, c.bits("target_type"))]


def _narrowed(c: NodeConversion, dtype: str, bits: int) -> int:
    """In so many bits of the type (0: all), beyond which whole numbers wrap."""
    if not bits:
        return converted(c, c.real("input"), dtype)
    wide, least = converted(c, c.real("input"), "int32"), -(1 << bits - 1) if dtype == "int8" else 0
    above = c.step("sub", [wide, c.scalar(least, wide)])
    within = c.step("floor_mod", [above, c.scalar(1 << bits, above)])
    return c.cast(c.step("add", [within, c.scalar(least, within)]), dtype)


def _clip(c: NodeConversion) -> Sequence[int]:
    """Limits are attributes (before version 11) or inputs; those that are constants are parameters."""
    x = c.tensor("input")
    kind = c.builder.type(x)
    known = [None if not c.has(name) else c.known(name) for name in ("min", "max")]
    fixed = all(
        array is not None or not c.has(name) for name, array in zip(("min", "max"), known, strict=True)
    )
    if fixed and (kind.real or kind.quantization is not None):
        least, most = (
            default if array is None else float(array.reshape(-1)[0])
            for array, default in zip(known, (-np.inf, np.inf), strict=True)
        )
        if least > most:
            least = most
        return [limited(c, x, least, most)]
    for name, op in (("min", "maximum"), ("max", "minimum")):
        if c.has(name):
            x = c.step(op, [c.as_real(x), c.reshaped(c.real(name), ())])
    return [c.node("reshape", [x], shape=c.shape(x))]


def _is_nan(c: NodeConversion) -> Sequence[int]:
    x = c.real("X")
    return [c.step("not_equal", [x, x], "bool")]


def _is_infinite(c: NodeConversion) -> Sequence[int]:
    x = c.real("X")
    sides = [
        sign * np.inf
        for name, sign in (("detect_negative", -1), ("detect_positive", 1))
        if c.flag(name, True)
    ]
    if not sides:
        return [c.step("not_equal", [c.cast(x, "bool"), c.cast(x, "bool")], "bool")]
    if len(sides) == 2:
        return [c.step("equal", [c.step("abs", [x]), c.scalar(np.inf, x)], "bool")]
    return [c.step("equal", [x, c.scalar(sides[0], x)], "bool")]


ROWS: tuple[Row, ...] = (
    *(binary(op.capitalize(), op) for op in ("add", "sub", "mul", "div")),
    Row("PRelu", "X slope", lambda c: [c.node("prelu", [c.tensor("X"), c.tensor("slope")])], ("prelu",)),
    Row("Pow", "X Y", _power, ("pow", "square", "sqrt", "cast"), groups=False),
    Row("Mod", "A B", _remainder, ("floor_mod", "abs", "sign", "mul", "cast"), groups=False),
    _several("Min", "minimum"),
    _several("Max", "maximum"),
    _several("Sum", "add"),
    Row("Mean", "data_0*", _mean, ("add", "div")),
    _comparison("Equal", "equal"),
    _comparison("Less", "less"),
    _comparison("LessOrEqual", "less_equal"),
    _comparison("Greater", "greater"),
    _comparison("GreaterOrEqual", "greater_equal"),
    _logic("And", "logical_and"),
    _logic("Or", "logical_or"),
    _logic("Xor", "logical_xor"),
    Row("Not", "X", lambda c: [c.node("logical_not", [c.real("X")])], ("logical_not",), groups=False),
    Row("Where", "condition X Y", _where, ("select_v2", "quantize")),
    Row("Cast", "input", _cast, ("cast", "not_equal", "reshape"), groups=False),
    Row("CastLike", "input target_type", _cast_like, ("cast", "not_equal", "reshape"), groups=False),
    Row("Clip", "input min? max?", _clip, ("clip", "relu", "relu6", "maximum", "minimum", "reshape")),
    Row("IsNaN", "X", _is_nan, ("not_equal",), groups=False),
    Row("IsInf", "X", _is_infinite, ("equal", "abs"), groups=False),
)
