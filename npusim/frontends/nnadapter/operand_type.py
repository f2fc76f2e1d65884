"""Types of operands: elements, shape, quantization and gears; and the values of constants."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field, fields, replace
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np

from npusim.frontends.nnadapter.nnadapter_codes import (
    MAX_SIZE_OF_DIMENSIONS,
    MAX_SIZE_OF_DYNAMIC_DIMENSIONS,
    FeatureNotSupported,
    InvalidParameter,
    Layout,
    Lifetime,
    Precision,
    text_of,
)
from npusim.isa.base.elements import element
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.tensor import Array, Quantization, TensorType
from npusim.kernels.graph.graph import UNKNOWN, UNRANKED

Shape = tuple[int, ...]

MOST_SIZE = (1 << 31) - 1
"""Largest size of a dimension, an int32 in the C interface."""


@dataclass(frozen=True, slots=True)
class PrecisionRow:
    """The properties of a precision.

    dtype:      the element type.
    scaled:     "layer" if quantized with one scale, "channel" if with one per channel, "" if not quantized.
    asymmetric: whether quantized values have a zero point.
    """

    precision: Precision
    dtype: str
    scaled: Literal["", "layer", "channel"] = ""
    asymmetric: bool = False


# fmt: off
PRECISIONS: tuple[PrecisionRow, ...] = (
    PrecisionRow(Precision.BOOL8,   "bool"),
    PrecisionRow(Precision.INT8,    "int8"),
    PrecisionRow(Precision.UINT8,   "uint8"),
    PrecisionRow(Precision.INT16,   "int16"),
    PrecisionRow(Precision.UINT16,  "uint16"),
    PrecisionRow(Precision.INT32,   "int32"),
    PrecisionRow(Precision.UINT32,  "uint32"),
    PrecisionRow(Precision.INT64,   "int64"),
    PrecisionRow(Precision.UINT64,  "uint64"),
    PrecisionRow(Precision.FLOAT16, "float16"),
    PrecisionRow(Precision.FLOAT32, "float32"),
    PrecisionRow(Precision.FLOAT64, "float64"),
    PrecisionRow(Precision.QUANT_INT8_SYMM_PER_LAYER,    "int8",   "layer"),
    PrecisionRow(Precision.QUANT_INT8_SYMM_PER_CHANNEL,  "int8",   "channel"),
    PrecisionRow(Precision.QUANT_UINT8_ASYMM_PER_LAYER,  "uint8",  "layer", True),
    PrecisionRow(Precision.QUANT_INT16_SYMM_PER_LAYER,   "int16",  "layer"),
    PrecisionRow(Precision.QUANT_INT16_SYMM_PER_CHANNEL, "int16",  "channel"),
    PrecisionRow(Precision.QUANT_UINT16_ASYMM_PER_LAYER, "uint16", "layer", True),
    PrecisionRow(Precision.QUANT_INT32_SYMM_PER_LAYER,   "int32",  "layer"),
    PrecisionRow(Precision.QUANT_INT32_SYMM_PER_CHANNEL, "int32",  "channel"),
    PrecisionRow(Precision.QUANT_UINT32_ASYMM_PER_LAYER, "uint32", "layer", True),
    PrecisionRow(Precision.QUANT_UINT8_ASYMM_PER_CHANNEL, "uint8", "channel", True),
)
# fmt: on

_BY_PRECISION = {row.precision: row for row in PRECISIONS}


@dataclass(slots=True)
class OperandType:
    """The type of an operand.

    precision:   a `Precision`, or its number.
    dimensions:  sizes, NCHW for images; -1 for an unknown size.
    scale, zero_point: per-tensor quantization; only asymmetric precisions have a zero point.
    scales, channel_dim: per-channel scales, and the dimension of the channels.
    zero_points: of asymmetric per-channel quantization, as many as scales; zeros if None.
    layout:      a `Layout`. Operations read images as NCHW.
    dynamic:     up to 8 shapes (gears) that an operand with unknown sizes may take.
    lifetime:    set by the model, not by the caller.
    ranked:      False for an operation's result whose rank is not known yet.
    """

    precision: Precision
    dimensions: Sequence[int] = ()
    scale: float | None = None
    zero_point: int | None = None
    scales: Sequence[float] | None = None
    channel_dim: int | None = None
    layout: Layout = Layout.NCHW
    dynamic: Sequence[Sequence[int]] = field(default_factory=tuple)
    lifetime: Lifetime = Lifetime.TEMPORARY_VARIABLE
    ranked: bool = True
    zero_points: Sequence[int] | None = None

    @property
    def row(self) -> PrecisionRow:
        """The properties of the precision."""
        return _BY_PRECISION[self.precision]

    @property
    def shape(self) -> Shape:
        """The sizes; (-2,) if not even their number is known."""
        return tuple(self.dimensions) if self.ranked else UNRANKED

    @property
    def known(self) -> bool:
        """Whether all sizes are known."""
        return min(self.shape, default=0) >= 0

    @property
    def dtype(self) -> np.dtype[Any]:
        """The numpy dtype of an element."""
        return np.dtype(self.row.dtype)

    @property
    def size_bytes(self) -> int:
        """The size in bytes of a value, with the largest gear if sizes are unknown."""
        shapes = [self.shape] if self.known else [tuple(gear) for gear in self.dynamic] or [(0,)]
        return max(math.prod(shape) for shape in shapes) * (element(self.row.dtype).bits // 8)

    @property
    def quantization(self) -> Quantization | None:
        """Scales and zero points; None if not quantized, or while no scale is set."""
        if self.scales is not None:
            zero_points = self.zero_points or (0,) * len(self.scales)
            return Quantization(tuple(self.scales), tuple(zero_points), self.channel_dim)
        return None if self.scale is None else Quantization((self.scale,), (self.zero_point or 0,))

    def tensor_type(self, shape: Shape = UNRANKED) -> TensorType:
        """Return the type of a tensor with these elements, for a graph."""
        return TensorType(self.row.dtype, shape, self.quantization)

    def words(self) -> str:
        """Return the type for a message, such as FLOAT32[1, 3, ?, ?]."""
        sizes = (
            ", ".join("?" if size < 0 else str(size) for size in self.dimensions) if self.ranked else "..."
        )
        return f"{self.precision.name}[{sizes}]"

    def take_scaling(self, other: OperandType) -> None:
        """Copy the scales and zero points of another type."""
        self.scale, self.zero_point = other.scale, other.zero_point
        self.scales, self.zero_points, self.channel_dim = other.scales, other.zero_points, other.channel_dim

    def take_shapes(self, gears: Sequence[Shape]) -> None:
        """Take one shape per gear. Sizes that differ between gears, and ranks that do, become unknown."""
        self.dynamic = tuple(gears) if len(set(gears)) > 1 else ()
        self.ranked = len({len(shape) for shape in gears}) == 1
        sizes = zip(*gears, strict=True) if self.ranked else ()
        self.dimensions = [size[0] if len(set(size)) == 1 else UNKNOWN for size in sizes]

    def copy(self) -> OperandType:
        """Return a copy."""
        return replace(self)

    def become(self, other: OperandType) -> None:
        """Copy all members of another type."""
        for part in fields(self):
            setattr(self, part.name, getattr(other, part.name))


def operand_type_of(kind: TensorType, name: str) -> OperandType:
    """Return the operand type of a tensor of a model that another front end read.

    A quantization that NNAdapter has no precision for, such as int8 with a zero point, is left out. Raises
    FeatureNotSupported for elements that NNAdapter has no precision for.
    """
    scheme = kind.quantization if kind.quantized else None
    symmetric = scheme is None or not any(scheme.zero_points)
    wanted = "" if scheme is None else "layer" if scheme.axis is None else "channel"
    for scaled in dict.fromkeys((wanted, "")):
        for row in PRECISIONS:
            if (
                row.dtype == kind.dtype
                and row.scaled == scaled
                and (not scaled or symmetric or row.asymmetric)
            ):
                return _typed(row.precision, kind, scaled, row.asymmetric)
    raise FeatureNotSupported(f"{name}: has {kind.dtype} elements, NNAdapter has no precision for them")


def _typed(precision: Precision, kind: TensorType, scaled: str, asymmetric: bool) -> OperandType:
    result = OperandType(precision, list(kind.shape))
    scheme = kind.quantization
    if scheme is not None and scaled == "layer":
        result.scale, result.zero_point = scheme.scale, scheme.zero_point if asymmetric else None
    if scheme is not None and scaled == "channel":
        result.scales, result.channel_dim = tuple(scheme.scales), scheme.axis
        result.zero_points = tuple(scheme.zero_points) if asymmetric else None
    return result


def checked(given: object, where: str) -> OperandType:
    """Return a checked copy of a caller's type, with members of the right Python types.

    Raises InvalidParameter for the first broken rule, with `where` in front of its message.
    """
    if not isinstance(given, OperandType):
        raise InvalidParameter(f"{where}: is {text_of(given)}, must be an OperandType")
    precision = member(Precision, given.precision, f"{where}.precision")
    dimensions = sizes(given.dimensions, f"{where}.dimensions", unknown=True)
    kind = OperandType(
        precision,
        list(dimensions),
        layout=member(Layout, given.layout, f"{where}.layout"),
        dynamic=_gears(given, dimensions, where),
        ranked=bool(dimensions) or given.ranked is not False,
    )
    _scaling(given, kind, where)
    return kind


def member(kind: Any, value: object, where: str) -> Any:
    """Return the member of an enumeration, given as a member or number. Raises InvalidParameter for anything else."""
    if isinstance(value, Integral) and not isinstance(value, bool) and int(value) in set(kind):
        return kind(int(value))
    names = ", ".join(f"{row.name} {row.value}" for row in kind)
    raise InvalidParameter(f"{where}: is {text_of(value)}, must be one of {names}")


def sizes(given: object, where: str, unknown: bool = False) -> Shape:
    """Return sizes as a tuple. Raises InvalidParameter for illegal ones, -1 included unless sizes may be `unknown`."""
    listed = _listed(given, where, "sizes")
    if len(listed) > MAX_SIZE_OF_DIMENSIONS:
        raise InvalidParameter(f"{where}: has {len(listed)} sizes, may have {MAX_SIZE_OF_DIMENSIONS}")
    lowest = UNKNOWN if unknown else 0
    for size in listed:
        if not isinstance(size, Integral) or isinstance(size, bool) or not lowest <= int(size) <= MOST_SIZE:
            also = ", or -1 where it is not known" if unknown else ""
            raise InvalidParameter(f"{where}: has size {text_of(size)}, must be 0..{MOST_SIZE}{also}")
    return tuple(int(size) for size in listed)


def _listed(given: object, where: str, what: str) -> Sequence[Any]:
    """Return a list, tuple or array as a sequence. Raises InvalidParameter for anything else."""
    listed = given.tolist() if isinstance(given, np.ndarray) else given
    if not isinstance(listed, Sequence) or isinstance(listed, (str, bytes)):
        raise InvalidParameter(f"{where}: is {text_of(given)}, must be a list of {what}")
    return listed


def _gears(given: OperandType, dimensions: Shape, where: str) -> tuple[Shape, ...]:
    listed = _listed(given.dynamic, f"{where}.dynamic", "shapes")
    if len(listed) > MAX_SIZE_OF_DYNAMIC_DIMENSIONS:
        raise InvalidParameter(
            f"{where}.dynamic: has {len(listed)} shapes, may have {MAX_SIZE_OF_DYNAMIC_DIMENSIONS}"
        )
    gears = [sizes(gear, f"{where}.dynamic[{number}]") for number, gear in enumerate(listed)]
    if gears and UNKNOWN not in dimensions:
        raise InvalidParameter(
            f"{where}.dynamic: has {len(gears)} shapes, but every size of {list(dimensions)} is known"
        )
    for number, gear in enumerate(gears):
        fits = len(gear) == len(dimensions) and all(
            stated in (UNKNOWN, size) for stated, size in zip(dimensions, gear, strict=True)
        )
        if not fits:
            raise InvalidParameter(f"{where}.dynamic[{number}]: is {list(gear)}, must fit {list(dimensions)}")
    return tuple(gears)


def _scaling(given: OperandType, kind: OperandType, where: str) -> None:
    """Check the quantization of a type and copy it to another."""
    name, row = kind.precision.name, kind.row
    wanted = {"": (), "layer": ("scale",), "channel": ("scales", "channel_dim")}[row.scaled]
    zero = {"layer": "zero_point", "channel": "zero_points"}.get(row.scaled, "")
    allowed = (*wanted, zero) if row.asymmetric else wanted
    for key in ("scale", "zero_point", "scales", "channel_dim", "zero_points"):
        value = getattr(given, key)
        if (
            value is not None
            and key not in allowed
            and not (key == "zero_point" and row.scaled and _is_zero(value))
        ):
            raise InvalidParameter(f"{where}.{key}: is {text_of(value)}, {name} has none")
        if value is None and key in wanted:
            raise InvalidParameter(f"{where}.{key}: is missing, {name} has one")
    if row.scaled == "layer":
        kind.scale = _scale(given.scale, f"{where}.scale")
        kind.zero_point = (
            _zero_point(given.zero_point, row, f"{where}.zero_point") if row.asymmetric else None
        )
    if row.scaled == "channel":
        kind.channel_dim = _channel_dim(given.channel_dim, kind.shape, where)
        kind.scales = _scales(given.scales, f"{where}.scales")
        channels = kind.dimensions[kind.channel_dim]
        if channels != len(kind.scales):
            raise InvalidParameter(
                f"{where}.scales: has {len(kind.scales)} scales, dimension {kind.channel_dim} has size {channels}"
            )
        if row.asymmetric:
            kind.zero_points = _zero_points(given.zero_points, row, len(kind.scales), f"{where}.zero_points")


def _is_zero(value: object) -> bool:
    return isinstance(value, Integral) and int(value) == 0


def _scale(given: object, where: str) -> float:
    if not isinstance(given, Real) or isinstance(given, bool):
        raise InvalidParameter(f"{where}: is {text_of(given)}, must be a number above 0")
    with np.errstate(over="ignore", under="ignore"):
        value = float(np.float32(given))
    if not 0 < value < math.inf:
        raise InvalidParameter(f"{where}: is {text_of(given)}, must be above 0 and finite as float32")
    return value


def _scales(given: object, where: str) -> tuple[float, ...]:
    listed = _listed(given, where, "scales")
    return tuple(_scale(scale, f"{where}[{number}]") for number, scale in enumerate(listed))


def _channel_dim(given: object, shape: Shape, where: str) -> int:
    if isinstance(given, Integral) and not isinstance(given, bool) and 0 <= int(given) < len(shape):
        return int(given)
    raise InvalidParameter(f"{where}.channel_dim: is {text_of(given)}, must be a dimension of {list(shape)}")


def _zero_points(given: object, row: PrecisionRow, count: int, where: str) -> tuple[int, ...]:
    listed = (0,) * count if given is None else _listed(given, where, "zero points")
    if len(listed) != count:
        raise InvalidParameter(
            f"{where}: has {len(listed)} zero points, must have {count}, one for each scale"
        )
    return tuple(_zero_point(one, row, f"{where}[{number}]") for number, one in enumerate(listed))


def _zero_point(given: object, row: PrecisionRow, where: str) -> int:
    low, high = element(row.dtype).limits
    value = 0 if given is None else given
    if isinstance(value, Integral) and not isinstance(value, bool) and low <= int(value) <= high:
        return int(value)
    raise InvalidParameter(f"{where}: is {text_of(given)}, must be {low}..{high}")


# Values of constants


def frozen(array: Array) -> Array:
    """Make an array read-only and return it."""
    array.setflags(write=False)
    return array


def raw_bytes(buffer: object, where: str) -> Array:
    """Return a contiguous array of a buffer, without a copy if possible. Raises InvalidParameter."""
    if isinstance(buffer, np.ndarray):
        if buffer.dtype.kind not in "biuf" or not buffer.dtype.isnative:
            raise InvalidParameter(f"{where}: has {buffer.dtype} elements, must be numbers or booleans")
        return np.ascontiguousarray(buffer)
    try:
        return np.frombuffer(memoryview(buffer), np.uint8)  # type: ignore[arg-type]
    except (TypeError, ValueError, BufferError):
        raise InvalidParameter(f"{where}: is {type(buffer).__name__}, must be an array or bytes") from None


def array_of(value: Any, where: str) -> Array:
    """Return a value as an array of a type that NNAdapter has; Python ints become INT32, floats FLOAT32."""
    try:
        array = np.asarray(value)
    except ValueError:
        array = np.asarray(None)
    if not isinstance(value, np.ndarray | np.generic):
        if array.dtype.kind == "f":
            array = array.astype(np.float32)
        elif array.dtype.kind == "i":
            array = array.astype(np.int32 if array.size == 0 or np.abs(array).max() < 1 << 31 else np.int64)
    if array.dtype.kind not in "biuf":
        raise InvalidParameter(f"{where}: is {text_of(value)}, must be numbers or booleans")
    return array


def precision_of(array: Array) -> Precision:
    """Return the precision, not quantized, of an array's elements. Raises InvalidParameter for other elements."""
    for row in PRECISIONS:
        if row.dtype == array.dtype.name and not row.scaled:
            return row.precision
    raise InvalidParameter(f"{array.dtype}: is no precision; give the operand's type")


def converted(array: Array, kind: OperandType, where: str) -> Array:
    """Return numbers as elements of a type; floats are rounded. Raises InvalidParameter if integers do not fit."""
    if kind.dtype.kind == "f" and array.dtype.kind != "b":
        with np.errstate(over="ignore"):
            return array.astype(kind.dtype)
    with np.errstate(all="ignore"):
        result: Array = array.astype(kind.dtype)
    if not np.array_equal(result, array):
        raise InvalidParameter(f"{where}: is {text_of(array.tolist())}, must be {kind.precision.name}")
    return result
