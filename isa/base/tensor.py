"""Tensor types: what the bytes of a tensor mean, wherever they are stored."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

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
    """Element type (a numpy dtype name), shape and quantization of a tensor."""

    dtype: str
    shape: tuple[int, ...]
    quantization: Quantization | None = None

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
        return self.elements * self.numpy_dtype.itemsize

    @property
    def spanned_bytes(self) -> int:
        """Bytes with every size at least 1: what numpy must be able to address even of a tensor without elements."""
        return prod(max(size, 1) for size in self.shape) * self.numpy_dtype.itemsize

    @property
    def quantized(self) -> bool:
        """True for an 8-bit tensor with one scale and zero point: what the NPU computes on."""
        return self.dtype in ("int8", "uint8") and self.quantization is not None


Array = NDArray[np.generic]
