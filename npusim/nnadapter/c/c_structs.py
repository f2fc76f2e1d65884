"""The structs of the C interface: the type of an operand, and its dimensions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, Protocol

from npusim.frontends.nnadapter.nnadapter_codes import UNKNOWN, InvalidParameter, Layout, Precision, text_of
from npusim.frontends.nnadapter.operand_type import OperandType
from npusim.isa.base.lazy_dataclass import dataclass

_KEYS = tuple(field.name for field in fields(OperandType) if field.name not in ("lifetime", "ranked"))


class Dimensions(list[int]):
    """The sizes of an operand, a list that also has the members of the C struct; -65535 stands for an unknown size.

    count, data:                 the number of sizes, and the sizes.
    dynamic_count, dynamic_data: the same for the shapes that the operand may take.
    """

    def __init__(self, sizes: Iterable[int] = (), dynamic: Iterable[Iterable[int]] = ()) -> None:
        super().__init__(UNKNOWN if size == -1 else size for size in sizes)
        self.dynamic_data = [list(shape) for shape in dynamic]

    @property  # type: ignore[override]  # the struct's member, not the method of lists
    def count(self) -> int:
        """The number of sizes; setting it removes sizes or adds unknown ones."""
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
        """The number of shapes that the operand may take."""
        return len(self.dynamic_data)


class Typed(Protocol):
    """An object whose type may change, such as an operand."""

    @property
    def type(self) -> OperandType:
        """The current type."""


@dataclass
class _Own:
    """A type that belongs to no operand."""

    type: OperandType


def _member(name: str, text: str) -> Any:
    """Return a property that reads a member of the type as it is now."""
    return property(lambda self: getattr(self._of.type, name), doc=text)


class NNAdapterOperandType:
    """The type of an operand as a C struct.

    The one of `NNAdapterModel_getOperandType` is live: it shows what shape inference has found since.
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
        """Make a type for `NNAdapterModel_addOperand`, which checks it."""
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
        """Return the live type of an operand."""
        struct = cls.__new__(cls)
        struct._of, struct._dimensions = operand, None
        return struct

    @classmethod
    def copy_of(cls, type_: OperandType) -> NNAdapterOperandType:
        """Return a copy of a type."""
        struct = cls.live(_Own(type_.copy()))
        struct._dimensions = Dimensions(type_.dimensions, type_.dynamic)
        return struct

    precision = _member("precision", "The precision of the elements.")
    layout = _member("layout", "The order of the dimensions.")
    lifetime = _member("lifetime", "Where the value comes from.")
    scale = _member("scale", "The scale of per-layer quantization.")
    zero_point = _member("zero_point", "The zero point of asymmetric per-layer quantization.")
    scales = _member("scales", "The scales of per-channel quantization.")
    zero_points = _member("zero_points", "The zero points of asymmetric per-channel quantization.")
    channel_dim = _member("channel_dim", "The dimension of the channels.")

    @property
    def dimensions(self) -> Dimensions:
        """The sizes; the access function of an input writes them."""
        type_ = self._of.type
        return Dimensions(type_.dimensions, type_.dynamic) if self._dimensions is None else self._dimensions

    @dimensions.setter
    def dimensions(self, sizes: Iterable[int]) -> None:
        self._dimensions = sizes if isinstance(sizes, Dimensions) else Dimensions(sizes)

    @property
    def scale_count(self) -> int:
        """The number of scales of per-channel quantization."""
        return len(self.scales or ())

    def operand_type(self) -> OperandType:
        """Return the type with sizes as Python has them."""
        type_ = self._of.type.copy()
        sizes = self.dimensions
        type_.dimensions = _python_sizes(sizes)
        type_.dynamic = [list(shape) for shape in sizes.dynamic_data]
        return type_

    def __repr__(self) -> str:
        return f"<NNAdapterOperandType {self._of.type!r}>"


def operand_type_of(given: object) -> OperandType:
    """Return the type of a struct, an `OperandType`, or a mapping with the same names. Raises InvalidParameter."""
    if isinstance(given, NNAdapterOperandType):
        return given.operand_type()
    if isinstance(given, OperandType):
        return NNAdapterOperandType.copy_of(given).operand_type()
    if isinstance(given, Mapping):
        for key in given:
            if key not in _KEYS:
                raise InvalidParameter(f"type: has no {text_of(key)}, may have {', '.join(_KEYS)}")
        if "precision" not in given:
            raise InvalidParameter("type: precision is missing")
        precision = given["precision"]
        if isinstance(precision, str):
            precision = Precision.__members__.get(precision.removeprefix("NNADAPTER_"), precision)
        rest = {key: value for key, value in given.items() if key != "precision"}
        return OperandType(precision, **{**rest, "dimensions": _python_sizes(rest.get("dimensions", ()))})
    raise InvalidParameter(f"type: is {text_of(given)}, must be an NNAdapterOperandType")


def _python_sizes(sizes: Any) -> Any:
    if not isinstance(sizes, Sequence) or isinstance(sizes, (str, bytes)):
        return sizes
    return [-1 if isinstance(size, int) and size == UNKNOWN else size for size in sizes]
