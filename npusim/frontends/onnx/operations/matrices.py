"""Products of matrices, in reals or codes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from npusim.frontends.forms.matrices import product
from npusim.frontends.forms.network import MICROSOFT
from npusim.frontends.forms.node_conversion import NodeConversion
from npusim.frontends.forms.row import Row


def _matmul(c: NodeConversion) -> Sequence[int]:
    return [product(c, c.tensor("A"), c.tensor("B"))]


def _fused_matmul(c: NodeConversion) -> Sequence[int]:
    a, b = (_turned(c, c.real(name), f"trans{name}", f"transBatch{name}") for name in ("A", "B"))
    alpha = float(c.attribute("alpha", 1.0))
    made = product(c, a, b)
    return [made if alpha == 1 else c.step("mul", [made, c.scalar(alpha, made)])]


def _turned(c: NodeConversion, tensor: int, swapped: str, batches: str) -> int:
    rank = len(c.shape(tensor))
    order = list(range(rank))
    if c.flag(batches) and rank > 2:
        order = [*order[1:-1], 0, order[-1]]
    if c.flag(swapped) and rank > 1:
        order[-2:] = order[-1], order[-2]
    return c.transposed(tensor, order)


def _gemm(c: NodeConversion) -> Sequence[int]:
    """alpha A' B' + beta C, A' and B' being A and B or transposed; with a constant B a layer with weights and bias."""
    alpha, beta = float(c.attribute("alpha", 1.0)), float(c.attribute("beta", 1.0))
    codes = c.on_codes and alpha == beta == 1
    ask = c.tensor if codes else c.real
    a, b = ask("A"), ask("B")
    third = ask("C") if c.has("C") else None
    c.require(len(c.shape(a)) == len(c.shape(b)) == 2, "multiplies matrices")
    if c.flag("transA"):
        a = c.transposed(a, (1, 0))
    if not c.flag("transB"):
        b = c.transposed(b, (1, 0))
    sizes = (*c.shape(a), *c.shape(b))
    c.require(sizes[1] == sizes[3], f"A has {sizes[1]} columns, B {sizes[3]} rows")
    if not c.builder.type(a).real and c.builder.type(a).quantization is None:
        return [_whole_gemm(c, a, b, third, alpha, beta)]
    if min(sizes[:3]) == 0 or sizes[3] == 0:
        made = c.step("batch_matmul", [a, b], adj_y=True)
        return [_added(c, made, third, sizes[0], sizes[2], alpha, beta)]
    bias = None if third is None else _bias(c, third, sizes[2])
    if alpha == beta == 1 and (third is None or bias is not None):
        return [c.node("fully_connected", [a, b, bias])]
    a, b = c.as_real(a), c.as_real(b)
    made = c.step("fully_connected", [a, b, None])
    return [_added(c, made, None if third is None else c.as_real(third), sizes[0], sizes[2], alpha, beta)]


def _added(
    c: NodeConversion, made: int, third: int | None, rows: int, columns: int, alpha: float, beta: float
) -> int:
    if alpha != 1:
        made = (
            c.step("mul", [made, c.scalar(alpha, made)])
            if third is not None
            else c.node("mul", [made, c.scalar(alpha, made)])
        )
    if third is None:
        return made if alpha != 1 else c.node("reshape", [made], shape=(rows, columns))
    if beta != 1:
        third = c.step("mul", [third, c.scalar(beta, third)])
    return c.node("add", [made, third])


def _whole_gemm(c: NodeConversion, a: int, b: int, third: int | None, alpha: float, beta: float) -> int:
    c.require(alpha == beta == 1, "on whole numbers npusim has alpha and beta 1")
    made = product(c, a, c.transposed(b, (1, 0)))
    return made if third is None else c.step("add", [made, third])


def _bias(c: NodeConversion, third: int, columns: int) -> int | None:
    """C as one number for each column, if that is what it is."""
    shape = c.shape(third)
    held = c.builder.tensors[third]
    if prod(shape) == columns and (not shape or shape[-1] == columns):
        return c.reshaped(third, (columns,)) if len(shape) != 1 else third
    if prod(shape) == 1 and held.array is not None:
        scaling = held.type.quantization
        if scaling is None or scaling.axis is None:
            return c.constant(np.full((columns,), held.array.reshape(-1)[0], held.array.dtype), scaling)
    return None


_PRODUCTS = ("fully_connected", "batch_matmul")

ROWS: tuple[Row, ...] = (
    Row("MatMul", "A B", _matmul, (*_PRODUCTS, "reshape", "cast")),
    Row("Gemm", "A B C?", _gemm, (*_PRODUCTS, "mul", "add", "transpose", "cast")),
    Row(
        "FusedMatMul", "A B", _fused_matmul, (*_PRODUCTS, "mul", "transpose"), domain=MICROSOFT, groups=False
    ),
)
