"""Resampling of images, and regions of interest, in NNEF."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from npusim.frontends.forms.axes import by_pairs, on_images, region_means
from npusim.frontends.forms.windows import NO_BORDER
from npusim.frontends.nnef.operations.call_conversion import CallConversion, Row
from npusim.frontends.nnef.operations.nnef_windows import padded


def _factors(c: CallConversion) -> list[int]:
    """Return the factor of each axis, 1 for batch and channels."""
    rank, factors = len(c.shape("input")), c.wholes("factor")
    fits = len(factors) == rank - 2 and min(factors, default=1) >= 1
    c.require(
        fits, f"factor {factors} is not one number above 0 for each axis of {list(c.shape('input'))} in space"
    )
    return [1, 1, *factors]


def _smaller(c: CallConversion, factors: Sequence[int]) -> list[int]:
    shape = c.shape("input")
    fits = all(extent % factor == 0 for extent, factor in zip(shape, factors, strict=True))
    c.require(fits, f"factor {list(factors[2:])} does not divide the extents in space of {list(shape)}")
    return [extent // factor for extent, factor in zip(shape, factors, strict=True)]


def _nearest_down(c: CallConversion) -> Sequence[int]:
    factors = _factors(c)
    size = _smaller(c, factors)
    if set(factors) == {1}:
        return [c.tensor("input")]
    strides = tuple(factor if extent > 1 else 1 for factor, extent in zip(factors, size, strict=True))
    parameters: dict[str, Any] = {"begin": (0,) * len(size), "size": tuple(size), "strides": strides}
    return c.moved("strided_slice", [c.tensor("input")], **parameters)


def _area_down(c: CallConversion) -> Sequence[int]:
    factors, x = _factors(c), c.tensor("input")
    _smaller(c, factors)
    none = [NO_BORDER] * len(factors)
    return [c.apply("avg_pool", x, size=factors, stride=factors, padding=none)]


def _resized(c: CallConversion, x: int, factors: Sequence[int], op: str, **parameters: Any) -> int:
    """Return a tensor resized by a factor along each axis."""
    for axes in by_pairs([axis for axis, factor in enumerate(factors) if factor > 1]):

        def larger(image: int, axes: Sequence[int] = axes) -> int:
            ones = [1] * (2 - len(axes))
            times = [*ones, *(factors[axis] for axis in axes)]
            size = tuple(extent * factor for extent, factor in zip(c.shape(image)[2:], times, strict=True))
            return c.moved(op, [image], size=size, **parameters)[0]

        # Both axes of an image are resized together, even if only one grows.
        pair = [2, 3] if len(factors) == 4 and set(axes) <= {2, 3} else axes
        x = on_images(c, x, pair, (lambda image, pair=pair: larger(image, pair)))  # type: ignore[misc]
    return x


def _nearest_up(c: CallConversion) -> Sequence[int]:
    return [_resized(c, c.tensor("input"), _factors(c), "resize_nearest_neighbor")]


_METHODS: dict[str, dict[str, bool]] = {
    "symmetric": {"half_pixel_centers": True},
    "asymmetric": {},
    "aligned": {"align_corners": True},
}


def _multilinear_up(c: CallConversion) -> Sequence[int]:
    """Add a bilinear upsampling; a border other than replication is padded first, and its part of the result is cut
    off.
    """
    factors, x = _factors(c), c.tensor("input")
    method, border = c.value("method"), c.value("border")
    if c.builder.type(x).quantization != c.kind().quantization:
        x = c.as_real(x)  # values between two quantized values need floats
    parameters = _METHODS[method]
    if border == "replicate" or method == "aligned":
        return [_resized(c, x, factors, "resize_bilinear", **parameters)]
    around = tuple((int(factor > 1),) * 2 for factor in factors)
    shape = c.shape(x)
    wide = _resized(c, padded(c, x, around, border), factors, "resize_bilinear", **parameters)
    begin = tuple(factor if factor > 1 else 0 for factor in factors)
    size = tuple(extent * factor for extent, factor in zip(shape, factors, strict=True))
    return c.moved("strided_slice", [wide], begin=begin, size=size, strides=(1,) * len(size))


def _regions(c: CallConversion) -> tuple[list[int], tuple[int, int]]:
    """Return the float operands, and the height and width of the results."""
    shape, rois, images = c.shape("input"), c.shape("rois"), c.shape("batch_index")
    c.require(
        len(shape) == 4 and len(rois) == 2 and rois[1] == 4 and images == rois[:1],
        f"input {list(shape)}, rois {list(rois)} and batch_index {list(images)} are not [N,C,H,W], [R,4] and [R]",
    )
    size = c.wholes("output_size")
    c.require(len(size) == 2 and min(size) > 0, f"output_size {size} is not height and width")
    operands = [c.as_real(c.tensor(name)) for name in ("input", "rois")]
    return [*operands, c.tensor("batch_index")], (size[0], size[1])


def _pooled(c: CallConversion, **parameters: Any) -> Sequence[int]:
    operands, size = _regions(c)
    return [c.node("roi_pooling", operands, size=size, height_stride=1.0, width_stride=1.0, **parameters)]


def _sampled(c: CallConversion, method: str, samples: tuple[int, int]) -> Sequence[int]:
    """Add the mean of evenly spread points of each bin, interpolated between pixels."""
    c.require(c.value(method) == "symmetric", f"{method} is {c.value(method)!r}; npusim has 'symmetric'")
    operands, size = _regions(c)
    return [region_means(c, operands, size, samples=samples, centers=True)]


def _resampled(c: CallConversion) -> Sequence[int]:
    return _sampled(c, "method", (1, 1))


def _aligned_mean(c: CallConversion) -> Sequence[int]:
    rate = c.wholes("sampling_rate")
    c.require(len(rate) == 2 and min(rate) > 0, f"sampling_rate {rate} is not two numbers above 0")
    return _sampled(c, "resize_method", (rate[0], rate[1]))


ROWS: tuple[Row, ...] = (
    Row("nearest_downsample", _nearest_down, "strided_slice"),
    Row("area_downsample", _area_down, "average_pool_2d"),
    Row("nearest_upsample", _nearest_up, "resize_nearest_neighbor"),
    Row("multilinear_upsample", _multilinear_up, "resize_bilinear pad strided_slice"),
    Row("max_roi_pool", _pooled, "roi_pooling"),
    Row("avg_roi_pool", lambda c: _pooled(c, mean=True), "roi_pooling"),
    Row("roi_resample", _resampled, "roi_align"),
    Row("avg_roi_align", _aligned_mean, "roi_align"),
)
