"""Elementwise operations on one tensor, or on two that broadcast."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from npusim.frontends.nn_hal.enumerations import OperandType, OperationType
from npusim.frontends.nn_hal.operations import constraints
from npusim.frontends.nn_hal.operations.constraints import asymmetric, broadcasts, rank_of, same_shape
from npusim.frontends.nn_hal.operations.operation_row import Conversion, Convert, Row, Rule
from npusim.frontends.nn_hal.operations.signatures import FLOATS, FLOATS_AND_8_BITS, NUMBERS, OLD_TYPES

_T = OperationType
_MOST_RANK = 4
_SAME_SHAPE = (same_shape("input", "output"),)
_BY_VALUE = {"by_value": True}
"""Quantized values are compared as the numbers that they stand for."""


def _division(c: Conversion) -> Sequence[int]:
    is_whole = c.call.type("first") is OperandType.TENSOR_INT32
    return c.add("floor_div" if is_whole else "")


def _arithmetic(
    type_: OperationType,
    types: str,
    *,
    convert: Convert | None = None,
    more: tuple[str, ...] = (),
    quantization: tuple[Rule, ...] = (),
) -> Row:
    """Return the row of an arithmetic operation on two tensors that broadcast, with a fused activation."""
    return Row(
        type_,
        ("first:T second:T activation:i > output:T",),
        f"T: {types}",
        type_.name.lower(),
        (constraints.activation, constraints.no_activation_of_int32),
        (rank_of("first", 1, _MOST_RANK), rank_of("second", 1, _MOST_RANK), broadcasts("first", "second")),
        quantization,
        convert=convert,
        more=more,
    )


def _unary(type_: OperationType, types: str, op: str = "") -> Row:
    """Return the row of a function of the elements of one tensor."""
    form = ("input:T > output:T",)
    return Row(type_, form, f"T: {types}", op or type_.name.lower(), shapes=_SAME_SHAPE)


def _old_unary(type_: OperationType, types: str, *quantization: Rule, op: str = "") -> Row:
    """Return the row of a function of one tensor of at most four dimensions, which is in NNAPI since 1.0."""
    form = ("input:T > output:T",)
    ranks = rank_of("input", 1, _MOST_RANK)
    name = op or type_.name.lower()
    return Row(type_, form, f"T: {types}", name, (), (ranks, *_SAME_SHAPE), quantization)


def _pair(
    type_: OperationType,
    types: str,
    form: str = "first:T second:T > output:T",
    fixed: Mapping[str, Any] | None = None,
) -> Row:
    """Return the row of a function of two tensors that broadcast."""
    first, second = (slot.partition(":")[0] for slot in form.split()[:2])
    shapes = (broadcasts(first, second),)
    return Row(type_, (form,), f"T: {types}", type_.name.lower(), shapes=shapes, fixed=fixed or {})


def _comparison(type_: OperationType, types: str, fixed: Mapping[str, Any] | None = None) -> Row:
    """Return the row of a comparison or a logical function of two tensors that broadcast."""
    return _pair(type_, types, "first:T second:T > output:B8", fixed)


def _conversion(
    type_: OperationType, types: str, *ranks: Rule, fixed: Mapping[str, Any] | None = None
) -> Row:
    """Return the row of a change of the element type."""
    form, shapes = ("input:T > output:U",), (*ranks, *_SAME_SHAPE)
    return Row(type_, form, f"T U: {types}", type_.name.lower(), shapes=shapes, fixed=fixed or {})


def _casts() -> str:
    """Return the types of CAST: between the first four types, and from 1.3 others to themselves."""
    kinds = ("F16", "F32", "I32", "Q8")
    between = [f"{first},{second}@1.2" for first in kinds for second in kinds]
    alike = [f"{kind},{kind}@1.3" for kind in ("B8", "Q16A", "Q16S", "Q8S", "Q8SY")]
    return " ".join(between + alike)


_ALIKE = constraints.same_quantization("input", "output")
_LOGISTIC = constraints.prescribed("output", asymmetric(1 / 256, 0))
_TANH = constraints.prescribed("output", asymmetric(1 / 128, 128))
_COMPARED = "B8@1.2 F16@1.2 F32@1.2 I32@1.2 Q8@1.2 Q8S@1.3"
_COMPARISONS = (_T.EQUAL, _T.NOT_EQUAL, _T.GREATER, _T.GREATER_EQUAL, _T.LESS, _T.LESS_EQUAL)

ROWS: tuple[Row, ...] = (
    _arithmetic(_T.ADD, f"{OLD_TYPES} I32@1.3"),
    _arithmetic(
        _T.MUL, f"{OLD_TYPES} I32@1.3", quantization=(constraints.output_above_product("first", "second"),)
    ),
    _arithmetic(_T.SUB, "F32@1.1 F16@1.2 Q8@1.2 Q8S@1.3 I32@1.3"),
    _arithmetic(_T.DIV, "F32@1.1 F16@1.2 I32@1.3", convert=_division, more=("floor_div",)),
    _pair(_T.MAXIMUM, NUMBERS, fixed=_BY_VALUE),
    _pair(_T.MINIMUM, NUMBERS, fixed=_BY_VALUE),
    _pair(_T.POW, FLOATS, "base:T exponent:T > output:T"),
    _pair(_T.PRELU, FLOATS_AND_8_BITS, "input:T alpha:T > output:T"),
    _old_unary(_T.FLOOR, "F32@1.0 F16@1.2"),
    _old_unary(_T.LOGISTIC, OLD_TYPES, _LOGISTIC),
    _old_unary(_T.RELU, OLD_TYPES, _ALIKE),
    _old_unary(_T.RELU1, OLD_TYPES, _ALIKE, op="relu_n1_to_1"),
    _old_unary(_T.RELU6, OLD_TYPES, _ALIKE),
    _old_unary(_T.TANH, "F32@1.0 F16@1.2 Q8@1.2 Q8S@1.3", _TANH),
    _unary(_T.ABS, f"{FLOATS} I32@1.3"),
    _unary(_T.EXP, FLOATS),
    _unary(_T.LOG, FLOATS),
    _unary(_T.NEG, f"{FLOATS} I32@1.2"),
    _unary(_T.RSQRT, f"{FLOATS} Q8@7 Q8S@7"),
    _unary(_T.SIN, FLOATS),
    _unary(_T.SQRT, FLOATS),
    _unary(_T.LOGICAL_NOT, "B8@1.2"),
    _unary(_T.HARD_SWISH, "F16@1.3 F32@1.3 Q8@1.3 Q8S@1.3"),
    Row(
        _T.ELU,
        ("input:T alpha:s > output:T",),
        "T: F16@1.3 F32@1.3",
        "elu",
        (constraints.finite("alpha"),),
        _SAME_SHAPE,
    ),
    *(_comparison(comparison, _COMPARED, _BY_VALUE) for comparison in _COMPARISONS),
    _comparison(_T.LOGICAL_AND, "B8@1.2"),
    _comparison(_T.LOGICAL_OR, "B8@1.2"),
    Row(
        _T.SELECT,
        ("condition:B8 first:T second:T > output:T",),
        f"T: {NUMBERS}",
        "select",
        shapes=(same_shape("condition", "first", "second", "output"),),
        fixed=_BY_VALUE,
    ),
    _conversion(_T.CAST, _casts(), fixed={"saturating": True}),
    _conversion(
        _T.DEQUANTIZE,
        "Q8,F32@1.0 Q8,F16@1.2 Q8SY,F32@1.2 Q8SY,F16@1.2 Q8C,F32@1.2 Q8C,F16@1.2 Q8S,F32@1.3 Q8S,F16@1.3",
        rank_of("input", 1, _MOST_RANK),
    ),
    _conversion(_T.QUANTIZE, "F16,Q8@1.2 F32,Q8@1.2 F16,Q8S@1.3 F32,Q8S@1.3"),
)
