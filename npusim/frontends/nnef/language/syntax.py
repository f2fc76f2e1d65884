"""The syntax tree of a document. Every part knows its first character, as an offset in its text."""

from __future__ import annotations

from dataclasses import field
from typing import Any, TypeAlias

from npusim.frontends.nnef.language.value_types import Array, Tuple, Type, common_of
from npusim.frontends.nnef.places import Source
from npusim.isa.base.lazy_dataclass import dataclass


@dataclass(slots=True)
class Literal:
    """A number, string or logical, or an array or tuple of only these: value and type are known."""

    offset: int
    value: Any
    type: Type


@dataclass(slots=True)
class Name:
    """An identifier."""

    offset: int
    name: str


@dataclass(slots=True)
class Items:
    """An array [a, b], or a tuple (a, b)."""

    offset: int
    items: list[Expression]
    is_tuple: bool


@dataclass(slots=True)
class Invocation:
    """A call of an operation. `generic` is the type in name<type>(...); `named` has name, its offset, value.

    The check sets the declaration, and the argument of each of its parameters (None: the default).
    """

    offset: int
    name: str
    generic: str | None
    positional: list[Expression]
    named: list[tuple[str, int, Expression]]
    declaration: Fragment | None = None
    arguments: list[Expression | None] = field(default_factory=list)


@dataclass(slots=True)
class Unary:
    """An operator before its operand."""

    offset: int
    operator: str
    operand: Expression


@dataclass(slots=True)
class Chain:
    """Operands with operators of one precedence between them, which associate to the left."""

    offset: int
    first: Expression
    rest: list[tuple[str, Expression]]


@dataclass(slots=True)
class Select:
    """value if condition else otherwise."""

    offset: int
    value: Expression
    condition: Expression
    otherwise: Expression


@dataclass(slots=True)
class Comprehension:
    """An array of a value for each item (or each tuple of items, of arrays of equal length) that passes the condition.

    iterators: name, its offset, the array.
    """

    offset: int
    iterators: list[tuple[str, int, Expression]]
    condition: Expression | None
    value: Expression


@dataclass(slots=True)
class Subscript:
    """An item of an array, by its index."""

    offset: int
    operand: Expression
    index: Expression


@dataclass(slots=True)
class Range:
    """The items from begin to before end; None for an open end."""

    offset: int
    operand: Expression
    begin: Expression | None
    end: Expression | None


@dataclass(slots=True)
class Builtin:
    """A built-in function: length_of, range_of, shape_of, or the name of a type."""

    offset: int
    name: str
    operand: Expression


Expression: TypeAlias = (
    Literal | Name | Items | Invocation | Unary | Chain | Select | Comprehension | Subscript | Range | Builtin
)


@dataclass(slots=True)
class Assignment:
    """An assignment left = right; the left side is made of Name and Items."""

    offset: int
    left: Expression
    right: Expression


@dataclass(slots=True)
class Parameter:
    """A parameter or result of a fragment; `default` is None if there is none."""

    name: str
    type: Type
    default: Literal | None = None
    offset: int = 0
    values: tuple[str, ...] = ()
    """The allowed values of a string parameter that names one of a few methods."""


@dataclass(slots=True)
class Fragment:
    """The declaration of an operation, with or without a body.

    generic: None, or for a generic operation the default of `?` ("" without one).
    checked: whether its body has been checked.
    """

    name: str
    parameters: list[Parameter]
    results: list[Parameter]
    generic: str | None = None
    body: list[Assignment] | None = None
    source: Source | None = None
    offset: int = 0
    end: int = 0
    """Offset of the brace that closes the body."""
    checked: bool = False


@dataclass(slots=True)
class Graph:
    """The graph: its parameters and results are names with their offsets."""

    name: str
    offset: int
    parameters: list[tuple[str, int]]
    results: list[tuple[str, int]]
    body: list[Assignment]
    end: int


@dataclass(slots=True)
class Parsed:
    """A document after parsing."""

    source: Source
    is_provisional: bool
    has_expressions: bool
    fragments: list[Fragment]
    graph: Graph
    warnings: list[str]


def names_of(left: Expression) -> list[Name]:
    """Return the identifiers of a left side."""
    if isinstance(left, Name):
        return [left]
    assert isinstance(left, Items)
    return [name for item in left.items for name in names_of(item)]


def gathered(offset: int, items: list[Expression], is_tuple: bool) -> Expression:
    """Return an array or tuple expression; a single literal if all items are literals of compatible types."""
    literals = [item for item in items if isinstance(item, Literal)]
    if len(literals) != len(items):
        return Items(offset, items, is_tuple)
    if is_tuple:
        return Literal(
            offset, tuple(item.value for item in literals), Tuple(tuple(item.type for item in literals))
        )
    kinds: list[Type] = list(dict.fromkeys(item.type for item in literals))
    kind = common_of(kinds)
    if kind is None and kinds:
        return Items(offset, items, is_tuple)
    return Literal(offset, [item.value for item in literals], Array(kind))
