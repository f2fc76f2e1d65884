"""Images of other sizes, whole factors up or down; along any number of axes in space."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from npusim.frontends.images import by_pairs, on_images
from npusim.frontends.nnef.operations.call_conversion import CallConversion
from npusim.frontends.nnef.operations.row import Row
from npusim.frontends.nnef.operations.windows import NO_BORDER, padded


def _factors(c: CallConversion) -> list[int]:
    """For each axis, 1 for batch and channels."""
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
    how: dict[str, Any] = {"begin": (0,) * len(size), "size": tuple(size), "strides": strides}
    return c.moved("strided_slice", [c.tensor("input")], **how)


def _area_down(c: CallConversion) -> Sequence[int]:
    factors, x = _factors(c), c.tensor("input")
    _smaller(c, factors)
    none = [NO_BORDER] * len(factors)
    return [c.apply("avg_pool", x, size=factors, stride=factors, padding=none)]


def _resized(c: CallConversion, x: int, factors: Sequence[int], op: str, **how: Any) -> int:
    """A tensor so many times as long along its axes."""
    for axes in by_pairs([axis for axis, factor in enumerate(factors) if factor > 1]):

        def larger(image: int, axes: Sequence[int] = axes) -> int:
            ones = [1] * (2 - len(axes))
            times = [*ones, *(factors[axis] for axis in axes)]
            size = tuple(extent * factor for extent, factor in zip(c.shape(image)[2:], times, strict=True))
            return c.moved(op, [image], size=size, **how)[0]

        # Both axes of an image together, even where only one grows.
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
    """What lies outside is the border's: of one element more on each side, whose part of the result is cut off."""
    factors, x = _factors(c), c.tensor("input")
    method, border = c.value("method"), c.value("border")
    if c.builder.type(x).quantization != c.kind().quantization:
        x = c.as_real(x)  # what lies between codes is none
    how = _METHODS[method]
    if border == "replicate" or method == "aligned":
        return [_resized(c, x, factors, "resize_bilinear", **how)]
    around = tuple((int(factor > 1),) * 2 for factor in factors)
    shape = c.shape(x)
    wide = _resized(c, padded(c, x, around, border), factors, "resize_bilinear", **how)
    begin = tuple(factor if factor > 1 else 0 for factor in factors)
    size = tuple(extent * factor for extent, factor in zip(shape, factors, strict=True))
    return c.moved("strided_slice", [wide], begin=begin, size=size, strides=(1,) * len(size))


ROWS: tuple[Row, ...] = (
    Row("nearest_downsample", _nearest_down, ("strided_slice",)),
    Row("area_downsample", _area_down, ("average_pool_2d",)),
    Row("nearest_upsample", _nearest_up, ("resize_nearest_neighbor",)),
    Row("multilinear_upsample", _multilinear_up, ("resize_bilinear", "pad", "strided_slice")),
)
