"""The result of a verification: a verdict per tensor, the first difference, and totals."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

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
        """Plain values, for JSON."""
        return asdict(self) | {"litert": self.other}


@dataclass(frozen=True, slots=True)
class TensorVerdict:
    """Verdict on one result of a layer over all inputs.

    bytes:     its size.
    elements:  how many were compared, over all inputs.
    differing: elements that are not the other's, over all inputs with this verdict; of a tensor that is rounded,
               saturated or different, for equal operands; if npusim is off, those in which it is.
    off:       who is off from the exact value there, "npusim" or "other"; None if it is not known or nobody is.
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
        """Plain values, for JSON."""
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
