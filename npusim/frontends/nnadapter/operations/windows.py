"""Windows that slide over images: their padding and steps, and pools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from npusim.frontends.nnadapter.codes import AutoPad, OperationType
from npusim.frontends.nnadapter.operations.conversion import Conversion
from npusim.frontends.nnadapter.operations.row import Row
from npusim.kernels.graph.builder import unshaped
from npusim.kernels.operator.geometry import same_padding
from npusim.kernels.operator.parameters import NO_BORDERS, Border, Borders

Pair = tuple[int, int]


def pair(c: Conversion, name: str, least: int = 1) -> Pair:
    """Two numbers, of height and width."""
    numbers = c.wholes(name)
    fits = len(numbers) == 2 and min(numbers) >= least
    c.require(fits, f"{name} is {numbers}, must be of height and width, each {least} or more")
    return numbers[0], numbers[1]


def image_size(c: Conversion, name: str = "input") -> Pair:
    """Height and width of an image [N, C, H, W]."""
    shape = c.shape(name)
    c.require(len(shape) == 4, f"{name} has shape {list(shape)}, must be [N, C, H, W]")
    return shape[2], shape[3]


def borders(
    c: Conversion, image: Sequence[int], kernel: Sequence[int], strides: Sequence[int], how: AutoPad
) -> Borders:
    """((top, bottom), (left, right)) around an image; SAME is for windows whose taps lie side by side."""
    if how is AutoPad.AUTO_PAD_VALID:
        return NO_BORDERS
    if how is AutoPad.AUTO_PAD_SAME:
        rows, columns = (same_padding(*axis) for axis in zip(image, kernel, strides, strict=True))
        return rows, columns
    return pads(c)


def pads(c: Conversion) -> Borders:
    """The argument `pads`: top, bottom, left, right; none where it is omitted."""
    numbers = c.wholes("pads") if c.has("pads") else [0] * 4
    fits = len(numbers) == 4 and min(numbers) >= 0
    c.require(fits, f"pads is {numbers}, must be top, bottom, left, right, each 0 or more")
    top, bottom, left, right = numbers
    return (top, bottom), (left, right)


def scheme(c: Conversion) -> AutoPad:
    """The argument `auto_pad`."""
    said: AutoPad = c.code("auto_pad", AutoPad)
    return said


# Pools


def _up(size: int, kernel: int, stride: int, border: Border) -> Border:
    """A border such that the last window, which may be cut, is one: sizes are rounded up."""
    beyond = -(size + sum(border) - kernel) % stride
    return border[0], border[1] + beyond


def _window(c: Conversion) -> tuple[dict[str, Any], Borders]:
    """The parameters of a pool, and how much of its padding the operation speaks of."""
    image, kernel, strides = image_size(c), pair(c, "kernel_shape"), pair(c, "strides")
    if kernel == image:  # of the whole image
        return {"filter": kernel, "strides": (1, 1)}, NO_BORDERS
    said = borders(c, image, kernel, strides, scheme(c))
    padding = said
    if c.flag("ceil_mode"):
        rows, columns = (_up(*axis) for axis in zip(image, kernel, strides, said, strict=True))
        padding = rows, columns
    return {"filter": kernel, "strides": strides, "padding": padding}, said


def _average_pool(c: Conversion) -> Sequence[int]:
    how, said = _window(c)
    if c.flag("count_include_pad"):
        how["counted"] = said
    return _pooled(c, "average_pool_2d", how)


def _max_pool(c: Conversion) -> Sequence[int]:
    how, _ = _window(c)
    return _largest(c, "max_pool_2d", how)


def _adaptive_average_pool(c: Conversion) -> Sequence[int]:
    return _pooled(c, *_bins(c, "average_pool_2d"))


def _adaptive_max_pool(c: Conversion) -> Sequence[int]:
    op, how = _bins(c, "max_pool_2d")
    return _largest(c, op, how)


def _bins(c: Conversion, pool: str) -> tuple[str, dict[str, Any]]:
    """A pool into a number of bins: one whose windows lie side by side where they cover the image evenly."""
    image, size = image_size(c), pair(c, "output_shape")
    if all(pixels % bins == 0 for pixels, bins in zip(image, size, strict=True)):
        window = (image[0] // size[0], image[1] // size[1])
        return pool, {"filter": window, "strides": window}
    return f"adaptive_{pool}", {"size": size}


def _pooled(c: Conversion, op: str, how: dict[str, Any]) -> Sequence[int]:
    """A pool does not rescale: what has another scale after it is computed on real numbers."""
    if c.has("fuse_code"):
        how["activation"] = c.activation()
    image = c.tensor("input")
    alike = c.builder.type(image).quantization == c.result().quantization
    return c.node(op, [image], **how) if alike else c.node_in_reals(op, [image], **how)


def _largest(c: Conversion, op: str, how: dict[str, Any]) -> Sequence[int]:
    """The largest values, and their positions where there is a place for them; then codes of the output's scale."""
    if c.has("fuse_code"):
        how["activation"] = c.activation()
    image, result = c.tensor("input"), c.result()
    kind = c.builder.type(image)
    asked = c.flag("return_indices")
    c.require(asked or not c.has("indices"), "there is an output for indices, and return_indices is false")
    positions = [c.result("indices")] if c.has("indices") else []
    if positions:
        op += "_with_positions"
    if kind.quantization == result.quantization:
        return c.node(op, [image], result, *positions, **how)
    activation = how.pop("activation", "none")
    if activation != "none":
        return c.node_in_reals(op, [image], result, *positions, activation=activation, **how)
    values, *places = c.node(op, [image], unshaped(kind.dtype, kind.quantization), *positions, **how)
    return (*c.node("quantize", [values], result), *places)


_WINDOW = "auto_pad:i=0 pads:I?=(0,0,0,0) kernel_shape:I strides:I=(1,1) ceil_mode:b=False"
_INDICES = "return_indices:b=False return_indices_dtype:i=5"

ROWS: tuple[Row, ...] = (
    Row(
        OperationType.AVERAGE_POOL_2D,
        f"input {_WINDOW} count_include_pad:b=False fuse_code:i=0 > output=input",
        _average_pool,
        ("average_pool_2d",),
    ),
    Row(
        OperationType.MAX_POOL_2D,
        f"input {_WINDOW} {_INDICES} fuse_code:i=0 > output=input indices?(return_indices)@return_indices_dtype",
        _max_pool,
        ("max_pool_2d", "max_pool_2d_with_positions", "quantize"),
    ),
    Row(
        OperationType.ADAPTIVE_AVERAGE_POOL_2D,
        "input output_shape:I > output=input",
        _adaptive_average_pool,
        ("adaptive_average_pool_2d", "average_pool_2d"),
    ),
    Row(
        OperationType.ADAPTIVE_MAX_POOL_2D,
        f"input output_shape:I {_INDICES} > output=input indices?(return_indices)@return_indices_dtype",
        _adaptive_max_pool,
        (
            "adaptive_max_pool_2d",
            "max_pool_2d",
            "adaptive_max_pool_2d_with_positions",
            "max_pool_2d_with_positions",
            "quantize",
        ),
    ),
)
