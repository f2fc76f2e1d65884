"""Compiled models: per gear the pieces of a model, each with the program of its device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Annotated, NamedTuple

from npusim.frontends.nnadapter.operand_type import OperandType, Shape
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.plain_values import Between
from npusim.isa.base.tensor import Array, TensorType
from npusim.isa.program.program import Program

Number = Annotated[int, Between(0, (1 << 31) - 1)]
"""The number of a tensor; the cache writes it with 32 bits and a sign."""


class Types(NamedTuple):
    """The inputs and outputs of a compiled model."""

    inputs: list[OperandType]
    outputs: list[OperandType]


@dataclass(frozen=True, slots=True)
class Crossing:
    """A tensor that enters or leaves a piece or the model.

    number:  the same for all pieces of the gear that have the tensor.
    counted: the tensor whose sum is the number of valid rows, if this one has room for the largest possible number.
    """

    number: Number
    name: str
    type: TensorType
    counted: Number | None = None


@dataclass(frozen=True, eq=False)
class CompiledPiece:
    """Operations of one device, in an order in which they can run, and their program.

    kinds, operations: the types and names of the operations.
    buffer:            the program as the driver wrote it for the cache.
    program:           the program in memory; None while a piece is only read from a cache.
    """

    device: str
    kinds: tuple[str, ...]
    operations: tuple[str, ...]
    inputs: tuple[Crossing, ...]
    outputs: tuple[Crossing, ...]
    buffer: bytes = field(default=b"", repr=False)
    program: object = None

    @property
    def simulated(self) -> Program | None:
        """The program if npusim simulates the device, otherwise None."""
        return self.program if isinstance(self.program, Program) else None


@dataclass(frozen=True, eq=False)
class CompiledGear:
    """The pieces in order for one choice of the input shapes.

    inputs, outputs: of the model; an output may be an input, or occur twice.
    constants:       the values of outputs that are constants, by number.
    tries:           how many other partitions the search by cost timed.
    by_order_cycles: the cycles of the partition by order, if this process timed it.
    """

    inputs: tuple[Crossing, ...]
    outputs: tuple[Crossing, ...]
    pieces: tuple[CompiledPiece, ...]
    constants: Mapping[int, Array] = field(default_factory=dict)
    tries: int = 0
    by_order_cycles: int = 0

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """The shapes of the model's inputs."""
        return tuple(end.type.shape for end in self.inputs)
