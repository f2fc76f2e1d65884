"""Windows over a feature map, as the pools of codes and of reals have them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from npusim.isa.instructions.real_reduction import RealPool
    from npusim.isa.instructions.reduction import Pool

SIZES = (
    "ifm_height", "ifm_width", "depth", "ofm_height", "ofm_width",
    "kernel_height", "kernel_width", "stride_height", "stride_width",
)  # fmt: skip


Tap = tuple[tuple[slice, slice], tuple[slice, slice]]
"""Rows and columns of the outputs whose windows have an element at one place, and those of these elements."""


def window_faults(windows: Pool | RealPool) -> list[str]:
    """Sizes and strides are at least 1, and every window touches the feature map."""
    found = [f"{name} is 0; it may be 1 or more" for name in SIZES if getattr(windows, name) == 0]
    for axis in ("height", "width"):
        pad = windows.pad_top if axis == "height" else windows.pad_left
        last = (getattr(windows, f"ofm_{axis}") - 1) * getattr(windows, f"stride_{axis}") - pad
        if pad >= getattr(windows, f"kernel_{axis}") or last >= getattr(windows, f"ifm_{axis}"):
            found.append(f"a window lies outside the feature map in {axis}")
    return found


def window_taps(w: Pool | RealPool) -> Iterator[Tap]:
    """For each element of a window, row by row, the outputs for which it lies inside the feature map."""
    across = _reaching(w.kernel_width, w.pad_left, w.stride_width, w.ofm_width, w.ifm_width)
    for ky in _reaching(w.kernel_height, w.pad_top, w.stride_height, w.ofm_height, w.ifm_height):
        rows = _inside(ky - w.pad_top, w.stride_height, w.ofm_height, w.ifm_height)
        for kx in across:
            columns = _inside(kx - w.pad_left, w.stride_width, w.ofm_width, w.ifm_width)
            if rows is not None and columns is not None:
                yield (rows[0], columns[0]), (rows[1], columns[1])


def _reaching(kernel: int, pad: int, stride: int, outputs: int, inputs: int) -> range:
    """The elements of a window along one axis that can reach the feature map from any output."""
    return range(max(0, pad - (outputs - 1) * stride), min(kernel, inputs + pad))


def _inside(offset: int, stride: int, outputs: int, inputs: int) -> tuple[slice, slice] | None:
    """Outputs o with 0 <= o * stride + offset < inputs, and those inputs; None if there are none."""
    first = max(0, -(offset // stride)) if offset < 0 else 0
    last = min(outputs, (inputs - 1 - offset) // stride + 1)
    if last <= first:
        return None
    start = first * stride + offset
    return slice(first, last), slice(start, start + (last - first - 1) * stride + 1, stride)
