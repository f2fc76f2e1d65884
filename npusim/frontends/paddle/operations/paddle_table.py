"""The table of supported Paddle operators, one row each."""

from __future__ import annotations

from npusim.frontends.forms.networks import PADDLE
from npusim.frontends.forms.node_rows import Row, registered
from npusim.frontends.paddle.operations import paddle_axes, paddle_images, paddle_moves

_MODULES = (paddle_axes, paddle_images, paddle_moves)

ROWS: tuple[Row, ...] = tuple(
    sorted((row for each in _MODULES for row in each.ROWS), key=lambda row: row.name)
)
"""All rows, sorted by name."""

_BY_NAME = {row.name: row for row in ROWS}


def row(name: str) -> Row | None:
    """Return the row of an operator, or of one that the user registered as "paddle.NAME"; None if there is none."""
    return _BY_NAME.get(name) or registered(PADDLE, name)
