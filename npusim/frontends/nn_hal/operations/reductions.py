"""Operations along axes: reductions, positions, softmax, normalizations."""

from __future__ import annotations

from collections.abc import Sequence

from npusim.frontends.nn_hal.enumerations import HalVersion, OperationType
from npusim.frontends.nn_hal.operations import constraints
from npusim.frontends.nn_hal.operations.call import Call
from npusim.frontends.nn_hal.operations.conversion import Conversion
from npusim.frontends.nn_hal.operations.row import Row, Rule

_MOST_RANK = 4
_ALIKE = (constraints.same_quantization("input", "output"),)
_SAME_SHAPE = constraints.same_shape("input", "output")
_AXIS = constraints.axis_of("axis", "input")


# Reductions


def _reduction(c: Conversion, op: str) -> Sequence[int]:
    """Reducing everything leaves one dimension of one element."""
    rank = len(c.shape("input"))
    axes = tuple(sorted({axis % rank for axis in c.wholes("axes")}))
    keep = c.flag("keep_dims")
    outputs = c.node(op, [c.tensor("input")], axes=axes, keep_dims=keep)
    return outputs if keep or len(axes) < rank else [c.reshaped(outputs[0], (1,))]


def _row(type_: OperationType, types: str, op: str, keep: str, quantization: tuple[Rule, ...] = ()) -> Row:
    return Row(
        type_,
        (f"input:T axes:I32 keep_dims:{keep} > output:T",),
        f"T: {types}",
        (constraints.axes_of("axes", "input"),),
        (constraints.rank_of("input", 1, _MOST_RANK), constraints.rank_of("axes", 1)),
        quantization,
        lambda c: _reduction(c, op),
        (op, "reshape"),
    )


_REDUCTIONS = (
    _row(OperationType.MEAN, "F32@1.1 Q8@1.1 F16@1.2 Q8S@1.3", "mean", "i", _ALIKE),
    _row(OperationType.REDUCE_ALL, "B8@1.2", "reduce_all", "b"),
    _row(OperationType.REDUCE_ANY, "B8@1.2", "reduce_any", "b"),
    _row(OperationType.REDUCE_MAX, "F16@1.2 F32@1.2 Q8@1.2 Q8S@1.3", "reduce_max", "b", _ALIKE),
    _row(OperationType.REDUCE_MIN, "F16@1.2 F32@1.2 Q8@1.2 Q8S@1.3", "reduce_min", "b", _ALIKE),
    _row(OperationType.REDUCE_PROD, "F16@1.2 F32@1.2", "reduce_prod", "b"),
    _row(OperationType.REDUCE_SUM, "F16@1.2 F32@1.2", "sum", "b"),
)


# Positions


def _some(call: Call) -> str | None:
    """the input has elements"""
    return "input" if 0 in (call.shape("input") or ()) else None


def _position(c: Conversion, op: str) -> Sequence[int]:
    """Of a vector it is one element in one dimension."""
    outputs = c.node(op, [c.tensor("input")], axis=c.axis("axis", "input"))
    return outputs if len(c.shape("input")) > 1 else [c.reshaped(outputs[0], (1,))]


def _positions(type_: OperationType, op: str) -> Row:
    return Row(
        type_,
        ("input:T axis:i > output:I32",),
        "T: F16@1.2 F32@1.2 I32@1.2 Q8@1.2 Q8S@1.3",
        (_AXIS,),
        (_some,),
        convert=lambda c: _position(c, op),
        operators=(op, "reshape"),
    )


def _most(call: Call) -> str | None:
    """k is not more than the last dimension of input"""
    k, size = call.whole("k"), call.size("input", -1)
    return None if k is None or size is None or k <= size else "k"


def _topk(c: Conversion) -> Sequence[int]:
    results = c.result("values"), c.result("indices")
    return c.node("topk_v2", [c.tensor("input")], *results, k=c.whole("k"), last_first=True)


_POSITIONS = (
    _positions(OperationType.ARGMAX, "arg_max"),
    _positions(OperationType.ARGMIN, "arg_min"),
    Row(
        OperationType.TOPK_V2,
        ("input:T k:i > values:T indices:I32",),
        "T: F16@1.2 F32@1.2 I32@1.2 Q8@1.2 Q8S@1.3",
        (constraints.at_least(1, "k"), _most),
        (),
        (constraints.same_quantization("input", "values"),),
        _topk,
        ("topk_v2",),
    ),
)


