"""The table of supported Paddle operators, one row each."""

from __future__ import annotations

from npusim.frontends.forms.networks import PADDLE
from npusim.frontends.forms.node_rows import Row
from npusim.frontends.paddle.operations import paddle_axes, paddle_images, paddle_moves
from npusim.kernels.operator.registered import custom, plain, result_types
from npusim.kernels.table import known

_MODULES = (paddle_axes, paddle_images, paddle_moves)

ROWS: tuple[Row, ...] = tuple(
    sorted((row for each in _MODULES for row in each.ROWS), key=lambda row: row.name)
)
"""All rows, sorted by name."""

_BY_NAME = {row.name: row for row in ROWS}


def row(name: str) -> Row | None:
    """Return the row of an operator, or of one that the user registered as "paddle.NAME"; None if there is none."""
    found, kind = _BY_NAME.get(name), f"{PADDLE}.{name}"
    if found is None and known(op := custom(kind)):
        types = result_types(kind)
        return Row(
            name, "X*", lambda c: c.own(op, types, plain(c.source.attributes)), "", PADDLE, groups=False
        )
    return found
