"""Properties of a context: `KEY=VALUE;KEY=VALUE;`, with environment variables as the second source."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

from npusim.frontends.nnadapter.nnadapter_errors import InvalidParameter, said
from npusim.isa.base.errors import NpusimError
from npusim.isa.base.nearest import nearest
from npusim.isa.base.plain_values import printable
from npusim.nnadapter.hal.driver import Parser


class PropertyWarning(UserWarning):
    """A property that no device of the context knows, or that is said twice."""


def parse(text: object) -> dict[str, str]:
    """The properties of a string. The last section may end with ";".

    Raises InvalidParameter for a section that is no KEY=VALUE.
    """
    if text is None:
        return {}
    if not isinstance(text, str):
        raise InvalidParameter(f"properties: is {said(text)}, must be a text such as KEY=VALUE;KEY=VALUE")
    sections = text.split(";")
    if not sections[-1].strip():
        sections.pop()
    found: dict[str, str] = {}
    for section in sections:
        parts = [part.strip() for part in section.split("=")]
        if len(parts) != 2 or not all(parts):
            raise InvalidParameter(f"properties: section {printable(section)!r} must be KEY=VALUE")
        key, value = parts
        if found.get(key, value) != value:
            warnings.warn(
                PropertyWarning(f"properties: {key} is said twice; {value} is taken, not {found[key]}"),
                stacklevel=3,
            )
        found[key] = value
    return found


def values(keys: Mapping[str, Parser], said: Mapping[str, str]) -> dict[str, Any]:
    """The values of keys that the properties or else the environment say.

    Raises InvalidParameter for one that its parser refuses.
    """
    found = {}
    for key, parser in keys.items():
        text, source = said.get(key), "properties"
        if text is None:
            text, source = os.environ.get(key), "environment"
        if not text:
            continue
        try:
            found[key] = parser(text)
        except (ValueError, TypeError, NpusimError) as fault:
            raise InvalidParameter(f"{source}: {key} is {printable(text)!r}: {fault}") from None
    return found


def settled(keys: Iterable[str], said: Mapping[str, str]) -> str:
    """All that properties say, and what the environment says of other keys, as one text in the order of the keys."""
    texts = {key: os.environ.get(key, "") for key in keys} | dict(said)
    return "".join(f"{key}={text};" for key, text in sorted(texts.items()) if text)


def warn_of_unknown(said: Mapping[str, str], known: Iterable[str]) -> None:
    """A PropertyWarning for each key that nobody knows, with the nearest that somebody does."""
    known = sorted(set(known))
    for key in said:
        if key not in known:
            near = nearest(key, known)
            hint = f"did you mean {near}?" if near else f"they know {', '.join(known) or 'none'}"
            text = f"properties: {printable(key)}: no device of the context knows this key; {hint}"
            warnings.warn(PropertyWarning(text), stacklevel=4)


def truth(text: str) -> bool:
    """A property that is true or false: "false" and "0" are false, anything else is true."""
    return text not in ("false", "0")


def above_zero(text: str) -> int:
    """A property that is a whole number above 0. Raises ValueError."""
    number = int(text)
    if number < 1:
        raise ValueError("must be 1 or more")
    return number
