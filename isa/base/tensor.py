"""Tensors: their types, shapes and quantization, their placement in memory, and host calls on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base.elements import ElementType, Workload, element
from npusim.isa.base.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Quantization:
    """Affine quantization, real = scale * (code - zero_point), per tensor or along one axis.

    `scales` are float32 values (stored as Python floats that are exactly representable in float32).
    `axis` is None for per-tensor quantization (then both tuples have one entry).
    """

    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int | None = None

    @property
    def scale(self) -> float:
        """Return the scale of a per-tensor quantized tensor."""
        return self.scales[0]

    @property
    def zero_point(self) -> int:
        """Return the zero point of a per-tensor quantized tensor."""
        return self.zero_points[0]


@dataclass(frozen=True, slots=True)
class TensorType:
    """Element type (a name of `npusim.isa.base.elements`), shape and quantization of a tensor."""

    dtype: str
    shape: tuple[int, ...]
    quantization: Quantization | None = None

    @property
    def element(self) -> ElementType:
        """Return the row of the element type; raises KeyError for one that npusim does not have."""
        return element(self.dtype)

    @property
    def numpy_dtype(self) -> np.dtype[np.generic]:
        """Return the little-endian numpy dtype of the elements."""
        return np.dtype(self.dtype)

    @property
    def elements(self) -> int:
        """Return the number of elements."""
        return prod(self.shape)

    @property
    def size_bytes(self) -> int:
        """Return the bytes of the tensor, stored densely."""
        return self._stored_bytes(self.elements)

    @property
    def spanned_bytes(self) -> int:
        """Return the bytes of the tensor with every dimension counted as at least 1.

        numpy must be able to address that many bytes even for a tensor without elements.
        """
        return self._stored_bytes(prod(max(size, 1) for size in self.shape))

    def _stored_bytes(self, elements: int) -> int:
        return -(-elements * element(self.dtype).bits // 8)

    @property
    def real(self) -> bool:
        """Return whether the elements are floats of any width, on which kernels compute without quantization."""
        return element(self.dtype).kind == "real"

    @property
    def quantized(self) -> bool:
        """Return whether the elements are quantized: integers of any width with a scale and a zero point."""
        return self.quantization is not None and element(self.dtype).codes

    @property
    def quantized8(self) -> bool:
        """Return whether the elements are 8-bit quantized values, as the NPU computes on them."""
        return self.quantization is not None and element(self.dtype).bits == 8 and element(self.dtype).codes


Array = NDArray[np.generic]
"""The elements of a tensor."""

IntArray = NDArray[np.integer[Any]]
Int32Array = NDArray[np.int32]
Int64Array = NDArray[np.int64]
Float32Array = NDArray[np.float32]
Float64Array = NDArray[np.float64]


class SizeOnly(Enum):
    """A marker in place of a constant's data when only type and size are known: enough to compile and to time."""

    SIZE_ONLY = "known by its size only"


SIZE_ONLY: Final = SizeOnly.SIZE_ONLY
"""The data of a constant that is not available. Bytes and results that depend on it do not exist."""

Data = Array | SizeOnly
"""The data of a constant."""


@dataclass(frozen=True, slots=True)
class Placement:
    """A tensor with its address in a memory; the memory is the DRAM (space 1) by default.

    from_reals: whether a quantized input may also be given as float32, which is then quantized on input.
    """

    name: str
    type: TensorType
    address: int
    space: int = 1
    from_reals: bool = False

    @property
    def end(self) -> int:
        """Return the address after the tensor's last byte."""
        return self.address + self.type.size_bytes


@dataclass(frozen=True, slots=True)
class HostCall:
    """One operator that the host runs: its operands, and its amount of work.

    An output may have the placement of an input: the next value of a state.
    """

    name: str
    op: str
    parameters: Mapping[str, Any]
    inputs: tuple[Placement | None, ...]
    outputs: tuple[Placement, ...]
    workload: Workload
    reason: str = ""


def distinct_names(places: Sequence[Placement]) -> tuple[str, ...]:
    """Return the names of tensors, with "#" and the position where several share a name."""
    names = [place.name for place in places]
    return tuple(name if names.count(name) == 1 else f"{name}#{i}" for i, name in enumerate(names))
