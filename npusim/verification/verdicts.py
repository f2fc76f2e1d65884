"""Comparison of two values of a tensor, and the result of a verification: a verdict per tensor and totals."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.tensor import Array

if TYPE_CHECKING:
    from numpy.typing import NDArray

Verdict = Literal["equal", "close", "rounded", "follows", "saturated", "different", "not kept"]
"""The verdict on a tensor.

equal:      the same bytes.
close:      floats within the tolerance.
rounded:    quantized values one step apart, because the other program rounds its sums on the way.
follows:    different only because the operands are different.
saturated:  different because the other program saturates sums, of which npusim has the exact values.
different:  different for equal operands.
not kept:   the other program keeps no value of it.
"""

VERDICTS: tuple[Verdict, ...] = ("equal", "close", "rounded", "follows", "saturated", "different", "not kept")

Off = Literal["npusim", "other"]


@dataclass(frozen=True, slots=True)
class Difference:
    """The first element of a tensor that differs.

    sample:  which inputs, from 0.
    place:   "layer" where a reference and the other differ, "machine" where machine and reference do.
    index:   of the element, one number per axis.
    npusim, other: the two values; where `place` is "machine", the machine's and the reference's.
    differing: how many of the tensor's `elements` differ.
    """

    sample: int
    place: Literal["layer", "machine"]
    layer: str
    op: str
    tensor: str
    index: tuple[int, ...]
    npusim: int | float | bool
    other: int | float | bool
    differing: int
    elements: int

    @property
    def litert(self) -> int | float | bool:
        """The other's value, which is LiteRT's for TFLite files."""
        return self.other

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self) | {"litert": self.other}


@dataclass(frozen=True, slots=True)
class TensorVerdict:
    """Verdict on one result of a layer over all inputs.

    bytes:     its size.
    elements:  how many were compared, over all inputs.
    differing: elements that are not the other's, over all inputs with this verdict; of a tensor that is rounded,
               saturated or different, for equal operands; if npusim is off, those in which it is.
    off:       who is off from the exact value there, "npusim" or "other"; None if neither is, or it is not known.
    """

    layer: str
    op: str
    tensor: str
    dtype: str
    bytes: int
    verdict: Verdict
    elements: int = 0
    differing: int = 0
    off: Off | None = None


@dataclass(frozen=True)
class Verification:
    """The comparison of a model with another program.

    other, version, kernels: the other program, which one, and the choice of its kernels in words.
    close:     how far floats may be from the other's, as a share of the largest magnitude in the tensor.
    samples:   on how many inputs.
    tensors:   a row per result of a layer, in the order of the layers; the worst verdict over all inputs.
    outputs:   how many outputs of the machine were compared with the references, over all inputs.
    output_bytes: their bytes.
    first:     the first difference, None if there is none.
    """

    model: str
    hardware: str
    other: str
    version: str
    kernels: str
    close: float
    samples: int
    tensors: tuple[TensorVerdict, ...]
    outputs: int
    output_bytes: int
    first: Difference | None

    @property
    def equal(self) -> bool:
        """Whether npusim computes what the other computes."""
        return self.first is None

    @property
    def litert(self) -> str:
        """The version of the other program, which is LiteRT for TFLite files."""
        return self.version

    @property
    def compared_tensors(self) -> int:
        """How many tensors were compared, over all inputs."""
        return self.samples * sum(row.verdict != "not kept" for row in self.tensors)

    @property
    def compared_bytes(self) -> int:
        """Their bytes."""
        return self.samples * sum(row.bytes for row in self.tensors if row.verdict != "not kept")

    def count(self, verdict: Verdict) -> int:
        """Return the number of results with a verdict."""
        return sum(row.verdict == verdict for row in self.tensors)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        plain = asdict(self) | {"first": None if self.first is None else self.first.to_dict()}
        plain["litert"] = self.version
        sums = {
            "equal": self.equal,
            "compared_tensors": self.compared_tensors,
            "compared_bytes": self.compared_bytes,
        }
        return {"model": plain.pop("model"), "hardware": plain.pop("hardware"), **sums, **plain}


class Judgement(NamedTuple):
    """A verdict, in which elements, and who is off there."""

    verdict: Verdict
    elements: NDArray[np.bool_]
    off: Off | None = None


# Comparison of values

MOST_APART = {1: 1e-4, 2: 1e-2}
"""By bytes per element, the share of a tensor's quantized values that may be one step apart if the other program adds
up in float32; two values in any tensor.

