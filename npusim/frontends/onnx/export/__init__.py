"""Graphs as ONNX models.

Operations on floats become ONNX's own operations. Operations on quantized values become groups of DequantizeLinear,
operation, QuantizeLinear; moves keep quantized values as they are. ONNX requantizes in float32: `caveat` says how many
layers that changes.
"""

from __future__ import annotations

from npusim.base.extras import missing
from npusim.frontends.onnx.export.export_table import CONVERT, EXACT, FUSED_OPERATORS, MOVES
from npusim.frontends.onnx.export.onnx_export import Export
from npusim.frontends.written_layers import Layer
from npusim.isa.base.errors import GraphError
from npusim.kernels.graph.graph import Graph, Node

_MOST_BYTES = (1 << 31) - 1
"""The largest file that protobuf reads."""


def written(graph: Graph) -> bytes:
    """Return the `.onnx` file of a graph, inputs and outputs in its order and layout; equal graphs give equal bytes.

    Raises GraphError that names the layers which ONNX cannot express, and why; NpusimError without the package `onnx`.
    """
    try:
        import onnx  # noqa: F401
    except ImportError:
        raise missing("ONNX", "onnx") from None
    if graph.states:
        raise GraphError("has states, which ONNX does not have")
    model = Export(graph).model(_convert)
    if (size := model.ByteSize()) > _MOST_BYTES:
        raise GraphError(f"takes {size} bytes as ONNX, a file may have {_MOST_BYTES}")
    content: bytes = model.SerializeToString(deterministic=True)
    return content


def operators() -> frozenset[str]:
    """Return the operators that become operations of ONNX, if their parameters allow it."""
    return frozenset(CONVERT)


def caveat(graph: Graph) -> str:
    """Return how many layers requantize differently in ONNX than in the graph; "" if none does."""
    count = sum(_is_rescaled(graph, node) for node in graph.nodes)
    if not count:
        return ""
    return (
        f"{count} of {len(graph.nodes)} layers requantize in fixed point here and in float32 in ONNX: "
        "their values may differ, mostly by one (docs/convert.md)"
    )


def _is_rescaled(graph: Graph, node: Node) -> bool:
    if node.op in MOVES or node.op in EXACT or node.parameters.rescale != "fixed_point":
        return False
    numbers = (number for number in (*node.inputs, *node.outputs) if number is not None)
    return any(graph.tensors[number].type.quantized for number in numbers)


def _convert(export: Export, layer: Layer) -> None:
    convert, params = CONVERT.get(layer.op), layer.params
    if convert is None:
        raise GraphError(f"npusim writes no ONNX for {layer.op}")
    if params.rescale == "fused" and layer.op not in FUSED_OPERATORS:
        raise GraphError(f"ONNX Runtime has no fused {layer.op}")
    if params.rescale == "fused" and getattr(params, "activation", "none") != "none":
        raise GraphError("ONNX Runtime's own formulas have no activation")
    convert(export, layer)
