"""The structs of the C interface that a caller sees: the type of an operand and its dimensions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Protocol

from npusim.frontends.nnadapter.nnadapter_codes import UNKNOWN, Layout, Precision
from npusim.frontends.nnadapter.nnadapter_errors import InvalidParameter, said
from npusim.frontends.nnadapter.operand_type import OperandType

_KEYS = tuple(field.name for field in fields(OperandType) if field.name not in ("lifetime", "ranked"))


class Dimensions(list[int]):
    """The sizes of an operand, -65535 for one that is not known; a list that also has the members of the struct.

    count, data:                 how many sizes, and the sizes.
    dynamic_count, dynamic_data: likewise the shapes that the operand may take.
    """

    def __init__(self, sizes: Iterable[int] = (), dynamic: Iterable[Iterable[int]] = ()) -> None:
        super().__init__(UNKNOWN if size == -1 else size for size in sizes)
        self.dynamic_data = [list(shape) for shape in dynamic]

    @property  # type: ignore[override]  # the struct's member, not the method of lists
    def count(self) -> int:
        """How many sizes there are; setting it leaves sizes out or adds unknown ones."""
        return len(self)

    @count.setter
    def count(self, count: int) -> None:
        self[:] = [*self[:count], *[UNKNOWN] * (count - len(self))]

    @property
    def data(self) -> Dimensions:
        """The sizes."""
        return self

    @property
    def dynamic_count(self) -> int:
        """How many shapes the operand may take."""
        return len(self.dynamic_data)


class Typed(Protocol):
    """What has a type that may change: an operand."""

    @property
    def type(self) -> OperandType:
        """The type as it is now."""


@dataclass
class _Own:
    """A type that nobody else has."""

    type: OperandType


class NNAdapterOperandType:
    """The type of an operand as the C interface has it.

    That of `NNAdapterModel_getOperandType` is live: it says what inference has found since.
    """

    def __init__(
        self,
        precision: Any,
        dimensions: Sequence[int] = (),
        *,
        scale: float | None = None,
        zero_point: int | None = None,
        scales: Sequence[float] | None = None,
        channel_dim: int | None = None,
        layout: Any = Layout.NCHW,
        dynamic: Sequence[Sequence[int]] = (),
        zero_points: Sequence[int] | None = None,
    ) -> None:
        """A type for `NNAdapterModel_addOperand`; nothing is checked before."""
        self._of: Typed = _Own(
            OperandType(
                precision,
                dimensions,
                scale,
                zero_point,
                scales,
                channel_dim,
                layout,
                dynamic,
                zero_points=zero_points,
            )
        )
        self._dimensions: Dimensions | None = Dimensions(dimensions, dynamic)

    @classmethod
    def live(cls, operand: Typed) -> NNAdapterOperandType:
        """The type of an operand, whatever becomes of it."""
        made = cls.__new__(cls)
        made._of, made._dimensions = operand, None
        return made

    @classmethod
    def copy_of(cls, type_: OperandType) -> NNAdapterOperandType:
        """A type as it is now."""
        made = cls.live(_Own(type_.copy()))
        made._dimensions = Dimensions(type_.dimensions, type_.dynamic)
        return made

    @property
    def precision(self) -> Precision:
        """Its elements."""
        return self._of.type.precision

    @property
    def layout(self) -> int:
        """The order of its dimensions."""
        return self._of.type.layout

    @property
    def lifetime(self) -> int:
        """Where its value comes from."""
        return self._of.type.lifetime

    @property
    def dimensions(self) -> Dimensions:
        """Its sizes; an access function of an input writes them."""
        type_ = self._of.type
        return Dimensions(type_.dimensions, type_.dynamic) if self._dimensions is None else self._dimensions

    @dimensions.setter
    def dimensions(self, sizes: Iterable[int]) -> None:
        self._dimensions = sizes if isinstance(sizes, Dimensions) else Dimensions(sizes)

    @property
    def scale(self) -> float | None:
        """Of codes with one scale."""
        return self._of.type.scale

    @property
    def zero_point(self) -> int | None:
        """Of asymmetric codes."""
        return self._of.type.zero_point

    @property
    def scales(self) -> Sequence[float] | None:
        """Of codes with a scale per channel."""
        return self._of.type.scales

    @property
    def zero_points(self) -> Sequence[int] | None:
        """Zero points of asymmetric per-channel quantization."""
        return self._of.type.zero_points

    @property
    def scale_count(self) -> int:
        """How many scales codes with a scale per channel have."""
        return len(self.scales or ())

    @property
    def channel_dim(self) -> int | None:
        """The dimension of the channels."""
        return self._of.type.channel_dim

    def operand_type(self) -> OperandType:
        """The type with its sizes as Python has them."""
        type_ = self._of.type.copy()
        sizes = self.dimensions
        type_.dimensions = _python_sizes(sizes)
        type_.dynamic = [list(shape) for shape in sizes.dynamic_data]
        return type_

    def __repr__(self) -> str:
        return f"<NNAdapterOperandType {self._of.type!r}>"


def operand_type_of(given: object) -> OperandType:
    """The type that is given: a struct, an `OperandType`, or a mapping with the same names. Raises InvalidParameter."""
    if isinstance(given, NNAdapterOperandType):
        return given.operand_type()
    if isinstance(given, OperandType):
        return NNAdapterOperandType.copy_of(given).operand_type()
    if isinstance(given, Mapping):
        for key in given:
            if key not in _KEYS:
                raise InvalidParameter(f"type: has no {said(key)}, may have {', '.join(_KEYS)}")
        if "precision" not in given:
            raise InvalidParameter("type: precision is missing")
        precision = given["precision"]
        if isinstance(precision, str):
            precision = Precision.__members__.get(precision.removeprefix("NNADAPTER_"), precision)
        rest = {key: value for key, value in given.items() if key != "precision"}
        return OperandType(precision, **{**rest, "dimensions": _python_sizes(rest.get("dimensions", ()))})
    raise InvalidParameter(f"type: is {said(given)}, must be an NNAdapterOperandType")


def _python_sizes(sizes: Any) -> Any:
    if not isinstance(sizes, Sequence) or isinstance(sizes, (str, bytes)):
        return sizes
    return [-1 if isinstance(size, int) and size == UNKNOWN else size for size in sizes]
