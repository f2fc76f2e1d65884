"""Operators of TFLite that decide: which subgraphs of the file are their bodies."""

from __future__ import annotations

from typing import NamedTuple

from npusim.kernels.graph.control import IF, WHILE


class Deciding(NamedTuple):
    """A node that decides: its operator, its options table, the options that number its bodies, in order, and the first
    operand that the bodies take.
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
