"""The reader of ONNX files: recognition, and the graph of a network."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from npusim.frontends.forms.network_reading import Vocabulary, graph_of
from npusim.frontends.forms.networks import MICROSOFT, Node
from npusim.frontends.forms.node_rows import Row
from npusim.frontends.forms.qdq import DEQUANTIZE, QUANTIZE
from npusim.frontends.onnx import onnx_file
from npusim.frontends.onnx.operations.onnx_table import row
from npusim.isa.base.tensor import TensorType
from npusim.kernels.graph import folding
from npusim.kernels.graph.builder import GraphBuilder
from npusim.kernels.graph.graph import Graph

_VERSION, _NEWEST_VERSION = 0x08, 32
"""The first byte of a ModelProto, and the largest version that the second byte may state."""
_TEXTS = (0x12, 0x1A, 0x22)
"""Field numbers and types that may follow the version: producer, its version, domain,"""
_PARTS = (0x3A, 0x42)
"""then the graph, and the versions of operations."""

_MISSING = {
    "NonMaxSuppression": "how many boxes it keeps follows from data, and npusim knows all shapes before a run; let the "
    "model end with boxes and scores (onnx.utils.extract_model), and choose from these",
    "ZipMap": "its result is a list of maps and no tensor; let the model end with its input (onnx.utils.extract_model)",
}
"""Advice for operations that models often end with and npusim lacks."""

_SHAPES: Mapping[str, Callable[[Sequence[TensorType]], tuple[int, ...]]] = {
    "ImageScaler": lambda types: types[0].shape,
    "GemmFastGelu": lambda types: (*types[0].shape[:-1], *types[1].shape[-1:]),
}
"""Result shapes of operations that npusim lacks, which onnx cannot infer and files seldom state."""

_QUANTIZING = (QUANTIZE, DEQUANTIZE)


def recognises(path: Path, head: bytes) -> bool:
    """Return whether a file begins as a ModelProto does: a format version, then producer, graph or opsets."""
    if len(head) < 4 or head[0] != _VERSION or not 3 <= head[1] <= _NEWEST_VERSION:
        return False
    if head[2] in _TEXTS:
        text = head[4 : 4 + head[3]]
        return len(head) > 4 and text.isascii() and text.decode().isprintable()
    return head[2] in _PARTS and head[3] > 0


def read(path: Path, builder: GraphBuilder) -> Graph:
    """Return the graph of a file. Raises FormatError or GraphError."""
    network = onnx_file.parsed(path, has)
    stored = sum(array.nbytes for array in network.constants.values())
    # A sparse tensor takes more bytes than the file has; nested graphs and folded constants come from these bytes too.
    builder.read_with(folding.MOST_ELEMENTS, weight_bytes=min(stored, path.stat().st_size))
    return graph_of(network, builder, WORDS)


def has(domain: str, name: str) -> bool:
    """Return whether there is a row for an operation."""
    return _row_of(Node(name, "" if domain == "ai.onnx" else domain, "", (), (), {})) is not None


def _row_of(node: Node) -> Row | None:
    """Return the row of a node; QuantizeLinear and DequantizeLinear of com.microsoft are read as those of ONNX."""
    if node.domain == MICROSOFT and node.operation in _QUANTIZING:
        return row("", node.operation)
    return row(node.domain, node.operation)


WORDS = Vocabulary("ONNX", _row_of, _MISSING, _SHAPES, " (value_info)", " (onnx.utils.extract_model)")
"""What the shared reader needs to know of ONNX."""
