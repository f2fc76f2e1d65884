"""Reading of TOML files that a user wrote, and messages that report all their faults in one line."""

from __future__ import annotations

import json
import re
import tomllib
from bisect import bisect_right
from collections.abc import Mapping
from itertools import accumulate
from pathlib import Path
from typing import Any

from npusim.isa.base import user_file
from npusim.isa.base.errors import NpusimError, replaced

MOST_CHARACTERS_LISTED = 320
LONGEST_VALUE = 40


def read(path: Path, shown: str, kind: user_file.Kind, fault: type[NpusimError]) -> dict[str, Any]:
    """Read a TOML file and return its plain values. Raises `fault`.

    shown: name of the file in messages.
    kind:  what the file should be.
    """
    text = user_file.text(path, kind, fault, shown)
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise fault(f"{shown}: nested too deeply") from None
    except ValueError as error:
        # tomllib.TOMLDecodeError, or ValueError itself for an integer of thousands of digits.
        match = re.match(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)$", str(error))
        if match is None:
            raise fault(f"{shown}: not valid TOML: {error}") from None
        position = f"line {match[2]}, column {match[3]}" if match[2] else "end of file"
        raise fault(f"{shown}: {position}: not valid TOML: {match[1]}") from None


def merged(base: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Merge `values` over `base`, table by table; in lists, tables with the same name are merged."""
    result = dict(base)
    for key, item in values.items():
        result[key] = _merged_value(result.get(key), item)
    return result


def _merged_value(base: Any, value: Any) -> Any:
    """Return a value, merged over that of the base if both are tables or lists of named tables."""
    if isinstance(base, dict) and isinstance(value, dict):
        return merged(base, value)
    if not (isinstance(base, list) and isinstance(value, list)):
        return value
    if not all(isinstance(table, dict) and isinstance(table.get("name"), str) for table in (*base, *value)):
        return value
    by_name = {table["name"]: table for table in base}
    if len({table["name"] for table in value}) < len(value):
        return [*base, *value]  # keep duplicates for the later check of names
    for table in value:
        by_name[table["name"]] = merged(by_name.get(table["name"], {}), table)
    return list(by_name.values())


def listed(faults: Mapping[str, str]) -> str:
    """Join all faults in one line, sorted by path; the rest of a long list is only counted."""
    lines = [f"{printable(path)}: {text}" for path, text in sorted(faults.items())]
    count = max(bisect_right(list(accumulate(map(len, lines))), MOST_CHARACTERS_LISTED), 1)
    more = len(lines) - count
    shown = lines[:count] + ([f"and {more} more"] if more > 0 else [])
    return f"{len(lines)} fault{'s' if len(lines) > 1 else ''}: {'; '.join(shown)}"


def short(value: object) -> str:
    """Return a value in JSON form, shortened."""
    return printable(json.dumps(value, ensure_ascii=False, default=str))


def printable(text: str) -> str:
    """Return a user's text on one line, shortened."""
    return replaced(text, LONGEST_VALUE)
