"""Operations that ONNX Runtime writes into models that it has optimised, as the nodes that they were."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from npusim.frontends.forms.network import MICROSOFT, STANDARD, Node
from npusim.isa.base.tensor import Array

_FUSED: Mapping[str, tuple[str, int]] = {"FusedConv": ("Conv", 3), "FusedGemm": ("Gemm", 3)}
"""The operation that each begins with, and how many inputs that has; a further one is added to its result."""

_ACTIVATIONS: Mapping[str, tuple[str, ...]] = {
    "Relu": (),
    "Sigmoid": (),
    "Tanh": (),
    "LeakyRelu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "Clip": ("min", "max"),
}
"""What may follow, and the attributes that its numbers are; those of Clip are inputs."""

_OWN = ("activation", "activation_params", "activation_alpha", "activation_beta", "activation_gamma")


def apart(node: Node) -> tuple[list[Node], dict[str, Array]]:
    """The nodes of a fused one, and constants that they read; any other node alone.

    Raises GraphError for an activation that npusim does not know.
    """
    begins = _FUSED.get(node.operation) if node.domain == MICROSOFT else None
    if begins is None or not node.outputs:
        return [node], {}
    operation, count = begins
    attributes = {name: value for name, value in node.attributes.items() if name not in _OWN}
    made = f"{node.outputs[0]}/{operation}"
    first = replace(node, operation=operation, domain=STANDARD, inputs=node.inputs[:count], outputs=(made,))
    nodes = [replace(first, attributes=attributes)]
    for more in filter(None, node.inputs[count:]):
        nodes.append(Node("Add", STANDARD, node.name, (made, more), (f"{made}/Add",), {}))
        made = f"{made}/Add"
    last, constants = _activation(node, made)
    return [*nodes, last], constants


def _activation(node: Node, made: str) -> tuple[Node, dict[str, Array]]:
    name, numbers = node.attributes.get("activation"), _numbers(node)
    if not isinstance(name, str) or name not in _ACTIVATIONS:
        known = ", ".join(_ACTIVATIONS)
        raise node.fault(f"activation is {name!r}; npusim has {known}")
    wanted = _ACTIVATIONS[name]
    if len(numbers) < len(wanted):
        raise node.fault(f"activation {name} has {len(numbers)} numbers, must have {len(wanted)}")
    values = dict(zip(wanted, numbers, strict=False))
    if name != "Clip":
        return Node(name, STANDARD, node.name, (made,), node.outputs, values), {}
    constants: dict[str, Array] = {
        f"{made}/{key}": np.array(number, np.float32) for key, number in values.items()
    }
    return Node(name, STANDARD, node.name, (made, *constants), node.outputs, {}), constants


def _numbers(node: Node) -> Sequence[float]:
    """Of Conv they are a list, of Gemm attributes of their own."""
    said = node.attributes.get("activation_params")
    if said is None:
        said = [node.attributes[name] for name in _OWN[2:] if name in node.attributes]
    if not isinstance(said, list) or not all(isinstance(number, (int, float)) for number in said):
        raise node.fault(f"the numbers of its activation are {said!r}")
    return said
