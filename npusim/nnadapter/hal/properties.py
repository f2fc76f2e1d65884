"""Properties of a context, `KEY=VALUE;KEY=VALUE;`; environment variables supply keys that are not in the text."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

from npusim.frontends.nnadapter.nnadapter_codes import InvalidParameter, text_of
from npusim.isa.base.errors import NpusimError, nearest
from npusim.isa.base.plain_values import printable
from npusim.nnadapter.hal.driver import Parser


class PropertyWarning(UserWarning):
    """A property that no device of the context knows, or that is set twice."""


def parse(text: object) -> dict[str, str]:
    """Parse a text of properties, which may end with ";".

    Raises InvalidParameter for a section that is not KEY=VALUE.
    """
    if text is None:
        return {}
    if not isinstance(text, str):
        raise InvalidParameter(f"properties: is {text_of(text)}, must be a text such as KEY=VALUE;KEY=VALUE")
    sections = text.split(";")
    if not sections[-1].strip():
        sections.pop()
    pairs: dict[str, str] = {}
    for section in sections:
        parts = [part.strip() for part in section.split("=")]
        if len(parts) != 2 or not all(parts):
            raise InvalidParameter(f"properties: section {printable(section)!r} must be KEY=VALUE")
        key, value = parts
        if pairs.get(key, value) != value:
            warnings.warn(
                PropertyWarning(f"properties: {key} is said twice; {value} is taken, not {pairs[key]}"),
                stacklevel=3,
            )
        pairs[key] = value
    return pairs


def values(keys: Mapping[str, Parser], stated: Mapping[str, str]) -> dict[str, Any]:
    """Return the parsed values of keys, from the properties or else the environment.

    Raises InvalidParameter for a value that its parser refuses.
    """
    parsed = {}
    for key, parser in keys.items():
        text, source = stated.get(key), "properties"
        if text is None:
            text, source = os.environ.get(key), "environment"
        if not text:
            continue
        try:
            parsed[key] = parser(text)
        except (ValueError, TypeError, NpusimError) as fault:
            raise InvalidParameter(f"{source}: {key} is {printable(text)!r}: {fault}") from None
    return parsed


def settled(keys: Iterable[str], stated: Mapping[str, str]) -> str:
    """Return the properties and the environment's values of other keys as one text, sorted by key."""
    texts = {key: os.environ.get(key, "") for key in keys} | dict(stated)
    return "".join(f"{key}={text};" for key, text in sorted(texts.items()) if text)


def warn_of_unknown(stated: Mapping[str, str], known: Iterable[str]) -> None:
    """Issue a PropertyWarning for each unknown key, with the most similar known one."""
    known = sorted(set(known))
    for key in stated:
        if key not in known:
            near = nearest(key, known)
            hint = f"did you mean {near}?" if near else f"they know {', '.join(known) or 'none'}"
            text = f"properties: {printable(key)}: no device of the context knows this key; {hint}"
            warnings.warn(PropertyWarning(text), stacklevel=4)


def above_zero(text: str) -> int:
    """Parse a property that is an integer above 0. Raises ValueError."""
    number = int(text)
    if number < 1:
        raise ValueError("must be 1 or more")
    return number
