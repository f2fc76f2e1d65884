"""The inputs of a node by the names of its row, and the kinds of its attributes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from npusim.frontends.forms.networks import Node

KINDS: Mapping[type, str] = {
    int: "a whole number",
    float: "a number",
    str: "a text",
    tuple: "a list of numbers",
}
"""Names of the kinds of attributes, for messages."""


def is_kind(value: Any, kind: type) -> bool:
    """Return whether an attribute is of a kind of `KINDS`."""
    if kind is tuple:
        return isinstance(value, (list, tuple)) and all(isinstance(item, (int, float)) for item in value)
    return isinstance(value, (int, float) if kind is float else kind)


def shown(value: Any) -> str:
    """Return an attribute as messages show it, at most 60 characters."""
    text = repr(value)
    return text if len(text) < 60 else f"{text[:57]}..."


def dealt(node: Node, inputs: str) -> dict[str, tuple[str, ...]]:
    """Return the values of a node by the names of its row. Raises GraphError if there are too many or too few."""
    names = inputs.split()
    if node.slots:
        return {name.rstrip("?*"): node.slots.get(name.rstrip("?*"), ()) for name in names}
    least = sum(not name.endswith(("?", "*")) for name in names)
    several = bool(names) and names[-1].endswith("*")
    count = len(node.inputs)
    if count < least or (count > len(names) and not several):
        may = (
            f"{least} or more"
            if several
            else f"{least} to {len(names)}"
            if least < len(names)
            else str(least)
        )
        raise node.fault(f"has {count} inputs, must have {may}: {' '.join(names)}")
    found = {}
    for place, name in enumerate(names):
        found[name.rstrip("?*")] = (
            node.inputs[place:] if name.endswith("*") else node.inputs[place : place + 1]
        )
    return found
