"""Convert a float graph to int8 or int16 activations, with conversions around the layers that stay in floats."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from npusim.isa.base.tensor import Array, Quantization, TensorType
from npusim.kernels.graph.builder import GraphBuilder
from npusim.kernels.graph.check import check_bound
from npusim.kernels.graph.graph import Graph, Node, call_of, quoted
from npusim.kernels.operator.parameters import Parameters
from npusim.kernels.table import known, operator
from npusim.quantization.groups import real_results, reals_of, schemes
from npusim.quantization.ranges import Range
from npusim.quantization.rules import INT8, Activations, Way
from npusim.quantization.scales import codes, symmetric, wide_enough

_WEIGHTS, _BIAS = 1, 2
BY_TENSOR = ("fully_connected",)
"""Operators whose weights have one scale per tensor in TFLite, unless `every_channel` is set."""


class Options(NamedTuple):
    """Options of the quantization of a network.

    codes_outside: inputs and outputs are quantized; otherwise they stay float32.
    every_channel: fully connected layers have a scale per unit too.
    """

    codes_outside: bool = False
    every_channel: bool = False
    activations: Activations = INT8


class InFloats(NamedTuple):
    """A layer that stayed in floating point, with the reason."""

    layer: str
    op: str
    reason: str


def quantized(
    graph: Graph, ranges: Mapping[int, Range], options: Options
) -> tuple[Graph, tuple[InFloats, ...]]:
    """Return the quantized graph, and the layers that stayed in floats.

    graph:  a float32 graph with known sizes, without states and without IF or WHILE.
    ranges: ranges of its inputs and computed tensors, by number.
    """
    reasons = {node.name: _refusal(graph, node, options.activations) for node in graph.nodes}
    while True:
        in_codes = {name: not reason for name, reason in reasons.items()}
        work = _Conversion(graph, in_codes, schemes(graph, in_codes, ranges, options.activations), options)
        result = work.graph()
        broken = work.broken()
        if not broken:
            break
        reasons |= broken  # layers that break a rule when quantized stay in floats; check the others again
    kept = [
        InFloats(node.name, node.op, reasons[node.name])
        for node in graph.nodes
        if reasons[node.name] and real_results(graph, node)
    ]
    return check_bound(result), tuple(kept)


def _refusal(graph: Graph, node: Node, activations: Activations) -> str:
    """Return why a node stays in floats; "" if nothing prevents quantizing it."""
    if not reals_of(graph, node):
        return "computes no reals"
    if node.op not in activations.rules:
        return activations.float_only
    given = [graph.tensors[number] for number in node.inputs if number is not None]
    for held in given:
        if held.array is not None and held.array.dtype.kind == "f" and not np.isfinite(held.array).all():
            return f"its constant {quoted(held.name)} is not finite everywhere, so it has no range"
    if activations.rules[node.op].way is Way.WEIGHTED and any(held.array is None for held in given[1:]):
        return "its weights or its bias are computed"
    return ""


class _Conversion:
    """The quantized graph under construction. A tensor may exist as floats, quantized, or both."""

    def __init__(
        self,
        graph: Graph,
        in_codes: Mapping[str, bool],
        schemes: Mapping[int, Quantization],
        options: Options,
    ) -> None:
        self._graph, self._in_codes, self._schemes, self._options = graph, in_codes, schemes, options
        self._to = options.activations
        self._builder = GraphBuilder(graph.name)
        self._reals: dict[int, int] = {}
        self._codes: dict[tuple[int, Quantization], int] = {}
        self._made: dict[str, Node] = {}

    def graph(self) -> Graph:
        """Return the graph; its inputs and outputs are in the order and have the names of the float graph's."""
        for number in self._graph.inputs:
            self._input(number)
        for node in self._graph.nodes:
            if self._in_codes[node.name]:
                self._node_in_codes(node)
            else:
                self._node_in_floats(node)
        return self._builder.graph([self._output(number) for number in self._graph.outputs])

    def broken(self) -> dict[str, str]:
        """Return the rules that quantized nodes break, by node name."""
        faults = {}
        for name, node in self._made.items():
            rule = operator(node.op).broken_rule(call_of(self._builder, node)) if known(node.op) else None
            if rule is not None:
                faults[name] = f"in codes: {rule}"
        return faults

    # Ends

    def _input(self, number: int) -> None:
        tensor = self._graph.tensors[number]
        scheme = self._schemes.get(number)
        if scheme is None or not self._options.codes_outside:
            self._reals[number] = self._builder.input(tensor.name, tensor.type)
        else:
            self._codes[number, scheme] = self._builder.input(
                tensor.name, _coded(tensor.type, scheme, self._to.dtype)
            )

    def _output(self, number: int) -> int:
        tensor, scheme = self._graph.tensors[number], self._schemes.get(number)
        in_floats = scheme is None or not self._options.codes_outside
        output = self._real(number) if in_floats or scheme is None else self._code(number, scheme)
        held = self._builder.tensors[output]
        if output not in self._builder.inputs and not held.constant:
            self._rename(output, tensor.name)
        return output

    def _rename(self, number: int, name: str) -> None:
        """Give a tensor a name; another tensor with this name is renamed."""
        tensors = self._builder.tensors
        for other, tensor in enumerate(tensors):
            if other != number and tensor.name == name:
                tensors[other] = replace(tensor, name=f"{name}_codes")
        tensors[number] = replace(tensors[number], name=name)

    # Tensors

    def _real(self, number: int) -> int:
        """Return a tensor of the float graph in floats."""
        if number not in self._reals:
            tensor = self._graph.tensors[number]
            codes = next((codes for (of, _), codes in self._codes.items() if of == number), None)
            if tensor.array is not None:
                self._reals[number] = self._builder.tensor(tensor.name, tensor.type, tensor.array)
            elif codes is not None:
                (self._reals[number],) = self._builder.node(
                    "dequantize", [codes], [tensor.type], name=f"{tensor.name}_real"
                )
            else:
                self._reals[number] = self._builder.tensor(tensor.name, tensor.type)
        return self._reals[number]

    def _code(self, number: int, scheme: Quantization) -> int:
        """Return a tensor with this quantization."""
        if (number, scheme) in self._codes:
            return self._codes[number, scheme]
        tensor, own = self._graph.tensors[number], self._schemes.get(number)
        kind = _coded(tensor.type, scheme, self._to.dtype)
        if tensor.array is not None:
            data = codes(tensor.array, scheme, self._to.dtype)
            new = self._builder.tensor(tensor.name, kind, data)
        else:
            rescaled = own is not None and (number, own) in self._codes
            source = self._code(number, own) if rescaled and own is not None else self._real(number)
            (new,) = self._builder.node(
                "quantize", [source], [kind], operator("quantize").parameters(), name=f"{tensor.name}_codes"
            )
        self._codes[number, scheme] = new
        return new

    # Nodes

    def _node_in_floats(self, node: Node) -> None:
        operands = [None if number is None else self._real(number) for number in node.inputs]
        results = [self._real(number) for number in node.outputs]
        self._builder.add(node.op, operands, results, node.parameters, name=node.name)

    def _node_in_codes(self, node: Node) -> None:
        rule = self._to.rules[node.op]
        results = []
        for number in node.outputs:
            tensor, scheme = self._graph.tensors[number], self._schemes.get(number)
            if scheme is None:
                results.append(self._real(number))
                continue
            codes = self._builder.tensor(tensor.name, _coded(tensor.type, scheme, self._to.dtype))
            self._codes[number, scheme] = codes
            results.append(codes)
        parameters = node.parameters
        if rule.way is Way.WEIGHTED:
            operands = self._weighted(node)
        else:
            shared = next((self._schemes[number] for number in real_results(self._graph, node)), None)
            alike = shared if rule.way is Way.ALIKE else None
            operands = [
                self._int8_constant(number) if position == rule.int8_operand else self._operand(number, alike)
                for position, number in enumerate(node.inputs)
            ]
            parameters = _in_codes(parameters, alike, self._to.dtype)
        self._made[node.name] = self._builder.add(node.op, operands, results, parameters, name=node.name)

    def _operand(self, number: int | None, shared: Quantization | None) -> int | None:
        """Return an operand with its own quantization, or with the one that all operands share."""
        if number is None:
            return None
        if number not in self._schemes:
            return self._real(number)
        return self._code(number, shared or self._schemes[number])

    def _int8_constant(self, number: int | None) -> int | None:
        """Return a constant as symmetric int8 values; a computed tensor is quantized like any other operand."""
        if number is None or (held := self._graph.tensors[number]).array is None:
            return self._operand(number, None)
        scheme = Quantization(tuple(symmetric(held.array, None).tolist()), (0,))
        return self._builder.constant(held.name, codes(held.array, scheme, "int8"), scheme)

    def _weighted(self, node: Node) -> list[int | None]:
        """Return the operands of a weighted sum, quantized; the bias has the scale of input times weights."""
        x, weights, *rest = node.inputs
        assert x is not None
        assert weights is not None
        bias = rest[0] if rest else None
        scheme = self._schemes[x]
        tensor = self._graph.tensors[weights]
        held = None if bias is None else self._graph.tensors[bias].array
        assert tensor.array is not None
        by_channel = node.op not in BY_TENSOR or self._options.every_channel
        axis = self._to.rules[node.op].axis if by_channel else None
        scales = wide_enough(symmetric(tensor.array, axis), scheme.scale, held, self._to.bias)
        # A single scale counts as one per tensor, also if there is only one channel.
        of_weights = Quantization(
            tuple(scales.tolist()), (0,) * len(scales), axis if len(scales) > 1 else None
        )
        data = codes(tensor.array, of_weights, "int8")
        operands: list[int | None] = [
            self._code(x, scheme),
            self._builder.constant(tensor.name, data, of_weights),
        ]
        if held is not None and bias is not None:
            operands.append(self._bias(held, self._graph.tensors[bias].name, scheme.scale * scales))
        return operands

    def _bias(self, values: Array, name: str, steps: np.ndarray) -> int:
        scales = tuple(np.float32(steps).astype(np.float64).reshape(-1).tolist())
        flat: Array = values.reshape(-1)
        scheme = Quantization(scales, (0,) * len(scales), 0 if len(scales) > 1 else None)
        return self._builder.constant(name, codes(flat, scheme, self._to.bias), scheme)


def _in_codes(parameters: Parameters, scheme: Quantization | None, dtype: str) -> Parameters:
    """Return the parameters of a quantized node: the value of its padding is quantized as well."""
    value = getattr(parameters, "pad_value", None)
    if value is None or scheme is None:
        return parameters
    return parameters.changed(pad_value=int(codes(np.array(value, np.float64), scheme, dtype)))


def _coded(kind: TensorType, scheme: Quantization, dtype: str) -> TensorType:
    return replace(kind, dtype=dtype, quantization=scheme)
