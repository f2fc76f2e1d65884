"""Functions of elements, of one tensor or of two that broadcast."""

from __future__ import annotations

from collections.abc import Sequence

from npusim.frontends.nnadapter.codes import OperationType
from npusim.frontends.nnadapter.operations.conversion import Conversion
from npusim.frontends.nnadapter.operations.row import Row, unary


def _activated(op: str) -> Row:
    """ADD and its kin: two tensors that broadcast, and a fused activation."""

    def convert(c: Conversion) -> Sequence[int]:
        return c.node(op, [c.tensor("input0"), c.tensor("input1")], activation=c.activation())

    return Row(OperationType[op.upper()], "input0 input1 fuse_code:i=0 > output=input0", convert, (op,))


ROWS: tuple[Row, ...] = (
    _activated("add"),
    _activated("sub"),
    _activated("mul"),
    unary(OperationType.ABS),
    unary(OperationType.RELU),
    unary(OperationType.RELU6),
    unary(OperationType.SIGMOID, "logistic"),
    unary(OperationType.TANH),
)
