"""The grammar of the signatures in all tables of operations, and the assignment of a call's operands to them.

A word `name:kind` is an argument; a name alone is a tensor. Behind the name or its kind, `?` marks an argument that may
be omitted, `+` one or more arguments, `*` any number, and `=` the value in a call without it. Each format says which
kinds it has.
"""

from __future__ import annotations

import re
from ast import literal_eval
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeVar

_WORD = re.compile(r"(?P<name>\w+)(?::(?P<kind>\w+))?(?P<marks>[?+*]*)(?:=(?P<default>\S+))?")

Operand = TypeVar("Operand")


class Argument(NamedTuple):
    """An argument of a signature.

    kind:    "" for a tensor of any type.
    repeats: "" for one argument, "+" for one or more, "*" for any number.
    default: its value in a call with fewer arguments; None if there is none.
    """

    name: str
    kind: str = ""
    optional: bool = False
    repeats: str = ""
    default: Any = None


@cache
def arguments(text: str) -> tuple[Argument, ...]:
    """Parse a signature, such as "X scale? rest*", into its arguments. Raises ValueError for an invalid word."""
    return tuple(map(_argument, text.split()))


def _argument(word: str) -> Argument:
    parts = _WORD.fullmatch(word)
    if parts is None:
        raise ValueError(f"{word!r} is no argument of a signature")
    marks, default = parts["marks"], parts["default"]
    value = None if default is None else literal_eval(default)
    return Argument(parts["name"], parts["kind"] or "", "?" in marks, marks.strip("?"), value)


def dealt(
    slots: Sequence[Any],
    operands: Sequence[Operand],
    least: int,
    fault: Callable[[str], Exception],
    names: str,
    what: str = "inputs",
) -> Iterator[tuple[Any, Sequence[Operand]]]:
    """Assign operands to arguments or results in order; yield each with its operands. A repeated one takes the surplus.

    slots: arguments or results, which have the field `repeats`. Those behind the last operand get none.
    least: the least number of operands.
    fault: makes the front end's error, which is raised for a wrong number.
    names: the arguments or results, for that error.
    """
    count, repeats = len(operands), any(slot.repeats for slot in slots)
    if count < least or (count > len(slots) and not repeats):
        may = f"{least} or more" if repeats else f"{least} to {len(slots)}" if least < len(slots) else least
        raise fault(f"has {count} {what}, must have {may}: {names}")
    begin = 0
    for slot in slots:
        end = begin + (max(count - len(slots) + 1, 0) if slot.repeats else 1)
        yield slot, operands[begin:end]
        begin = end
