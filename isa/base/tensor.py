"""Tensors: their element types, shapes and quantization, their places in memory, and the work of operators on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from math import prod
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Quantization:
    """Affine quantization: real = scale * (code - zero_point), per tensor or along one axis.

    `scales` are float32 values (held as Python floats that are exactly representable in float32).
    `axis` is None for per-tensor quantization (then both tuples have one entry).
    """

    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int | None = None

    @property
    def scale(self) -> float:
        """The scale of a per-tensor quantized tensor."""
        return self.scales[0]

    @property
    def zero_point(self) -> int:
        """The zero point of a per-tensor quantized tensor."""
        return self.zero_points[0]


@dataclass(frozen=True, slots=True)
class TensorType:
    """Element type (a name of `npusim.isa.base.tensor`), shape and quantization of a tensor."""

    dtype: str
    shape: tuple[int, ...]
    quantization: Quantization | None = None

    @property
    def element(self) -> ElementType:
        """The row of the element type; raises KeyError for one that npusim does not have."""
        return element(self.dtype)

    @property
    def numpy_dtype(self) -> np.dtype[np.generic]:
        """The little-endian numpy dtype of the elements."""
        return np.dtype(self.dtype)

    @property
    def elements(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def size_bytes(self) -> int:
        """Bytes of the tensor, stored densely."""
        return self._stored_bytes(self.elements)

    @property
    def spanned_bytes(self) -> int:
        """Bytes with every size at least 1: what numpy must be able to address even of a tensor without elements."""
        return self._stored_bytes(prod(max(size, 1) for size in self.shape))

    def _stored_bytes(self, elements: int) -> int:
        return -(-elements * element(self.dtype).bits // 8)

    @property
    def real(self) -> bool:
        """True for real numbers of any width, on which kernels compute as they are, without codes."""
        return element(self.dtype).kind == "real"

    @property
    def quantized(self) -> bool:
        """True for codes of any width: whole numbers with a scale and a zero point."""
        return self.quantization is not None and element(self.dtype).codes

    @property
    def quantized8(self) -> bool:
        """True for codes of 8 bits: what the NPU computes on."""
        return self.quantization is not None and element(self.dtype).bits == 8 and element(self.dtype).codes


Array = NDArray[np.generic]
"""The elements of a tensor."""


class SizeOnly(Enum):
    """What a constant has instead of data when only its type and size are known: enough to compile and to time."""

    SIZE_ONLY = "known by its size only"


SIZE_ONLY: Final = SizeOnly.SIZE_ONLY
"""The data of a constant that nobody has at hand; bytes and results that would depend on it do not exist."""

Data = Array | SizeOnly
"""What a constant is."""


Rates = Literal["int8", "float32"]
"""The two columns of rates that the table of CPU cores has (`npusim.isa.hardware.cpu`)."""


@dataclass(frozen=True, slots=True)
class ElementType:
    """One row of the table.

    name:  what tensors, programs and messages call it; a numpy dtype of that name holds one element.
    kind:  "signed" and "unsigned" whole numbers, "real" and "complex" numbers, "truth".
    bits:  bits of an element as memory stores it.
    rates: the column of CPU rates that operators on such elements take. Whole numbers of all widths take those of
           int8 and reals those of float32: no source of the core table measured the other widths.
    codes: whether a scale and a zero point may make its elements the codes of real numbers.
    """

    name: str
    kind: Literal["signed", "unsigned", "real", "complex", "truth"]
    bits: int
    rates: Rates
    codes: bool = False

    @property
    def limits(self) -> tuple[int, int]:
        """The smallest and the largest whole number; of truths 0 and 1. Raises TypeError for reals."""
        if self.kind == "truth":
            return 0, 1
        if self.kind == "signed":
            return -(1 << self.bits - 1), (1 << self.bits - 1) - 1
        if self.kind == "unsigned":
            return 0, (1 << self.bits) - 1
        raise TypeError(f"{self.name} has no smallest and largest whole number")


# fmt: off
ELEMENTS: tuple[ElementType, ...] = (
    #           name          kind       bits  CPU rates  codes
    ElementType("int8",       "signed",     8, "int8",    True),
    ElementType("uint8",      "unsigned",   8, "int8",    True),
    ElementType("int16",      "signed",    16, "int8",    True),
    ElementType("uint16",     "unsigned",  16, "int8",    True),
    ElementType("int32",      "signed",    32, "int8",    True),
    ElementType("uint32",     "unsigned",  32, "int8"),
    ElementType("int64",      "signed",    64, "int8",    True),
    ElementType("uint64",     "unsigned",  64, "int8"),
    ElementType("float16",    "real",      16, "float32"),
    ElementType("float32",    "real",      32, "float32"),
    ElementType("float64",    "real",      64, "float32"),
    ElementType("bool",       "truth",      8, "int8"),
    ElementType("complex64",  "complex",   64, "float32"),
    ElementType("complex128", "complex",  128, "float32"),
)
# fmt: on
"""Every element type that a tensor of a graph may have."""

_BY_NAME = {row.name: row for row in ELEMENTS}


def element(name: str) -> ElementType:
    """The row of an element type. Raises KeyError for a name that the table does not have."""
    return _BY_NAME[name]


def is_element(name: str) -> bool:
    """Whether the table has an element type of that name."""
    return name in _BY_NAME


def names(wanted: Callable[[ElementType], bool] = lambda row: True) -> tuple[str, ...]:
    """The names of the element types that are wanted, in the order of the table."""
    return tuple(row.name for row in ELEMENTS if wanted(row))


@dataclass(frozen=True, slots=True)
class Workload:
    """The amount of work of one operator, from its shapes alone.

    kind:        "gemm" (convolution, fully connected), "depthwise", "elementwise" (everything else that
                 computes), "move" (copies bytes), "free" (nothing happens, e.g. reshape), "handover" (the host
                 goes from one device to the next, and computes nothing).
    dtype:       the column of CPU rates that its element type takes (`ElementType.rates`).
    macs:        multiply-accumulates (0 for elementwise and move).
    inner_k:     length of one dot product (gemm: kernel_h * kernel_w * channels_in).
    elements:    elementwise operations (for pools and reductions: elements read, window included).
    rescaled:    results of an elementwise operator whose codes have another scale than an operand's.
    weight_bytes, input_bytes, output_bytes: bytes of constants, activations read, activations written.
    """

    kind: Literal["gemm", "depthwise", "elementwise", "move", "free", "handover"]
    dtype: Rates = "int8"
    macs: int = 0
    inner_k: int = 0
    elements: int = 0
    rescaled: int = 0
    weight_bytes: int = 0
    input_bytes: int = 0
    output_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Placement:
    """A tensor in a memory: in the DRAM, space 1, if no other is named.

    from_reals: of an input with codes: whether it may also be given as float32, which become codes on the way in.
    """

    name: str
    type: TensorType
    address: int
    space: int = 1
    from_reals: bool = False

    @property
    def end(self) -> int:
        """One past its last byte."""
        return self.address + self.type.size_bytes


@dataclass(frozen=True, slots=True)
class HostCall:
    """One operator that the host runs: its operands, and its amount of work.

    An output may lie where an input does: the next value of a state.
    """

    name: str
    op: str
    parameters: Mapping[str, Any]
    inputs: tuple[Placement | None, ...]
    outputs: tuple[Placement, ...]
    workload: Workload
    reason: str = ""


def distinct_names(places: Sequence[Placement]) -> tuple[str, ...]:
    """The names of tensors, with "#" and the position where several share one."""
    names = [place.name for place in places]
    return tuple(name if names.count(name) == 1 else f"{name}#{i}" for i, name in enumerate(names))
