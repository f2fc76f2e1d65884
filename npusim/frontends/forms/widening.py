"""Whole numbers of types that an operator does not have: it computes them in wider ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from npusim.isa.base.tensor import TensorType
from npusim.kernels.graph.builder import unshaped
from npusim.kernels.operator.element_types import fits
from npusim.kernels.table import family, operator

_WIDER: Mapping[str, tuple[str, ...]] = {
    "bool": ("uint8", "int32"),
    **dict.fromkeys(("int8", "uint8", "int16", "uint16"), ("int32", "int64")),
    "int32": ("int64",),
    "uint32": ("int64",),
    "uint64": ("int64",),
    "float64": ("float32",),
}

_WRAPPING = frozenset({"add", "sub", "mul", "sum", "cumsum", "neg"})
"""Operators whose results in 64 bits are those without a sign, too."""

_AS_THEY_ARE = frozenset(
    {
        *("cast", "select_v2", "reduce_max", "reduce_min", "maximum", "minimum"),
        *("arg_max", "arg_min", "topk_v2", "resize_nearest_neighbor", "max_pool_2d"),
    }
)
"""Operators that take whole numbers of 8 and 16 bits, which need not be codes; so do all that move."""

BYTES = ("int8", "uint8")

ORDERED = frozenset(
    {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "maximum", "minimum"}
)
"""Operators of two operands that look at nothing but their order."""

_NARROW = ("int8", "uint8", "int16", "uint16")


def chooses(op: str) -> bool:
    """Whether the results of an operator are elements of its operands, so that it need not know what they stand for."""
    return op in _AS_THEY_ARE or family(op) == "movement"


def wider(op: str, inputs: Sequence[TensorType | None], results: Sequence[TensorType]) -> str | None:
    """The element type in which an operator has to compute on plain numbers; None where theirs will do, or none does.

    All that have the type of the first operand get the other one.
    """
    first = next((kind.dtype for kind in inputs if kind is not None), "")
    if first not in _WIDER or family(op) == "movement":
        return None
    rows = operator(op).types
    if not (first in _NARROW and op not in _AS_THEY_ARE) and fits(rows, inputs, results):
        return None
    if first == "uint64" and op not in _WRAPPING:
        return None
    for dtype in _WIDER[first]:
        if dtype in _NARROW and op not in _AS_THEY_ARE:
            continue
        if fits(rows, in_type(inputs, first, dtype), in_type(results, first, dtype)):
            return dtype
    return None


def in_type(kinds: Sequence[TensorType | None], before: str, after: str) -> list[Any]:
    """Types without their shapes, one element type in the place of another."""
    return [unshaped(after) if kind is not None and kind.dtype == before else kind for kind in kinds]
