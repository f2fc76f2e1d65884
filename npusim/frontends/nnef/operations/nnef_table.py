"""The table of supported NNEF operations, one row each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from npusim.frontends.nnef.operations import (
    nnef_axes,
    nnef_elementwise,
    nnef_images,
    nnef_moves,
    nnef_windows,
)
from npusim.frontends.nnef.operations.call_conversion import CallConversion, Row
from npusim.kernels.operator.registered import custom
from npusim.kernels.table import known

_MODULES = (nnef_axes, nnef_elementwise, nnef_images, nnef_moves, nnef_windows)

ROWS: tuple[Row, ...] = tuple(
    sorted((row for module in _MODULES for row in module.ROWS), key=lambda row: row.name)
)
"""All rows, sorted by name."""

_BY_NAME = {row.name: row for row in ROWS}


def row(name: str) -> Row | None:
    """Return the row of an operation, or of a registered fragment without a body; None if there is none."""
    op = custom(name)
    return _BY_NAME.get(name) or (Row(name, _registered, op) if known(op) else None)


def _registered(c: CallConversion) -> Sequence[int]:
    inputs: list[int] = []
    for name, operand in c.call.tensors.items():
        inputs += c.tensors(name) if isinstance(operand, tuple) else [c.tensor(name)]
    attributes: dict[str, Any] = dict(c.call.attributes)
    return c.nodes(custom(c.call.operation), inputs, c.kinds(), values=attributes)
