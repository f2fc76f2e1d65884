"""The other way: graphs as TFLite models.

A graph is brought into a form that TFLite has (`rewrites`), every node becomes an operator by the reader's own table
(`operations`), and the file is read again: what comes back must be the graph that was written. So what TFLite cannot
say of a layer needs no list; it is what the reader does not see again.
"""

from __future__ import annotations

from npusim.frontends.inexpressible import Refusals
from npusim.frontends.sameness import check_same
from npusim.frontends.tflite import reader
from npusim.frontends.tflite.export.conversion import subgraphs_of
from npusim.frontends.tflite.export.rewrites import REWRITES, expressible
from npusim.frontends.tflite.flatbuffer import serialize
from npusim.frontends.tflite.operators import OPERATORS
from npusim.kernels.graph.graph import Graph

_DESCRIPTION = "Written by npusim."


def operators() -> frozenset[str]:
    """The operators that become operators of TFLite, where their parameters and types allow it."""
    return frozenset({row.op for row in OPERATORS.values()} | REWRITES.keys())


def written(graph: Graph) -> bytes:
    """The `.tflite` file of a graph, inputs, outputs and states in its order; equal graphs give equal bytes.

    Raises GraphError that names the layers which TFLite cannot express, and why.
    """
    refusals = Refusals()
    wanted = expressible(graph, refusals)
    subgraphs = subgraphs_of(wanted, refusals)
    refusals.check()
    data = serialize(_DESCRIPTION, subgraphs)
    check_same(wanted, reader.parse(data, graph.name), "TFLite")
    return data
