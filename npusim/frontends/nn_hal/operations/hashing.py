"""Projections by hashes, and samples from seeds."""

from __future__ import annotations

from collections.abc import Sequence

from npusim.frontends.nn_hal.enumerations import HalVersion, OperationType
from npusim.frontends.nn_hal.operations import constraints
from npusim.frontends.nn_hal.operations.call import Call
from npusim.frontends.nn_hal.operations.conversion import Conversion
from npusim.frontends.nn_hal.operations.dimensions import dimensions
from npusim.frontends.nn_hal.operations.row import Row

_TYPES = {1: "sparse_deprecated", 2: "dense", 3: "sparse"}
_DENSE, _SPARSE = 2, 3
_WORD_BITS = 32


def _projection(call: Call) -> str | None:
    """type is 1 (sparse, deprecated), 2 (dense) or, from V1_2 on, 3 (sparse)"""
    kind = call.whole("type")
    last = _SPARSE if call.version >= HalVersion.V1_2 else _DENSE
    return None if kind is None or 1 <= kind <= last else "type"


def _unweighted(call: Call) -> str | None:
    """only dense projections have weights"""
    weight, kind = call["weight"], call.whole("type")
    return None if weight.omitted or weight.undecided or kind in (None, _DENSE) else "weight"


def _short(call: Call) -> str | None:
    """sparse signatures have at most 32 bits, those of type 3 with the number of the hash function"""
    kind, functions, bits = call.whole("type"), call.size("hash", 0), call.size("hash", 1)
    if kind in (None, _DENSE) or functions is None or bits is None:
        return None
    number = (functions - 1).bit_length() if kind == _SPARSE else 0
    return None if bits + number <= _WORD_BITS else "hash"


def _length(call: Call) -> str | None:
    """output has an element per hash function, or, dense, per bit of each"""
    kind, functions, bits = call.whole("type"), call.size("hash", 0), call.size("hash", 1)
    if kind is None or functions is None or bits is None:
        return None
    wanted = functions * bits if kind == _DENSE else functions
    return None if constraints.may_equal(call.shape("output"), (wanted,)) else "output"


def _hashed(c: Conversion) -> Sequence[int]:
    operands = [c.tensor(name) for name in ("hash", "input", "weight")]
    return c.node("lsh_projection", operands, type=_TYPES[c.whole("type")])


def _sampled(c: Conversion) -> Sequence[int]:
    operands = [c.tensor("input"), c.tensor("seeds")]
    return c.node("random_multinomial", operands, samples=c.whole("samples"))


def _samples(call: Call) -> str | None:
    """output has dimensions [batches, samples]"""
    wanted = (call.size("input", 0), call.whole("samples"))
    return None if constraints.may_equal(call.shape("output"), wanted) else "output"


ROWS: tuple[Row, ...] = (
    Row(
        OperationType.LSH_PROJECTION,
        ("hash:T input:X weight:T? type:i > output:I32",),
        "T X: F32,F32@1.0 F32,I32@1.0 F32,Q8@1.0 F32,F16@1.2 F16,F16@1.2 F16,F32@1.2 F16,I32@1.2 F16,Q8@1.2",
        (_projection, _unweighted),
        (
            *dimensions({"hash": "functions bits"}),
            constraints.rank_of("input", 1, float("inf")),
            constraints.length_of("weight", "an element per row of input", "input", 0),
            _short,
            _length,
        ),
        (),
        _hashed,
        ("lsh_projection",),
    ),
    Row(
        OperationType.RANDOM_MULTINOMIAL,
        ("input:T samples:i seeds:I32 > output:I32",),
        "T: F16@1.2 F32@1.2",
        (constraints.at_least(1, "samples"),),
        (*dimensions({"input": "batches classes", "seeds": "2"}), _samples),
        (),
        _sampled,
        ("random_multinomial",),
    ),
)
