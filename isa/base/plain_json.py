"""JSON as programs hold it: one text per value, and nothing read that two readers could take differently."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from npusim.isa.base.errors import ProgramError
from npusim.isa.base.plain_values import shown


def to_json(value: object, *, readable: bool = False) -> str:
    """The JSON text of a plain value, ASCII on one line.

    Not `readable`, it is the canonical text: keys sorted, no spaces, numbers as short as they are exact.
    """
    if readable:
        return json.dumps(value, allow_nan=False)
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def from_json(text: str) -> Any:
    """The value of a whole JSON text. Raises ProgramError."""
    value, end = read_json(text, len(text) - len(text.lstrip()))
    if text[end:].strip():
        raise ProgramError(f"not valid JSON: {shown(text[end:])} stands behind its end")
    return value


def read_json(text: str, start: int) -> tuple[Any, int]:
    """The JSON value that begins at `start`, and the position behind it. Raises ProgramError."""
    try:
        return _DECODER.raw_decode(text, start)
    except RecursionError:
        raise ProgramError("lists and tables lie in each other too deep") from None
    except json.JSONDecodeError as fault:
        raise ProgramError(f"not valid JSON: {fault.msg} at character {fault.pos}") from None
    except ValueError:  # Python refuses to read integers of thousands of digits
        raise ProgramError("not valid JSON: a number of thousands of digits") from None


def _no_constant(word: str) -> Any:
    raise ProgramError(f"{word} is not a number that a program may hold")


def _object(pairs: list[tuple[str, Any]]) -> Mapping[str, Any]:
    """A JSON object none of whose keys stands twice."""
    table = dict(pairs)
    if len(table) != len(pairs):
        keys = sorted(key for key, _ in pairs)
        twice = next(key for key, following in pairwise(keys) if key == following)
        raise ProgramError(f"{shown(twice)} stands twice in one table")
    return table


_DECODER = json.JSONDecoder(parse_constant=_no_constant, object_pairs_hook=_object)
