"""Every operation of NNAPI that npusim knows, one row each."""

from __future__ import annotations

from npusim.frontends.nn_hal.enumerations import EXTENSIONS, OperationType
from npusim.frontends.nn_hal.operations import (
    control,
    convolutions,
    detection,
    elementwise,
    hashing,
    lookups,
    lstms,
    movement,
    recurrent,
    reductions,
    resizes,
    shapes,
    windows,
)
from npusim.frontends.nn_hal.operations.row import Row

OPERATIONS: tuple[Row, ...] = tuple(
    sorted(
        (
            *convolutions.ROWS,
            *windows.ROWS,
            *elementwise.ROWS,
            *reductions.ROWS,
            *resizes.ROWS,
            *shapes.ROWS,
            *movement.ROWS,
            *lookups.ROWS,
            *lstms.ROWS,
            *recurrent.ROWS,
            *detection.ROWS,
            *hashing.ROWS,
            *control.ROWS,
        ),
        key=lambda row: row.type,
    )
)
"""By code."""

_BY_TYPE = {row.type: row for row in OPERATIONS}


def row(type_: OperationType) -> Row | None:
    """Return the row of an operation, also of an extension; None if npusim does not have it."""
    return _BY_TYPE.get(type_) if type_ < EXTENSIONS else control.of_vendor(type_)
