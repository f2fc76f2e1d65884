"""Operations that choose rows by indices or keys."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from npusim.frontends.nn_hal.enumerations import OperandType, OperationType
from npusim.frontends.nn_hal.operations import constraints
from npusim.frontends.nn_hal.operations.call import Call
from npusim.frontends.nn_hal.operations.conversion import Conversion
from npusim.frontends.nn_hal.operations.row import Row


def _inside(values: Sequence[int] | None, size: int | None) -> bool:
    return values is None or size is None or all(0 <= value < size for value in values)


def _gathered(call: Call) -> str | None:
    """indices are in [0, s) for the dimension s of input at axis"""
    axis = call.axis("axis", "input")
    size = None if axis is None else call.size("input", axis)
    return None if _inside(call.wholes("indices"), size) else "indices"


def _gather(c: Conversion) -> Sequence[int]:
    return c.node("gather", [c.tensor("input"), c.tensor("indices")], axis=c.axis("axis", "input"))


def _looked_up(call: Call) -> str | None:
    """lookups are in [0, s) for the first dimension s of values"""
    return None if _inside(call.wholes("lookups"), call.size("values", 0)) else "lookups"


def _row_per_lookup(call: Call) -> str | None:
    """output has the dimensions of values but for the first, which is that of lookups"""
    rows, count = call.shape("values"), call.size("lookups", 0)
    wanted = None if rows is None else (count, *rows[1:])
    return None if constraints.may_equal(wanted, call.shape("output")) else "output"


def _row_per_key(call: Call) -> str | None:
    """values has a row for each element of keys"""
    return None if constraints.may_be_same(call.size("keys", 0), call.size("values", 0)) else "values"


def _ascending(call: Call) -> str | None:
    """keys ascend"""
    keys = call.wholes("keys")
    return None if keys is None or keys == sorted(keys) else "keys"


def _embedding(c: Conversion) -> Sequence[int]:
    return c.node("embedding_lookup", [c.tensor("lookups"), c.tensor("values")])


def _hashtable(c: Conversion) -> Sequence[int]:
    operands = [c.tensor("lookups"), c.tensor("keys"), c.tensor("values")]
    return c.node("hashtable_lookup", operands, c.result("output"), c.result("hits"))


ROWS: tuple[Row, ...] = (
    Row(
        OperationType.GATHER,
        ("input:T axis:i indices:I32 > output:T",),
        "T: F16@1.2 F32@1.2 I32@1.2 Q8@1.2 Q8S@1.3",
        (constraints.axis_of("axis", "input"), _gathered),
        (),
        (constraints.same_quantization("input", "output"),),
        _gather,
        ("gather",),
    ),
    Row(
        OperationType.EMBEDDING_LOOKUP,
        ("lookups:I32 values:T > output:T",),
        "T: F32@1.0 I32@1.2 Q8@1.2 F16@1.3 Q8S@1.3",
        (_looked_up,),
        (constraints.rank_of("lookups", 1), constraints.rank_of("values", 2, inf), _row_per_lookup),
        (constraints.same_quantization("values", "output"),),
        _embedding,
        ("embedding_lookup",),
    ),
    Row(
        OperationType.HASHTABLE_LOOKUP,
        ("lookups:I32 keys:I32 values:T > output:T hits:Q8",),
        "T: F32@1.0 I32@1.0 Q8@1.0",
        (_ascending,),
        (
            constraints.rank_of("lookups", 1),
            constraints.rank_of("keys", 1),
            constraints.rank_of("values", 2, inf),
            _row_per_key,
            _row_per_lookup,
            constraints.same_shape("lookups", "hits"),
        ),
        (
            constraints.same_quantization("values", "output"),
            constraints.prescribed("hits", {OperandType.TENSOR_QUANT8_ASYMM: (1.0, 0)}),
        ),
        _hashtable,
        ("hashtable_lookup",),
    ),
)
