"""The rows of all operations of NNAPI that npusim knows."""

from __future__ import annotations

from npusim.frontends.nn_hal.enumerations import EXTENSIONS, OperationType
from npusim.frontends.nn_hal.operations import (
    along_axes,
    elementwise_rows,
    lstm_rows,
    rearrangements,
    recurrent_rows,
    regions_of_interest,
    reshape_rows,
    selections,
    sliding_windows,
)
from npusim.frontends.nn_hal.operations.operation_row import Row

OPERATIONS: tuple[Row, ...] = tuple(
    sorted(
        (
            *sliding_windows.ROWS,
            *elementwise_rows.ROWS,
            *along_axes.ROWS,
            *selections.ROWS,
            *reshape_rows.ROWS,
            *rearrangements.ROWS,
            *lstm_rows.ROWS,
            *recurrent_rows.ROWS,
            *regions_of_interest.ROWS,
        ),
        key=lambda row: row.type,
    )
)
"""By code."""

_BY_TYPE = {row.type: row for row in OPERATIONS}


def row(type_: OperationType) -> Row | None:
    """Return the row of an operation, also of an extension; None if npusim does not have it."""
    return _BY_TYPE.get(type_) if type_ < EXTENSIONS else selections.of_vendor(type_)
