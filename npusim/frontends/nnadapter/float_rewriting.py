"""Rewriting of quantized operations of a graph to floating point: dequantize, compute, quantize."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from npusim.frontends.forms.conversion import CONVERTERS
from npusim.isa.base.tensor import TensorType
from npusim.kernels.graph.graph import Graph, Node, Tensor
from npusim.kernels.operator.element_types import dequantize_values
from npusim.kernels.table import operator


def in_floating_point(
    graph: Graph, groups: Sequence[int], places: Collection[int]
) -> tuple[Graph, tuple[int, ...]]:
    """Return a graph in which the nodes of some operations compute in float32, and the operation of each of its nodes.

    groups: per node of `graph`, the number of its operation.
    places: the operations in floating point. Nodes without quantized results stay as they are.
    """
    rewriting = _Rewriting(graph)
    for node, group in zip(graph.nodes, groups, strict=True):
        rewriting.add(node, group, group in places)
    rewritten = replace(graph, tensors=tuple(rewriting.tensors), nodes=tuple(rewriting.nodes))
    return rewritten, tuple(rewriting.groups)


class _Rewriting:
    """A rewritten graph under construction."""

    def __init__(self, graph: Graph) -> None:
        self.tensors = list(graph.tensors)
        self.nodes: list[Node] = []
        self.groups: list[int] = []
        self._floats: dict[int, int] = {}

    def add(self, node: Node, group: int, in_float: bool) -> None:
        """Add a node of the original graph."""
        quantized = [number for number in node.outputs if self.tensors[number].type.quantized]
        if not in_float or not quantized or node.op in CONVERTERS:
            self._append(node, group)
            return
        inputs = [number if number is None else self._as_float(number, group) for number in node.inputs]
        outputs = {number: self._new(number) if number in quantized else number for number in node.outputs}
        self._append(replace(node, inputs=tuple(inputs), outputs=tuple(outputs.values())), group)
        for number in quantized:
            self._convert("quantize", outputs[number], number, group, saturating=True)

    def _append(self, node: Node, group: int) -> None:
        self.nodes.append(node)
        self.groups.append(group)

    def _as_float(self, number: int, group: int) -> int:
        """Return a dequantized tensor; a constant is dequantized here."""
        tensor = self.tensors[number]
        if not tensor.type.quantized:
            return number
        if number not in self._floats:
            made = self._new(number)
            if tensor.array is not None:
                floats = dequantize_values(tensor.array, tensor.type)
                floats.setflags(write=False)
                self.tensors[made] = replace(self.tensors[made], data=floats)
            else:
                self._convert("dequantize", number, made, group)
            self._floats[number] = made
        return self._floats[number]

    def _new(self, number: int) -> int:
        """Add a float32 tensor in the shape of another and return it."""
        like = self.tensors[number]
        self.tensors.append(Tensor(f"{like.name}/real", TensorType("float32", like.type.shape)))
        return len(self.tensors) - 1

    def _convert(self, op: str, source: int, target: int, group: int, **parameters: Any) -> None:
        made = operator(op).parameters(**parameters)
        self._append(Node(f"{self.tensors[target].name}/{op}", op, (source,), (target,), made), group)
