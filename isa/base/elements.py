"""The element types of tensors, and the work of one operator on them. Hardware files need both, but no numpy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

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
