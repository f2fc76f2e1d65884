"""Custom operations, which a user registered with `npusim.register_operator`."""

from __future__ import annotations

from collections.abc import Sequence

from npusim.frontends.nnadapter.codes import Custom
from npusim.frontends.nnadapter.operations.conversion import Conversion
from npusim.frontends.nnadapter.operations.row import Row
from npusim.kernels.operator.registered import custom, registered


def custom_type(given: object) -> Custom | None:
    """Return the type of a registered operation by its name or number; None for anything else."""
    if isinstance(given, bool) or not isinstance(given, str | int):
        return None
    name = str(given)
    return None if registered(custom(name)) is None else Custom(name)


def row_of(type_: Custom) -> Row:
    """Return the row of a registered operation, which accepts and returns any tensors."""
    return Row(type_, "inputs+? > outputs+", _convert, (custom(type_.name),))


def _convert(c: Conversion) -> Sequence[int]:
    return c.node(custom(c.operation.type.name), c.operands("inputs"), *c.results("outputs"))
