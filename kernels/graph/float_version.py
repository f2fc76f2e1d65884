"""The float version of a quantized network: the same operators on float32 or float16, to be timed."""

from __future__ import annotations

from dataclasses import replace

from npusim.isa.base.tensor import SIZE_ONLY
from npusim.kernels.graph.graph import Graph, Tensor


def float_version(graph: Graph, dtype: str) -> Graph:
    """Return the graph with every quantized tensor as floats of an element type; of constants only the size is known.

    Other tensors, indices and conditions, stay as they are.
    """
    return replace(
        graph,
        name=f"{graph.name} in {dtype}",
        tensors=tuple([_float_tensor(tensor, dtype) for tensor in graph.tensors]),
        nodes=tuple(
            [
                replace(node, bodies=tuple([float_version(body, dtype) for body in node.bodies]))
                for node in graph.nodes
            ]
        ),
    )


def _float_tensor(tensor: Tensor, dtype: str) -> Tensor:
    if not tensor.type.quantized:
        return tensor
    kind = replace(tensor.type, dtype=dtype, quantization=None)
    return replace(tensor, type=kind, data=SIZE_ONLY if tensor.constant else None)
