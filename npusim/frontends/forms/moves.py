"""Moves: tensors reshaped, concatenated, split, sliced, repeated and padded."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from npusim.frontends.forms.conversion import Conversion
from npusim.isa.base.tensor import TensorType


def reshaped_to(c: Conversion, x: int, shape: Sequence[int], *, zeros: bool = False) -> int:
    """Return a tensor under a shape, in which one -1 stands for the remaining size.

    zeros: whether 0 is a size; otherwise it keeps the axis of the operand.
    """
    own, sizes = c.shape(x), list(shape)
    if not zeros:
        c.require(
            all(size or place < len(own) for place, size in enumerate(sizes)),
            f"shape {sizes} keeps an axis that {list(own)} does not have",
        )
        sizes = [size or own[place] for place, size in enumerate(sizes)]
    rest = prod(size for size in sizes if size != -1)
    if sizes.count(-1) == 1 and rest and prod(own) % rest == 0:
        sizes[sizes.index(-1)] = prod(own) // rest
    c.require(
        min(sizes, default=0) >= 0 and prod(sizes) == prod(own), f"{list(own)} cannot have shape {sizes}"
    )
    return c.node("reshape", [x], shape=tuple(sizes))


def flattened(c: Conversion, x: int, first: int, last: int) -> int:
    """Flatten the axes from `first` to `last` into one; a tensor without axes gets one."""
    own = c.shape(x) or (1,)
    c.require(first <= last, f"the first axis to flatten is {first}, behind the last, which is {last}")
    return c.node("reshape", [x], shape=(*own[:first], prod(own[first : last + 1]), *own[last + 1 :]))


def with_ones(c: Conversion, x: int, axes: Sequence[int]) -> int:
    """Insert axes of one element one after the other, each counted in the shape that those before it left."""
    shape = list(c.shape(x))
    for axis in axes:
        shape.insert(c.axis(axis, len(shape) + 1, "axes"), 1)
    return c.node("reshape", [x], shape=tuple(shape))


def permuted(c: Conversion, x: int, perm: Sequence[int]) -> int:
    """Transpose a tensor."""
    rank = len(c.shape(x))
    c.require(sorted(perm) == list(range(rank)), f"perm is {[*perm]}, must name each of {rank} axes once")
    return c.node("transpose", [x], perm=tuple(perm))


def on_grid(c: Conversion, tensors: Sequence[int], kinds: Sequence[TensorType]) -> list[int]:
    """Broadcast vectors, one per axis, to their common grid."""
    sizes = c.small([prod(c.shape(tensor)) for tensor in tensors])
    grids = []
    for axis, (tensor, kind) in enumerate(zip(tensors, kinds, strict=True)):
        along = [size if at == axis else 1 for at, size in enumerate(sizes)]
        grids.append(c.node("broadcast_to", [c.reshaped(tensor, along)], kind, shape=sizes))
    return grids


def common_rank(c: Conversion, tensors: Sequence[int]) -> int:
    """Return the number of axes that all tensors have. Raises the front end's error if they differ."""
    rank = len(c.shape(tensors[0]))
    c.require(
        all(len(c.shape(tensor)) == rank for tensor in tensors),
        f"inputs have shapes {[list(c.shape(tensor)) for tensor in tensors]}, not of one rank",
    )
    return rank


def concatenated(c: Conversion, tensors: Sequence[int], axis: int) -> int:
    """Concatenate tensors along an axis; a single one is copied."""
    if len(tensors) == 1:
        return c.node("reshape", tensors, shape=c.shape(tensors[0]))
    return c.node("concatenation", tensors, axis=axis)


def split(c: Conversion, x: int, axis: int, sizes: Sequence[int]) -> Sequence[int]:
    """Split a tensor along an axis into parts of these sizes, one for each output."""
    own, count = c.shape(x), len(sizes)
    c.require(
        len(c.outputs) == count and min(sizes, default=0) >= 0 and sum(sizes) == own[axis],
        f"split {list(sizes)} does not make {len(c.outputs)} parts of {own[axis]} elements",
    )
    if count == 1:
        return [c.node("reshape", [x], shape=own)]
    kinds = [c.kind(place, c.like(x).dtype) for place in range(count)]
    return c.nodes("split", [x], kinds, axis=axis, sizes=tuple(sizes))


def part(
    c: Conversion,
    x: int,
    axes: Sequence[int],
    starts: Sequence[int],
    ends: Sequence[int],
    steps: Sequence[int],
) -> dict[str, Any]:
    """Return the parameters of a strided slice along axes.

    Bounds below 0 count from the end, and bounds beyond an axis are clipped to it. A step below 0 goes backwards.
    """
    shape = c.shape(x)
    c.require(
        len(starts) == len(ends) == len(axes) == len(steps),
        f"starts, ends, axes and steps have {len(starts)}, {len(ends)}, {len(axes)} and {len(steps)} items",
    )
    axes = [c.axis(axis, len(shape), "axes") for axis in axes]
    c.require(len(set(axes)) == len(axes), f"axes {axes} name an axis twice")
    c.require(0 not in steps, "a step is 0")
    chosen = [range(extent) for extent in shape]
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        # No end can be written for a slice backwards through the first element; a very low one stands for it.
        stop = None if end <= -(2**62) and step < 0 else end
        chosen[axis] = range(*slice(start, stop, step).indices(shape[axis]))
    return {
        "begin": tuple(along.start if len(along) else 0 for along in chosen),
        "size": tuple(map(len, chosen)),
        "strides": tuple(along.step if len(along) > 1 else 1 for along in chosen),
    }


