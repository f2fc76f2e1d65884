"""How large graphs of model files may be: a few bytes of a file can ask for any number of operations and axes."""

from __future__ import annotations

from dataclasses import dataclass

from npusim.isa.base.errors import GraphError
from npusim.kernels.graph.folding import MOST_TOTAL

MOST_OPERATIONS = 1 << 13
"""Largest number of operations of a model, those of branches and bodies of loops included: compiling and timing one
takes half a millisecond, and more than a few seconds are no answer to a small file."""

MOST_WRITTEN_OUT = 1 << 14
"""Largest number of operations that functions, fragments and loops are written out to, before folding."""

MOST_AXES = 32
"""Largest number of axes of a tensor, which is that of numpy 1."""


@dataclass(slots=True)
class Budget:
    """What a model file may still ask for; the builders of its graphs share one."""

    operations: int = MOST_OPERATIONS
    written_out: int = MOST_WRITTEN_OUT
    elements: int = MOST_TOTAL

    def operation(self) -> None:
        """Count an operation. Raises GraphError for one too many."""
        self.operations -= 1
        if self.operations < 0:
            raise GraphError(
                f"has more than {MOST_OPERATIONS:,} operations, which is what npusim compiles; give a part of the model"
            )

    def write_out(self, count: int) -> None:
        """Count operations that a body becomes. Raises GraphError for too many."""
        self.written_out -= count
        if self.written_out < 0:
            raise GraphError(
                f"becomes more than {MOST_WRITTEN_OUT:,} operations with loops and branches written out; give a part "
                "of the model, or fewer turns"
            )

    def afford(self, elements: int) -> bool:
        """Count elements of constants that are made while a file is read; False once they are too many."""
        self.elements -= elements
        return self.elements >= 0


def check_axes(shape: tuple[int, ...], where: str) -> None:
    """Raise GraphError for a tensor of too many axes."""
    if len(shape) > MOST_AXES:
        raise GraphError(f"{where}: has {len(shape)} axes, may have {MOST_AXES}")
