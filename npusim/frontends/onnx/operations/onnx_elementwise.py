"""Elementwise operations of ONNX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import starmap
from typing import Any

import numpy as np

from npusim.frontends.forms.arithmetic import converted, limited
from npusim.frontends.forms.networks import MICROSOFT
from npusim.frontends.forms.node_conversion import NodeConversion
from npusim.frontends.forms.node_rows import Row, unary
from npusim.frontends.forms.qdq import held_type
from npusim.isa.base.elements import is_element

FUNCTIONS = {
    **{
        name.lower(): name
        for name in ("Abs", "Neg", "Sign", "Floor", "Ceil", "Round", "Sqrt", "Exp", "Log", "Erf")
    },
    **{name.lower(): name for name in ("Sin", "Cos", "Tan", "Sinh", "Cosh", "Asin", "Acos", "Atan", "Asinh")},
    **{name.lower(): name for name in ("Acosh", "Atanh", "Tanh", "Softplus", "Mish", "Reciprocal")},
    "logistic": "Sigmoid",
}
ARITHMETIC = {"add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div"}
EXTREMA = {"minimum": "Min", "maximum": "Max"}
COMPARISONS = {
    "equal": "Equal",
    "less": "Less",
    "less_equal": "LessOrEqual",
    "greater": "Greater",
    "greater_equal": "GreaterOrEqual",
}
LOGIC = {"logical_and": "And", "logical_or": "Or", "logical_xor": "Xor"}
OTHERS = {"relu": "Relu", "prelu": "PRelu", "pow": "Pow", "logical_not": "Not"}
"""The ONNX operation of each operator, in six tables that the reader and the writer share."""

PARAMETERS: Mapping[str, tuple[str, Mapping[str, float]]] = {
    "leaky_relu": ("LeakyRelu", {"alpha": 0.01}),
    "elu": ("Elu", {"alpha": 1.0}),
    "celu": ("Celu", {"alpha": 1.0}),
    "selu": ("Selu", {"alpha": 1.67326319217681884765625, "gamma": 1.05070102214813232421875}),
    "thresholded_relu": ("ThresholdedRelu", {"alpha": 1.0}),
    "hard_sigmoid": ("HardSigmoid", {"alpha": 0.2, "beta": 0.5}),
}
"""The ONNX operation of each operator whose parameters ONNX names alike, and the defaults of its attributes."""


def _with(op: str, name: str, attributes: Mapping[str, float]) -> Row:
    def convert(c: NodeConversion) -> Sequence[int]:
        values: dict[str, Any] = {key: c.parameter(key, default) for key, default in attributes.items()}
        return [c.node(op, [c.tensor("X")], **values)]

    return Row(name, "X", convert, op)


def _relu(c: NodeConversion) -> Sequence[int]:
    x = c.tensor("X")
    kind = c.builder.type(x)
    if kind.real or kind.quantization is not None:
        return [c.node("relu", [x])]
    return [c.step("maximum", [x, c.scalar(0, x)])]


def _gelu(c: NodeConversion) -> Sequence[int]:
    form = c.attribute("approximate", "none")
    c.require(form in ("none", "tanh"), f"approximate is {form!r}, must be 'none' or 'tanh'")
    return [c.node("gelu", [c.tensor("X")], approximate=form == "tanh")]


def _fast_gelu(c: NodeConversion) -> Sequence[int]:
    x = c.real("X")
    if c.has("bias"):
        x = c.step("add", [x, c.real("bias")])
    return [c.node("gelu", [x], approximate=True)]


def _bias_gelu(c: NodeConversion) -> Sequence[int]:
    return [c.node("gelu", [c.step("add", [c.real("A"), c.real("B")])], approximate=False)]


def _softsign(c: NodeConversion) -> Sequence[int]:
    x = c.real("X")
    return [c.node("div", [x, c.step("add", [c.step("abs", [x]), c.scalar(1, x)])])]


def _shrunk(c: NodeConversion) -> Sequence[int]:
    """Add Shrink: elements beyond a limit move by a bias towards 0, and those between become 0."""
    x = c.real("input")
    bias, limit = float(c.attribute("bias", 0.0)), float(c.attribute("lambd", 0.5))
    parts = []
    for op, edge, step in (("greater", limit, -bias), ("less", -limit, bias)):
        beyond = c.cast(c.step(op, [x, c.scalar(edge, x)], "bool"), c.builder.type(x).dtype)
        parts.append(c.step("mul", [beyond, c.step("add", [x, c.scalar(step, x)])]))
    return [c.node("add", parts)]


def _swish(c: NodeConversion) -> Sequence[int]:
    return [c.node("swish", [c.tensor("X")], beta=float(c.attribute("alpha", 1.0)))]


def _quick_gelu(c: NodeConversion) -> Sequence[int]:
    return [c.node("swish", [c.tensor("X")], beta=float(c.attribute("alpha", 1.702)))]


def _dropped(c: NodeConversion) -> Sequence[int | None]:
    """Add Dropout in inference: the data as they are, and a mask of all true."""
    c.require(
        not c.has("training_mode") or not c.value("training_mode").any(),
        "npusim infers; training_mode must be false",
    )
    x = c.tensor("data")
    results = [c.node("reshape", [x], shape=c.shape(x))]
    if len(c.outputs) > 1 and c.outputs[1]:
        results.append(c.filled(c.shape(x), True, "bool"))
    return results


def binary(op: str, name: str) -> Row:
    """Return the row of a function of two tensors."""
    return Row(name, "A B", lambda c: [c.node(op, [c.tensor("A"), c.tensor("B")])], f"{op} cast")


def _comparison(op: str, name: str) -> Row:
    def convert(c: NodeConversion) -> Sequence[int]:
        return [c.step(op, [c.real("A"), c.real("B")], "bool")]

    return Row(name, "A B", convert, f"{op} cast", groups=False)


def _logic(op: str, name: str) -> Row:
    return Row(name, "A B", lambda c: [c.node(op, [c.real("A"), c.real("B")])], op, groups=False)


def _several(op: str, name: str) -> Row:
    """Return the row of a function of several tensors, computed two by two."""

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

    return Row(name, "data_0*", convert, f"{op} cast reshape")


def _mean(c: NodeConversion) -> Sequence[int]:
    tensors = c.tensors("data_0")
    c.require(bool(tensors), "has no inputs")
    total, *others = [c.as_real(tensor) for tensor in tensors]
    for tensor in others:
        total = c.step("add", [total, tensor])
    return [c.node("div", [total, c.scalar(len(tensors), total)])]


def _power(c: NodeConversion) -> Sequence[int]:
    """Add Pow in the element type of the base; exponents with an operator of their own become that one."""
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
    """Add Mod: the remainder has the divisor's sign, or with fmod the dividend's."""
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
    """Convert to an element type, and wrap integers to the range of some bits of it (0: all bits)."""
    if not bits:
        return converted(c, c.real("input"), dtype)
    wide, least = converted(c, c.real("input"), "int32"), -(1 << bits - 1) if dtype == "int8" else 0
    above = c.step("sub", [wide, c.scalar(least, wide)])
    within = c.step("floor_mod", [above, c.scalar(1 << bits, above)])
    return c.cast(c.step("add", [within, c.scalar(least, within)]), dtype)


def _clip(c: NodeConversion) -> Sequence[int]:
    """Add Clip: limits are attributes (before version 11) or inputs, and constant ones become parameters."""
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
    Row("Relu", "X", _relu, "relu maximum"),
    *(unary(name, op) for op, name in FUNCTIONS.items()),
    *(_with(op, *parameters) for op, parameters in PARAMETERS.items()),
    unary("HardSwish", "hard_swish"),
    Row("Swish", "X", _swish, "swish"),
    Row("QuickGelu", "X", _quick_gelu, "swish", domain=MICROSOFT),
    Row("Gelu", "X", _gelu, "gelu"),
    Row("Gelu", "X", _gelu, "gelu", domain=MICROSOFT),
    Row("FastGelu", "X bias?", _fast_gelu, "gelu add", domain=MICROSOFT),
    Row("BiasGelu", "A B", _bias_gelu, "gelu add", domain=MICROSOFT),
    Row("Softsign", "X", _softsign, "abs add div"),
    Row("Shrink", "input", _shrunk, "greater less cast add mul"),
    Row("Dropout", "data ratio? training_mode?", _dropped, "reshape"),
    *starmap(binary, ARITHMETIC.items()),
    Row("PRelu", "X slope", lambda c: [c.node("prelu", [c.tensor("X"), c.tensor("slope")])], "prelu"),
    Row("Pow", "X Y", _power, "pow square sqrt cast", groups=False),
    Row("Mod", "A B", _remainder, "floor_mod abs sign mul cast", groups=False),
    *starmap(_several, (*EXTREMA.items(), ("add", "Sum"))),
    Row("Mean", "data_0*", _mean, "add div"),
    *starmap(_comparison, COMPARISONS.items()),
    *starmap(_logic, LOGIC.items()),
    Row("Not", "X", lambda c: [c.node("logical_not", [c.real("X")])], "logical_not", groups=False),
    Row("Where", "condition X Y", _where, "select_v2 quantize"),
    Row("Cast", "input", _cast, "cast not_equal reshape", groups=False),
    Row("CastLike", "input target_type", _cast_like, "cast not_equal reshape", groups=False),
    Row("Clip", "input min? max?", _clip, "clip relu relu6 maximum minimum reshape"),
    Row("IsNaN", "X", _is_nan, "not_equal", groups=False),
    Row("IsInf", "X", _is_infinite, "equal abs", groups=False),
)
