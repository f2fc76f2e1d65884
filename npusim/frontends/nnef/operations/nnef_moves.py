"""Operations of NNEF that move elements; quantized values stay as they are."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from npusim.frontends.nnef.operations.call_conversion import CallConversion, Row
from npusim.frontends.nnef.operations.nnef_windows import padded


def _reshape(c: CallConversion) -> Sequence[int]:
    """Reshape some axes: 0 copies the extent at its place, and -1 is the remaining size."""
    own, extents = c.shape("input"), c.wholes("shape")
    start, count = int(c.value("axis_start")), int(c.value("axis_count"))
    end = len(own) if count == -1 else start + count
    c.require(0 <= start <= end <= len(own), f"axes {start} to {end} are not within rank {len(own)}")
    changed = own[start:end]
    c.require(min(extents, default=0) >= -1, f"shape {extents} has an extent below -1")
    for place, extent in enumerate(extents):
        if extent == 0:
            c.require(
                place < len(changed), f"shape {extents}: there is no axis {place} whose extent 0 would copy"
            )
            extents[place] = changed[place]
    c.require(extents.count(-1) < 2, f"shape {extents} leaves more than one extent open")
    if -1 in extents:
        rest = prod(extent for extent in extents if extent != -1)
        c.require(
            rest > 0 and prod(changed) % rest == 0,
            f"shape {extents} does not divide {prod(changed)} elements",
        )
        extents[extents.index(-1)] = prod(changed) // rest
    c.require(
        prod(extents) == prod(changed),
        f"shape {extents} has {prod(extents)} elements, {list(changed)} {prod(changed)}",
    )
    return [c.reshaped(c.tensor("input"), (*own[:start], *extents, *own[end:]))]


def _transpose(c: CallConversion) -> Sequence[int]:
    """Transpose; axes that are not named stay behind the others."""
    rank, axes = len(c.shape("input")), c.wholes("axes")
    order = [*axes, *range(len(axes), rank)]
    c.require(
        sorted(order) == list(range(rank)), f"axes {axes} do not name the first of {rank} axes once each"
    )
    return [c.transposed(c.tensor("input"), order)]


def _squeeze(c: CallConversion) -> Sequence[int]:
    own = c.shape("input")
    axes = c.axes("axes", len(own))
    for axis in axes:
        c.require(own[axis] == 1, f"axis {axis} has extent {own[axis]}, not 1")
    return [c.reshaped(c.tensor("input"), [extent for axis, extent in enumerate(own) if axis not in axes])]


def _unsqueeze(c: CallConversion) -> Sequence[int]:
    """Insert axes of one element; the axes are counted in the result."""
    shape = list(c.shape("input"))
    for axis in c.axes("axes", len(shape) + len(c.wholes("axes"))):
        shape.insert(axis, 1)
    return [c.reshaped(c.tensor("input"), shape)]


def _concat(c: CallConversion) -> Sequence[int]:
    """Concatenate; operands of other scales are requantized."""
    tensors = c.tensors("values")
    axis = c.axis(int(c.value("axis")), len(c.shape(tensors[0])))
    if len(tensors) == 1:
        return tensors
    kind = c.kind()
    if kind.quantization is None and kind.real:
        same = {c.like(tensor) for tensor in tensors}
        if len(same) == 1:
            return c.moved("concatenation", tensors, axis=axis)
        tensors = [c.as_real(tensor) for tensor in tensors]
    return [c.node("concatenation", tensors, axis=axis)]


def _stack(c: CallConversion) -> Sequence[int]:
    tensors = c.tensors("values")
    kind = c.kind()
    if len({c.like(tensor) for tensor in tensors}) > 1:
        tensors = [c.in_type(tensor, kind) for tensor in tensors]
    return c.moved("pack", tensors, axis=c.axis(int(c.value("axis")), len(c.shape(tensors[0])) + 1))


def _unstack(c: CallConversion) -> Sequence[int]:
    shape = c.shape("value")
    axis, results = c.axis(int(c.value("axis")), len(shape)), len(c.call.result_names())
    c.require(
        shape[axis] == results, f"axis {axis} has extent {shape[axis]}, and there are {results} results"
    )
    return c.moved("unpack", [c.tensor("value")], results, axis=axis)


def _split(c: CallConversion) -> Sequence[int]:
    """Split in proportion to ratios."""
    shape, ratios = c.shape("value"), c.wholes("ratios")
    axis = c.axis(int(c.value("axis")), len(shape))
    c.require(bool(ratios) and min(ratios) > 0, f"ratios {ratios} are not above 0")
    extent, parts = shape[axis], sum(ratios)
    c.require(
        extent % parts == 0, f"ratios {ratios} add up to {parts}, which does not divide extent {extent}"
    )
    if len(ratios) == 1:
        return [c.tensor("value")]
    sizes = tuple(ratio * (extent // parts) for ratio in ratios)
    return c.moved("split", [c.tensor("value")], len(ratios), axis=axis, sizes=sizes)


def _slice(c: CallConversion) -> Sequence[int]:
    """Slice: negative bounds count from the end, end 0 is the end, and a negative stride goes down from begin."""
    shape = c.shape("input")
    axes, begins, ends = c.wholes("axes"), c.wholes("begin"), c.wholes("end")
    strides = c.wholes("stride") or [1] * len(axes)
    c.axes("axes", len(shape))
    c.require(
        len(axes) == len(begins) == len(ends) == len(strides),
        f"axes, begin, end and stride have {len(axes)}, {len(begins)}, {len(ends)} and {len(strides)} items",
    )
    chosen = [range(extent) for extent in shape]
    for axis, begin, end, stride in zip(axes, begins, ends, strides, strict=True):
        extent = shape[axis]
        c.require(stride != 0, f"stride of axis {axis} is 0")
        first = begin + extent if begin < 0 else begin
        last = end + extent if end < 0 else end
        if stride > 0:
            last = last or extent
            c.require(
                0 <= first < last <= extent, f"axis {axis} has no range {begin}:{end} within extent {extent}"
            )
        else:
            c.require(
                -1 <= last < first < extent, f"axis {axis} has no range {begin}:{end}:{stride} in {extent}"
            )
        chosen[axis] = range(first, last, stride)
    if all(along == range(extent) for along, extent in zip(chosen, shape, strict=True)):
        return [c.tensor("input")]
    return c.moved(
        "strided_slice",
        [c.tensor("input")],
        begin=tuple(along.start for along in chosen),
        size=tuple(map(len, chosen)),
        strides=tuple(along.step if len(along) > 1 else 1 for along in chosen),
    )


def _tile(c: CallConversion) -> Sequence[int]:
    shape, repeats = c.shape("input"), c.wholes("repeats")
    fits = len(repeats) == len(shape) and min(repeats, default=1) > 0
    c.require(fits, f"repeats {repeats} are not one number above 0 for each axis of {list(shape)}")
    return c.moved("tile", [c.tensor("input")], multiples=tuple(repeats))


def _pad(c: CallConversion) -> Sequence[int]:
    pairs: Any = [tuple(pair) for pair in c.value("padding")]
    return [padded(c, c.tensor("input"), pairs, c.value("border"), float(c.value("value")))]


def _gather(c: CallConversion) -> Sequence[int]:
    axis = c.axis(int(c.value("axis")), len(c.shape("input")))
    first = c.like(c.tensor("input"))
    return c.nodes("gather", [c.tensor("input"), c.tensor("indices")], [first], axis=axis)


def _update(c: CallConversion) -> Sequence[int]:
    """Return the new value of a variable: it holds for the rest of a run, and the next run begins with the file's
    data.
    """
    own, new = c.shape("variable"), c.shape("value")
    c.require(own == new, f"the variable has shape {list(own)}, its value {list(new)}")
    return [c.tensor("value")]


ROWS: tuple[Row, ...] = (
    Row("reshape", _reshape, "reshape"),
    Row("transpose", _transpose, "transpose"),
    Row("squeeze", _squeeze, "reshape"),
    Row("unsqueeze", _unsqueeze, "reshape"),
    Row("concat", _concat, "concatenation"),
    Row("stack", _stack, "pack"),
    Row("unstack", _unstack, "unpack"),
    Row("split", _split, "split"),
    Row("slice", _slice, "strided_slice"),
    Row("tile", _tile, "tile"),
    Row("pad", _pad, "pad mirror_pad edge_pad"),
    Row("gather", _gather, "gather"),
    Row("update", _update, ""),
)