# Normalizations


def _old_ranks(*ranks: int) -> Rule:
    """The rule that before V1_2 there are only these numbers of dimensions."""

    def rule(call: Call) -> str | None:
        rank = call.rank("input")
        return "input" if call.version < HalVersion.V1_2 and rank not in (None, *ranks) else None

    rule.__doc__ = f"before V1_2 input has {' or '.join(map(str, ranks))} dimensions"
    return rule


def _softmax(c: Conversion) -> Sequence[int]:
    op = c.call.operation.type.name.lower()
    return c.node(op, [c.tensor("input")], beta=c.real("beta"), axis=c.axis("axis", "input"))


def _l2_normalization(c: Conversion) -> Sequence[int]:
    return c.node("l2_normalization", [c.tensor("input")], axis=c.axis("axis", "input"))


def _not_zero(call: Call) -> str | None:
    """bias is not 0"""
    return "bias" if call.number("bias") == 0 else None


def _local_response(c: Conversion) -> Sequence[int]:
    reals = {name: c.real(name) for name in ("bias", "alpha", "beta")}
    axis, radius = c.axis("axis", "input"), c.whole("radius")
    return c.node("local_response_normalization", [c.tensor("input")], radius=radius, axis=axis, **reals)


def _instance_normalization(c: Conversion) -> Sequence[int]:
    reals = {name: c.real(name) for name in ("gamma", "beta", "epsilon")}
    return [c.stored(c.node("instance_normalization", [c.image()], **reals)[0])]


_NORMALIZATIONS = (
    Row(
        OperationType.SOFTMAX,
        ("input:T beta:s | axis:i=-1 @1.2 > output:T",),
        "T: F32@1.0 Q8@1.0 F16@1.2 Q8S@1.3",
        (constraints.positive("beta"), constraints.finite("beta"), _AXIS),
        (constraints.rank_of("input", 1, _MOST_RANK), _old_ranks(2, 4), _SAME_SHAPE),
        (constraints.prescribed("output", constraints.asymmetric(1 / 256, 0)),),
        _softmax,
        ("softmax",),
    ),
    Row(
        OperationType.LOG_SOFTMAX,
        ("input:T beta:s axis:i > output:T",),
        "T: F16@1.2 F32@1.2",
        (constraints.positive("beta"), constraints.finite("beta"), _AXIS),
        (_SAME_SHAPE,),
        convert=_softmax,
        operators=("log_softmax",),
    ),
    Row(
        OperationType.L2_NORMALIZATION,
        ("input:T | axis:i=-1 @1.2 > output:T",),
        "T: F32@1.0 F16@1.2 Q8@1.2 Q8S@1.3",
        (_AXIS,),
        (constraints.rank_of("input", 1, _MOST_RANK), _old_ranks(4), _SAME_SHAPE),
        (constraints.prescribed("output", constraints.asymmetric(1 / 128, 128)),),
        _l2_normalization,
        ("l2_normalization",),
    ),
    Row(
        OperationType.LOCAL_RESPONSE_NORMALIZATION,
        ("input:T radius:i bias:s alpha:s beta:s | axis:i=-1 @1.2 > output:T",),
        "T: F32@1.0 F16@1.2",
        (
            constraints.at_least(0, "radius"),
            _not_zero,
            constraints.finite("bias", "alpha", "beta"),
            _AXIS,
        ),
        (constraints.rank_of("input", 1, _MOST_RANK), _old_ranks(4), _SAME_SHAPE),
        convert=_local_response,
        operators=("local_response_normalization",),
    ),
    Row(
        OperationType.INSTANCE_NORMALIZATION,
        ("input:T gamma:s beta:s epsilon:s nchw:b > output:T",),
        "T: F16@1.2 F32@1.2",
        (constraints.finite("gamma", "beta", "epsilon"),),
        (constraints.rank_of("input", 4), _SAME_SHAPE),
        convert=_instance_normalization,
        operators=("instance_normalization", "transpose"),
    ),
)

ROWS: tuple[Row, ...] = (*_REDUCTIONS, *_POSITIONS, *_NORMALIZATIONS)