def with_kept_sizes(c: Conversion, x: int, wanted: Sequence[int]) -> list[int]:
    """Return the sizes of an expanded tensor, in which -1 keeps a size of the tensor."""
    own = c.shape(x)
    more = len(wanted) - len(own)
    sizes = [own[at - more] if size == -1 and at >= more else size for at, size in enumerate(wanted)]
    fits = more >= 0 and min(sizes, default=0) >= 0
    c.require(
        fits, f"shape is {[*wanted]}, must have a size of 0 or more, or -1 to keep one, for each of {[*own]}"
    )
    return sizes


def expanded(c: Conversion, x: int, wanted: Sequence[int]) -> int:
    """Broadcast a tensor together with a shape."""
    shape = c.shape(x)
    try:
        whole = np.broadcast_shapes(shape, tuple(wanted))
    except ValueError:
        raise c.fault(f"{list(shape)} does not broadcast to {list(wanted)}") from None
    return c.node("broadcast_to", [x], shape=c.small(whole))


def tiled(c: Conversion, x: int, repeats: Sequence[int]) -> int:
    """Repeat a tensor along each of its axes."""
    shape = c.shape(x)
    fits = len(repeats) == len(shape) and min(repeats, default=0) >= 0
    c.require(fits, f"repeats {list(repeats)} are not one number for each axis of {list(shape)}")
    c.small([size * times for size, times in zip(shape, repeats, strict=True)])
    return c.node("tile", [x], multiples=tuple(repeats))


def padded(c: Conversion, x: int, pairs: Sequence[tuple[int, int]], mode: str, number: Any) -> int:
    """Pad a tensor before and behind each axis; negative amounts crop it.

    number: the fill value of constant padding; None for 0.
    """
    shape = c.shape(x)
    c.small([size + sum(pair) for size, pair in zip(shape, pairs, strict=True)])
    c.require(mode in ("constant", "reflect", "edge", "wrap"), f"mode is {mode!r}")
    if any(min(pair) < 0 for pair in pairs):
        x, pairs = _cropped(c, x, pairs)
    borders = tuple(pairs)
    if mode == "wrap":
        return _wrapped(c, x, borders)
    if mode == "edge":
        return c.node("edge_pad", [x], paddings=borders)
    if mode == "reflect":
        return _reflected(c, x, borders)
    return _surrounded(c, x, borders, number)


def _cropped(c: Conversion, x: int, pairs: Sequence[tuple[int, int]]) -> tuple[int, list[tuple[int, int]]]:
    shape = c.shape(x)
    begin = tuple(max(-before, 0) for before, _ in pairs)
    size = tuple(
        extent - max(-before, 0) - max(-behind, 0)
        for extent, (before, behind) in zip(shape, pairs, strict=True)
    )
    c.require(min(size) >= 0, f"pads take away more than {list(shape)} has")
    kept = c.nodes("strided_slice", [x], [c.like(x)], begin=begin, size=size, strides=(1,) * len(size))
    return kept[0], [(max(before, 0), max(behind, 0)) for before, behind in pairs]


def _surrounded(c: Conversion, x: int, borders: Any, number: Any) -> int:
    """Pad with one value, a parameter of the operator; for a quantized result it is quantized first."""
    kind = c.builder.type(x)
    if number is None:
        return c.node("pad", [x], paddings=borders)
    result = c.kind(0, kind.dtype)
    if result.quantization is not None:
        if kind.quantization != result.quantization:
            x = c.in_type(x, result)
        scaling = result.quantization
        least, most = result.element.limits
        code = int(np.rint(np.float32(number) / np.float32(scaling.scale))) + scaling.zero_point
        return c.node("pad", [x], paddings=borders, pad_value=min(max(code, least), most))
    if not np.isfinite(number):
        return surrounded_by(c, x, borders, number)
    return c.node("pad", [x], paddings=borders, pad_value=number.item())


def surrounded_by(c: Conversion, x: int, borders: Any, number: Any) -> int:
    """Pad with a value that parameters cannot hold (infinities, NaN), by concatenating constants."""
    for axis, border in enumerate(borders):
        sizes = [(*c.shape(x)[:axis], count, *c.shape(x)[axis + 1 :]) for count in border]
        around = [c.filled(size, number, c.builder.type(x).dtype) if size[axis] else None for size in sizes]
        parts = [part for part in (around[0], x, around[1]) if part is not None]
        if len(parts) > 1:
            x = c.step("concatenation", parts, axis=axis)
    return x


def _reflected(c: Conversion, x: int, borders: Any) -> int:
    """Pad by reflection; borders wider than the tensor are reflected repeatedly, by gathers."""
    shape = c.shape(x)
    if all(max(pair) < max(extent, 1) for extent, pair in zip(shape, borders, strict=True)):
        return c.node("mirror_pad", [x], paddings=borders, mode="reflect")
    return _by_places(c, x, borders, lambda places, extent: _mirrored(places, extent))


def _mirrored(places: Any, extent: int) -> Any:
    period = max(2 * (extent - 1), 1)
    along = np.abs(places) % period
    return np.minimum(along, period - along) if extent > 1 else np.zeros_like(places)


def _wrapped(c: Conversion, x: int, borders: Any) -> int:
    return _by_places(c, x, borders, lambda places, extent: places % extent)


def _by_places(c: Conversion, x: int, borders: Any, place_of: Any) -> int:
    shape = c.shape(x)
    c.require(0 not in shape, f"{list(shape)} has no elements to repeat")
    for axis, (extent, (before, behind)) in enumerate(zip(shape, borders, strict=True)):
        if before or behind:
            places = place_of(np.arange(-before, extent + behind, dtype=np.int64), extent)
            [x] = c.nodes("gather", [x, c.constant(places)], [c.like(x)], axis=axis)
    return c.node("reshape", [x], shape=c.shape(x))
