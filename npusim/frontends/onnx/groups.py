"""Which DequantizeLinear and QuantizeLinear make an operation on codes out of one on reals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

from npusim.frontends.onnx.elements import held_type
from npusim.frontends.onnx.network import Network, Node
from npusim.isa.base.tensor import Array, Quantization

QUANTIZE, DEQUANTIZE = "QuantizeLinear", "DequantizeLinear"


@dataclass(frozen=True, slots=True)
class Codes:
    """What a QuantizeLinear or DequantizeLinear says of codes, where it is constant.

    bits: how many bits they have, where that is not all of their type; otherwise 0.
    """

    dtype: str
    quantization: Quantization
    bits: int = 0


@dataclass(slots=True)
class Plan:
    """What becomes of a node.

    results: what its outputs are quantised to, by name: the names of the codes and what they are.
    skipped: nodes that are part of another one.
    """

    results: dict[str, tuple[tuple[str, ...], Codes]] = field(default_factory=dict)
    skipped: set[Node] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)


def codes_of(
    node: Node, constants: Mapping[str, Array], narrow: Mapping[str, int] = MappingProxyType({})
) -> Codes | None:
    """The codes of a QuantizeLinear or DequantizeLinear; None where they follow from data or lie in blocks.

    narrow: how many bits the constants have that are held one a byte.
    """
    scale: Any = constants.get(node.inputs[1]) if len(node.inputs) > 1 else None
    if scale is None or node.attributes.get("block_size", 0):
        return None
    zero: Any = None
    if len(node.inputs) > 2 and node.inputs[2]:
        zero = constants.get(node.inputs[2])
        if zero is None:
            return None
    if scale.dtype != np.float32 or scale.ndim > 1:
        return None
    dtype = "uint8" if zero is None else zero.dtype.name
    bits = narrow.get(node.inputs[2], 0) if zero is not None else 0
    said = int(node.attributes.get("output_dtype", 0))
    if node.operation == QUANTIZE and zero is None and said:
        dtype, bits = held_type(said)
    if node.operation == DEQUANTIZE and zero is None:
        source = constants.get(node.inputs[0])
        dtype = "" if source is None else source.dtype.name
    count = scale.size
    zeros = np.zeros(count, np.int64) if zero is None else zero.reshape(-1)
    if zeros.size != count or count == 0:
        return None
    axis = int(node.attributes.get("axis", 1)) if scale.ndim == 1 and count > 1 else None
    return Codes(
        dtype,
        Quantization(tuple(map(float, scale.reshape(-1))), tuple(map(int, zeros)), axis),
        bits,
    )


def plan(network: Network, constants: Mapping[str, Array], groupable: Any) -> Plan:
    """The plan of a network; `groupable` says of a node whether its operation is one that may compute on codes."""
    found = Plan()
    readers: dict[str, list[Node]] = {}
    makers: dict[str, Node] = {}
    for node in network.nodes:
        for name in node.inputs:
            readers.setdefault(name, []).append(node)
        for name in node.outputs:
            makers[name] = node
    for node in network.nodes:
        if node.operation in (QUANTIZE, DEQUANTIZE) or not groupable(node):
            continue
        if not any(name in makers and makers[name].operation == DEQUANTIZE for name in node.inputs):
            continue
        for name in node.outputs:
            behind = _codes_behind(name, readers.get(name, ()), network, constants)
            if behind is not None:
                found.results[name] = behind
                found.skipped.update(readers[name])
    return found


def _codes_behind(
    name: str, readers: Sequence[Node], network: Network, constants: Mapping[str, Array]
) -> tuple[tuple[str, ...], Codes] | None:
    """What a value is quantised to, if that is all that becomes of it."""
    if not readers or name in network.outputs:
        return None
    if any(reader.operation != QUANTIZE or reader.inputs[0] != name for reader in readers):
        return None
    codes = [codes_of(reader, constants, network.narrow) for reader in readers]
    first = codes[0]
    if (
        first is None
        or first.bits
        or first.quantization.axis is not None
        or any(other != first for other in codes)
    ):
        return None
    return tuple(reader.outputs[0] for reader in readers), first
