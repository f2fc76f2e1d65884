"""The operands of an operation by the names that its signature gives them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from npusim.frontends.nnadapter.errors import InvalidParameter
from npusim.frontends.nnadapter.operand import Operand, Operation
from npusim.frontends.nnadapter.operations.signature import Signature


class Bound:
    """The operands of an operation by the names of its signature."""

    def __init__(self, operation: Operation, signature: Signature) -> None:
        """Raises InvalidParameter where their numbers are wrong, or one is omitted that must be there."""
        self.operation, self.signature = operation, signature
        self.inputs: dict[str, list[Operand | None]] = {}
        self.outputs: dict[str, list[Operand]] = {}
        for argument, taken in _dealt(operation, signature.inputs, operation.input_operands, "inputs"):
            if not argument.optional and None in taken:
                raise InvalidParameter(f"{operation.place}: {argument.name} is omitted, it must be there")
            self.inputs[argument.name] = list(taken)
        for outcome, taken in _dealt(operation, signature.outputs, operation.output_operands, "outputs"):
            self.outputs[outcome.name] = [operand for operand in taken if operand is not None]

    @property
    def tensors(self) -> list[Operand]:
        """The inputs whose elements are read: neither parameters nor those of which only the sizes matter."""
        names = [argument.name for argument in self.signature.inputs if not argument.kind]
        return [operand for name in names for operand in self.inputs[name] if operand is not None]


def _dealt(
    operation: Operation, slots: Sequence[Any], operands: Sequence[Operand | None], what: str
) -> Iterator[tuple[Any, Sequence[Operand | None]]]:
    """Each argument or outcome with its operands. Optional outputs may be left out behind the others."""
    repeats = any(slot.repeats for slot in slots)
    least = len(slots) - (sum(slot.optional for slot in slots) if what == "outputs" else 0)
    if len(operands) < least or (len(operands) > len(slots) and not repeats):
        may = (
            f"{least} or more"
            if repeats
            else str(least)
            if least == len(slots)
            else f"{least} to {len(slots)}"
        )
        names = ", ".join(slot.name for slot in slots)
        raise InvalidParameter(f"{operation.place}: has {len(operands)} {what}, must have {may}: {names}")
    several = len(operands) - len(slots) + 1
    rest = list(operands)
    for slot in slots:
        count = several if slot.repeats else min(1, len(rest))
        yield slot, rest[:count]
        del rest[:count]
