"""Plain JSON values: codecs that check each kind, JSON text that all readers read alike, and values in messages."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from itertools import pairwise
from math import inf, isfinite
from numbers import Integral, Real
from typing import Any, NamedTuple

from npusim.isa.base.errors import ProgramError, replaced

LARGEST_INTEGER = (1 << 48) - 1
"""More than any memory or any operator's work; times and sums of such numbers stay inside 64 bits."""
DEEPEST_VALUE = 16
"""Most levels of lists and tables in a free value (the parameters of a host call)."""
LONGEST_SHOWN = 40


class Misfit(Exception):
    """A value that is not what its place allows; `path` grows from the inside out."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text
        self.path: list[str] = []

    def below(self, key: object) -> Misfit:
        """The same fault seen from one level further out."""
        self.path.insert(0, f"[{key}]" if isinstance(key, int) else f".{printable(str(key))}")
        return self

    @property
    def located(self) -> str:
        """The path and the text."""
        path = "".join(self.path).removeprefix(".")
        return f"{path}: {self.text}" if path else self.text


class Codec(NamedTuple):
    """How values of one annotation become plain values, and how plain values are checked and taken back."""

    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


class Between(NamedTuple):
    """The least and the most that a number may be: `Annotated[int, Between(1, 255)]`."""

    least: float
    most: float = inf

    def __str__(self) -> str:
        return f"from {self.least} on" if self.most == inf else f"from {self.least} to {self.most}"


def printable(text: str) -> str:
    """Text from outside as messages show it: on one line, shortened."""
    return replaced(text, LONGEST_SHOWN)


def shown(value: object) -> str:
    """A value as messages show it: as it stands in JSON, shortened."""
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
    """Apply `function`, with `key` in the path of a fault."""
    try:
        return function(value)
    except Misfit as fault:
        raise fault.below(key) from None


def unchanged(value: Any) -> Any:
    """For kinds of values that are plain already."""
    return value


def one_of(choices: tuple[Any, ...]) -> Callable[[Any], Any]:
    """The reader of a text that is one of `choices`."""

    def read(value: Any) -> Any:
        if type(value) is str and value in choices:
            return value
        raise Misfit(f"{shown(value)} is not one of {', '.join(map(str, choices))}")

    return read


def write_integer(value: Any) -> int:
    """A whole number of Python or numpy; raises Misfit for anything else."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise Misfit(f"{shown(value)} is not a whole number")
    return int(value)


def read_integer(value: Any) -> int:
    """A size, count, address or index."""
    if type(value) is not int or not 0 <= value <= LARGEST_INTEGER:
        raise Misfit(f"{shown(value)} is not a whole number from 0 to 2^48 - 1")
    return value


def read_signed(value: Any) -> int:
    """A whole number that may be negative."""
    if type(value) is not int or not -LARGEST_INTEGER <= value <= LARGEST_INTEGER:
        raise Misfit(f"{shown(value)} is not a whole number of 48 bits")
    return value


def write_number(value: Any) -> float:
    """A real number of Python or numpy; raises Misfit for anything else."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise Misfit(f"{shown(value)} is not a number")
    return float(value)


def read_number(value: Any) -> float:
    """A finite real number."""
    if type(value) is int and abs(value) <= LARGEST_INTEGER:
        return float(value)
    if type(value) is not float or not isfinite(value):
        raise Misfit(f"{shown(value)} is not a finite number")
    return value


def write_either_number(value: Any) -> int | float:
    """A number of Python or numpy; a whole one stays whole."""
    return write_integer(value) if isinstance(value, Integral) else write_number(value)


def read_either_number(value: Any) -> int | float:
    """A whole number of 64 bits, which an element of a tensor may have all, or a finite real one."""
    if type(value) is int:
        _require_plain(value, 0)
        return value
    return read_number(value)


def read_string(value: Any) -> str:
    """Text that can be encoded."""
    if type(value) is not str:
        raise Misfit(f"{shown(value)} is not text")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise Misfit(f"{shown(value)} holds half of a surrogate pair, which is no text") from None
    return value


def read_truth(value: Any) -> bool:
    """True or false."""
    if type(value) is not bool:
        raise Misfit(f"{shown(value)} is not true or false")
    return value


def write_table(value: Any) -> Any:
    """A free table with the numbers of numpy made plain; everything else is judged by `read_table`."""
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
    """A free table of plain values."""
    if not isinstance(value, dict):
        raise Misfit(f"{shown(value)} is not a table")
    _require_plain(value, DEEPEST_VALUE)
    return value


def _require_plain(value: Any, levels: int) -> None:
    """Raise Misfit unless `value` is plain JSON of at most that many levels, its numbers finite."""
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
    elif (
        isinstance(value, int) and not -(1 << 63) <= value < 1 << 63
    ):  # an element of a tensor may have them all
        raise Misfit(f"{shown(value)} is not a whole number of 64 bits")
    elif value is not None and not isinstance(value, int):
        raise Misfit(f"a {type(value).__name__} is not a JSON value")


def limited(inner: Codec, limits: Between, whole: bool) -> Codec:
    """Numbers within limits; `whole` ones may be negative where the limits say so."""
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
