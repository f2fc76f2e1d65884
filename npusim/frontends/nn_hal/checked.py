"""A model whose fields hold what they should, as plain immutable values: what everybody behind the rules reads.

`npusim.frontends.nn_hal.validate` makes it of a `Model` of structs. The memory of the caller is referred to, not
copied.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod

import numpy as np
from numpy.typing import NDArray

from npusim.frontends.nn_hal.enumerations import HalVersion, OperandLifeTime, OperandType, OperationType
from npusim.frontends.nn_hal.operand_types import TypeRow, row_of
from npusim.isa.base.tensor import Array

Bytes = NDArray[np.uint8]
"""Memory as bytes: one dimension, without a copy."""

_CONSTANTS = (OperandLifeTime.CONSTANT_COPY, OperandLifeTime.CONSTANT_REFERENCE)


@dataclass(frozen=True, slots=True)
class Location:
    """Bytes `offset` to `offset + length` of a pool."""

    pool: int
    offset: int
    length: int

    @property
    def zero(self) -> bool:
        """Whether all of it is 0."""
        return not (self.pool or self.offset or self.length)


@dataclass(frozen=True, slots=True)
class Channels:
    """The scales of a per-channel type, one per index of dimension `axis`."""

    scales: tuple[float, ...]
    axis: int


@dataclass(frozen=True, slots=True)
class CheckedOperand:
    """An operand: the fields of the struct, cleaned.

    place:      where it stands, in the words of the structs: "referenced[1].operands[3]".
    dimensions: a 0 is unspecified; None if the rank is; () for a scalar.
    scale:      exactly a float32.
    consumers:  how often operations of its graph read it, as the struct says.
    bytes:      of a constant.
    """

    place: str
    index: int
    type: OperandType
    dimensions: tuple[int, ...] | None
    consumers: int
    scale: float
    zero_point: int
    lifetime: OperandLifeTime
    location: Location
    channels: Channels | None = None
    bytes: Bytes | None = field(default=None, repr=False, compare=False)

    @property
    def row(self) -> TypeRow:
        """The row of its type."""
        return row_of(self.type)

    @property
    def constant(self) -> bool:
        """Whether its value is part of the model."""
        return self.lifetime in _CONSTANTS

    @property
    def has_value(self) -> bool:
        """Whether it is not an omitted optional argument."""
        return self.lifetime is not OperandLifeTime.NO_VALUE

    @property
    def known(self) -> bool:
        """Whether all dimensions are specified."""
        return self.dimensions is not None and all(self.dimensions)

    @property
    def graph(self) -> int:
        """Of a reference to a graph: its index in `referenced`."""
        return self.location.offset

    @property
    def size_bytes(self) -> int | None:
        """Bytes of its data, None where they depend on an unspecified size or the type has none."""
        each = self.row.element_bytes
        return (
            None
            if each is None or self.dimensions is None or not self.known
            else each * prod(self.dimensions)
        )

    def value(self) -> Array:
        """The elements of a constant, in its shape; read-only. Raises ValueError for what is none or of OEM type."""
        if self.bytes is None or self.row.element is None or self.dimensions is None:
            raise ValueError(f"{self.place}: has no value in the model")
        elements = self.bytes.view(self.row.element) if self.row.element != "bool" else self.bytes != 0
        array: Array = elements.reshape(self.dimensions)
        array.flags.writeable = False
        return array


@dataclass(frozen=True, slots=True)
class CheckedOperation:
    """An operation: indexes of operands of its graph."""

    place: str
    index: int
    type: OperationType
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CheckedGraph:
    """The main graph or one that is referred to.

    place: "" or "referenced[1]", what the places of its parts begin with.
    """

    place: str
    operands: tuple[CheckedOperand, ...]
    operations: tuple[CheckedOperation, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CheckedModel:
    """A model that passed all checks of its rules.

    values: the memory of constants by copy.
    pools:  the memory of constants by reference; outputs of an execution must not overlap those parts of it.
    extensions: the names of extensions by their prefixes.
    """

    main: CheckedGraph
    referenced: tuple[CheckedGraph, ...]
    version: HalVersion
    relaxed: bool
    values: Bytes = field(repr=False, compare=False)
    pools: tuple[Bytes, ...] = field(default=(), repr=False, compare=False)
    extensions: Mapping[int, str] = field(default_factory=dict)

    @property
    def graphs(self) -> tuple[CheckedGraph, ...]:
        """All graphs, the main one first."""
        return (self.main, *self.referenced)


@dataclass(frozen=True, slots=True)
class CheckedArgument:
    """An argument of a request.

    place:      "inputs[0]" or "outputs[1]".
    dimensions: those of the request, or where it gives none those of the model; None and 0 are unspecified.
    bytes:      its part of the pool; None for an omitted one. Those of an output are writable.
    """

    place: str
    operand: CheckedOperand
    dimensions: tuple[int, ...] | None
    bytes: Bytes | None = field(repr=False, compare=False)

    @property
    def size_bytes(self) -> int | None:
        """Bytes of its data by its dimensions, None where they depend on an unspecified size or the type has none."""
        return _size_bytes(self.operand.type, self.dimensions)


@dataclass(frozen=True, slots=True)
class CheckedRequest:
    """A request that keeps the rules for its model."""

    inputs: tuple[CheckedArgument, ...]
    outputs: tuple[CheckedArgument, ...]


def _size_bytes(type_: OperandType, dimensions: tuple[int, ...] | None) -> int | None:
    each = row_of(type_).element_bytes
    return None if each is None or dimensions is None or not all(dimensions) else each * prod(dimensions)
