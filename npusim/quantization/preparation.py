"""Rewrites a float network before it is quantized, as TFLite's converter does.

Constants are computed, and batch normalizations and activations are fused into the layers in front of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from npusim.isa.base.errors import GraphError
from npusim.isa.base.tensor import SIZE_ONLY, Array, TensorType
from npusim.kernels.graph.graph import Graph, Node, Tensor, call_of, quoted
from npusim.kernels.graph.inference import layer_name
from npusim.kernels.graph.reference import results
from npusim.kernels.graph.rewrite import without
from npusim.kernels.operator.parameters import DYNAMIC_RANGE, Activated
from npusim.kernels.table import known, operator
from npusim.quantization.rules import RULES, Way

_ACTIVATIONS = ("relu", "relu6", "relu_n1_to_1")
_NORMALIZATION = "batch_normalization"


def prepared(graph: Graph) -> Graph:
    """Return the float graph that is quantized; it computes what the graph does, float32 rounding aside.

    Raises GraphError for a graph that has IF or WHILE, keeps states, has no data, or computes nothing in float32.
    """
    _require_floats(graph)
    graph = without(_with_constants(graph), "block_product")
    graph = _without_normalizations(graph)
    return _with_activations(graph)


def _require_floats(graph: Graph) -> None:
    if graph.decides:
        raise GraphError(f"{graph.name}: decides (IF, WHILE); quantize takes networks without")
    if graph.states:
        raise GraphError(f"{graph.name}: keeps states; quantize takes networks without")
    for tensor in graph.tensors:
        if tensor.data is SIZE_ONLY:
            raise GraphError(
                f"{graph.name}: constant {quoted(tensor.name)} is known by its size only; quantize needs its data"
            )
    for node in graph.nodes:
        if not known(node.op):
            raise GraphError(f"{graph.name}: layer {quoted(node.name)}: npusim does not have {node.op}")
        broken = operator(node.op).broken_rule(call_of(graph, node))
        if broken is not None:
            raise GraphError(f"{graph.name}: {layer_name(node)}: {broken}")
        if node.parameters.rescale in DYNAMIC_RANGE:
            raise GraphError(
                f"{graph.name}: layer {quoted(node.name)} ({node.op}) has int8 weights (dynamic range): it is "
                "quantized already; quantize takes the float network"
            )
        if RULES.get(node.op) and any(graph.tensors[number].type.quantized for number in node.outputs):
            raise GraphError(
                f"{graph.name}: layer {quoted(node.name)} ({node.op}) computes in codes: it is quantized already"
            )
    if not any(
        graph.tensors[number].type.dtype == "float32" for node in graph.nodes for number in node.outputs
    ):
        raise GraphError(f"{graph.name}: computes nothing in float32; there is nothing to quantize")


def _with_constants(graph: Graph) -> Graph:
    """Return the graph without nodes that compute constants, such as weights that are kept in fewer bits."""
    tensors, nodes = list(graph.tensors), []
    values = {number: tensor.array for number, tensor in enumerate(tensors) if tensor.array is not None}
    for node in graph.nodes:
        if any(number is not None and number not in values for number in node.inputs):
            nodes.append(node)
            continue
        arrays = results(replace(graph, tensors=tuple(tensors)), node, values)
        for number, value in zip(node.outputs, arrays, strict=True):
            values[number] = value
            tensors[number] = replace(tensors[number], data=value)
    return replace(graph, tensors=tuple(tensors), nodes=tuple(nodes))


def _with_activations(graph: Graph) -> Graph:
    """Return the graph with activations fused into the layers whose results only they read."""

    def merged(first: Node, second: Node) -> Node | None:
        params = first.parameters
        if second.op not in _ACTIVATIONS or not isinstance(params, Activated) or params.activation != "none":
            return None
        if first.op not in RULES or RULES[first.op].way is Way.ALIKE:  # pools keep the scale of their operand
            return None
        return replace(first, parameters=params.changed(activation=second.op))

    return _joined(graph, [], merged)


def _without_normalizations(graph: Graph) -> Graph:
    """Return the graph with batch normalizations fused into weights and bias of the layers in front of them."""
    added: list[Tensor] = []

    def merged(first: Node, second: Node) -> Node | None:
        rule = RULES.get(first.op)
        if second.op != _NORMALIZATION or rule is None or rule.way is not Way.WEIGHTED:
            return None
        params: Any = first.parameters
        numbers = [number for number in (*first.inputs[1:], *second.inputs[1:]) if number is not None]
        rank = len(graph.tensors[second.outputs[0]].type.shape)
        last = getattr(second.parameters, "axis", rank - 1) in (-1, rank - 1)
        if params.activation != "none" or not last or any(graph.tensors[i].array is None for i in numbers):
            return None
        data: list[Any] = [_wide(graph.tensors[number or 0].array) for number in second.inputs[1:]]
        scale, shift, mean, variance = data
        factor = scale / np.sqrt(variance + getattr(second.parameters, "epsilon", 0.0))
        weights = graph.tensors[first.inputs[1] or 0]
        bias = first.inputs[2] if len(first.inputs) > 2 else None
        along = [1] * len(weights.type.shape)
        along[rule.axis] = -1
        held = 0.0 if bias is None else _wide(graph.tensors[bias].array).reshape(-1)
        numbers = [
            len(graph.tensors) + len(added) + place for place in range(2)
        ]  # behind those that are there already
        added.append(_constant(weights.name, _wide(weights.array) * factor.reshape(along)))
        added.append(_constant(f"{second.name}_bias", (held - mean) * factor + shift))
        return replace(first, inputs=(first.inputs[0], *numbers))

    return _joined(graph, added, merged)


def _joined(graph: Graph, added: Sequence[Tensor], merged: Any) -> Graph:
    """Return the graph with pairs of nodes merged, in which only the second node reads the first.

    merged: (first, second) -> the node in place of both, or None.
    """
    readers = Counter(number for node in graph.nodes for number in node.inputs)
    readers.update(graph.outputs)
    writer: dict[int, int] = {}
    nodes: list[Node | None] = []
    for node in graph.nodes:
        source = node.inputs[0] if node.inputs else None
        place = None if source is None or readers[source] != 1 else writer.get(source)
        first = None if place is None else nodes[place]
        one = None if first is None or len(first.outputs) != 1 else merged(first, node)
        if one is None or place is None:
            writer.update(dict.fromkeys(node.outputs, len(nodes)))
            nodes.append(node)
            continue
        nodes[place] = replace(one, outputs=node.outputs)
        writer.update(dict.fromkeys(node.outputs, place))
    left = tuple(node for node in nodes if node is not None)
    return replace(graph, tensors=(*graph.tensors, *added), nodes=left)


def _wide(data: Array | None) -> Any:
    assert data is not None
    return data.astype(np.float64)


def _constant(name: str, values: Any) -> Tensor:
    data: Array = values.astype(np.float32)
    data.setflags(write=False)
    return Tensor(name, TensorType("float32", data.shape), data)
