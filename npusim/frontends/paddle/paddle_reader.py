"""The reader of Paddle inference models: recognition, and the graph of a program."""

from __future__ import annotations

from pathlib import Path

from npusim.frontends.forms.network_reading import Vocabulary, graph_of
from npusim.frontends.forms.networks import PADDLE, Node
from npusim.frontends.forms.node_rows import Row
from npusim.frontends.paddle.paddle_file import PARAMETERS, PROGRAM, SUFFIX
from npusim.isa.base.errors import FormatError
from npusim.kernels.graph import folding
from npusim.kernels.graph.builder import GraphBuilder
from npusim.kernels.graph.graph import Graph

_MAIN_BLOCK = b"\x08\x00\x10" + b"\xff" * 9 + b"\x01"
"""The first bytes of block 0, which has no parent."""


def recognises(path: Path, head: bytes) -> bool:
    """Return whether a file begins with a program's main block or has a name of Paddle's; a folder contains a
    program.
    """
    if path.is_dir():
        return (path / PROGRAM).is_file()
    after = next((place for place, byte in enumerate(head[1:11], 2) if byte < 0x80), 0)
    begins = head[:1] == b"\x0a" and head[after:].startswith(_MAIN_BLOCK)
    return begins or path.name == PROGRAM or path.suffix.lower() in (SUFFIX, PARAMETERS)


def read(path: Path, builder: GraphBuilder) -> Graph:
    """Return the graph of a program file, or of a folder with one. Raises FormatError or GraphError."""
    from npusim.frontends.paddle.paddle_program import network_of

    if path.suffix.lower() == PARAMETERS:
        raise FormatError(f"has parameters alone; give {path.with_suffix(SUFFIX).name}, which finds them")
    network = network_of(path / PROGRAM if path.is_dir() else path)
    stored = sum(array.nbytes for array in network.constants.values())
    builder.read_with(folding.MOST_ELEMENTS, weight_bytes=stored)
    return graph_of(network, builder, WORDS)


def _row_of(node: Node) -> Row | None:
    """Return the row of an operator; nodes that replace an operator are ONNX's."""
    from npusim.frontends.onnx.operations.onnx_table import row as of_onnx
    from npusim.frontends.paddle.paddle_program import row

    return row(node.operation) if node.domain == PADDLE else of_onnx(node.domain, node.operation)


_CUT = " (paddle.static.normalize_program)"

WORDS = Vocabulary(
    "Paddle",
    _row_of,
    {
        "while": "npusim has straight programs",
        "where_index": "how many places there are follows from data, and npusim knows all shapes before a run; let the "
        f"model end before it{_CUT}",
    },
    states=" (its variable)",
    ends=_CUT,
)
"""What the shared reader needs to know of Paddle."""
