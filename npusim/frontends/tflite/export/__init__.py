"""Writes graphs as TFLite models.

A graph is first rewritten with the operators that TFLite has (`rewrites`). Every node then becomes an operator by the
reader's table (`operations`). Last, the file is read again and must give the same graph. So no list is needed of what
TFLite cannot express: it is what the reader does not read back.
"""

from __future__ import annotations

from npusim.frontends.inexpressible import Refusals, check_same
from npusim.frontends.tflite import reader
from npusim.frontends.tflite.export.subgraph_tables import subgraphs_of
from npusim.frontends.tflite.export.tflite_rewrites import REWRITES, expressible
from npusim.frontends.tflite.flatbuffer import serialize
from npusim.frontends.tflite.operators import OPERATORS
from npusim.kernels.graph.graph import Graph

_DESCRIPTION = "Written by npusim."


def operators() -> frozenset[str]:
    """Return the operators that TFLite has an operator for, at least for some parameters and types."""
    return frozenset({row.op for row in OPERATORS.values()} | REWRITES.keys())


def written(graph: Graph) -> bytes:
    """Return the `.tflite` file of a graph, inputs, outputs and states in its order; equal graphs give equal bytes.

    Raises GraphError that names the layers which TFLite cannot express, and why.
    """
    refusals = Refusals()
    wanted = expressible(graph, refusals)
    subgraphs = subgraphs_of(wanted, refusals)
    refusals.check()
    data = serialize(_DESCRIPTION, subgraphs)
    check_same(wanted, reader.parse(data, graph.name), "TFLite")
    return data
