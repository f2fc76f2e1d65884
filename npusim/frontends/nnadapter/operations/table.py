"""Every operation of NNAdapter, one row each."""

from __future__ import annotations

from npusim.frontends.nnadapter.codes import Custom, OperationType
from npusim.frontends.nnadapter.operations import (
    convolutions,
    custom,
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
        key=lambda row: OperationType[row.type.name],
    )
)
"""By code."""

_BY_TYPE = {row.type: row for row in OPERATIONS}


def row(type_: OperationType | Custom) -> Row:
    """Return the row of a standard or registered operation."""
    return custom.row_of(type_) if isinstance(type_, Custom) else _BY_TYPE[type_]
