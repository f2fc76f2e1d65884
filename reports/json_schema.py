"""The JSON Schema of the documents that npusim writes, and docs/json.md: both from `npusim.reports.words.json_keys`."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from npusim.isa.base.fields import Field, Section
from npusim.isa.hardware.hardware import Hardware
from npusim.reports.words.json_keys import DOCUMENTS, PARTS, Document
from npusim.reports.words.quantities import markdown

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema(document: str = "", *, closed: bool = False) -> dict[str, Any]:
    """Return the JSON Schema of one document, or of any of them.

    closed: forbid keys that no row names; by default they are allowed, because later versions of npusim may add keys.
    """
    named = {**DOCUMENTS, **PARTS}
    parts = {name: _object(part, closed) for name, part in named.items()} | {
        "hardware": _hardware(Hardware, closed)
    }
    wanted = [document] if document else list(DOCUMENTS)
    return {"$schema": DIALECT, "anyOf": [_reference(name) for name in wanted], "$defs": parts}


def _hardware(table: type[Section], closed: bool) -> dict[str, Any]:
    """Return the schema of a complete table of a hardware in a run: every key is present, null if it is unset."""
    properties = {name: _value(field, closed) for name, field in table.model_fields.items()}
    return {
        "description": inspect.getdoc(table),
        "properties": properties,
        "type": "object",
        "additionalProperties": not closed,
        "required": list(properties),
    }


def _value(field: Field, closed: bool) -> dict[str, Any]:
    """Return the schema of the values of a field."""
    described = {"description": field.description} if field.description else {}
    if field.optional:
        return {"anyOf": [_plain(field, closed), {"type": "null"}]} | described
    return described | _plain(field, closed)


def _plain(field: Field, closed: bool) -> dict[str, Any]:
    if field.item is not None:
        return {"items": _plain(field.item, closed), "type": "array"}
    if field.table is not None:
        return _hardware(field.table, closed)
    choices = field.choices
    named = {"const": choices[0]} if len(choices) == 1 else {"enum": list(choices)} if choices else {}
    return named | {"type": field.json}


def _reference(name: str) -> dict[str, str]:
    return {"$ref": f"#/$defs/{name}"}


def _object(document: Document, closed: bool) -> dict[str, Any]:
    """Build the schema of an object from the rows of its keys."""
    top: dict[str, Any] = {}
    for key in document.keys:
        place = top
        *parents, last = key.path.split(".")
        for name in parents:
            place = _child(place, name, closed)
        leaf = _child(place, last, closed)
        leaf |= _type(key.type)
        leaf["description"] = key.meaning + (f" Unit: {key.unit}." if key.unit else "")
    return top


def _child(place: dict[str, Any], name: str, closed: bool) -> dict[str, Any]:
    """Return the schema of a key of an object, added if it is missing; for a list, the schema of its items."""
    place.setdefault("type", "object")
    optional, lists = "?" in name, name.count("[]")
    name = name.replace("?", "").replace("[]", "")
    if name == "*":
        child: dict[str, Any] = place.setdefault("additionalProperties", {})
    else:
        place.setdefault("additionalProperties", not closed)
        required = place.setdefault("required", [])
        if not optional and name not in required:
            required.append(name)
        child = place.setdefault("properties", {}).setdefault(name, {})
    for _ in range(lists):
        child["type"] = "array"
        child = child.setdefault("items", {})
    return child


def _type(words: str) -> dict[str, Any]:
    """Parse a row's type into a schema: "number?", "@layer", "@run or @fault", "list of @lever?"."""
    nullable = words.endswith("?")
    if words.startswith("list of "):
        return {
            "type": ["array", "null"] if nullable else "array",
            "items": _type(words[8:].removesuffix("?")),
        }
    kinds = words.removesuffix("?").split(" or ")
    schemas = [
        _reference(kind[1:]) if kind[0] == "@" else {} if kind == "any" else {"type": kind} for kind in kinds
    ]
    schemas += [{"type": "null"}] if nullable and {} not in schemas else []
    return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}


# docs/json.md


def page() -> str:
    """Return the reference of all documents and their parts in Markdown."""
    lines = [_INTRODUCTION]
    for name, document in DOCUMENTS.items():
        lines += [f"## {name}", "", f"Written by {document.written_by}.", "", *_table(document)]
    lines += ["# Parts of documents", "", "`hardware` holds every key of [hardware.md](hardware.md).", ""]
    for name, part in PARTS.items():
        lines += [f"## {name}", "", f"Part of: {part.written_by}.", "", *_table(part)]
    return "\n".join(lines)


def _table(document: Document) -> Iterator[str]:
    rows = [(f"`{key.path}`", _linked(key.type), key.unit, key.meaning) for key in document.keys]
    yield from markdown(("key", "type", "unit", "meaning"), rows)
    yield ""


def _linked(words: str) -> str:
    nullable = words.endswith("?")
    if words.startswith("list of "):
        return f"list of {_linked(words[8:])}"
    kinds = [
        f"[{kind[1:]}](#{kind[1:]})" if kind[0] == "@" and kind != "@hardware" else kind.removeprefix("@")
        for kind in words.removesuffix("?").split(" or ")
    ]
    return " or ".join([*kinds, *(["null"] if nullable else [])])


_INTRODUCTION = """\
# JSON that npusim writes

<!-- Written by docs/generate.py from reports/words/json_keys.py. Change that, then `make docs`. -->

`npusim schema` prints a JSON Schema (draft 2020-12) of all documents, which [npusim.schema.json](npusim.schema.json)
holds too; `npusim schema run` prints that of one. `a.b` is a key of an object, `a[]` the items of a list, `*` any key,
and `a?` a key that may be absent. Equal runs have equal values but for `wall_s`. Versions of npusim may add keys; a key
that goes or changes its meaning is in the upgrade notes of [CHANGELOG.md](../CHANGELOG.md).
"""
