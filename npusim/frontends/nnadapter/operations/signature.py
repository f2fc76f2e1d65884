"""Signatures of operations as rows of text.

    input filter bias auto_pad:i=0 pads:I? strides:I=(1,1) fuse_code:i=0 > output=input

An argument `name` is a tensor, `name:s` one of which only the sizes matter; other kinds are parameters, whose value
must be known when the model is built: i a whole number, f a real one, b a truth, I and F lists of them, or v a number
of any kind. `?` says that it may be omitted, `=` what the methods of `Model` take where it is not given, `+` that there
are one or more. A result `name=input` has the precision of that argument, `name:PRECISION` always that one,
`name@argument` the one that a parameter says by its number, and `name` alone the one that its operand has. A result
`name?(flag)` is there where that parameter is true.
"""

from __future__ import annotations

import re
from ast import literal_eval
from functools import cache
from typing import Any, NamedTuple

from npusim.frontends.nnadapter.codes import Precision

_ARGUMENT = re.compile(r"(?P<name>\w+?)(?::(?P<kind>[ifbvsIF]))?(?P<marks>[?+]*)(?:=(?P<default>\S+))?")
_RESULT = re.compile(r"(?P<name>\w+?)(?P<marks>[?+]*)(?:\((?P<flag>\w+)\))?(?:(?P<how>[=:@])(?P<of>\w+))?")

NOTHING: Any = object()
"""The default of an argument that must be given."""


class Argument(NamedTuple):
    """An input of an operation; `kind` is "" for a tensor, "s" for one of which only the sizes matter."""

    name: str
    kind: str = ""
    optional: bool = False
    repeats: bool = False
    default: Any = NOTHING


class Outcome(NamedTuple):
    """An output of an operation.

    like:      the argument whose precision it has.
    precision: the one it always has.
    named_by:  the parameter that says its precision.
    asked_by:  the parameter that says whether it is there.
    """

    name: str
    optional: bool = False
    repeats: bool = False
    like: str = ""
    precision: Precision | None = None
    named_by: str = ""
    asked_by: str = ""


class Signature(NamedTuple):
    """The inputs and outputs of an operation, in the order of its definition."""

    inputs: tuple[Argument, ...]
    outputs: tuple[Outcome, ...]

    @property
    def repeated(self) -> int | None:
        """The place of the input of which there are several; None where each is there once."""
        return next((place for place, argument in enumerate(self.inputs) if argument.repeats), None)


@cache
def signature(text: str) -> Signature:
    """The signature that a row of text says."""
    inputs, _, outputs = text.partition(">")
    return Signature(
        tuple(_argument(word) for word in inputs.split()), tuple(_outcome(word) for word in outputs.split())
    )


def _argument(word: str) -> Argument:
    parts = _ARGUMENT.fullmatch(word)
    if parts is None:
        raise ValueError(f"{word!r} is no argument of a signature")
    default = parts["default"]
    return Argument(
        parts["name"],
        parts["kind"] or "",
        "?" in parts["marks"],
        "+" in parts["marks"],
        NOTHING if default is None else literal_eval(default),
    )


def _outcome(word: str) -> Outcome:
    parts = _RESULT.fullmatch(word)
    if parts is None:
        raise ValueError(f"{word!r} is no result of a signature")
    how, of = parts["how"], parts["of"]
    return Outcome(
        parts["name"],
        "?" in parts["marks"],
        "+" in parts["marks"],
        of if how == "=" else "",
        Precision[of] if how == ":" else None,
        of if how == "@" else "",
        parts["flag"] or "",
    )
