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
    """Add Einsum, two operands at a time; letters that only one operand has are summed first if nothing needs them."""
    tensors = c.tensors("Inputs")
    tensors = [c.as_real(tensor) for tensor in tensors]
    terms, wanted = _parsed(c, tensors)
    sizes: dict[str, int] = {}
    for term, tensor in zip(terms, tensors, strict=True):
        c.require(len(set(term)) == len(term), f"{term!r} names an axis twice: npusim has no diagonals")
        for letter, size in zip(term, c.shape(tensor), strict=True):
            sizes[letter] = max(sizes.get(letter, size), size)
            c.require(
                size in (1, sizes[letter]) or sizes[letter] == 1, f"axis {letter} has sizes that differ"
            )
    c.require(set(wanted) <= set(sizes) and len(set(wanted)) == len(wanted), f"the output {wanted!r} is none")
    term, made = terms[0], tensors[0]
    for number in range(1, len(tensors)):
        later = set(wanted).union(*terms[number + 1 :])
        term, made = _pair(c, (term, made), (terms[number], tensors[number]), later, sizes)
    term, made = _summed(c, term, made, set(wanted))
    made = c.transposed(made, [term.index(letter) for letter in wanted])
    if len(tensors) == 1:
        made = c.step("reshape", [made], shape=c.shape(made))
    return [made]


def _parsed(c: NodeConversion, tensors: Sequence[int]) -> tuple[list[str], str]:
    """Return the letters of each operand and of the result; digits stand for the axes of an ellipsis."""
    equation = "".join(str(c.attribute("equation", "")).split())
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    c.require(len(terms) == len(tensors), f"equation {equation!r} is not one of {len(tensors)} operands")
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
        every = "".join(terms)
        return terms, digits + "".join(
            sorted(letter for letter in set(every) - set(digits) if every.count(letter) == 1)
        )
    return terms, right.replace(_DOTS, digits)


def _summed(c: NodeConversion, term: str, tensor: int, kept: set[str]) -> tuple[str, int]:
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
    made = c.step("batch_matmul", [x, y])
    letters = [*batch, *left, *right]
    return "".join(letters), c.reshaped(made, [sizes[letter] for letter in letters])


def _arranged(
    c: NodeConversion,
    term: str,
    tensor: int,
    parts: tuple[list[str], list[str], list[str]],
    sizes: Mapping[str, int],
) -> int:
    """Return a tensor as matrices along one batch axis."""
    order = [term.index(letter) for part in parts for letter in part]
    tensor = c.transposed(tensor, order)
    wide = [sizes[letter] for part in parts for letter in part]
    if list(c.shape(tensor)) != wide:
        tensor = c.step("broadcast_to", [tensor], shape=tuple(wide))
    return c.reshaped(tensor, [prod(sizes[letter] for letter in part) for part in parts])


def _matmul(c: NodeConversion) -> Sequence[int]:
    a, b = c.tensor("A"), c.tensor("B")
    weights = c.packed.get(b)
    if weights is not None and c.builder.type(a).real and c.shape(a)[-1:] == (weights.inner,):
        return [block_product(c, a, weights)]
    return [product(c, a, b)]


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
    """Add alpha A' B' + beta C, A and B transposed if stated; a constant B makes it a fully connected layer with
    bias.
    """
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
