"""Operations of versions 7 to 10 in the words of version 11: what were attributes are inputs, and constants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from npusim.frontends.forms.network import STANDARD, Node
from npusim.isa.base.tensor import Array

ELEVEN = 11
"""The version in whose words rows read; they ask for it themselves where a default is another one."""


class _Attribute(NamedTuple):
    """An attribute that became an input, with the element type of that."""

    name: str
    dtype: str


_POSITIONS = tuple(_Attribute(name, "int64") for name in ("starts", "ends", "axes"))
_LIMITS = tuple(_Attribute(name, "float32") for name in ("min", "max"))

_BECAME_INPUTS: Mapping[str, tuple[int, tuple[_Attribute, ...]]] = {
    "Clip": (11, _LIMITS),
    "Pad": (11, (_Attribute("pads", "int64"), _Attribute("value", "float32"))),
    "Slice": (10, _POSITIONS),
    "TopK": (10, (_Attribute("k", "int64"),)),
    "Upsample": (9, (_Attribute("scales", "float32"),)),
}
"""By operation: before which version they were attributes, in the order of the inputs behind the first."""


def brought_forward(node: Node, version: int) -> tuple[Node, dict[str, Array]]:
    """A node of a version of 7 or more as one of version 11, and the constants that it reads then.

    Raises GraphError for what version 11 cannot say.
    """
    if node.domain != STANDARD or version >= ELEVEN:
        return node, {}
    if node.operation == "BatchNormalization" and version < 9 and not node.attributes.get("spatial", 1):
        raise node.fault("spatial is 0; npusim has one scale for each channel")
    if node.operation == "Scan" and version < 9:
        raise node.fault(f"of version {version} runs along batches; npusim has that of 9 or newer")
    if node.operation == "Resize" and version == 10:
        return replace(node, inputs=(*node.inputs[:1], "", *node.inputs[1:])), {}
    since, moved = _BECAME_INPUTS.get(node.operation, (0, ()))
    if version >= since:
        return node, {}
    stem = (*node.outputs, node.name)[0]
    names, constants = [], dict[str, Array]()
    for attribute in moved:
        value = node.attributes.get(attribute.name)
        names.append("" if value is None else f"{stem}/{attribute.name}")
        if value is not None:
            constants[names[-1]] = _array(node, attribute, value)
    rest = {
        name: value for name, value in node.attributes.items() if name not in {each.name for each in moved}
    }
    return replace(node, inputs=(*node.inputs, *names), attributes=rest), constants


def _array(node: Node, attribute: _Attribute, value: object) -> Array:
    try:
        array = np.array(value, attribute.dtype)
    except (TypeError, ValueError, OverflowError):
        raise node.fault(f"{attribute.name} is no list of numbers") from None
    return array.reshape(-1) if attribute.dtype == "int64" else array
