"""Every operation of NNAdapter, one row each."""

from __future__ import annotations

from npusim.frontends.nnadapter.codes import OperationType
from npusim.frontends.nnadapter.operations import (
    convolutions,
    detection,
    elementwise,
    functions,
    images,
    movement,
    normalizations,
    products,
    quantization,
    reductions,
    shapes,
    windows,
)
from npusim.frontends.nnadapter.operations.row import Row

OPERATIONS: tuple[Row, ...] = tuple(
    sorted(
        (
            *convolutions.ROWS,
            *detection.ROWS,
            *elementwise.ROWS,
            *functions.ROWS,
            *images.ROWS,
            *movement.ROWS,
            *normalizations.ROWS,
            *quantization.ROWS,
            *products.ROWS,
            *reductions.ROWS,
            *shapes.ROWS,
            *windows.ROWS,
        ),
        key=lambda row: row.type,
    )
)
"""By code."""

_BY_TYPE = {row.type: row for row in OPERATIONS}


def row(type_: OperationType) -> Row:
    """The row of an operation. Raises KeyError while npusim does not have it."""
    return _BY_TYPE[type_]
