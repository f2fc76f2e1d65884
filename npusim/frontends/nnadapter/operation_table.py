"""The rows of all NNAdapter operations, and of custom operations registered with `npusim.register_operator`."""

from __future__ import annotations

from collections.abc import Sequence

from npusim.frontends.nnadapter import axis_rows, element_rows, image_rows, movement_rows, window_rows
from npusim.frontends.nnadapter.nnadapter_codes import Custom, OperationType
from npusim.frontends.nnadapter.operation_conversion import Conversion, Row
from npusim.kernels.operator.registered import custom, registered

OPERATIONS: tuple[Row, ...] = tuple(
    sorted(
        (
            *axis_rows.ROWS,
            *element_rows.ROWS,
            *image_rows.ROWS,
            *movement_rows.ROWS,
            *window_rows.ROWS,
        ),
        key=lambda row: OperationType[row.type.name],
    )
)
"""The standard operations, ordered by code."""

_BY_TYPE = {row.type: row for row in OPERATIONS}


def row(type_: OperationType | Custom) -> Row:
    """Return the row of a standard or registered operation."""
    if isinstance(type_, Custom):
        return Row(type_, "inputs+? > outputs+", _convert_custom, custom(type_.name))
    return _BY_TYPE[type_]


def custom_type(given: object) -> Custom | None:
    """Return the type of a registered operation by its name or number; None for anything else."""
    if isinstance(given, bool) or not isinstance(given, str | int):
        return None
    name = str(given)
    return None if registered(custom(name)) is None else Custom(name)


def _convert_custom(c: Conversion) -> Sequence[int]:
    """Add the node of a registered operator, which accepts and returns any tensors."""
    return c.nodes(custom(c.operation.type.name), c.operands("inputs"), c.results())
