"""Parameters of operators: one frozen dataclass per operator, checked when it is made.

A field says by its annotation what it may be; what the annotation cannot say (a permutation, axes in order) is a
rule of the operator. Whoever makes parameters, a reader of model files, a program file or Python, is refused with the
field and the value that do not fit. As JSON they lie in the host calls of a program (`plain`, `of`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, Literal, Self

from npusim.isa.base.errors import GraphError
from npusim.isa.base.plain_values import Between, Misfit
from npusim.isa.program.record import field_codec, from_fields, to_plain

MOST = (1 << 31) - 1
"""What sizes, counts and steps may be: 32 bits with a sign hold them in every model format."""

Size = Annotated[int, Between(0, MOST)]
"""A size, or a position counted from the front."""
Count = Annotated[int, Between(1, MOST)]
"""How many, or how far: 1 or more."""
Step = Annotated[int, Between(-MOST, MOST)]
"""How far, in either direction."""

Sizes = tuple[Size, ...]
Steps = tuple[Step, ...]
Pair = tuple[Count, Count]
"""Of height and width."""
Border = tuple[Size, Size]
"""How much before and behind."""
Borders = tuple[Border, Border]
"""((top, bottom), (left, right))."""

NO_BORDERS: Borders = ((0, 0), (0, 0))

Activation = Literal["none", "relu", "relu6", "relu_n1_to_1"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """The parameters of an operator that has none, and the base of all others.

    Raises GraphError for a value that the annotation of its field does not allow. Lists are taken for tuples and
    numbers of numpy for Python's.
    """

    def __post_init__(self) -> None:
        kind: Any = type(self)
        for each in fields(kind):
            codec = field_codec(kind, each.name)
            try:
                value = codec.read(codec.write(getattr(self, each.name)))
            except Misfit as fault:
                raise GraphError(fault.below(each.name).located) from None
            object.__setattr__(self, each.name, value)

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """The parameters that plain values by name give.

        Raises NpusimError, with the name, for one that is unknown, missing or not what it may be.
        """
        return cls(**from_fields(cls, dict(values), [each.name for each in fields(cls)]))

    def plain(self) -> dict[str, Any]:
        """The values by name as JSON has them; those that have their default are left out."""
        return to_plain(self)


NONE = Parameters()
"""Of operators without parameters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Activated(Parameters):
    """Of operators that apply an activation to their own output."""

    activation: Activation = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unchecked(Parameters):
    """What a model says of an operator that npusim does not have: plain values by name."""

    values: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """All of them."""
        return cls(values=values)

    def plain(self) -> dict[str, Any]:
        """All of them."""
        return dict(self.values)
