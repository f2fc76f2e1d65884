"""The methods of `Model` that add operations, one per operation, called by its name in lower case."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from npusim.frontends.forms.signatures import Argument
from npusim.frontends.nnadapter import operation_table
from npusim.frontends.nnadapter.nnadapter_codes import (
    Custom,
    InvalidParameter,
    NNAdapterError,
    OperationType,
    Precision,
    text_of,
)
from npusim.frontends.nnadapter.operand import Operand
from npusim.frontends.nnadapter.operand_type import OperandType, array_of, converted

_PARAMETERS = {"i": Precision.INT32, "f": Precision.FLOAT32, "b": Precision.BOOL8}
"""The precision of a parameter of each kind that is given as a plain value."""


class Building(Protocol):
    """A model under construction."""

    operands: list[Operand]

    def add_operation(
        self,
        type: OperationType | Custom,
        inputs: Sequence[Operand | None],
        outputs: Sequence[Operand] | None,
    ) -> Operand | tuple[Operand, ...]:
        """Add an operation and return its outputs."""

    def add_constant(self, value: Any) -> Operand:
        """Add a constant."""

    def forget(self, count: int) -> None:
        """Remove the operands after the first `count`."""


def method(type_: OperationType | Custom) -> Callable[..., Any]:
    """Return the method of `Model` that adds an operation; parameters are plain values or operands."""
    row = operation_table.row(type_)
    arguments = row.signature.inputs

    def added(self: Building, *given: Any, outputs: Sequence[Operand] | None = None, **named: Any) -> Any:
        count = len(self.operands)
        try:
            return self.add_operation(type_, operands_of(self, given, named), outputs)
        except NNAdapterError:
            self.forget(count)
            raise

    def operands_of(self: Building, given: Sequence[Any], named: Mapping[str, Any]) -> list[Operand | None]:
        where = f"{type_.name.lower()}()"
        operands: list[Operand | None] = []
        values = dict(zip((argument.name for argument in arguments), given, strict=False))
        wrong = [
            name for name in named if name not in {argument.name for argument in arguments} or name in values
        ]
        if wrong or len(given) > len(arguments):
            may = ", ".join(argument.name for argument in arguments)
            raise InvalidParameter(
                f"{where}: takes {may}" + (f"; {wrong[0]} is none, or given twice" if wrong else "")
            )
        values |= named
        for argument in arguments:
            value = values.get(argument.name, argument.default)
            if argument.repeats and not isinstance(value, (list, tuple)):
                raise InvalidParameter(
                    f"{where}: {argument.name} is {text_of(value)}, must be a list of operands"
                )
            for one in value if argument.repeats else [value]:
                operands.append(_operand(self, argument, one, where))
        return operands

    added.__name__ = type_.name.lower()
    added.__doc__ = f"Adds {type_.name}: {row.text}"
    return added


def _operand(model: Building, argument: Argument, value: Any, where: str) -> Operand | None:
    """Return an argument of a method as an operand; a plain value becomes a constant."""
    if isinstance(value, Operand):
        return value
    if value is None:
        if argument.optional:
            return None
        raise InvalidParameter(f"{where}: {argument.name} is missing")
    array = array_of(value, f"{where}: {argument.name}")
    if argument.kind:
        wanted = _PARAMETERS.get(argument.kind.lower())
        if wanted is not None and not isinstance(value, np.ndarray | np.generic):
            array = converted(array, OperandType(wanted), f"{where}: {argument.name}")
        array = array.reshape(-1)
    return model.add_constant(array)
