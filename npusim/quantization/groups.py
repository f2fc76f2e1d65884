"""Scale and zero point of every tensor: tensors that an operator only moves share them, as in TFLite.

A group of tensors has the range of all its members, or a fixed quantization. If an operator with several operands would
join a group of fixed quantization with another one, the operand stays out of the group and is requantized in front of
the operator.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from npusim.isa.base.tensor import Quantization
from npusim.kernels.graph.graph import Graph, Node
from npusim.quantization.ranges import Range, range_of
from npusim.quantization.rules import RULES, Activations, Way


def reals_of(graph: Graph, node: Node) -> list[int]:
    """Return the operands of a node that are float32, in order."""
    return [
        number
        for number in node.inputs
        if number is not None and graph.tensors[number].type.dtype == "float32"
    ]


def real_results(graph: Graph, node: Node) -> list[int]:
    """Return the results of a node that are float32."""
    return [number for number in node.outputs if graph.tensors[number].type.dtype == "float32"]


def schemes(
    graph: Graph, in_codes: Mapping[str, bool], ranges: Mapping[int, Range], activations: Activations
) -> dict[int, Quantization]:
    """Return the quantization of every float32 operand and result of quantized nodes, without weights and biases.

    in_codes: node name -> whether the node is quantized.
    """
    groups = _Groups(graph, ranges, activations)
    nodes = [node for node in graph.nodes if in_codes[node.name]]
    for node in nodes:
        rule = activations.rules[node.op]
        if rule.fixed is not None:
            groups.fix(node.outputs[0], rule.fixed)
    alike = [node for node in nodes if RULES[node.op].way is Way.ALIKE]
    # What takes one tensor goes first: then it is known which codes are fixed where several meet.
    for node in sorted(alike, key=lambda node: len(reals_of(graph, node)) > 1):
        operands = reals_of(graph, node)
        for first, second in _ties(graph, node):
            groups.tie(first, second, several=len(operands) > 1)
    return {tensor: groups.scheme(tensor) for node in nodes for tensor in _coded(graph, node)}


def weighted_operands(graph: Graph, node: Node) -> list[int]:
    """Return the quantized operands of a node, without weights and biases."""
    return reals_of(graph, node)[:1] if RULES[node.op].way is Way.WEIGHTED else reals_of(graph, node)


def _coded(graph: Graph, node: Node) -> Iterator[int]:
    yield from weighted_operands(graph, node)
    yield from real_results(graph, node)


def _ties(graph: Graph, node: Node) -> Iterator[tuple[int, int]]:
    """Yield pairs of an operand and a result that must have the same quantization."""
    for result in real_results(graph, node):
        for operand in reals_of(graph, node):
            yield operand, result


class _Groups:
    """Tensors by group: a forest in which every tensor leads to the one that stands for its group."""

    def __init__(self, graph: Graph, ranges: Mapping[int, Range], activations: Activations) -> None:
        self._graph, self._measured, self._activations = graph, ranges, activations
        self._above: dict[int, int] = {}
        self._ranges: dict[int, Range] = {}
        self._fixed: dict[int, Quantization] = {}

    def fix(self, tensor: int, scheme: Quantization) -> None:
        """Give a tensor a fixed quantization, which does not depend on the samples."""
        self._fixed[self._top(tensor)] = scheme

    def tie(self, operand: int, result: int, several: bool) -> None:
        """Let an operand and a result share their quantization, unless it is fixed for one of several operands."""
        first, second = self._top(operand), self._top(result)
        fixed = {top: self._fixed.get(top) for top in (first, second)}
        if first == second or (several and fixed[first] != fixed[second]):
            return
        self._above[first] = second
        self._ranges[second] = self._range(first).joined(self._range(second))
        scheme = fixed[first] or fixed[second]
        if scheme is not None:
            self._fixed[second] = scheme

    def scheme(self, tensor: int) -> Quantization:
        """Return the quantization of a tensor."""
        top = self._top(tensor)
        return self._fixed.get(top) or self._activations.scheme(self._range(top))

    def _top(self, tensor: int) -> int:
        while tensor in self._above:
            tensor = self._above[tensor]
        return tensor

    def _range(self, top: int) -> Range:
        if top not in self._ranges:
            data = self._graph.tensors[top].array
            self._ranges[top] = self._measured[top] if data is None else range_of(data)
        return self._ranges[top]
