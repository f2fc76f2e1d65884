"""Operations along axes: reductions, positions of extremes, softmax, normalizations."""

from __future__ import annotations

from npusim.frontends.nn_hal.enumerations import HalVersion, OperationType
from npusim.frontends.nn_hal.operations import constraints
from npusim.frontends.nn_hal.operations.constraints import finite, positive, rank_of
from npusim.frontends.nn_hal.operations.named_arguments import Call
from npusim.frontends.nn_hal.operations.operation_row import Row, Rule
from npusim.frontends.nn_hal.operations.signatures import (
    FLOATS,
    FLOATS_AND_8_BITS,
    NUMBERS,
    OLD_TYPES,
    SINCE_1_1,
)

_T = OperationType
_ALIKE = constraints.same_quantization("input", "output")
_SAME_SHAPE = constraints.same_shape("input", "output")
_AXIS = constraints.axis_of("axis", "input")
_RANKS = rank_of("input", 1, 4)


def _reduction(type_: OperationType, types: str, op: str, keep: str, *quantization: Rule) -> Row:
    """Return the row of a reduction; keep: the kind of its argument keep_dims.

    If all dimensions are reduced, one dimension of one element is left.
    """
    return Row(
        type_,
        (f"input:T axes:I32 keep_dims:{keep} > output:T",),
        f"T: {types}",
        op,
        (constraints.axes_of("axes", "input"),),
        (_RANKS, rank_of("axes", 1)),
        quantization,
        more=("reshape",),
    )


def _some(call: Call) -> str | None:
    """the input has elements"""
    return "input" if 0 in (call.shape("input") or ()) else None


def _position(type_: OperationType, op: str) -> Row:
    """Return the row of ARGMAX or ARGMIN; of a vector the result is one dimension of one element."""
    form = ("input:T axis:i > output:I32",)
    return Row(type_, form, f"T: {NUMBERS}", op, (_AXIS,), (_some,), more=("reshape",))


def _most(call: Call) -> str | None:
    """k is not more than the last dimension of input"""
    k, size = call.whole("k"), call.size("input", -1)
    return None if k is None or size is None or k <= size else "k"


def _old_ranks(*ranks: int) -> Rule:
    """Return the rule that before V1_2 there are only these numbers of dimensions."""

    def rule(call: Call) -> str | None:
        rank = call.rank("input")
        return "input" if call.version < HalVersion.V1_2 and rank not in (None, *ranks) else None

    rule.__doc__ = f"before V1_2 input has {' or '.join(map(str, ranks))} dimensions"
    return rule


def _not_zero(call: Call) -> str | None:
    """bias is not 0"""
    return "bias" if call.number("bias") == 0 else None


ROWS: tuple[Row, ...] = (
    _reduction(_T.MEAN, SINCE_1_1, "mean", "i", _ALIKE),
    _reduction(_T.REDUCE_ALL, "B8@1.2", "reduce_all", "b"),
    _reduction(_T.REDUCE_ANY, "B8@1.2", "reduce_any", "b"),
    _reduction(_T.REDUCE_MAX, FLOATS_AND_8_BITS, "reduce_max", "b", _ALIKE),
    _reduction(_T.REDUCE_MIN, FLOATS_AND_8_BITS, "reduce_min", "b", _ALIKE),
    _reduction(_T.REDUCE_PROD, FLOATS, "reduce_prod", "b"),
    _reduction(_T.REDUCE_SUM, FLOATS, "sum", "b"),
    _position(_T.ARGMAX, "arg_max"),
    _position(_T.ARGMIN, "arg_min"),
    Row(
        _T.TOPK_V2,
        ("input:T k:i > values:T indices:I32",),
        f"T: {NUMBERS}",
        "topk_v2",
        (constraints.at_least(1, "k"), _most),
        quantization=(constraints.same_quantization("input", "values"),),
        fixed={"last_first": True},
    ),
    Row(
        _T.SOFTMAX,
        ("input:T beta:s | axis:i=-1 @1.2 > output:T",),
        f"T: {OLD_TYPES}",
        "softmax",
        (positive("beta"), finite("beta"), _AXIS),
        (_RANKS, _old_ranks(2, 4), _SAME_SHAPE),
        (constraints.prescribed("output", constraints.asymmetric(1 / 256, 0)),),
    ),
    Row(
        _T.LOG_SOFTMAX,
        ("input:T beta:s axis:i > output:T",),
        f"T: {FLOATS}",
        "log_softmax",
        (positive("beta"), finite("beta"), _AXIS),
        (_SAME_SHAPE,),
    ),
    Row(
        _T.L2_NORMALIZATION,
        ("input:T | axis:i=-1 @1.2 > output:T",),
        "T: F32@1.0 F16@1.2 Q8@1.2 Q8S@1.3",
        "l2_normalization",
        (_AXIS,),
        (_RANKS, _old_ranks(4), _SAME_SHAPE),
        (constraints.prescribed("output", constraints.asymmetric(1 / 128, 128)),),
    ),
    Row(
        _T.LOCAL_RESPONSE_NORMALIZATION,
        ("input:T radius:i bias:s alpha:s beta:s | axis:i=-1 @1.2 > output:T",),
        "T: F32@1.0 F16@1.2",
        "local_response_normalization",
        (constraints.at_least(0, "radius"), _not_zero, finite("bias", "alpha", "beta"), _AXIS),
        (_RANKS, _old_ranks(4), _SAME_SHAPE),
    ),
    Row(
        _T.INSTANCE_NORMALIZATION,
        ("input:T gamma:s beta:s epsilon:s nchw:b > output:T",),
        f"T: {FLOATS}",
        "instance_normalization",
        (finite("gamma", "beta", "epsilon"),),
        (rank_of("input", 4), _SAME_SHAPE),
    ),
)
