"""Signatures of operations as rows of text.

    input filter bias auto_pad:i=0 pads:I? strides:I=(1,1) fuse_code:i=0 > output=input

An argument `name` is a tensor, and `name:s` a tensor of which only the sizes matter. Other types are parameters, whose
value must be known when the model is built: i an integer, f a float, b a boolean, I and F lists of these, or v any
number. `?` marks an argument that may be omitted, `=` its default in the methods of `Model`, `+` one or more arguments.
A result `name=input` has the precision of that argument, `name:PRECISION` always that precision, `name@argument` the
precision whose number that parameter holds, and `name` alone the precision of its operand. A result `name?(flag)` only
exists if that parameter is true.
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
    """How an output of an operation gets its precision.

    like:      the argument whose precision it has.
    precision: its precision if it is always the same.
    named_by:  the parameter that holds the number of its precision.
    asked_by:  the parameter that is true if the output exists.
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
