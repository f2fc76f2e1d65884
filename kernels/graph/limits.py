"""Size limits of graphs read from model files, because a few bytes of a file can ask for any number of operations."""

from __future__ import annotations

from dataclasses import dataclass

from npusim.isa.base.errors import GraphError
from npusim.kernels.graph.folding import MOST_TOTAL

MOST_OPERATIONS = 1 << 13
"""Maximum number of operations of a model, with those in branches and loop bodies. Compiling and timing one takes
about half a millisecond, so a model takes a few seconds at most."""

MOST_WRITTEN_OUT = 1 << 14
"""Maximum number of operations that functions, fragments and loops are expanded into, before folding."""

MOST_AXES = 32
"""Maximum number of axes of a tensor: the limit of numpy 1."""


@dataclass(slots=True)
class Budget:
    """Operations and constants that a model file may still add; the builders of all its graphs share one budget."""

    operations: int = MOST_OPERATIONS
    written_out: int = MOST_WRITTEN_OUT
    elements: int = MOST_TOTAL

    def operation(self) -> None:
        """Count one operation. Raises GraphError beyond the limit."""
        self.operations -= 1
        if self.operations < 0:
            raise GraphError(
                f"has more than {MOST_OPERATIONS:,} operations, which is what npusim compiles; give a part of the model"
            )

    def write_out(self, count: int) -> None:
        """Count operations that a body is expanded into. Raises GraphError beyond the limit."""
        self.written_out -= count
        if self.written_out < 0:
            raise GraphError(
                f"becomes more than {MOST_WRITTEN_OUT:,} operations with loops and branches written out; give a part "
                "of the model, or fewer iterations"
            )

    def afford(self, elements: int) -> bool:
        """Count elements of constants that are computed while a file is read; False once they exceed the limit."""
        self.elements -= elements
        return self.elements >= 0


def check_axes(shape: tuple[int, ...], where: str) -> None:
    """Raise GraphError for a tensor with too many axes."""
    if len(shape) > MOST_AXES:
        raise GraphError(f"{where}: has {len(shape)} axes, may have {MOST_AXES}")
