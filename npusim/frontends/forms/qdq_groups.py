"""The pass that finds which float operations between DequantizeLinear and QuantizeLinear compute on integers.

Two passes over a network decide which values are stored quantized. Backward: the quantization that all readers of a
value ask for. Rounding is monotone and the same for every element, so a QuantizeLinear commutes with operations that
move elements (Reshape, Concat, MaxPool) and with limits (Relu, Clip). Forward: quantized values pass through moves
likewise. An operation with quantized operands and quantized results forms a *group* with the nodes around it. The
results equal those of the nodes computed one by one.

Between them there may be several elementwise operations, like the Div, Erf, Add and Mul of a GELU. If these depend on
one 8-bit value and on constants of one element, they become a look-up table of 256 entries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from itertools import chain
from math import inf
from typing import Any, NamedTuple

import numpy as np

from npusim.frontends.forms import accumulators
from npusim.frontends.forms.arithmetic import Limits
from npusim.frontends.forms.networks import Network, Node
from npusim.frontends.forms.qdq import DEQUANTIZE, QUANTIZE, Codes, codes_of, moved_axis
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.tensor import Array

MOVES: Mapping[str, slice] = {
    **dict.fromkeys(
        (
            *("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Transpose", "DepthToSpace", "SpaceToDepth"),
            *("Slice", "Split", "Gather", "GatherElements", "GatherND", "Tile", "Expand", "Dropout"),
            *("MaxPool", "GlobalMaxPool", "ReduceMax", "ReduceMin", "Pad", "Resize", "Trilu"),
        ),
        slice(0, 1),
    ),
    "Concat": slice(0, None),
    "Where": slice(1, 3),
    "Max": slice(0, None),
    "Min": slice(0, None),
}  # fmt: skip
"""Operations whose results are elements of their inputs, and which inputs these are."""

NEEDS_TARGET = frozenset({"Pad"})
"""Moves that add an element of their own, which must be representable in the quantization."""


@dataclass(slots=True)
class Plan:
    """The decisions for a network.

    results: the quantization of values that are stored quantized without a DequantizeLinear.
    sums: weighted sums of quantized values whose results are floats, or whose bias is a float.
    bounds: limits of values that are quantized already.
    tables: chains of operations that become look-up tables.
    gone: operations that only such tables need.
    reasons: why operations with quantized operands compute on floats, with the operation.
    """

    results: dict[str, Codes] = field(default_factory=dict)
    sums: set[Node] = field(default_factory=set)
    bounds: dict[Node, Limits] = field(default_factory=dict)
    tables: dict[Node, Region] = field(default_factory=dict)
    gone: set[Node] = field(default_factory=set)
    reasons: list[tuple[str, Node]] = field(default_factory=list)


class Seen(NamedTuple):
    """A quantized value that a nested graph sees; shape: that of a constant."""

    codes: Codes
    shape: tuple[int, ...] | None


def summary(reasons: Sequence[tuple[str, Node]]) -> list[str]:
    """Return one line per reason, with the first operation and the number of others."""
    by_reason: dict[str, list[Node]] = {}
    for reason, node in reasons:
        by_reason.setdefault(reason, []).append(node)
    lines = []
    for reason, nodes in by_reason.items():
        others = f" and {len(nodes) - 1} more" if len(nodes) > 1 else ""
        lines.append(f"{nodes[0].place}{others}: no group, because {reason}")
    return lines


def plan(
    network: Network,
    constants: Mapping[str, Array],
    groupable: Callable[[Node], bool],
    outer: Mapping[str, Seen] | None = None,
) -> Plan:
    """Return the plan of a network.

    groupable: whether an operation may compute on quantized values.
    outer: quantized values of enclosing networks, for the body of a control-flow node.
    """
    return _Planning(network, constants, groupable, outer or {}).plan()


_SAME_VALUE = frozenset({QUANTIZE, DEQUANTIZE, "Identity", "Dropout", "Relu", "Clip"})
"""Operations that may return their operand unchanged."""

_NONE = "no QuantizeLinear follows"

_UNPAIRED = ""
"""The reason for an output of the network: no QuantizeLinear follows that could form a group with it."""


class _Planning:
    def __init__(
        self,
        network: Network,
        constants: Mapping[str, Array],
        groupable: Callable[[Node], bool],
        outer: Mapping[str, Seen],
    ) -> None:
        self._network = network
        self._constants = constants
        self._groupable = groupable
        self._readers: dict[str, list[Node]] = {}
        self._kept = {*network.outputs, *chain.from_iterable(map(captured, network.nodes))}
        self._targets: dict[str, Codes | str] = {}
        self._held: dict[str, Codes] = {name: seen.codes for name, seen in outer.items()}
        self._fixed: dict[str, tuple[int, ...]] = {name: data.shape for name, data in constants.items()}
        self._fixed |= {name: seen.shape for name, seen in outer.items() if seen.shape is not None}
        self._dtypes = {value.name: value.dtype for value in network.inputs}
        self._dtypes |= {name: data.dtype.name for name, data in constants.items()}
        self._makers = {name: node for node in network.nodes for name in node.outputs}
        self._plan = Plan()
        for node in network.nodes:
            for name in dict.fromkeys(node.inputs):
                self._readers.setdefault(name, []).append(node)

    def plan(self) -> Plan:
        for node in reversed(self._network.nodes):
            for name in node.outputs:
                self._targets[name] = self._target(name)
        for node in self._network.nodes:
            self._forward(node)
        plan = self._plan
        plan.gone = unneeded(self._network.nodes, plan.tables, self._kept)
        plan.reasons = [(reason, node) for reason, node in plan.reasons if node not in plan.gone]
        return plan

    # Backward

    def _target(self, name: str) -> Codes | str:
        """Return the quantization that all readers of a value ask for, or why there is none."""
        asked = [self._asked_by(reader, name) for reader in self._readers.get(name, ())]
        codes = [stated for stated in asked if isinstance(stated, Codes)]
        if name in self._kept:
            return "the result is an output too, or read by a body" if codes else _UNPAIRED
        if not codes:
            return str(asked[0]) if asked else _UNPAIRED
        if len(codes) < len(asked):
            return "the result is also read as floating-point values"
        if any(other != codes[0] for other in codes):
            return "the result is quantized in different ways"
        return codes[0]

    def _asked_by(self, reader: Node, name: str) -> Codes | str:
        """Return the quantization in which a reader takes a value, or why it takes none."""
        if reader.operation == QUANTIZE and reader.inputs[0] == name:
            codes = codes_of(reader, self._constants, self._network.narrow, self._dtypes.get(name, ""))
            if codes is None or codes.quantization.axis is not None or codes.bits:
                return "the result is not quantized to 8 or 16 bits by one constant scale"
            return codes
        passed = name in reader.inputs[: 1 if bounds_of(reader, self._constants) else 0]
        if passed or (is_move(reader) and name in reader.inputs[MOVES[reader.role.operation]]):
            targets = [self._targets.get(output, "") for output in reader.outputs if self._is_read(output)]
            if targets and all(target == targets[0] for target in targets):
                return targets[0]
        return _NONE

    def _is_read(self, name: str) -> bool:
        return bool(name) and (name in self._kept or name in self._readers)

    # Forward

    def _forward(self, node: Node) -> None:
        if not node.inputs or not node.outputs:
            return  # The reader reports the missing operand.
        if node.operation in (QUANTIZE, DEQUANTIZE):
            self._code(node)
            return
        if self._as_table(node):
            return
        held = [self._held.get(name) for name in node.inputs]
        if not any(held) or not self._groupable(node):
            return
        if is_move(node):
            self._move(node, held[MOVES[node.role.operation]])
            return
        targets = [self._targets[name] for name in node.outputs if self._is_read(name)]
        misfit = accumulators.misfit(node, held, self._fixed)
        missing = next((target for target in targets if isinstance(target, str)), None)
        if missing is not None and misfit is None and accumulators.has_sums(node, held):
            self._plan.sums.add(node)
            if missing not in (_UNPAIRED, _NONE):
                self._plan.reasons.append((missing, node))
            return
        missing = misfit if missing is None else missing
        if missing is None:
            self._hold(dict(zip(node.outputs, self._codes(node), strict=True)))
            limits = bounds_of(node, self._constants)
            if limits and held[0] == self._held.get(node.outputs[0]) and not any(held[1:]):
                self._plan.bounds[node] = limits._replace(alone=self._is_alone(node))
        elif missing and any(
            codes and name not in self._fixed for name, codes in zip(node.inputs, held, strict=True)
        ):
            self._plan.reasons.append((missing, node))

    def _as_table(self, node: Node) -> bool:
        """Return whether a node is the last of a chain that becomes a look-up table."""
        target = self._targets[node.outputs[0]] if len(node.outputs) == 1 else None
        if not isinstance(target, Codes) or node.role.operation not in POINTWISE or not self._groupable(node):
            return False
        region = region_of(node, self._held, self._makers, self._constants, target)
        if region is None:
            return False
        self._plan.tables[node] = region
        self._hold({node.outputs[0]: target})
        return True

    def _is_alone(self, node: Node) -> bool:
        """Return whether a node is the only reader of its operand, also under its other names."""
        name = node.inputs[0]
        if name in self._kept or self._readers[name] != [node]:
            return False
        maker = self._makers.get(name)
        return maker is not None and (maker.role.operation not in _SAME_VALUE or self._is_alone(maker))

    def _codes(self, node: Node) -> list[Codes | None]:
        targets = [self._targets[name] for name in node.outputs]
        return [target if isinstance(target, Codes) else None for target in targets]

    def _hold(self, codes: Mapping[str, Codes | None]) -> None:
        for name, quantized in codes.items():
            if quantized is not None:
                self._held[name] = self._plan.results[name] = quantized

    def _code(self, node: Node) -> None:
        """Record the quantization that QuantizeLinear and DequantizeLinear state."""
        source, target = node.inputs[0], node.outputs[0]
        codes = codes_of(node, self._constants, self._network.narrow, self._dtypes.get(source, ""))
        if source in self._fixed:
            self._fixed[target] = self._fixed[source]
        if codes is not None and node.operation == DEQUANTIZE:
            self._held[target] = codes
        elif codes is not None:
            self._dtypes[target] = codes.dtype

    def _move(self, node: Node, held: Sequence[Codes | None]) -> None:
        """Record the quantization of a move's results: that of its operands, or if these differ, the one asked for."""
        first, targets = held[0], self._codes(node)
        same = first is not None and all(quantized == first for quantized in held)
        if first is not None and first.quantization.axis is not None:
            moved = moved_axis(node, first, self._fixed.get(node.inputs[0]), self._constants)
            if moved is not None and same:
                codes, shape = moved
                self._fixed[node.outputs[0]] = shape
                self._hold({node.outputs[0]: codes})
        elif same and (node.role.operation not in NEEDS_TARGET or first in targets):
            self._hold(dict.fromkeys(filter(None, node.outputs), first))
        elif any(held) and all(target is not None for target in targets):
            self._hold(dict(zip(node.outputs, targets, strict=True)))


