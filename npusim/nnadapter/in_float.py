"""Operations that keep float: codes become real numbers in front of them and codes again behind them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from npusim.frontends.nnadapter.network import Network, PieceGraph
from npusim.isa.base.tensor import Array, TensorType
from npusim.kernels.graph.graph import Graph, Node, Tensor
from npusim.kernels.operator.in_reals import reals_of_codes
from npusim.kernels.table import operator

REAL = "float32"
_CONVERSIONS = ("quantize", "dequantize")


class FloatNetwork:
    """A network of which some operations, by place, compute on real numbers. Everything else is that of the network."""

    def __init__(self, network: Network, places: Collection[int]) -> None:
        self._network, self._places = network, frozenset(places)
        self.name, self.steps, self.states = network.name, network.steps, network.states
        self.inputs, self.outputs, self.counted = network.inputs, network.outputs, network.counted

    def tensor_name(self, number: int) -> str:
        """What a tensor is called."""
        return self._network.tensor_name(number)

    def tensor_type(self, number: int) -> TensorType:
        """The type of an input or output of the model or of a piece."""
        return self._network.tensor_type(number)

    def value(self, number: int) -> Array | None:
        """The value of a tensor that is fixed before anything runs."""
        return self._network.value(number)

    def piece(self, operations: Sequence[int], *, in_reals: bool = False) -> PieceGraph:
        """Some operations, in this order, as a graph."""
        made = self._network.piece(operations, in_reals=in_reals)
        rewriting = _Rewriting(made.graph)
        for node, group in zip(made.graph.nodes, made.groups, strict=True):
            rewriting.add(node, group, group in self._places)
        graph = replace(made.graph, tensors=tuple(rewriting.tensors), nodes=tuple(rewriting.nodes))
        return made._replace(graph=graph, groups=tuple(rewriting.groups))


class _Rewriting:
    """A graph in the making."""

    def __init__(self, graph: Graph) -> None:
        self.tensors = list(graph.tensors)
        self.nodes: list[Node] = []
        self.groups: list[int] = []
        self._reals: dict[int, int] = {}

    def add(self, node: Node, group: int, in_float: bool) -> None:
        """A node as it is, or on real numbers."""
        coded = [number for number in node.outputs if self.tensors[number].type.quantized]
        if not in_float or not coded or node.op in _CONVERSIONS:
            self._take(node, group)
            return
        inputs = [number if number is None else self._real(number, group) for number in node.inputs]
        outputs = {
            number: self._new(number, "real") if number in coded else number for number in node.outputs
        }
        self._take(replace(node, inputs=tuple(inputs), outputs=tuple(outputs.values())), group)
        for number in coded:
            self._convert("quantize", outputs[number], number, group, saturating=True)

    def _take(self, node: Node, group: int) -> None:
        self.nodes.append(node)
        self.groups.append(group)

    def _real(self, number: int, group: int) -> int:
        """A tensor as real numbers; a constant is converted here."""
        tensor = self.tensors[number]
        if not tensor.type.quantized:
            return number
        if number not in self._reals:
            made = self._new(number, "real")
            if tensor.array is not None:
                self.tensors[made] = replace(self.tensors[made], data=_reals(tensor))
            else:
                self._convert("dequantize", number, made, group)
            self._reals[number] = made
        return self._reals[number]

    def _new(self, number: int, word: str) -> int:
        """A new tensor of real numbers in the shape of another."""
        like = self.tensors[number]
        self.tensors.append(Tensor(f"{like.name}/{word}", TensorType(REAL, like.type.shape)))
        return len(self.tensors) - 1

    def _convert(self, op: str, source: int, target: int, group: int, **parameters: Any) -> None:
        made = operator(op).parameters(**parameters)
        self._take(Node(f"{self.tensors[target].name}/{op}", op, (source,), (target,), made), group)


def _reals(tensor: Tensor) -> Array:
    """What the codes of a constant stand for."""
    assert tensor.array is not None
    reals = reals_of_codes(tensor.array, tensor.type)
    reals.setflags(write=False)
    return reals
