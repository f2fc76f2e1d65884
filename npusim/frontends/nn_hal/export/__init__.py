"""Writes graphs as models of the NN HAL.

A graph is first rewritten with the operators that NNAPI has (`rewrites`). Every node then becomes an operation by the
row that the reader uses (`operations`). Last, the model is checked and read again, and must give the same graph.
"""

from __future__ import annotations

import re
from dataclasses import replace

from npusim.frontends.inexpressible import Refusals, check_same, for_every_node
from npusim.frontends.nn_hal import hal_file
from npusim.frontends.nn_hal.export.hal_structs import model_of
from npusim.frontends.nn_hal.export.nnapi_rewrites import REWRITES, in_tensors
from npusim.frontends.nn_hal.export.nnapi_wording import OPERATIONS
from npusim.frontends.nn_hal.fault import Fault
from npusim.frontends.nn_hal.model_check import check_model
from npusim.frontends.nn_hal.reader import graph_of
from npusim.frontends.nn_hal.structs import Model
from npusim.frontends.rewriting import rewritten
from npusim.isa.base.errors import GraphError
from npusim.kernels.graph.builder import GraphBuilder
from npusim.kernels.graph.graph import Graph, Node, quoted


def written(graph: Graph) -> bytes:
    """Return the `.hal` file of a graph, inputs and outputs in its order; equal graphs give equal bytes.

    Raises GraphError that names the layers which NNAPI cannot express, and why.
    """
    return hal_file.dumps(model(graph))


def operators() -> frozenset[str]:
    """Return the operators that NNAPI has an operation for, at least for some parameters and types."""
    return frozenset(OPERATIONS.keys() | REWRITES.keys())


def model(graph: Graph) -> Model:
    """Return the model of a graph, which keeps the rules of the HAL. Raises GraphError as `written` does."""
    if graph.states:
        raise GraphError("has states, which NNAPI does not have")
    refusals = Refusals()
    wanted = in_tensors(rewritten(graph, REWRITES, refusals))

    def check(node: Node) -> None:
        _check(_alone(wanted, node))

    for_every_node(wanted, check, refusals)
    refusals.check()
    hal_model = _check(wanted)
    check_same(wanted, graph_of(hal_model, GraphBuilder(graph.name)), "NNAPI")
    return hal_model


def _check(graph: Graph) -> Model:
    """Return the model of a rewritten graph. Raises GraphError for a rule that it breaks."""
    hal_model, names = model_of(graph)
    checked = check_model(hal_model)
    if isinstance(checked, Fault):
        text = checked.text if _OPERAND.search(checked.text) else checked.message
        raise GraphError(_OPERAND.sub(lambda match: _name(names.get(int(match[1]))), text))
    return hal_model


_OPERAND = re.compile(r"operands\[(\d+)\]")


def _name(tensor: str | None) -> str:
    """Return the name of an operand in messages: that of its tensor, or "a parameter"."""
    return "a parameter" if tensor is None else f"tensor {quoted(tensor)}"


def _alone(graph: Graph, node: Node) -> Graph:
    """Return a graph of one node, to check that node alone."""
    operands = dict.fromkeys(number for number in node.inputs if number is not None)
    inputs = tuple(number for number in operands if not graph.tensors[number].constant)
    return replace(graph, nodes=(node,), inputs=inputs, outputs=node.outputs)
