"""Plain JSON values: codecs that check each type, JSON text that all parsers read alike, and values in messages."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from itertools import pairwise
from math import inf, isfinite
from numbers import Integral, Real
from typing import Any, NamedTuple

from npusim.isa.base.errors import ProgramError, replaced

LARGEST_INTEGER = (1 << 48) - 1
"""The largest integer: above any memory size or operator's work, yet times and sums of it fit 64 bits."""
DEEPEST_VALUE = 16
"""Maximum nesting of lists and tables in a free value (the parameters of a host call)."""
LONGEST_SHOWN = 40


class Misfit(Exception):
    """An error for a value that its field does not allow; callers extend `path` from the inside out."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text
        self.path: list[str] = []

    def below(self, key: object) -> Misfit:
        """Prepend a key to the path of the fault and return the fault."""
        self.path.insert(0, f"[{key}]" if isinstance(key, int) else f".{printable(str(key))}")
        return self

    @property
    def located(self) -> str:
        """Return the path and the text as one message."""
        path = "".join(self.path).removeprefix(".")
        return f"{path}: {self.text}" if path else self.text


class Codec(NamedTuple):
    """The two directions of a type annotation: value to plain JSON value, and checked plain value to value."""

    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


class Between(NamedTuple):
    """The smallest and largest allowed number of a field: `Annotated[int, Between(1, 255)]`."""

    least: float
    most: float = inf

    def __str__(self) -> str:
        return f"from {self.least} on" if self.most == inf else f"from {self.least} to {self.most}"


def printable(text: str) -> str:
    """Return text from outside in the form for messages: on one line, shortened."""
    return replaced(text, LONGEST_SHOWN)


def shown(value: object) -> str:
    """Return a value in the form for messages: as JSON, shortened."""
    if isinstance(value, str):
        return f'"{printable(value)}"'
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, dict | list):
        return "a table" if isinstance(value, dict) else f"a list of {len(value)}"
    if isinstance(value, int) and abs(value) > 1 << 128:
        return "a very large number"  # Python refuses to print integers of thousands of digits
    return printable(str(value))


def at(key: object, function: Callable[[Any], Any], value: Any) -> Any:
    """Apply `function` to a value; a Misfit it raises gets `key` in its path."""
    try:
        return function(value)
    except Misfit as fault:
        raise fault.below(key) from None


def unchanged(value: Any) -> Any:
    """Return the value unchanged, for types that are plain JSON already."""
    return value


def one_of(choices: tuple[Any, ...]) -> Callable[[Any], Any]:
    """Return a reader for a text that must be one of `choices`."""

    def read(value: Any) -> Any:
        if type(value) is str and value in choices:
            return value
        raise Misfit(f"{shown(value)} is not one of {', '.join(map(str, choices))}")

    return read


def write_integer(value: Any) -> int:
    """Convert an integer of Python or numpy; raises Misfit for anything else."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise Misfit(f"{shown(value)} is not a whole number")
    return int(value)


def read_integer(value: Any) -> int:
    """Check a size, count, address or index."""
    if type(value) is not int or not 0 <= value <= LARGEST_INTEGER:
        raise Misfit(f"{shown(value)} is not a whole number from 0 to 2^48 - 1")
    return value


def read_signed(value: Any) -> int:
    """Check an integer that may be negative."""
    if type(value) is not int or not -LARGEST_INTEGER <= value <= LARGEST_INTEGER:
        raise Misfit(f"{shown(value)} is not a whole number of 48 bits")
    return value


