"""Every operation of NNEF that npusim has, one row each."""

from __future__ import annotations

from npusim.frontends.nnef.operations import (
    activations,
    convolutions,
    elementwise,
    movement,
    normalizations,
    pools,
    products,
    reductions,
    regions,
    resampling,
)
from npusim.frontends.nnef.operations.row import Row

ROWS: tuple[Row, ...] = tuple(
    sorted(
        (
            *activations.ROWS,
            *convolutions.ROWS,
            *elementwise.ROWS,
            *movement.ROWS,
            *normalizations.ROWS,
            *pools.ROWS,
            *products.ROWS,
            *reductions.ROWS,
            *regions.ROWS,
            *resampling.ROWS,
        ),
        key=lambda row: row.name,
    )
)
"""By name."""

_BY_NAME = {row.name: row for row in ROWS}


def row(name: str) -> Row | None:
    """The row of an operation; None where there is none."""
    return _BY_NAME.get(name)
