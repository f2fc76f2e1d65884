"""A float graph with int8 weights and float32 activations: TFLite's dynamic range quantization, which needs no samples.

Weights are symmetric, as in `npusim.quantization.scales`. The operators quantize rows of activations at run time.
"""

from __future__ import annotations

from dataclasses import replace

from npusim.isa.base.tensor import Quantization
from npusim.kernels.graph.check import check_bound
from npusim.kernels.graph.graph import Graph, Node, Tensor, call_of
from npusim.kernels.table import operator
from npusim.quantization.conversion import BY_TENSOR, InFloats
from npusim.quantization.scales import codes, symmetric

_AXES = {"conv_2d": 0, "depthwise_conv_2d": 3, "fully_connected": 0, "batch_matmul": None}
"""The operators, and the dimension of their weights that holds the output channels."""
LEAST_WEIGHTS = 1024
"""Smaller weights stay float32, as TFLite's converter leaves them: a run saves less than their error costs."""


def quantized(graph: Graph, every_channel: bool) -> tuple[Graph, tuple[InFloats, ...]]:
    """Return the graph with int8 weights, and the layers that stayed in floats.

    graph: bound, of float32, without states and decisions. every_channel: see `conversion.Options`.
    """
    tensors, nodes, kept = list(graph.tensors), [], []
    for node in graph.nodes:
        reason = _refusal(graph, node)
        if not reason:
            axis = None if node.op in BY_TENSOR and not every_channel else _AXES[node.op]
            weights = _coded(graph.tensors[_number(node)], axis)
            inputs = (node.inputs[0], len(tensors), *node.inputs[2:])
            changed = replace(node, inputs=inputs, parameters=node.parameters.changed(rescale="dynamic"))
            whole = replace(graph, tensors=(*tensors, weights))
            reason = operator(node.op).broken_rule(call_of(whole, changed)) or ""
            if not reason:
                node = changed
                tensors.append(weights)
        if reason:
            kept.append(InFloats(node.name, node.op, reason))
        nodes.append(node)
    return check_bound(replace(graph, tensors=tuple(tensors), nodes=tuple(nodes))), tuple(kept)


def _number(node: Node) -> int:
    """Return the number of the weights of a node."""
    number = node.inputs[1]
    assert number is not None
    return number


def _refusal(graph: Graph, node: Node) -> str:
    """Return why the weights of a node stay in floats; "" if nothing prevents int8."""
    if node.op not in _AXES:
        return "has no weights that dynamic range quantization takes"
    held = graph.tensors[_number(node)]
    if held.array is None:
        return "its weights are computed"
    if held.array.size < LEAST_WEIGHTS:
        return f"its weights have fewer than {LEAST_WEIGHTS} elements"
    return ""


def _coded(held: Tensor, axis: int | None) -> Tensor:
    """Return weights as symmetric int8 values with one scale, or one per channel."""
    assert held.array is not None
    scales = tuple(symmetric(held.array, axis).tolist())
    scheme = Quantization(scales, (0,) * len(scales), axis)
    kind = replace(held.type, dtype="int8", quantization=scheme)
    return Tensor(f"{held.name}/int8", kind, codes(held.array, scheme, "int8"))
