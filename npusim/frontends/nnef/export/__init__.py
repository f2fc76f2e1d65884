"""The other way: graphs as NNEF models, for whoever has an operation that NNEF has, too."""

from __future__ import annotations

from pathlib import Path

from npusim.frontends.nnef import nnef_writer
from npusim.frontends.nnef.call_network import Network
from npusim.frontends.nnef.export.call_rows import CONVERT
from npusim.frontends.nnef.export.nnef_export import Export
from npusim.isa.base.errors import GraphError
from npusim.kernels.graph.graph import Graph, Node


def write(path: str | Path, graph: Graph) -> None:
    """Writes a graph: an archive where the path ends in .tgz, .tar.gz or .tar, and a folder otherwise.

    Raises GraphError for what NNEF does not express, naming the layers.
    """
    network, data = network_of(graph)
    nnef_writer.write(path, network, data)


def written(graph: Graph) -> bytes:
    """The archive of a graph, with gzip. Raises GraphError likewise."""
    return nnef_writer.packed(*network_of(graph))


def unpacked(graph: Graph) -> bytes:
    """The archive of a graph, without gzip. Raises GraphError likewise."""
    return nnef_writer.packed(*network_of(graph), is_compressed=False)


def operators() -> frozenset[str]:
    """The operators that become operations of NNEF, where their parameters allow it."""
    return frozenset(CONVERT)


def network_of(graph: Graph) -> tuple[Network, dict[str, bytes]]:
    """The network of a graph, and its data files by label. Raises GraphError likewise."""
    if graph.states:
        raise GraphError(f"{graph.name}: has states, which NNEF does not have")
    return Export(graph).network(_convert)


def _convert(export: Export, node: Node) -> None:
    convert = CONVERT.get(node.op)
    if convert is None:
        raise GraphError(f"NNEF has no operation for {node.op}")
    convert(export, node)