def is_move(node: Node) -> bool:
    """Return whether a node's results are elements of its inputs."""
    node = node.role
    if node.domain or node.operation not in MOVES:
        return False
    if node.operation == "Resize":
        return bool(node.attributes.get("mode", "nearest") == "nearest")
    if node.operation == "MaxPool":
        return len(node.outputs) == 1
    return node.operation != "Dropout" or len(node.inputs) < 3


def bounds_of(node: Node, constants: Mapping[str, Array]) -> Limits | None:
    """Return the limits of a Relu or Clip; None for other operations, and for limits that only a run gives."""
    node = node.role
    if node.domain or node.operation not in ("Relu", "Clip"):
        return None
    if node.operation == "Relu":
        return Limits(0.0, inf)
    limits = []
    for place, (name, without) in enumerate((("min", -inf), ("max", inf)), 1):
        value: Any = node.attributes.get(name, without)
        if place < len(node.inputs) and node.inputs[place]:
            value = constants.get(node.inputs[place])
            if value is None or np.size(value) != 1:
                return None
        limits.append(float(np.asarray(value, np.float32).reshape(())))
    least, most = limits
    return Limits(least, most) if least <= most else None


def captured(node: Node) -> set[str]:
    """Return the values that nested graphs of a node read or return, including those of enclosing networks."""
    names: set[str] = set()
    for body in node.attributes.values():
        if isinstance(body, Network):
            names.update(body.outputs, *(inner.inputs for inner in body.nodes), *map(captured, body.nodes))
    return names


