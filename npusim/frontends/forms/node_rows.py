"""The row type of the operation tables of ONNX and Paddle."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from npusim.frontends.forms.networks import MICROSOFT, STANDARD
from npusim.frontends.forms.node_conversion import NodeConversion
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.kernels.operator.registered import custom, plain, result_types
from npusim.kernels.table import known

Convert = Callable[[NodeConversion], Sequence[int | None]]
"""The function that adds the nodes of an operation to a graph and returns the tensors of its outputs."""


Role = Callable[[Mapping[str, Any]], tuple[str, Mapping[str, Any]]]
"""The function from attributes to the ONNX operation, and its attributes, that treats quantized values alike."""


@dataclass(frozen=True, slots=True)
class Row:
    """An operation of a format.

    name: the operation's name in models.
    inputs: names of its inputs; "?" marks an optional one, "*" a repeated one.
    convert: the function that adds its nodes.
    ops: the operators that these nodes may have, the main one first.
    domain: its domain, unless it is ONNX's own.
    groups: whether it may compute on quantized values, between DequantizeLinear and QuantizeLinear.
    outputs: names of its outputs, in formats that name them.
    role: the ONNX operation that treats quantized values alike, if it has another name.
    """

    name: str
    inputs: str
    convert: Convert
    ops: str
    domain: str = STANDARD
    groups: bool = True
    outputs: str = ""
    role: str | Role = ""

    @property
    def operators(self) -> tuple[str, ...]:
        """The operators that its nodes may have, the main one first."""
        return tuple(self.ops.split())

    @property
    def kind(self) -> str:
        """The operation with its domain, unless that is ONNX's own."""
        return f"{self.domain}.{self.name}" if self.domain else self.name


def unary(name: str, op: str = "") -> Row:
    """Return the row of a function of single elements."""
    op = op or name.lower()
    return Row(name, "X", lambda c: [c.node(op, [c.tensor("X")])], op)


def microsoft(name: str, inputs: str, convert: Convert, ops: str) -> Row:
    """Return the row of an operation of com.microsoft that computes on floats or has its own quantized values."""
    return Row(name, inputs, convert, ops, MICROSOFT, groups=False)


def registered(domain: str, name: str) -> Row | None:
    """Return the row of an operation that the user registered as "domain.name"; None if there is none."""
    kind = f"{domain}.{name}" if domain else name
    if not known(op := custom(kind)):
        return None
    types = result_types(kind)
    return Row(name, "X*", lambda c: c.own(op, types, plain(c.source.attributes)), "", domain, groups=False)
