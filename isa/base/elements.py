"""Element types of tensors, and the work of one operator on them.

Hardware files need both without numpy, so nothing here imports it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from npusim.isa.base.lazy_dataclass import dataclass

Rates = Literal["int8", "float32"]
"""The two columns of operation rates in the table of CPU cores (`npusim.isa.hardware.cpu`)."""


@dataclass(frozen=True, slots=True)
class ElementType:
    """An element type: one row of the table of element types.

    name:  the name in tensors, programs and messages; a numpy dtype of that name holds one element.
    kind:  "signed" and "unsigned" integers, "real" and "complex" numbers, "truth" (booleans).
    bits:  bits of an element in memory.
    rates: the column of CPU rates for operators on such elements. Integers of all widths use the column of int8 and
           floats that of float32, because no source of the core table measured the other widths.
    codes: whether its elements may be quantized values, with a scale and a zero point.
    """

    name: str
    kind: Literal["signed", "unsigned", "real", "complex", "truth"]
    bits: int
    rates: Rates
    codes: bool = False

    @property
    def limits(self) -> tuple[int, int]:
        """Return the smallest and the largest integer; 0 and 1 for booleans. Raises TypeError for floats."""
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
"""All element types that a tensor of a graph may have."""

_BY_NAME = {row.name: row for row in ELEMENTS}


def element(name: str) -> ElementType:
    """Return the row of an element type. Raises KeyError for a name that is not in the table."""
    return _BY_NAME[name]


def is_element(name: str) -> bool:
    """Return whether the table has an element type of that name."""
    return name in _BY_NAME


def names(wanted: Callable[[ElementType], bool] = lambda row: True) -> tuple[str, ...]:
    """Return the names of the element types for which `wanted` is true, in table order."""
    return tuple(row.name for row in ELEMENTS if wanted(row))


@dataclass(frozen=True, slots=True)
class Workload:
    """The amount of work of one operator, computed from its shapes alone.

    kind:        "gemm" (convolution, fully connected), "depthwise", "elementwise" (everything else that computes),
                 "move" (copies bytes), "free" (nothing happens, e.g. reshape), "handover" (the host goes from one
                 device to the next, and computes nothing).
    dtype:       the column of CPU rates for its element type (`ElementType.rates`).
    macs:        multiply-accumulates (0 for elementwise and move).
    inner_k:     length of one dot product (gemm: kernel_h * kernel_w * channels_in).
    elements:    elementwise operations (for pools and reductions: elements read, window included).
    rescaled:    results of an elementwise operator that are requantized, as their scale differs from an operand's.
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
