"""The shape of a row of the operation table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from npusim.frontends.nnadapter.codes import Custom, OperationType
from npusim.frontends.nnadapter.operations.bound import Bound
from npusim.frontends.nnadapter.operations.conversion import Conversion, types_of_outputs
from npusim.frontends.nnadapter.operations.signature import Signature, signature

Convert = Callable[[Conversion], Sequence[int]]
"""Adds the nodes of an operation to a graph and returns the tensors of its outputs."""


@dataclass(frozen=True, slots=True)
class Row:
    """One operation of NNAdapter.

    type:      its code and name.
    text:      its signature (`npusim.frontends.nnadapter.operations.signature`).
    convert:   how it becomes nodes.
    operators: the operators that these nodes have, the main one first.
    types:     gives outputs their precisions and scales, where the signature does not say them.
    counted:   the output that says, image by image, how many rows all others have: these are computed for as many as
               there can be.
    """

    type: OperationType | Custom
    text: str
    convert: Convert
    operators: tuple[str, ...]
    types: Callable[[Bound], None] = types_of_outputs
    counted: str = ""

    @property
    def signature(self) -> Signature:
        """Its inputs and outputs."""
        return signature(self.text)


def plain(op: str, *inputs: str) -> Convert:
    """The conversion into one node of an operator without parameters."""

    def convert(c: Conversion) -> Sequence[int]:
        return c.node(op, [c.tensor(name) for name in inputs])

    return convert


def unary(type_: OperationType, op: str = "") -> Row:
    """A function of the elements of one tensor."""
    name = op or type_.name.lower()
    return Row(type_, "input > output=input", plain(name, "input"), (name,))
