"""Matrix products of ONNX: MatMul, Gemm, Einsum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from npusim.frontends.forms.arithmetic import product
from npusim.frontends.forms.node_conversion import NodeConversion
from npusim.frontends.forms.node_rows import Row, microsoft
from npusim.frontends.forms.packed_weights import block_product

_DOTS = "..."


def _einsum(c: NodeConversion) -> Sequence[int]:
    """Add Einsum as matrix products of two operands at a time.

    Axes that only one of the two has are summed first if nothing later needs them.
    """
    tensors = [c.as_real(tensor) for tensor in c.tensors("Inputs")]
    terms, output = _parsed(c, tensors)
    sizes: dict[str, int] = {}
    for term, tensor in zip(terms, tensors, strict=True):
        c.require(len(set(term)) == len(term), f"{term!r} names an axis twice: npusim has no diagonals")
        for letter, size in zip(term, c.shape(tensor), strict=True):
            sizes[letter] = max(sizes.get(letter, size), size)
            c.require(
                size in (1, sizes[letter]) or sizes[letter] == 1, f"axis {letter} has sizes that differ"
            )
    c.require(
        set(output) <= set(sizes) and len(set(output)) == len(output),
        f"the output {output!r} names an axis twice, or one that no operand has",
    )
    term, result = terms[0], tensors[0]
    for number in range(1, len(tensors)):
        later = set(output).union(*terms[number + 1 :])
        term, result = _pair(c, (term, result), (terms[number], tensors[number]), later, sizes)
    term, result = _summed(c, term, result, set(output))
    result = c.transposed(result, [term.index(letter) for letter in output])
    if len(tensors) == 1:
        result = c.step("reshape", [result], shape=c.shape(result))
    return [result]


def _parsed(c: NodeConversion, tensors: Sequence[int]) -> tuple[list[str], str]:
    """Return the letters of each operand and of the result; digits stand for the axes of an ellipsis."""
    equation = "".join(str(c.attribute("equation", "")).split())
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    c.require(
        len(terms) == len(tensors),
        f"equation {equation!r} has {len(terms)} terms for {len(tensors)} operands",
    )
    hidden = [
        len(c.shape(tensor)) - len(term.replace(_DOTS, ""))
        for term, tensor in zip(terms, tensors, strict=True)
    ]
    most = max((count for count, term in zip(hidden, terms, strict=True) if _DOTS in term), default=0)
    digits = "0123456789"[:most]
    for place, (term, count) in enumerate(zip(terms, hidden, strict=True)):
        fits = count >= 0 if _DOTS in term else count == 0
        letters = term.replace(_DOTS, "")
        c.require(
            fits and count < 10 and (letters.isalpha() or not letters) and letters.isascii(),
            f"equation {equation!r}: {term!r} does not fit shape {list(c.shape(tensors[place]))}",
        )
        terms[place] = term.replace(_DOTS, digits[most - count :]) if _DOTS in term else term
    if not arrow:
        letters = "".join(terms)
        once = sorted(letter for letter in set(letters) - set(digits) if letters.count(letter) == 1)
        return terms, digits + "".join(once)
    return terms, right.replace(_DOTS, digits)


def _summed(c: NodeConversion, term: str, tensor: int, kept: set[str]) -> tuple[str, int]:
    """Sum a tensor over the axes whose letters are not `kept`; return its remaining letters and the sum."""
    axes = tuple(axis for axis, letter in enumerate(term) if letter not in kept)
    if not axes:
        return term, tensor
    return "".join(letter for letter in term if letter in kept), c.step("sum", [tensor], axes=axes)


def _pair(
    c: NodeConversion,
    first: tuple[str, int],
    second: tuple[str, int],
    later: set[str],
    sizes: Mapping[str, int],
) -> tuple[str, int]:
    """Return the product of two operands as matrices (batch, own, shared) by (batch, shared, own)."""
    a, x = _summed(c, *first, later | set(second[0]))
    b, y = _summed(c, *second, later | set(a))
    both = [letter for letter in a if letter in b]
    batch = [letter for letter in both if letter in later]
    inner = [letter for letter in both if letter not in later]
    left = [letter for letter in a if letter not in b]
    right = [letter for letter in b if letter not in a]
    x = _arranged(c, a, x, (batch, left, inner), sizes)
    y = _arranged(c, b, y, (batch, inner, right), sizes)
    products = c.step("batch_matmul", [x, y])
    letters = [*batch, *left, *right]
    return "".join(letters), c.reshaped(products, [sizes[letter] for letter in letters])


def _arranged(
    c: NodeConversion,
    term: str,
    tensor: int,
    parts: tuple[list[str], list[str], list[str]],
    sizes: Mapping[str, int],
) -> int:
    """Return a tensor as matrices along one batch axis; `parts` are the letters of batch, rows and columns."""
    letters = [letter for part in parts for letter in part]
    tensor = c.transposed(tensor, [term.index(letter) for letter in letters])
    shape = tuple([sizes[letter] for letter in letters])
    if c.shape(tensor) != shape:
        tensor = c.step("broadcast_to", [tensor], shape=shape)
    return c.reshaped(tensor, [prod(sizes[letter] for letter in part) for part in parts])


def _matmul(c: NodeConversion) -> Sequence[int]:
    a, b = c.tensor("A"), c.tensor("B")
    weights = c.packed.get(b)
    if weights is not None and c.builder.type(a).real and c.shape(a)[-1:] == (weights.inner,):
        return [block_product(c, a, weights)]
    return [product(c, a, b)]


def _fused_matmul(c: NodeConversion) -> Sequence[int]:
    a, b = (_transposed(c, c.real(name), f"trans{name}", f"transBatch{name}") for name in ("A", "B"))
    alpha = float(c.attribute("alpha", 1.0))
    result = product(c, a, b)
    return [result if alpha == 1 else c.step("mul", [result, c.scalar(alpha, result)])]


def _transposed(c: NodeConversion, tensor: int, swapped: str, batches: str) -> int:
    """Return a tensor permuted as two attributes say: the last two axes swapped, the first axis before the last."""
    rank = len(c.shape(tensor))
    order = list(range(rank))
    if c.flag(batches) and rank > 2:
        order = [*order[1:-1], 0, order[-1]]
    if c.flag(swapped) and rank > 1:
        order[-2:] = order[-1], order[-2]
    return c.transposed(tensor, order)


def _gemm(c: NodeConversion) -> Sequence[int]:
    """Add alpha A' B' + beta C, with A and B transposed if stated, as a fully connected layer with bias if possible."""
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
    if 0 in sizes:
        result = c.step("batch_matmul", [a, b], adj_y=True)
        return [_scaled_and_added(c, result, third, alpha, beta)]
    bias = None if third is None else _bias(c, third, sizes[2])
    if alpha == beta == 1 and (third is None or bias is not None):
        return [c.node("fully_connected", [a, b, bias])]
    a, b = c.as_real(a), c.as_real(b)
    result = c.step("fully_connected", [a, b, None])
    return [_scaled_and_added(c, result, None if third is None else c.as_real(third), alpha, beta)]


def _scaled_and_added(c: NodeConversion, result: int, third: int | None, alpha: float, beta: float) -> int:
    """Return alpha times a product [rows, columns], plus beta times C if C is given, as the result of the node."""
    if third is None and alpha == 1:
        return c.node("reshape", [result], shape=c.shape(result))
    if third is None:
        return c.node("mul", [result, c.scalar(alpha, result)])
    if alpha != 1:
        result = c.step("mul", [result, c.scalar(alpha, result)])
    if beta != 1:
        third = c.step("mul", [third, c.scalar(beta, third)])
    return c.node("add", [result, third])


def _whole_gemm(c: NodeConversion, a: int, b: int, third: int | None, alpha: float, beta: float) -> int:
    c.require(alpha == beta == 1, "alpha and beta must be 1 for integers")
    result = product(c, a, c.transposed(b, (1, 0)))
    return result if third is None else c.step("add", [result, third])


def _bias(c: NodeConversion, third: int, columns: int) -> int | None:
    """Return C as one number per column; None if it is not that."""
    shape = c.shape(third)
    held = c.builder.tensors[third]
    if prod(shape) == columns and (not shape or shape[-1] == columns):
        return c.reshaped(third, (columns,)) if len(shape) != 1 else third
    if prod(shape) == 1 and held.array is not None:
        scaling = held.type.quantization
        if scaling is None or scaling.axis is None:
            return c.constant(np.full((columns,), held.array.reshape(-1)[0], held.array.dtype), scaling)
    return None


_PRODUCTS = "fully_connected batch_matmul"


ROWS: tuple[Row, ...] = (
    Row("Einsum", "Inputs*", _einsum, "batch_matmul sum transpose reshape broadcast_to", groups=False),
    Row("MatMul", "A B", _matmul, f"{_PRODUCTS} block_product reshape cast"),
    Row("Gemm", "A B C?", _gemm, f"{_PRODUCTS} mul add transpose cast"),
    microsoft("FusedMatMul", "A B", _fused_matmul, f"{_PRODUCTS} mul transpose"),
)
