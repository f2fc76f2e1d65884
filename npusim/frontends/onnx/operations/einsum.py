"""Einstein's sums: products over axes that are named by letters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from npusim.frontends.forms.node_conversion import NodeConversion
from npusim.frontends.forms.row import Row

_DOTS = "..."


def _einsum(c: NodeConversion) -> Sequence[int]:
    """Operands two by two: letters that only one of them has and nobody needs are added up before."""
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
    """The letters of each operand and of the result; the axes of an ellipsis are digits."""
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
    """Two operands as one: matrices of (batch, own, shared) by (batch, shared, own)."""
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
    """A tensor as matrices in one batch."""
    order = [term.index(letter) for part in parts for letter in part]
    tensor = c.transposed(tensor, order)
    wide = [sizes[letter] for part in parts for letter in part]
    if list(c.shape(tensor)) != wide:
        tensor = c.step("broadcast_to", [tensor], shape=tuple(wide))
    return c.reshaped(tensor, [prod(sizes[letter] for letter in part) for part in parts])


ROWS: tuple[Row, ...] = (
    Row(
        "Einsum",
        "Inputs*",
        _einsum,
        ("batch_matmul", "sum", "transpose", "reshape", "broadcast_to"),
        groups=False,
    ),
)
