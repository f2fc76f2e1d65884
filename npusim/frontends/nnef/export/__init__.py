"""Graphs as NNEF models."""

from __future__ import annotations

from pathlib import Path

from npusim.frontends.nnef import nnef_writer
from npusim.frontends.nnef.call_network import Network
from npusim.frontends.nnef.export.call_rows import CONVERT
from npusim.frontends.nnef.export.nnef_export import Export
from npusim.frontends.written_layers import Layer
from npusim.isa.base.errors import GraphError
from npusim.kernels.graph.graph import Graph


def write(path: str | Path, graph: Graph) -> None:
    """Write a graph: an archive if the path ends in .tgz, .tar.gz or .tar, otherwise a folder.

    Raises GraphError that names the layers which NNEF cannot express.
    """
    network, data = network_of(graph)
    nnef_writer.write(path, network, data)


def written(graph: Graph) -> bytes:
    """Return the archive of a graph, with gzip. Raises GraphError as `write` does."""
    return nnef_writer.packed(*network_of(graph))


def unpacked(graph: Graph) -> bytes:
    """Return the archive of a graph, without gzip. Raises GraphError as `write` does."""
    return nnef_writer.packed(*network_of(graph), is_compressed=False)


def operators() -> frozenset[str]:
    """Return the operators that become operations of NNEF, if their parameters allow it."""
    return frozenset(CONVERT)


def network_of(graph: Graph) -> tuple[Network, dict[str, bytes]]:
    """Return the network of a graph, and its data files by label. Raises GraphError as `write` does."""
    if graph.states:
        raise GraphError(f"{graph.name}: has states, which NNEF does not have")
    return Export(graph).network(_convert)


def _convert(export: Export, layer: Layer) -> None:
    convert = CONVERT.get(layer.op)
    if convert is None:
        raise GraphError(f"NNEF has no operation for {layer.op}")
    convert(export, layer)
