"""What a conversion knows of the graph that its node is in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from npusim.frontends.forms.networks import Network, Node
from npusim.frontends.forms.qdq import Codes
from npusim.kernels.graph.builder import GraphBuilder


class Surroundings(Protocol):
    """Where a conversion finds tensors and says what it makes."""

    @property
    def builder(self) -> GraphBuilder:
        """What the nodes go to."""

    @property
    def opsets(self) -> Mapping[str, int]:
        """Versions of the operations by domain."""

    def number(self, name: str) -> int:
        """The tensor of a value, in reals where a DequantizeLinear makes it."""

    def codes(self, name: str) -> int | None:
        """The tensor of the codes that a DequantizeLinear makes a value of; None where there is none."""

    def dequantized(self, name: str, codes: int) -> None:
        """Says that a value is what these codes stand for."""

    def bits(self, name: str) -> int:
        """How many bits the elements of a value have, where that is not all of their type; otherwise 0."""

    def result(self, name: str) -> Codes | None:
        """The codes in which a value is held; None where it stays real."""

    def body(self, network: Network, operands: Sequence[int]) -> list[int]:
        """The results of a network within a node for these inputs."""

    def sums(self, node: Node) -> bool:
        """Whether a node adds up products of codes, and real numbers are made of the sums."""

    def in_reals(self, node: Node, reason: str) -> None:
        """Says why a node computes in reals that could compute on codes."""

    @property
    def makers(self) -> dict[int, int]:
        """The places of nodes in the graph by the tensors that they make."""
