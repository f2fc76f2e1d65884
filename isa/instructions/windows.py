"""Windows over a feature map, as the pools of codes and of reals have them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from npusim.isa.instructions.instruction import Instruction

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
