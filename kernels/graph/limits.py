"""Size limits of graphs read from model files, because a few bytes of a file can ask for any number of operations."""

from __future__ import annotations

from npusim.isa.base.errors import GraphError
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.kernels.graph.folding import MOST_TOTAL

MOST_OPERATIONS = 1 << 13
"""Maximum number of operations of a model without weights, with those in branches and loop bodies. Compiling and timing
an operation takes about a millisecond, so a small file takes a few seconds at most."""

WEIGHT_BYTES = 16
"""Bytes of weights that allow a file one more operation. A file that is large because of its weights is a real network,
and its time is in proportion to its size."""

MOST_WRITTEN_OUT = 1 << 14
"""Maximum number of operations that functions, fragments and loops of a model without weights are expanded into, before
constants are folded. It is twice `MOST_OPERATIONS`, because folding removes many, also of those that weights add."""

MOST_AXES = 32
"""Maximum number of axes of a tensor: the limit of numpy 1."""


@dataclass(slots=True)
class Budget:
    """Operations and constants that a model file may still add; the builders of all its graphs share one budget.

    weight_bytes: bytes of weights in the file.
    elements:     elements of constants that may still be added.
    operations:   operations that were added.
    written_out:  operations that loops and functions were expanded into.
    """

    weight_bytes: int = 0
    elements: int = MOST_TOTAL
    operations: int = 0
    written_out: int = 0

    @property
    def most_operations(self) -> int:
        """Maximum number of operations of the file."""
        return MOST_OPERATIONS + self.weight_bytes // WEIGHT_BYTES

    @property
    def most_written_out(self) -> int:
        """Maximum number of operations that its functions and loops are expanded into."""
        return MOST_WRITTEN_OUT + 2 * (self.weight_bytes // WEIGHT_BYTES)

    def operation(self) -> None:
        """Count one operation. Raises GraphError beyond the limit."""
        self.operations += 1
        if self.operations > self.most_operations:
            raise GraphError(
                f"has more than {self.most_operations:,} operations, the most that npusim compiles of a file with "
                f"{self.weight_bytes:,} bytes of weights; give a part of the model"
            )

    def write_out(self, count: int) -> None:
        """Count operations that a body is expanded into. Raises GraphError beyond the limit."""
        self.written_out += count
        if self.written_out > self.most_written_out:
            raise GraphError(
                f"becomes more than {self.most_written_out:,} operations with loops and branches written out; give a "
                "part of the model, or fewer iterations"
            )

    def afford(self, elements: int) -> bool:
        """Count elements of constants that are computed while a file is read; False once they exceed the limit."""
        self.elements -= elements
        return self.elements >= 0


def check_axes(shape: tuple[int, ...], where: str) -> None:
    """Raise GraphError for a tensor with too many axes."""
    if len(shape) > MOST_AXES:
        raise GraphError(f"{where}: has {len(shape)} axes, may have {MOST_AXES}")
