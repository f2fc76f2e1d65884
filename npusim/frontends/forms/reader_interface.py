"""The part of a reader that the conversion of one node uses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from npusim.frontends.forms.networks import Network, Node
from npusim.frontends.forms.qdq import Codes
from npusim.kernels.graph.builder import GraphBuilder


class Surroundings(Protocol):
    """The graph under construction, as the conversion of a node sees it."""

    @property
    def builder(self) -> GraphBuilder:
        """The builder that nodes are added to."""

    @property
    def opsets(self) -> Mapping[str, int]:
        """Versions of the operations by domain."""

    def number(self, name: str) -> int:
        """Return the tensor of a value, dequantized if a DequantizeLinear makes it."""

    def codes(self, name: str) -> int | None:
        """Return the quantized tensor that a DequantizeLinear turns into a value; None if there is none."""

    def dequantized(self, name: str, codes: int) -> None:
        """State that a value is the dequantized value of a quantized tensor."""

    def bits(self, name: str) -> int:
        """Return the bits per element of a value that is stored one element per byte; 0 if its type states them."""

    def result(self, name: str) -> Codes | None:
        """Return the quantization of a value; None for floats."""

    def body(self, network: Network, operands: Sequence[int]) -> list[int]:
        """Add the nodes of a nested network, and return its results for these operands."""

    def sums(self, node: Node) -> bool:
        """Return whether a node sums products of quantized values and has a float result."""

    def in_reals(self, node: Node, reason: str) -> None:
        """Report why a node computes on floats although its operation could compute on quantized values."""

    @property
    def makers(self) -> dict[int, int]:
        """The index of the node that makes each tensor."""
