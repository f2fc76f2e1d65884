"""How the parameters of an operator are written as arguments of NN HAL, for its reader and its writer.

A parameter is one argument, a number that stands for its value, or several arguments if it is a tuple:

    {"adj_x": "adj_first", "mode": Choice("mode", {0: "reflect", 1: "symmetric"}), "size": ("height", "width")}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from npusim.isa.base.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Choice:
    """An argument that numbers the values of a parameter, such as 0 for "reflect" and 1 for "symmetric"."""

    argument: str
    values: Mapping[int, str]


Words = str | Choice | tuple["Words", ...]
"""The argument that says a parameter, or a tuple of these for a parameter that is a tuple."""


def arguments_from(words: Words, value: Any) -> dict[str, Any]:
    """Return the arguments that say a value of a parameter, the reverse of reading them."""
    if isinstance(words, str):
        return {words: value}
    if isinstance(words, Choice):
        numbers = {name: number for number, name in words.values.items()}
        return {words.argument: numbers[value]}
    parts = [arguments_from(word, part) for word, part in zip(words, value, strict=True)]
    return {name: argument for part in parts for name, argument in part.items()}


def arguments_of(words: Words) -> Iterator[str]:
    """Yield the names of the arguments that say a parameter."""
    if isinstance(words, str):
        yield words
    elif isinstance(words, Choice):
        yield words.argument
    else:
        for word in words:
            yield from arguments_of(word)
