"""Every operation of NNEF that npusim has, one row each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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
from npusim.frontends.nnef.operations.call_conversion import CallConversion
from npusim.frontends.nnef.operations.row import Row
from npusim.kernels.operator.registered import custom
from npusim.kernels.table import known

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
    """Return the row of an operation, or of a registered fragment without a body; None if there is none."""
    op = custom(name)
    return _BY_NAME.get(name) or (Row(name, _registered, (op,)) if known(op) else None)


def _registered(c: CallConversion) -> Sequence[int]:
    inputs: list[int] = []
    for name, operand in c.call.tensors.items():
        inputs += c.tensors(name) if isinstance(operand, tuple) else [c.tensor(name)]
    attributes: dict[str, Any] = dict(c.call.attributes)
    return c.nodes(custom(c.call.operation), inputs, c.kinds(), values=attributes)
