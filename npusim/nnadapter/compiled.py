"""Compiled models: the pieces of each gear, with their programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from npusim.frontends.nnadapter.operand_type import OperandType, Shape
from npusim.isa.base.tensor import Array, TensorType
from npusim.isa.program.program import Program


class Types(NamedTuple):
    """The inputs and outputs of a compiled model."""

    inputs: list[OperandType]
    outputs: list[OperandType]


@dataclass(frozen=True, slots=True)
class Crossing:
    """A tensor at the edge of a piece; `number` is the same wherever the gear has it.

    counted: the number of the tensor whose sum says how many of its rows there are, if it has them for the most.
    """

    number: int
    name: str
    type: TensorType
    counted: int | None = None


@dataclass(frozen=True, eq=False)
class CompiledPiece:
    """Operations of one device, in an order in which they can run, and their program.

    kinds, operations: their types and names.
    buffer:            what the driver left for a cache.
    """

    device: str
    kinds: tuple[str, ...]
    operations: tuple[str, ...]
    inputs: tuple[Crossing, ...]
    outputs: tuple[Crossing, ...]
    program: object
    buffer: bytes = field(default=b"", repr=False)

    @property
    def simulated(self) -> Program | None:
        """The program, if it is one of npusim's."""
        return self.program if isinstance(self.program, Program) else None


@dataclass(frozen=True, eq=False)
class CompiledGear:
    """The pieces, in their order, for one choice of the inputs' shapes.

    shapes:    of the inputs of the model.
    inputs, outputs: of the model, by the numbers of crossings; an output may be an input, or be there twice.
    constants: the values of outputs that are constants.
    tries:     by cost, how many other partitions were timed to find this one.
    by_order_cycles: what the partition by order takes, where that was timed in this process.
    """

    shapes: tuple[Shape, ...]
    inputs: tuple[Crossing, ...]
    outputs: tuple[Crossing, ...]
    pieces: tuple[CompiledPiece, ...]
    constants: Mapping[int, Array] = field(default_factory=dict)
    tries: int = 0
    by_order_cycles: int = 0
