"""Rules that the table of operations says: signatures, parameters, sizes, quantization."""

from __future__ import annotations

from collections.abc import Iterator

from npusim.frontends.nn_hal.checked import CheckedGraph, CheckedModel
from npusim.frontends.nn_hal.enumerations import ErrorStatus
from npusim.frontends.nn_hal.fault import Fault
from npusim.frontends.nn_hal.operations.call import Known
from npusim.frontends.nn_hal.operations.conversion import Needs, Refused
from npusim.frontends.nn_hal.operations.parts import GraphParts
from npusim.frontends.nn_hal.rules.rule import Rule


def operations(model: CheckedModel, graph: CheckedGraph) -> Iterator[Fault]:
    """The inputs and outputs of an operation are those of one of its signatures, only optional ones are omitted, and
    parameters, sizes, scales and zero points are as its text says."""
    parts = GraphParts(graph.place or "main", Known(graph), model.version, model.referenced)
    for operation in graph.operations:
        try:
            parts.add(operation)
            parts.open_rows(operation)
        except Refused as refused:
            if refused.fault.status is ErrorStatus.INVALID_ARGUMENT:
                yield refused.fault
                return
        except Needs:  # the request will say what is missing; then it is checked again
            continue


RULES: tuple[Rule, ...] = (Rule(("O3", "O4", "O5", "O6", "O7", "L6"), operations),)
"""After all others: they count on indexes, lifetimes and constants being sound."""
