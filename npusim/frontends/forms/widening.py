"""Integer types that an operator lacks: the wider type in which it computes them."""

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
"""Operators whose results modulo 2**64 do not depend on the sign."""

_AS_THEY_ARE = frozenset(
    {
        *("cast", "select_v2", "reduce_max", "reduce_min", "maximum", "minimum"),
        *("arg_max", "arg_min", "topk_v2", "resize_nearest_neighbor", "max_pool_2d"),
    }
)
"""Operators that take 8- and 16-bit integers without a quantization, like all that move elements."""

BYTES = ("int8", "uint8")

ORDERED = frozenset(
    {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "maximum", "minimum"}
)
"""Operators of two operands that depend on their order alone."""

_NARROW = ("int8", "uint8", "int16", "uint16")


def chooses(op: str) -> bool:
    """Return whether an operator's results are elements of its operands, so that their quantization does not matter."""
    return op in _AS_THEY_ARE or family(op) == "movement"


def wider(op: str, inputs: Sequence[TensorType | None], results: Sequence[TensorType]) -> str | None:
    """Return the wider element type in which an operator computes; None if it takes these types, or none fits.

    All operands and results with the type of the first operand get the wider type.
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
    """Return types without shapes, with one element type replaced."""
    return [unshaped(after) if kind is not None and kind.dtype == before else kind for kind in kinds]