def write_number(value: Any) -> float:
    """Convert a floating-point number or integer of Python or numpy; raises Misfit for anything else."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise Misfit(f"{shown(value)} is not a number")
    return float(value)


def read_number(value: Any) -> float:
    """Check a finite number and return it as a float."""
    if type(value) is int and abs(value) <= LARGEST_INTEGER:
        return float(value)
    if type(value) is not float or not isfinite(value):
        raise Misfit(f"{shown(value)} is not a finite number")
    return value


def write_either_number(value: Any) -> int | float:
    """Convert a number of Python or numpy; integers stay integers."""
    return write_integer(value) if isinstance(value, Integral) else write_number(value)


def read_either_number(value: Any) -> int | float:
    """Check an integer of 64 bits or a finite float.

    Elements of integer tensors may take the whole range of 64 bits.
    """
    if type(value) is int:
        _require_plain(value, 0)
        return value
    return read_number(value)


def read_string(value: Any) -> str:
    """Check a text that can be encoded as UTF-8."""
    if type(value) is not str:
        raise Misfit(f"{shown(value)} is not text")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise Misfit(f"{shown(value)} holds half of a surrogate pair, which is no text") from None
    return value


def read_truth(value: Any) -> bool:
    """Check that a value is true or false."""
    if type(value) is not bool:
        raise Misfit(f"{shown(value)} is not true or false")
    return value


def write_table(value: Any) -> Any:
    """Convert the numpy numbers in a free table to plain numbers; `read_table` checks the rest."""
    if isinstance(value, Mapping):
        return {key: at(key, write_table, item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [at(index, write_table, item) for index, item in enumerate(value)]
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value)
    raise Misfit(f"a {type(value).__name__} is not a JSON value")


def read_table(value: Any) -> dict[str, Any]:
    """Check a free table of plain values."""
    if not isinstance(value, dict):
        raise Misfit(f"{shown(value)} is not a table")
    _require_plain(value, DEEPEST_VALUE)
    return value


def _require_plain(value: Any, levels: int) -> None:
    """Raise Misfit unless `value` is plain JSON with at most `levels` nested levels and finite numbers."""
    if isinstance(value, dict | list):
        if not levels:
            raise Misfit(f"lists and tables lie in each other more than {DEEPEST_VALUE} levels deep")
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(value, dict):
                read_string(key)
            try:
                _require_plain(item, levels - 1)
            except Misfit as fault:
                raise fault.below(key) from None
    elif isinstance(value, str):
        read_string(value)
    elif isinstance(value, float):
        read_number(value)
    elif isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:  # the range of int64 tensor elements
        raise Misfit(f"{shown(value)} is not a whole number of 64 bits")
    elif value is not None and not isinstance(value, int):
        raise Misfit(f"a {type(value).__name__} is not a JSON value")


def limited(inner: Codec, limits: Between, whole: bool) -> Codec:
    """Return a codec for numbers within limits; `whole` allows integers only, negative ones if the limits do."""
    kind = "whole number" if whole else "number"

    def read(value: Any) -> Any:
        if whole and type(value) is not int:
            raise Misfit(f"{shown(value)} is not a whole number")
        number = value if whole else read_number(value)
        if not limits.least <= number <= limits.most:
            raise Misfit(f"{shown(value)} is not a {kind} {limits}")
        return number

    return Codec(inner.write, read)


def to_json(value: object, *, readable: bool = False) -> str:
    """Return the JSON text of a plain value, ASCII on one line.

    Unless `readable`, this is the canonical text: sorted keys, no spaces, shortest exact numbers.
    """
    if readable:
        return json.dumps(value, allow_nan=False)
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def from_json(text: str) -> Any:
    """Parse a whole JSON text. Raises ProgramError."""
    value, end = read_json(text, len(text) - len(text.lstrip()))
    if text[end:].strip():
        raise ProgramError(f"not valid JSON: {shown(text[end:])} stands behind its end")
    return value


def read_json(text: str, start: int) -> tuple[Any, int]:
    """Parse the JSON value that begins at `start`; return it and the position behind it. Raises ProgramError."""
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
    """Return a JSON object, after a check that no key occurs twice."""
    table = dict(pairs)
    if len(table) != len(pairs):
        keys = sorted(key for key, _ in pairs)
        twice = next(key for key, following in pairwise(keys) if key == following)
        raise ProgramError(f"{shown(twice)} stands twice in one table")
    return table


_DECODER = json.JSONDecoder(parse_constant=_no_constant, object_pairs_hook=_object)
