"""Operands and operations of a model under construction."""

from __future__ import annotations

from dataclasses import dataclass

from npusim.frontends.nnadapter.nnadapter_codes import Custom, OperationType
from npusim.frontends.nnadapter.operand_type import OperandType, Shape
from npusim.isa.base.tensor import Array


@dataclass(slots=True, eq=False)
class Operand:
    """A value of a model.

    model, index: the `Model` that it belongs to, and its place there.
    type:         what it is, with what inference has found; to be read, not to be changed.
    name:         what partition files, reports and DOT graphs call it.
    buffer:       the value of a constant; None for others.
    values:       of what is no constant but follows from constants and shapes, such as a SHAPE's result: its value, or
                  one for each gear.
    """

    model: object
    index: int
    type: OperandType
    name: str
    buffer: Array | None = None
    values: tuple[Array, ...] = ()

    @property
    def length(self) -> int:
        """Bytes of the value of a constant."""
        return 0 if self.buffer is None else self.buffer.nbytes

    @property
    def known(self) -> Array | None:
        """The value, where it is fixed before anything runs, and the same in all gears."""
        return self.value(0) if self.buffer is not None or len(self.values) == 1 else None

    def value(self, gear: int) -> Array | None:
        """The value in a gear, where it is fixed before anything runs."""
        if self.buffer is not None or not self.values:
            return self.buffer
        return self.values[gear if len(self.values) > 1 else 0]

    def shape(self, gear: int) -> Shape:
        """The sizes in a gear."""
        gears = self.type.dynamic
        return tuple(gears[gear if len(gears) > 1 else 0]) if gears else self.type.shape

    @property
    def gears(self) -> int:
        """How many gears it knows of; 1 where it is the same in all."""
        return max(len(self.type.dynamic), len(self.values), 1)

    def __repr__(self) -> str:
        return f"<Operand {self.name}: {self.type.words()}>"


@dataclass(slots=True, eq=False)
class Operation:
    """One operation of a model, in its place; an input that is omitted is None."""

    index: int
    type: OperationType | Custom
    input_operands: tuple[Operand | None, ...]
    output_operands: tuple[Operand, ...]

    @property
    def kind(self) -> str:
        """Its type as partition files have it."""
        return self.type.name.lower()

    @property
    def name(self) -> str:
        """What reports and messages call it."""
        return f"operations[{self.index}]"

    @property
    def place(self) -> str:
        """Where a fault of it is."""
        return f"{self.name} ({self.type.name})"

    def __repr__(self) -> str:
        inputs = ", ".join("none" if operand is None else operand.name for operand in self.input_operands)
        outputs = ", ".join(operand.name for operand in self.output_operands)
        return f"<Operation {self.type.name}: {inputs} -> {outputs}>"
