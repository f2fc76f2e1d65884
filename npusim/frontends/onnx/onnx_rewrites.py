"""Nodes of ONNX that are read as other nodes: fused ones of com.microsoft, and those of older versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from npusim.frontends.forms.networks import MICROSOFT, STANDARD, Node
from npusim.isa.base.tensor import Array

_FUSED: Mapping[str, tuple[str, int]] = {"FusedConv": ("Conv", 3), "FusedGemm": ("Gemm", 3)}
"""The first operation of each fused node, and its number of inputs; a further input is added to its result."""

_ACTIVATIONS: Mapping[str, tuple[str, ...]] = {
    "Relu": (),
    "Sigmoid": (),
    "Tanh": (),
    "LeakyRelu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "Clip": ("min", "max"),
}
"""Activations that may follow, and their attributes by order of the numbers; those of Clip are inputs."""

_OWN = ("activation", "activation_params", "activation_alpha", "activation_beta", "activation_gamma")


def apart(node: Node) -> tuple[list[Node], dict[str, Array]]:
    """Return the nodes of a fused node and the constants that they read; any other node is returned alone.

    Raises GraphError for an activation that npusim does not know.
    """
    begins = _FUSED.get(node.operation) if node.domain == MICROSOFT else None
    if begins is None or not node.outputs:
        return [node], {}
    operation, count = begins
    attributes = {name: value for name, value in node.attributes.items() if name not in _OWN}
    result = f"{node.outputs[0]}/{operation}"
    first = replace(node, operation=operation, domain=STANDARD, inputs=node.inputs[:count], outputs=(result,))
    nodes = [replace(first, attributes=attributes)]
    for more in filter(None, node.inputs[count:]):
        nodes.append(Node("Add", STANDARD, node.name, (result, more), (f"{result}/Add",), {}))
        result = f"{result}/Add"
    last, constants = _activation(node, result)
    return [*nodes, last], constants


def _activation(node: Node, source: str) -> tuple[Node, dict[str, Array]]:
    name, numbers = node.attributes.get("activation"), _numbers(node)
    if not isinstance(name, str) or name not in _ACTIVATIONS:
        known = ", ".join(_ACTIVATIONS)
        raise node.fault(f"activation is {name!r}; npusim has {known}")
    wanted = _ACTIVATIONS[name]
    if len(numbers) < len(wanted):
        raise node.fault(f"activation {name} has {len(numbers)} numbers, must have {len(wanted)}")
    values = dict(zip(wanted, numbers, strict=False))
    if name != "Clip":
        return Node(name, STANDARD, node.name, (source,), node.outputs, values), {}
    constants: dict[str, Array] = {
        f"{source}/{key}": np.array(number, np.float32) for key, number in values.items()
    }
    return Node(name, STANDARD, node.name, (source, *constants), node.outputs, {}), constants


def _numbers(node: Node) -> Sequence[float]:
    """Return the activation's numbers: Conv has a list of them, Gemm attributes."""
    numbers = node.attributes.get("activation_params")
    if numbers is None:
        numbers = [node.attributes[name] for name in _OWN[2:] if name in node.attributes]
    if not isinstance(numbers, list) or not all(isinstance(number, (int, float)) for number in numbers):
        raise node.fault(f"the numbers of its activation are {numbers!r}")
    return numbers


ELEVEN = 11
"""The version that rows are written for; rows ask for the version themselves if a default changed after it."""


class _Attribute(NamedTuple):
    """An attribute that became an input, with its element type."""

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
"""By operation: the version since which attributes are inputs, in the order of the inputs behind the first."""


def brought_forward(node: Node, version: int) -> tuple[Node, dict[str, Array]]:
    """Return a node of version 7 to 10 as one of version 11, and the constants that it reads then.

    Raises GraphError for what version 11 cannot express.
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
        name: value for name, value in node.attributes.items() if name not in {gone.name for gone in moved}
    }
    return replace(node, inputs=(*node.inputs, *names), attributes=rest), constants


def _array(node: Node, attribute: _Attribute, value: object) -> Array:
    try:
        array = np.array(value, attribute.dtype)
    except (TypeError, ValueError, OverflowError):
        raise node.fault(f"{attribute.name} is no list of numbers") from None
    return array.reshape(-1) if attribute.dtype == "int64" else array
