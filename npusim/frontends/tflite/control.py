"""Control-flow operators of TFLite, and the subgraphs of the file that are their bodies."""

from __future__ import annotations

from typing import NamedTuple

from npusim.kernels.graph.control import IF, WHILE


class Deciding(NamedTuple):
    """A control-flow operator.

    op:      the operator of the node.
    first:   the first operand that the bodies take.
    options: the options table.
    bodies:  the options that number its bodies.
    """

    op: str
    first: int
    options: str
    bodies: tuple[str, str]


DECIDING = {
    "IF": Deciding(IF, 1, "IfOptions", ("ThenSubgraphIndex", "ElseSubgraphIndex")),
    "WHILE": Deciding(WHILE, 0, "WhileOptions", ("CondSubgraphIndex", "BodySubgraphIndex")),
}
"""By the name of the schema's BuiltinOperator."""