POINTWISE = frozenset({
    "Abs", "Add", "Sub", "Mul", "Div", "Neg", "Relu", "LeakyRelu", "PRelu", "Elu", "Selu", "Celu", "ThresholdedRelu",
    "HardSigmoid", "HardSwish", "Sigmoid", "Tanh", "Softplus", "Softsign", "Erf", "Exp", "Log", "Sqrt", "Reciprocal",
    "Pow", "Clip", "Min", "Max", "Gelu", "Mish", "Swish", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh",
    "Asinh", "Acosh", "Atanh", "Floor", "Ceil", "Round", "Sign", "Identity",
})  # fmt: skip
"""Operations that compute each result element from the elements at the same place of their inputs."""

_MOST_NODES = 64
"""Operations in one table; longer chains are computed operation by operation."""

_BYTES = ("int8", "uint8")


class Region(NamedTuple):
    """Operations in the order of their execution, the last of which gives the result; source: the quantized value."""

    source: str
    nodes: tuple[Node, ...]


def region_of(
    node: Node,
    held: Mapping[str, Codes],
    makers: Mapping[str, Node],
    constants: Mapping[str, Array],
    target: Codes,
) -> Region | None:
    """Return the two or more operations that make a node a function of one 8-bit value; None if there are none."""
    nodes: dict[Node, None] = {}
    sources: set[str] = set()
    waiting: list[tuple[Node, bool]] = [(node, False)]
    while waiting:
        candidate, ready = waiting.pop()
        if ready:
            nodes[candidate] = None
            continue
        if candidate in nodes:
            continue
        if candidate.role.domain or candidate.role.operation not in POINTWISE or len(candidate.outputs) != 1:
            return None
        waiting.append((candidate, True))
        for name in filter(None, candidate.inputs):
            if name in constants:
                if np.size(constants[name]) != 1:
                    return None
            elif name in held:
                sources.add(name)
            elif name in makers:
                waiting.append((makers[name], False))
            else:
                return None
        if len(waiting) + len(nodes) > 3 * _MOST_NODES or len(nodes) > _MOST_NODES or len(sources) > 1:
            return None
    if len(nodes) < 2 or len(sources) != 1:
        return None
    [source] = sources
    if any(
        codes.dtype not in _BYTES or codes.quantization.axis is not None for codes in (held[source], target)
    ):
        return None
    return Region(source, tuple(nodes))


def unneeded(nodes: tuple[Node, ...], tables: Mapping[Node, Region], kept: set[str]) -> set[Node]:
    """Return the operations of tables whose results nothing else reads."""
    parts = {node for region in tables.values() for node in region.nodes}
    read = set(kept)
    gone = set()
    for node in reversed(nodes):
        if node in parts and not read.intersection(node.outputs):
            gone.add(node)
        elif node in tables:
            read.add(tables[node].source)
        else:
            read.update(node.inputs)
    return gone
