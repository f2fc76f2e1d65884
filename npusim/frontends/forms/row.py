"""The shape of a row of an operation table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from npusim.frontends.forms.networks import STANDARD
from npusim.frontends.forms.node_conversion import NodeConversion

Convert = Callable[[NodeConversion], Sequence[int | None]]
"""Adds the nodes of an operation to a graph and returns the tensors of its outputs."""


Role = Callable[[Mapping[str, Any]], tuple[str, Mapping[str, Any]]]
"""From attributes to the operation of ONNX, and its attributes, that does the same to quantized values."""


@dataclass(frozen=True, slots=True)
class Row:
    """One operation of a format.

    name:      as models have it.
    inputs:    the names of its inputs; "?" behind one says that it may be left out, "*" that there may be several.
    convert:   how it becomes nodes.
    operators: the operators that these nodes may have, the main one first.
    domain:    its domain, where that is not ONNX's own.
    groups:    whether it may compute on codes, between DequantizeLinear and QuantizeLinear.
    outputs:   the names of its outputs, where a format has names for them.
    role:      the operation of ONNX that does the same to quantized values, where it is another one.
    """

    name: str
    inputs: str
    convert: Convert
    operators: tuple[str, ...]
    domain: str = STANDARD
    groups: bool = True
    outputs: str = ""
    role: str | Role = ""

    @property
    def kind(self) -> str:
        """The operation with its domain, where that is not ONNX's own."""
        return f"{self.domain}.{self.name}" if self.domain else self.name


def unary(name: str, op: str = "") -> Row:
    """A function of the elements of one tensor."""
    op = op or name.lower()
    return Row(name, "X", lambda c: [c.node(op, [c.tensor("X")])], (op,))
