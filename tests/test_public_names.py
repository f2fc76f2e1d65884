"""Whatever 0.2.0 offered still exists: Python names, parameters and fields, commands, options, and JSON keys.

`public_names.txt` holds the names at commit 052cc23a, one a line. `python -m tests.test_public_names` prints the names
of the sources as they are; to let go of a name is a decision that removes its line.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.core import TyperGroup

from npusim.cli.typer_app import app
from npusim.reports.words.json_keys import DOCUMENTS, PARTS

MODULES = (
    "npusim",
    "npusim.explore",
    "npusim.hal",
    "npusim.litert",
    "npusim.nnadapter",
    "npusim.nnadapter.c",
)
"""The modules whose `__all__` is public."""

LIST = Path(__file__).with_name("public_names.txt")


def python_names() -> Iterator[str]:
    """Yield every public function with its parameters, and every public class with its members."""
    for module in MODULES:
        for name in import_module(module).__all__:
            value = getattr(import_module(module), name)
            yield f"python {module}.{name}"
            if isinstance(value, type):
                yield from (f"python {module}.{name}.{member}" for member in _members(value))
            elif callable(value):
                yield from (f"python {module}.{name} {given}" for given in _parameters(value))


def _members(value: type) -> set[str]:
    """Return the public methods, properties, fields and enumeration members of a class."""
    fields = (
        {each.name for each in dataclasses.fields(value)} if dataclasses.is_dataclass(value) else set[str]()
    )
    members = set(value.__members__) if issubclass(value, enum.Enum) else set[str]()
    own = {name for each in value.__mro__ if each.__module__.startswith("npusim") for name in vars(each)}
    return {name for name in fields | members | own if not name.startswith("_")}


def _parameters(function: Any) -> Iterator[str]:
    """Yield the parameters of a function: with their number if they may be given by position."""
    for number, each in enumerate(inspect.signature(function).parameters.values()):
        yield each.name if each.kind is each.KEYWORD_ONLY else f"{each.name} {number}"


def command_names() -> Iterator[str]:
    """Yield every command with each of its options and arguments."""
    root = typer.main.get_command(app)
    assert isinstance(root, TyperGroup)
    yield from (f"command {name}" for each in root.params for name in each.opts)
    context = root.make_context("npusim", ["hw", "list"])
    for name in root.list_commands(context):
        yield from _command(root.resolve_command(context, [name])[1], name)


def _command(command: Any, name: str) -> Iterator[str]:
    yield f"command {name}"
    for each in command.params:
        yield from (f"command {name} {word}" for word in [*each.opts, *each.secondary_opts])
    for below, inner in getattr(command, "commands", {}).items():
        yield from _command(inner, f"{name} {below}")


def json_names() -> Iterator[str]:
    """Yield every key of every JSON document, with its type."""
    for title, document in [*DOCUMENTS.items(), *PARTS.items()]:
        yield from (f"json {title}: {key.path} {key.type}" for key in document.keys)


KINDS = {"python": python_names, "command": command_names, "json": json_names}


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_that_was_public_is_gone(kind: str) -> None:
    known = {line for line in LIST.read_text("utf-8").splitlines() if line.startswith(kind)}
    there = set(KINDS[kind]())
    assert len(known) > 100
    assert sorted(known - there) == []


if __name__ == "__main__":
    print("\n".join(sorted({line for names in KINDS.values() for line in names()})))