Measured over whole networks: 2 in a million of 8 bits, and 1 in a thousand of 16 bits, whose steps are as fine as the
rounding of the sums.
"""
_SOME_APART = 2
_SHORT = 2
"""Bytes of the largest integers that are quantized values; longer ones are sums, which are exact."""


def same(a: Array, b: Array) -> bool:
    """Return True if two values have the same type, shape and bytes."""
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def close(a: Array, b: Array, share: float) -> bool:
    """Return True if values are the same, or floats within a share of the largest magnitude.

    NaN equals NaN, and infinities are equal.
    """
    if same(a, b):
        return True
    if a.dtype != b.dtype or a.shape != b.shape or a.dtype.kind != "f":
        return False
    with np.errstate(all="ignore"):
        finite = np.abs(b[np.isfinite(b)].astype(np.float64))
        allowed = share * max(float(finite.max(initial=0.0)), float(np.finfo(np.float32).tiny))
        return bool(np.allclose(a.astype(np.float64), b.astype(np.float64), 0.0, allowed, equal_nan=True))


def nearer(a: Array, b: Array, exact: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which elements of one value are nearer to the exact ones than those of the other, as a flat mask."""
    with np.errstate(all="ignore"):
        off_a, off_b = (np.abs(values.astype(np.float64) - exact) for values in (a, b))
        return np.asarray(off_a < off_b).reshape(-1)


def one_apart(a: Array, b: Array) -> bool:
    """Return True if quantized values are equal but for few that are one step apart."""
    if a.dtype != b.dtype or a.shape != b.shape or a.dtype.kind not in "iu":
        return False
    apart = np.abs(a.astype(np.int64) - b.astype(np.int64))
    return int(apart.max(initial=0)) <= 1 and int(apart.sum()) <= max(
        _SOME_APART, MOST_APART.get(a.itemsize, 0.0) * a.size
    )


def count_differing(a: Array, b: Array) -> int:
    """Return how many elements have other bytes."""
    if (a.dtype, a.shape) != (b.dtype, b.shape):
        return max(a.size, b.size)
    return int(apart(a, b).sum()) if a.size else 0


def apart(a: Array, b: Array) -> NDArray[np.bool_]:
    """Return which elements of two values of one type and shape have other bytes, as a flat mask."""
    return np.asarray((_bytewise(a) != _bytewise(b)).any(axis=1))


def most_apart(a: Array, b: Array) -> int | float:
    """Return the largest difference of two integer values; of others infinity."""
    if a.dtype.kind not in "iu":
        return np.inf
    return int(np.abs(a.astype(np.int64) - b.astype(np.int64)).max(initial=0))


_FLOAT32_ROUNDING = 2.0**-22
"""Four roundings of float32: a scale that is a product of three, and the product of it with a sum."""


def right(value: Array, exact: NDArray[np.float64], share: float) -> NDArray[np.bool_]:
    """Return which elements are exact values in float64, rounded: to the nearest integer, or floats within a share.

    Where the exact value is as near to a half as float32 scales can move it, both neighbours are right.
    """
    with np.errstate(all="ignore"):
        off = np.abs(value.astype(np.float64) - exact)
        if value.dtype.kind not in "iu":
            return np.asarray(off <= share * np.abs(exact).max(initial=0.0))
    slack = _FLOAT32_ROUNDING * 2 ** (8 * value.itemsize) if value.itemsize <= _SHORT else 0.0
    return np.asarray(off <= 0.5 + slack)


def distance(a: Array, b: Array) -> float:
    """Return how far two values of one shape are apart, all elements together."""
    with np.errstate(all="ignore"):
        return float(np.nan_to_num(np.abs(a.astype(np.float64) - b.astype(np.float64))).sum())


def _bytewise(array: Array) -> Array:
    """Return the bytes of each element: -0.0 and 0.0 differ, a NaN equals itself."""
    return np.frombuffer(array.tobytes(), np.uint8).reshape(-1, array.itemsize)
