"""The values of a network while its graph is built, as the conversion of a node sees them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from npusim.frontends.forms.networks import Network, Node
from npusim.frontends.forms.packed_weights import PackedWeights
from npusim.frontends.forms.qdq import Codes
from npusim.frontends.forms.qdq_groups import Plan, Seen
from npusim.isa.base.errors import GraphError
from npusim.kernels.graph.builder import GraphBuilder
from npusim.kernels.graph.graph import quoted


class NetworkValues:
    """The tensors of a network's values, and which of these are quantized.

    builder: the graph under construction.
    makers: the index of the node that makes each tensor.
    packed: for constants that are dequantized weights in blocks, how they are stored.
    """

    def __init__(
        self, network: Network, builder: GraphBuilder, plan: Plan, outer: NetworkValues | None = None
    ) -> None:
        """outer: the values of the network that this one is a body of, which it sees too."""
        self.builder = builder
        self.makers: dict[int, int] = {}
        self.packed: dict[int, PackedWeights] = {}
        self._network, self._plan, self._outer = network, plan, outer
        self._numbers: dict[str, int] = {}
        self._codes: dict[str, int] = {}

    def as_real(self, name: str, codes: int) -> int:
        """Return a quantized tensor dequantized, as the value of a name."""
        raise NotImplementedError

    def body(self, network: Network, operands: Sequence[int]) -> list[int]:
        """Add the nodes of a nested network, and return its results for these operands."""
        raise NotImplementedError

    @property
    def opsets(self) -> Mapping[str, int]:
        """Versions of the operations by domain."""
        return self._network.opsets

    def number(self, name: str) -> int:
        """Return the tensor of a value, dequantized if a DequantizeLinear makes it."""
        if name in self._numbers:
            return self._numbers[name]
        if name in self._network.constants:
            self._numbers[name] = self.builder.constant(name, self._network.constants[name])
        elif name in self._codes:
            self._numbers[name] = self.as_real(name, self._codes[name])
        elif self._outer is not None:
            return self._outer.number(name)
        else:
            raise GraphError(f"value {quoted(name)} is read, and nothing before writes it")
        return self._numbers[name]

    def codes(self, name: str) -> int | None:
        """Return the quantized tensor that a DequantizeLinear turns into a value; None if there is none."""
        if name not in self._codes and name not in self._numbers and self._outer is not None:
            return self._outer.codes(name)
        return self._codes.get(name)

    def dequantized(self, name: str, codes: int) -> None:
        """State that a value is the dequantized value of a quantized tensor."""
        self._codes[name] = codes

    def bits(self, name: str) -> int:
        """Return the bits per element of a value that is stored one element per byte; 0 if its type states them."""
        return self._network.narrow.get(name, 0)

    def result(self, name: str) -> Codes | None:
        """Return the quantization of a value; None for floats."""
        return self._plan.results.get(name)

    def sums(self, node: Node) -> bool:
        """Return whether a node sums products of quantized values and has a float result."""
        return node in self._plan.sums

    def computes_in_floats(self, node: Node, reason: str) -> None:
        """Report why a node computes on floats although its operation could compute on quantized values."""
        self._plan.reasons.append((reason, node))

    def held(self) -> dict[str, Seen]:
        """Return the quantized values, including those of enclosing networks."""
        held = {} if self._outer is None else self._outer.held()
        for name, number in self._codes.items():
            kind, constant = self.builder.type(number), self.builder.tensors[number].constant
            if kind.quantization is not None:
                codes = Codes(kind.dtype, kind.quantization)
                held[name] = Seen(codes, kind.shape if constant else None)
        return held
