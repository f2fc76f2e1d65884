"""The inputs of a node by the names of its row, and the kinds of its attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from npusim.frontends.forms.networks import Node
from npusim.frontends.forms.signatures import arguments, dealt

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


def inputs_by_name(node: Node, text: str) -> dict[str, Sequence[str]]:
    """Return the values of a node by the names of its row. Raises GraphError if there are too many or too few."""
    slots = arguments(text)
    if node.slots:
        return {slot.name: node.slots.get(slot.name, ()) for slot in slots}
    least = sum(not slot.optional and slot.repeats != "*" for slot in slots)
    return {slot.name: names for slot, names in dealt(slots, node.inputs, least, node.fault, text)}
