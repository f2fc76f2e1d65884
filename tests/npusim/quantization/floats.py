"""Float networks to quantize: twins of networks in codes, which compute with the reals that the codes stand for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from npusim.isa.base.tensor import Quantization
from npusim.kernels.graph.graph import Graph, Node, Tensor
from npusim.kernels.operator.element_types import dequantize_values

_BIAS = 2


def float_twin(graph: Graph) -> Graph:
    """The graph with reals in the place of codes, biases without a scale of their own among them."""
    tensors = list(graph.tensors)
    for node in graph.nodes:
        bias = node.inputs[_BIAS] if len(node.inputs) > _BIAS else None
        if (
            bias is not None
            and tensors[bias].type.dtype == "int32"
            and tensors[bias].type.quantization is None
        ):
            tensors[bias] = _scaled(tensors, node, bias)
    return replace(graph, tensors=tuple(_real(tensor) for tensor in tensors))


def _scaled(tensors: list[Tensor], node: Node, bias: int) -> Tensor:
    data, weights = (tensors[number or 0].type.quantization for number in node.inputs[:_BIAS])
    assert data is not None
    assert weights is not None
    scales = [float(np.float32(data.scale * scale)) for scale in weights.scales]
    count = len(scales)
    own = Quantization(tuple(scales), (0,) * count, 0 if count > 1 else None)
    return replace(tensors[bias], type=replace(tensors[bias].type, quantization=own))


def _real(tensor: Tensor) -> Tensor:
    if not tensor.type.quantized:
        return tensor
    kind = replace(tensor.type, dtype="float32", quantization=None)
    data = None if tensor.array is None else dequantize_values(tensor.array, tensor.type)
    return replace(tensor, type=kind, data=data)
