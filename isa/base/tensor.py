"""Tensor types: what the bytes of a tensor mean, wherever they are stored."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from math import prod
from typing import Final

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base.elements import ElementType, element


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
    """Element type (a name of `npusim.isa.base.elements`), shape and quantization of a tensor."""

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
