"""JSON documents beside the schema that docs/json.md comes from, with every key accounted for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from npusim.reports.json_schema import schema

jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed: pip install '.[dev]'")
Draft202012Validator = jsonschema.Draft202012Validator


def faults(document: str, value: object) -> list[str]:
    """List where a document departs from its schema; a key that no row names is a fault too."""
    validator = Draft202012Validator(schema(document, closed=True))
    return [f"{fault.json_path}: {fault.message[:200]}" for fault in _innermost(validator.iter_errors(value))]


def _innermost(errors: Iterable[jsonschema.ValidationError]) -> Iterator[jsonschema.ValidationError]:
    """Yield the faults inside the branches of a union: "is not valid under any" tells nobody what is wrong."""
    for error in errors:
        yield from _innermost(error.context) if error.context else [error]
