"""Operands and operations of a model under construction."""

from __future__ import annotations

from npusim.frontends.nnadapter.nnadapter_codes import Custom, OperationType
from npusim.frontends.nnadapter.operand_type import OperandType, Shape
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.tensor import Array


@dataclass(slots=True, eq=False)
class Operand:
    """A value of a model.

    model, index: its `Model`, and its place there.
    type:         its type, completed by shape inference; callers must not change it.
    name:         its name in partition files, reports and DOT graphs.
    buffer:       the value of a constant; None for other operands.
    values:       the value, or one per gear, of an operand that follows from constants and shapes, such as the result
                  of SHAPE.
    """

    model: object
    index: int
    type: OperandType
    name: str
    buffer: Array | None = None
    values: tuple[Array, ...] = ()

    @property
    def length(self) -> int:
        """The size of a constant in bytes; 0 for other operands."""
        return 0 if self.buffer is None else self.buffer.nbytes

    @property
    def known(self) -> Array | None:
        """The value if it is the same in all runs and gears, otherwise None."""
        return self.value(0) if self.buffer is not None or len(self.values) == 1 else None

    def value(self, gear: int) -> Array | None:
        """Return the value in a gear; None if only a run gives it."""
        if self.buffer is not None or not self.values:
            return self.buffer
        return self.values[gear if len(self.values) > 1 else 0]

    def shape(self, gear: int) -> Shape:
        """Return the sizes in a gear."""
        gears = self.type.dynamic
        return tuple(gears[gear if len(gears) > 1 else 0]) if gears else self.type.shape

    @property
    def gears(self) -> int:
        """The number of gears with shapes or values of their own; 1 if all are the same."""
        return max(len(self.type.dynamic), len(self.values), 1)

    def __repr__(self) -> str:
        return f"<Operand {self.name}: {self.type.words()}>"


@dataclass(slots=True, eq=False)
class Operation:
    """One operation of a model; omitted inputs are None."""

    index: int
    type: OperationType | Custom
    input_operands: tuple[Operand | None, ...]
    output_operands: tuple[Operand, ...]

    @property
    def kind(self) -> str:
        """The operation type in partition files."""
        return self.type.name.lower()

    @property
    def name(self) -> str:
        """The name in reports and messages."""
        return f"operations[{self.index}]"

    @property
    def place(self) -> str:
        """The place that error messages name."""
        return f"{self.name} ({self.type.name})"

    def __repr__(self) -> str:
        inputs = ", ".join("none" if operand is None else operand.name for operand in self.input_operands)
        outputs = ", ".join(operand.name for operand in self.output_operands)
        return f"<Operation {self.type.name}: {inputs} -> {outputs}>"
