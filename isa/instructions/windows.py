"""Windows over a feature map, as the pools of codes and of reals have them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from numpy.typing import DTypeLike

from npusim.isa.base.cause import Cause
from npusim.isa.hardware.units import Unit
from npusim.isa.instructions.context import Context
from npusim.isa.instructions.instruction import Instruction
from npusim.isa.instructions.mac import ADDRESS_BITS, map_region
from npusim.isa.instructions.memory import Memory
from npusim.isa.instructions.region import Regions, Space
from npusim.isa.instructions.vector import VECTOR_CAUSES, Codes, passes
from npusim.isa.instructions.word import bits

SIZES = (
    "ifm_height", "ifm_width", "depth", "ofm_height", "ofm_width",
    "kernel_height", "kernel_width", "stride_height", "stride_width",
)  # fmt: skip


class _Axis(NamedTuple):
    """Windows along one axis: elements of each, elements of padding in front, from one to the next, and how many."""

    kernel: int
    pad: int
    stride: int
    outputs: int
    inputs: int


def _axis(windows: Instruction, name: str) -> _Axis:
    pad = getattr(windows, "pad_top" if name == "height" else "pad_left")
    kernel, stride, outputs, inputs = (
        getattr(windows, f"{what}_{name}") for what in ("kernel", "stride", "ofm", "ifm")
    )
    return _Axis(kernel, pad, stride, outputs, inputs)


def window_faults(windows: Instruction) -> list[str]:
    """Sizes and strides are at least 1, and every window touches the feature map."""
    found = [f"{name} is 0; it may be 1 or more" for name in SIZES if getattr(windows, name) == 0]
    for name in ("height", "width"):
        axis = _axis(windows, name)
        if axis.pad >= axis.kernel or (axis.outputs - 1) * axis.stride - axis.pad >= axis.inputs:
            found.append(f"a window lies outside the feature map in {name}")
    return found


Tap = tuple[tuple[slice, slice], tuple[slice, slice]]
"""Rows and columns of the outputs whose windows have an element at one place, and those of these elements."""


def window_taps(windows: Instruction) -> Iterator[Tap]:
    """For each element of a window, row by row, the outputs for which it lies inside the feature map."""
    across = axis_taps(windows, "width")
    for rows in axis_taps(windows, "height"):
        for columns in across:
            yield (rows[0], columns[0]), (rows[1], columns[1])


def axis_taps(windows: Instruction, name: str) -> list[tuple[slice, slice]]:
    """For each row ("height") or column ("width") of a window the outputs that see it, and which inputs these are."""
    axis = _axis(windows, name)
    inside = [_inside(element, axis) for element in _reaching(axis)]
    return [taps for taps in inside if taps is not None]


def _reaching(axis: _Axis) -> range:
    """The elements of a window that can reach the feature map from any output."""
    return range(
        max(0, axis.pad - (axis.outputs - 1) * axis.stride), min(axis.kernel, axis.inputs + axis.pad)
    )


def _inside(element: int, axis: _Axis) -> tuple[slice, slice] | None:
    """Outputs whose windows have this element inside the feature map, and those inputs; None if there are none."""
    offset, stride = element - axis.pad, axis.stride
    first = max(0, -(offset // stride)) if offset < 0 else 0
    last = min(axis.outputs, (axis.inputs - 1 - offset) // stride + 1)
    if last <= first:
        return None
    start = first * stride + offset
    return slice(first, last), slice(start, start + (last - first - 1) * stride + 1, stride)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pooling(Instruction):
    """What pools of codes share: windows over a feature map, whose pixels are dense."""

    home: ClassVar[Unit] = Unit.VECTOR
    causes: ClassVar[tuple[Cause, ...]] = VECTOR_CAUSES

    ifm: int = bits(ADDRESS_BITS, "scratchpad address of the first feature-map row")
    ifm_row_stride: int = bits(24, "bytes from one feature-map row to the next")
    ifm_height: int = bits(16, "feature-map rows present")
    ifm_width: int = bits(16, "feature-map columns")
    depth: int = bits(20, "channels")
    ofm: int = bits(ADDRESS_BITS, "scratchpad address of the first output row")
    ofm_row_stride: int = bits(24, "bytes from one output row to the next")
    ofm_height: int = bits(16, "output rows")
    ofm_width: int = bits(16, "output columns")
    kernel_height: int = bits(16, "window rows")
    kernel_width: int = bits(16, "window columns")
    stride_height: int = bits(16, "rows between windows")
    stride_width: int = bits(16, "columns between windows")
    pad_top: int = bits(16, "padding rows above the first feature-map row")
    pad_left: int = bits(16, "padding columns left of the first")

    @property
    def tile(self) -> tuple[int, int, int]:
        """Rows, columns and channels of the output."""
        return self.ofm_height, self.ofm_width, self.depth

    @property
    def taps(self) -> int:
        """Elements of a window."""
        return self.kernel_height * self.kernel_width

    @property
    def outputs(self) -> int:
        """Elements of the output."""
        return self.ofm_height * self.ofm_width * self.depth

    @property
    def wide(self) -> int:
        """1 where elements are int16, else 0: they are bytes."""
        return 0

    def regions(self, context: Context) -> Regions:
        """The feature map is read, the output is written; pixels are dense."""
        pixel = self.depth << self.wide
        ifm = map_region(self.ifm, (self.ifm_height, self.ifm_width, pixel), (self.ifm_row_stride, pixel))
        ofm_sizes = (self.ofm_height, self.ofm_width, pixel)
        return (ifm,), (map_region(self.ofm, ofm_sizes, (self.ofm_row_stride, pixel)),)

    def maps(self, memory: Memory, ifm_type: DTypeLike, ofm_type: DTypeLike) -> tuple[Codes, Codes]:
        """Feature map and output as rows x columns x channels."""
        shape, inside = (
            (self.ifm_height, self.ifm_width, self.depth),
            (self.depth << self.wide, 1 << self.wide),
        )
        ifm = memory.view(Space.SCRATCHPAD, self.ifm, shape, (self.ifm_row_stride, *inside), ifm_type)
        strides = (self.ofm_row_stride, *inside)
        return ifm, memory.view(Space.SCRATCHPAD, self.ofm, self.tile, strides, ofm_type)

    def groups(self, context: Context) -> int:
        """How often the lanes are filled: with channels of one output pixel."""
        return self.ofm_height * self.ofm_width * passes(self.depth, context.hardware.vector)
