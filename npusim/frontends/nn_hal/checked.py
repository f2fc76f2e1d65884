"""A checked HAL model as plain immutable values, which reader and device work with.

`npusim.frontends.nn_hal.model_check` makes it from a `Model` of structs. The memory of the caller is referred to, not
copied.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from math import prod

import numpy as np
from numpy.typing import NDArray

from npusim.frontends.nn_hal.enumerations import (
    HalVersion,
    OperandLifeTime,
    OperandType,
    OperationType,
    TypeRow,
    row_of,
)
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.tensor import Array

Bytes = NDArray[np.uint8]
"""A view of memory as a one-dimensional array of bytes."""

_CONSTANTS = (OperandLifeTime.CONSTANT_COPY, OperandLifeTime.CONSTANT_REFERENCE)


@dataclass(frozen=True, slots=True)
class Location:
    """Bytes `offset` to `offset + length` of a pool."""

    pool: int
    offset: int
    length: int

    @property
    def zero(self) -> bool:
        """Whether pool, offset and length are 0."""
        return not (self.pool or self.offset or self.length)


@dataclass(frozen=True, slots=True)
class Channels:
    """The scales of a per-channel type, one per index of the dimension `axis`."""

    scales: tuple[float, ...]
    axis: int


@dataclass(frozen=True, slots=True)
class CheckedOperand:
    """An operand: the fields of the struct, cleaned.

    place:      its path in the structs: "referenced[1].operands[3]".
    dimensions: a 0 is unspecified; None if the rank is; () for a scalar.
    scale:      exactly a float32.
    consumers:  number of times that operations of its graph read it, as the struct states.
    bytes:      the data of a constant.
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
        """The index in `referenced` of the graph that it refers to."""
        return self.location.offset

    @property
    def size_bytes(self) -> int | None:
        """Size of its data in bytes; None if a dimension is unspecified or the type has no fixed size."""
        return _size_bytes(self.type, self.dimensions)

    def value(self) -> Array:
        """Return the elements of a constant as a read-only array. Raises ValueError for others and OEM types."""
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
    """The main graph or a referenced graph.

    place: "" or "referenced[1]", the prefix of its operands' places.
    """

    place: str
    operands: tuple[CheckedOperand, ...]
    operations: tuple[CheckedOperation, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CheckedModel:
    """A model that passed all checks of its rules.

    values: the memory of CONSTANT_COPY operands.
    pools:  the memory of CONSTANT_REFERENCE operands, which outputs of an execution must not overlap.
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
    dimensions: from the request, or from the model if the request gives none; None and 0 are unspecified.
    bytes:      its part of the pool, writable for an output; None for an omitted argument.
    """

    place: str
    operand: CheckedOperand
    dimensions: tuple[int, ...] | None
    bytes: Bytes | None = field(repr=False, compare=False)

    @property
    def size_bytes(self) -> int | None:
        """Size of its data in bytes; None if a dimension is unspecified or the type has no fixed size."""
        return _size_bytes(self.operand.type, self.dimensions)


@dataclass(frozen=True, slots=True)
class CheckedRequest:
    """A request that keeps the rules for its model."""

    inputs: tuple[CheckedArgument, ...]
    outputs: tuple[CheckedArgument, ...]


def _size_bytes(type_: OperandType, dimensions: tuple[int, ...] | None) -> int | None:
    size = row_of(type_).element_bytes
    return None if size is None or dimensions is None or not all(dimensions) else size * prod(dimensions)
