"""Operations on single elements, of one tensor or of two that broadcast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from npusim.frontends.nn_hal.enumerations import OperandType, OperationType
from npusim.frontends.nn_hal.operations import constraints
from npusim.frontends.nn_hal.operations.constraints import asymmetric
from npusim.frontends.nn_hal.operations.conversion import Conversion
from npusim.frontends.nn_hal.operations.row import Convert, Row, Rule

_LOGISTIC = asymmetric(1 / 256, 0)
_TANH = asymmetric(1 / 128, 128)
_MOST_RANK = 4


def plain(op: str, *inputs: str, **parameters: Any) -> Convert:
    """A node with the arguments of these names as inputs, and these parameters."""

    def convert(c: Conversion) -> Sequence[int]:
        return c.node(op, [c.tensor(name) for name in inputs], **parameters)

    return convert


def _activated(c: Conversion) -> Sequence[int]:
    op = c.call.operation.type.name.lower()
    return c.node(op, [c.tensor("first"), c.tensor("second")], activation=c.activation())


def _division(c: Conversion) -> Sequence[int]:
    if c.call.type("first") is OperandType.TENSOR_INT32:
        return c.node("floor_div", [c.tensor("first"), c.tensor("second")])
    return _activated(c)


def _arithmetic(
    type_: OperationType,
    types: str,
    *,
    convert: Convert = _activated,
    operators: tuple[str, ...] = (),
    quantization: tuple[Rule, ...] = (),
) -> Row:
    """ADD and its kin: two tensors that broadcast, and a fused activation."""
    return Row(
        type_,
        ("first:T second:T activation:i > output:T",),
        f"T: {types}",
        (constraints.activation, constraints.no_activation_of_int32),
        (
            constraints.rank_of("first", 1, _MOST_RANK),
            constraints.rank_of("second", 1, _MOST_RANK),
            constraints.broadcasts("first", "second"),
        ),
        quantization,
        convert,
        operators or (type_.name.lower(),),
    )


def unary(
    type_: OperationType,
    types: str,
    *,
    op: str | None = None,
    most_rank: int | None = None,
    quantization: tuple[Rule, ...] = (),
) -> Row:
    """A function of the elements of one tensor."""
    name = op or type_.name.lower()
    ranks = () if most_rank is None else (constraints.rank_of("input", 1, most_rank),)
    return Row(
        type_,
        ("input:T > output:T",),
        f"T: {types}",
        shapes=(*ranks, constraints.same_shape("input", "output")),
        quantization=quantization,
        convert=plain(name, "input"),
        operators=(name,),
    )


def _extreme(type_: OperationType) -> Row:
    """MAXIMUM or MINIMUM: codes are compared on the scale of the output."""
    name = type_.name.lower()
    return Row(
        type_,
        ("first:T second:T > output:T",),
        "T: F16@1.2 F32@1.2 I32@1.2 Q8@1.2 Q8S@1.3",
        shapes=(constraints.broadcasts("first", "second"),),
        convert=plain(name, "first", "second", by_value=True),
        operators=(name,),
    )


def _comparison(type_: OperationType) -> Row:
    """A question about two tensors that broadcast; codes stand for what they mean."""
    types = "B8@1.2 F16@1.2 F32@1.2 I32@1.2 Q8@1.2 Q8S@1.3"
    return _question(type_, types, plain(type_.name.lower(), "first", "second", by_value=True))


def _logical(type_: OperationType) -> Row:
    """A question about two truths that broadcast."""
    return _question(type_, "B8@1.2", plain(type_.name.lower(), "first", "second"))


def _question(type_: OperationType, types: str, convert: Convert) -> Row:
    name = type_.name.lower()
    return Row(
        type_,
        ("first:T second:T > output:B8",),
        f"T: {types}",
        shapes=(constraints.broadcasts("first", "second"),),
        convert=convert,
        operators=(name,),
    )


def _elu(c: Conversion) -> Sequence[int]:
    return c.node("elu", [c.tensor("input")], alpha=c.real("alpha"))


def _alike(*names: str) -> tuple[Rule, ...]:
    return (constraints.same_quantization("input", *names),)


_FLOATS = "F16@1.2 F32@1.2"
_ALL = "F32@1.0 Q8@1.0 F16@1.2 Q8S@1.3"
_PRODUCT = (constraints.output_above_product("first", "second"),)

_ARITHMETIC = (
    _arithmetic(OperationType.ADD, f"{_ALL} I32@1.3"),
    _arithmetic(OperationType.MUL, f"{_ALL} I32@1.3", quantization=_PRODUCT),
    _arithmetic(OperationType.SUB, "F32@1.1 F16@1.2 Q8@1.2 Q8S@1.3 I32@1.3"),
    _arithmetic(
        OperationType.DIV, "F32@1.1 F16@1.2 I32@1.3", convert=_division, operators=("div", "floor_div")
    ),
    _extreme(OperationType.MAXIMUM),
    _extreme(OperationType.MINIMUM),
    Row(
        OperationType.POW,
        ("base:T exponent:T > output:T",),
        f"T: {_FLOATS}",
        shapes=(constraints.broadcasts("base", "exponent"),),
        convert=plain("pow", "base", "exponent"),
        operators=("pow",),
    ),
    Row(
        OperationType.PRELU,
        ("input:T alpha:T > output:T",),
        "T: F16@1.2 F32@1.2 Q8@1.2 Q8S@1.3",
        shapes=(constraints.broadcasts("input", "alpha"),),
        convert=plain("prelu", "input", "alpha"),
        operators=("prelu",),
    ),
)

_UNARY = (
    unary(OperationType.FLOOR, "F32@1.0 F16@1.2", most_rank=_MOST_RANK),
    unary(
        OperationType.LOGISTIC,
        _ALL,
        most_rank=_MOST_RANK,
        quantization=(constraints.prescribed("output", _LOGISTIC),),
    ),
    unary(OperationType.RELU, _ALL, most_rank=_MOST_RANK, quantization=_alike("output")),
    unary(OperationType.RELU1, _ALL, op="relu_n1_to_1", most_rank=_MOST_RANK, quantization=_alike("output")),
    unary(OperationType.RELU6, _ALL, most_rank=_MOST_RANK, quantization=_alike("output")),
    unary(
        OperationType.TANH,
        "F32@1.0 F16@1.2 Q8@1.2 Q8S@1.3",
        most_rank=_MOST_RANK,
        quantization=(constraints.prescribed("output", _TANH),),
    ),
    unary(OperationType.ABS, f"{_FLOATS} I32@1.3"),
    unary(OperationType.EXP, _FLOATS),
    unary(OperationType.LOG, _FLOATS),
    unary(OperationType.NEG, f"{_FLOATS} I32@1.2"),
    unary(OperationType.RSQRT, f"{_FLOATS} Q8@7 Q8S@7"),
    unary(OperationType.SIN, _FLOATS),
    unary(OperationType.SQRT, _FLOATS),
    unary(OperationType.LOGICAL_NOT, "B8@1.2"),
    unary(OperationType.HARD_SWISH, "F16@1.3 F32@1.3 Q8@1.3 Q8S@1.3"),
    Row(
        OperationType.ELU,
        ("input:T alpha:s > output:T",),
        "T: F16@1.3 F32@1.3",
        (constraints.finite("alpha"),),
        shapes=(constraints.same_shape("input", "output"),),
        convert=_elu,
        operators=("elu",),
    ),
)

_COMPARISONS = (
    _comparison(OperationType.EQUAL),
    _comparison(OperationType.NOT_EQUAL),
    _comparison(OperationType.GREATER),
    _comparison(OperationType.GREATER_EQUAL),
    _comparison(OperationType.LESS),
    _comparison(OperationType.LESS_EQUAL),
    _logical(OperationType.LOGICAL_AND),
    _logical(OperationType.LOGICAL_OR),
    Row(
        OperationType.SELECT,
        ("condition:B8 first:T second:T > output:T",),
        "T: F16@1.2 F32@1.2 I32@1.2 Q8@1.2 Q8S@1.3",
        shapes=(constraints.same_shape("condition", "first", "second", "output"),),
        convert=plain("select", "condition", "first", "second", by_value=True),
        operators=("select",),
    ),
)


# Other types


def _same_type_conversions() -> str:
    """CAST: between the first four types, and from 1.3 others to themselves."""
    kinds = ("F16", "F32", "I32", "Q8")
    between = [f"{first},{second}@1.2" for first in kinds for second in kinds]
    alike = [f"{kind},{kind}@1.3" for kind in ("B8", "Q16A", "Q16S", "Q8S", "Q8SY")]
    return " ".join(between + alike)


_CONVERSIONS = (
    Row(
        OperationType.CAST,
        ("input:T > output:U",),
        f"T U: {_same_type_conversions()}",
        shapes=(constraints.same_shape("input", "output"),),
        convert=plain("cast", "input", saturating=True),
        operators=("cast",),
    ),
    Row(
        OperationType.DEQUANTIZE,
        ("input:T > output:U",),
        "T U: Q8,F32@1.0 Q8,F16@1.2 Q8SY,F32@1.2 Q8SY,F16@1.2 Q8C,F32@1.2 Q8C,F16@1.2 Q8S,F32@1.3 Q8S,F16@1.3",
        shapes=(constraints.rank_of("input", 1, _MOST_RANK), constraints.same_shape("input", "output")),
        convert=plain("dequantize", "input"),
        operators=("dequantize",),
    ),
    Row(
        OperationType.QUANTIZE,
        ("input:T > output:U",),
        "T U: F16,Q8@1.2 F32,Q8@1.2 F16,Q8S@1.3 F32,Q8S@1.3",
        shapes=(constraints.same_shape("input", "output"),),
        convert=plain("quantize", "input"),
        operators=("quantize",),
    ),
)

ROWS: tuple[Row, ...] = (*_ARITHMETIC, *_UNARY, *_COMPARISONS, *_CONVERSIONS)
