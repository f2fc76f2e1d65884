"""Regions of interest: parts of maps, given by their corners, as tensors of one size.

Corners are (x1, y1, x2, y2), in pixels of the map.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from npusim.frontends.nnef.operations.call_conversion import CallConversion
from npusim.frontends.nnef.operations.row import Row


def _regions(c: CallConversion) -> tuple[list[int], tuple[int, int]]:
    """The operands in reals, and the height and width of results."""
    shape, rois, images = c.shape("input"), c.shape("rois"), c.shape("batch_index")
    c.require(
        len(shape) == 4 and len(rois) == 2 and rois[1] == 4 and images == rois[:1],
        f"input {list(shape)}, rois {list(rois)} and batch_index {list(images)} are not [N,C,H,W], [R,4] and [R]",
    )
    size = c.wholes("output_size")
    c.require(len(size) == 2 and min(size) > 0, f"output_size {size} is not height and width")
    operands = [c.as_real(c.tensor(name)) for name in ("input", "rois")]
    return [*operands, c.tensor("batch_index")], (size[0], size[1])


def _pooled(c: CallConversion, **how: Any) -> Sequence[int]:
    operands, size = _regions(c)
    return [c.node("roi_pooling", operands, size=size, height_stride=1.0, width_stride=1.0, **how)]


def _sampled(c: CallConversion, method: str, samples: tuple[int, int]) -> Sequence[int]:
    """The mean of so many points of each bin, evenly spread; between pixels their interpolation."""
    c.require(c.value(method) == "symmetric", f"{method} is {c.value(method)!r}; npusim has 'symmetric'")
    operands, size = _regions(c)
    how: dict[str, Any] = {"samples": samples, "anywhere": True, "centers": True}
    return [c.node("roi_align", operands, size=size, height_stride=1.0, width_stride=1.0, **how)]


def _resampled(c: CallConversion) -> Sequence[int]:
    return _sampled(c, "method", (1, 1))


def _aligned_mean(c: CallConversion) -> Sequence[int]:
    rate = c.wholes("sampling_rate")
    c.require(len(rate) == 2 and min(rate) > 0, f"sampling_rate {rate} is not two numbers above 0")
    return _sampled(c, "resize_method", (rate[0], rate[1]))


ROWS: tuple[Row, ...] = (
    Row("max_roi_pool", _pooled, ("roi_pooling",)),
    Row("avg_roi_pool", lambda c: _pooled(c, mean=True), ("roi_pooling",)),
    Row("roi_resample", _resampled, ("roi_align",)),
    Row("avg_roi_align", _aligned_mean, ("roi_align",)),
)
