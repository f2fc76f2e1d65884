"""Types of expressions and parameters: primitive, tensor, array and tuple; casts between them; the binding of `?`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from npusim.isa.base.lazy_dataclass import dataclass

OPEN = "?"
"""The type that a call of a generic operation binds."""

ANY = ""
"""The item of tensor<>, which holds any kind of values and casts to no other tensor."""

UNTYPED = "untyped"
"""The item of the provisional dialect's tensors, whose types do not state the kind of values."""

ITEMS = ("scalar", "integer", "logical")
"""The kinds of values in tensors, and of literals that can stand for tensors."""


@dataclass(frozen=True, slots=True)
class Primitive:
    """The type integer, scalar, logical, string, or `?`."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor that holds `item`: one of ITEMS, OPEN, ANY or UNTYPED."""

    item: str

    def __str__(self) -> str:
        if self.item == UNTYPED:
            return "tensor"
        return f"tensor<{self.item}>"


@dataclass(frozen=True, slots=True)
class Array:
    """An array; item None is that of the empty array, which casts to any."""

    item: Type | None

    def __str__(self) -> str:
        return f"{self.item or ''}[]"


@dataclass(frozen=True, slots=True)
class Tuple:
    """A tuple of two or more."""

    items: tuple[Type, ...]

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.items))})"


Type: TypeAlias = Primitive | Tensor | Array | Tuple

INTEGER = Primitive("integer")
SCALAR = Primitive("scalar")
LOGICAL = Primitive("logical")
STRING = Primitive("string")
INTEGERS = Array(INTEGER)

ANY_TENSOR = Tensor(ANY)
UNTYPED_TENSOR = Tensor(UNTYPED)
SCALARS = Tensor("scalar")
TENSOR_OF = {item: Tensor(item) for item in (*ITEMS, OPEN, ANY, UNTYPED)}


def holds_tensors(kind: Type) -> bool:
    """Return whether the type is a tensor, or an array or tuple of tensors (T7: tuples do not mix)."""
    while not isinstance(kind, (Primitive, Tensor)):
        if isinstance(kind, Array):
            if kind.item is None:
                return False
            kind = kind.item
        else:
            return any(holds_tensors(item) for item in kind.items)
    return isinstance(kind, Tensor)


def is_generic(kind: Type) -> bool:
    """Return whether `?` occurs in the type."""
    if isinstance(kind, Primitive):
        return kind.name == OPEN
    if isinstance(kind, Tensor):
        return kind.item == OPEN
    if isinstance(kind, Array):
        return kind.item is not None and is_generic(kind.item)
    return any(is_generic(item) for item in kind.items)


def castable(have: Type, want: Type) -> bool:
    """Return whether a value of one type may stand where the other is wanted (rule T5)."""
    if have == want:
        return True
    if isinstance(want, Tensor):
        if isinstance(have, Tensor):
            return want.item in (ANY, UNTYPED) or have.item == UNTYPED
        return isinstance(have, Primitive) and (
            have.name == want.item or (want.item in (ANY, UNTYPED) and have.name in ITEMS)
        )
    if isinstance(want, Array) and isinstance(have, Array):
        return have.item is None or (want.item is not None and castable(have.item, want.item))
    if isinstance(want, Tuple) and isinstance(have, Tuple):
        return len(have.items) == len(want.items) and all(map(castable, have.items, want.items))
    return False


def common(left: Type, right: Type) -> Type | None:
    """Return the type that both cast to, or None."""
    if castable(left, right):
        # Of a tensor with a known item and one without, the known one says more.
        return left if right == UNTYPED_TENSOR and isinstance(left, Tensor) else right
    if castable(right, left):
        return left
    if isinstance(left, Array) and isinstance(right, Array) and left.item and right.item:
        item = common(left.item, right.item)
        return Array(item) if item else None
    if isinstance(left, Tuple) and isinstance(right, Tuple) and len(left.items) == len(right.items):
        items = [common(one, other) for one, other in zip(left.items, right.items, strict=True)]
        known = [item for item in items if item is not None]
        return Tuple(tuple(known)) if len(known) == len(items) else None
    return None


def common_of(kinds: Sequence[Type]) -> Type | None:
    """Return the type that all cast to; None if there is none, or no type is given."""
    result: Type | None = None
    for kind in kinds:
        result = kind if result is None else common(result, kind)
        if result is None:
            return None
    return result


def bind(want: Type, have: Type) -> list[str]:
    """Return what `?` of the wanted type stands for, given the other type: no item, one, or several that differ."""
    if isinstance(want, Array):
        if isinstance(have, Array) and want.item is not None and have.item is not None:
            return bind(want.item, have.item)
        return []
    if isinstance(want, Tuple):
        if not isinstance(have, Tuple):
            return []
        bound = [item for pair in zip(want.items, have.items, strict=False) for item in bind(*pair)]
        return list(dict.fromkeys(bound))
    if isinstance(want, Tensor):
        if want.item != OPEN:
            return []
        if isinstance(have, Tensor):
            return [have.item] if have.item not in (ANY, UNTYPED) else []
        return [have.name] if isinstance(have, Primitive) and have.name in (*ITEMS, OPEN) else []
    return [have.name] if want.name == OPEN and isinstance(have, Primitive) else []


def substitute(kind: Type, item: str) -> Type:
    """Return the type with `?` replaced; an item UNTYPED leaves attributes as they are."""
    if isinstance(kind, Primitive):
        return Primitive(item) if kind.name == OPEN and item != UNTYPED else kind
    if isinstance(kind, Tensor):
        return TENSOR_OF[item] if kind.item == OPEN else kind
    if isinstance(kind, Array):
        return Array(substitute(kind.item, item)) if kind.item is not None else kind
    return Tuple(tuple(substitute(part, item) for part in kind.items))
