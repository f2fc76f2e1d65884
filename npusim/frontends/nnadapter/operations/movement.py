"""Operations that move elements and compute none."""

from __future__ import annotations

from collections.abc import Sequence

from npusim.frontends.nnadapter.codes import OperationType
from npusim.frontends.nnadapter.operations.conversion import Conversion
from npusim.frontends.nnadapter.operations.row import Row


def _reshape(c: Conversion) -> Sequence[int]:
    sizes = c.shape("input")
    shape = c.wholes("shape")
    for place, size in enumerate(shape):
        if size == 0:
            c.require(place < len(sizes), f"shape is {shape}, and the input has no dimension {place} to keep")
            shape[place] = sizes[place]
    return c.node("reshape", [c.tensor("input")], shape=tuple(shape))


def _transpose(c: Conversion) -> Sequence[int]:
    return c.node("transpose", [c.tensor("input")], perm=tuple(c.axes("perm")))


ROWS: tuple[Row, ...] = (
    Row(OperationType.RESHAPE, "input shape:I > output=input", _reshape, ("reshape",)),
    Row(OperationType.TRANSPOSE, "input perm:I > output=input", _transpose, ("transpose",)),
)
