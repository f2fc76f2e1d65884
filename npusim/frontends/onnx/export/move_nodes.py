"""Operators that move elements as ONNX nodes, on quantized values if all have one scale."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from npusim.frontends.onnx.export.onnx_export import FIRST_AXIS, TO_FIRST, Export
from npusim.frontends.written_layers import Layer
from npusim.isa.base.errors import GraphError


def _are_alike(e: Export, n: Layer) -> bool:
    """Return whether operands and results are quantized alike, or not at all."""
    numbers = [number for number in (*n.inputs, *n.outputs) if number is not None]
    return len({e.kind(number).quantization for number in numbers}) == 1


def _reshaped(e: Export, name: str, shape: Sequence[int]) -> str:
    return e.op("Reshape", name, e.whole(*shape), allowzero=int(0 in shape))


def reshape(e: Export, n: Layer) -> None:
    """Add Reshape; an image of one pixel has the same order of elements channels-first and channels-last."""
    is_first = e.is_first(n[0]) and prod(n.shape[1:3]) == 1
    e.settle(n.result, _reshaped(e, e.at(n[0], is_first), e.shape(n.result)))


def transpose(e: Export, n: Layer) -> None:
    """Add Transpose, or use a channels-first copy that exists already."""
    e.settle(n.result, e.op("Transpose", e.last(n[0]), perm=list(n.params.perm)))


def concatenation(e: Export, n: Layer) -> None:
    """Add Concat; operands of different scales are joined as floats."""
    numbers, axis, is_first = n.given, n.axis, e.follows(*n.given)
    where = FIRST_AXIS[axis] if is_first else axis
    if _are_alike(e, n) and n.params.activation == "none":
        name = e.op("Concat", *(e.at(number, is_first) for number in numbers), axis=where)
        e.settle(n.result, name, is_first)
        return
    e.result(n, e.op("Concat", *(e.real(number, is_first) for number in numbers), axis=where), is_first)


def pack(e: Export, n: Layer) -> None:
    """Add Concat of operands that get an axis of one."""
    axis = n.params.axis % len(e.shape(n.result))
    if not _are_alike(e, n):
        raise GraphError("npusim writes no stacks of other scales as ONNX")
    parts = [e.op("Unsqueeze", e.last(number), e.whole(axis)) for number in n.given]
    e.settle(n.result, e.op("Concat", *parts, axis=axis))


def unpack(e: Export, n: Layer) -> None:
    """Add Split into parts of one along the axis, which then loses that axis."""
    sizes = [1] * len(n.outputs)
    parts = e.ops("Split", [e.last(n[0]), e.whole(*sizes)], len(sizes), axis=n.axis)
    for result, part in zip(n.outputs, parts, strict=True):
        e.settle(result, e.op("Squeeze", part, e.whole(n.axis)))


def split(e: Export, n: Layer) -> None:
    is_first, sizes = e.is_first(n[0]), e.whole(*n.params.sizes)
    where = FIRST_AXIS[n.axis] if is_first else n.axis
    parts = e.ops("Split", [e.at(n[0], is_first), sizes], len(n.outputs), axis=where)
    for result, part in zip(n.outputs, parts, strict=True):
        e.settle(result, part, is_first)


def pad(e: Export, n: Layer) -> None:
    """Add Pad with zero or a value; quantized values are padded with the zero point."""
    kind, is_first = e.kind(n[0]), e.is_first(n[0])
    value = 0 if kind.quantization is None else kind.quantization.zero_point
    if getattr(n.params, "pad_value", None) is not None:
        value = n.params.pad_value
    mode = {"edge_pad": "edge", "mirror_pad": "reflect"}.get(n.op, "constant")
    pairs = [n.params.paddings[axis] for axis in TO_FIRST] if is_first else n.params.paddings
    pads = e.whole(*(pair[0] for pair in pairs), *(pair[1] for pair in pairs))
    e.settle(n.result, _padded(e, e.at(n[0], is_first), pads, kind.dtype, value, mode), is_first)


def _padded(e: Export, name: str, pads: str, dtype: str, value: float, mode: str = "constant") -> str:
    """Return Pad by way of int32 for 16-bit types, which ONNX Runtime lacks."""
    is_wide = dtype in ("int16", "uint16")
    operands = [e.wide(name, dtype) if is_wide else name, pads]
    if mode == "constant":
        operands.append(e.constant(np.array(value), "int32" if is_wide else dtype, "pad_value"))
    name = e.op("Pad", *operands, mode=mode)
    return e.wide(name, dtype, back=True) if is_wide else name


def mirror_pad(e: Export, n: Layer) -> None:
    """Add reflections; those that repeat the edge are gathered."""
    if n.params.mode == "reflect":
        pad(e, n)
        return
    positions = [
        np.pad(np.arange(size), pair, mode="symmetric")
        for size, pair in zip(n.shape, n.params.paddings, strict=True)
    ]
    _taken(e, n, positions)


def roll(e: Export, n: Layer) -> None:
    """Add a roll as a gather."""
    _taken(e, n, [np.roll(np.arange(size), by) for size, by in zip(n.shape, n.params.shifts, strict=True)])


def _taken(e: Export, n: Layer, positions: Sequence[np.ndarray]) -> None:
    """Return a tensor gathered along each axis at some positions; an axis in its own order needs nothing."""
    name = e.last(n[0])
    for axis, (size, taken) in enumerate(zip(n.shape, positions, strict=True)):
        if taken.size != size or (taken != np.arange(size)).any():
            name = e.op("Gather", name, e.constant(taken, "int64", "positions"), axis=axis)
    e.settle(n.result, e.op("Identity", name) if name == e.last(n[0]) else name)


def slices(e: Export, n: Layer) -> None:
    """Add Slice, and a Reshape if the result has other axes."""
    is_first = e.is_first(n[0]) and n.params.size == e.shape(n.result)
    name = e.at(n[0], is_first)
    along = zip(n.params.begin, n.params.size, n.params.strides or (1,) * len(n.shape), n.shape, strict=True)
    cuts = [
        (FIRST_AXIS[axis] if is_first else axis, first, _end(first, size, step), step)
        for axis, (first, size, step, whole) in enumerate(along)
        if (first, size, step) != (0, whole, 1)
    ]
    if cuts:
        axes, begins, ends, strides = (e.whole(*values) for values in zip(*cuts, strict=True))
        name = e.op("Slice", name, begins, ends, axes, strides)
    if n.params.size != e.shape(n.result):
        name = _reshaped(e, name, e.shape(n.result))
    elif not cuts:
        name = e.op("Identity", name)
    e.settle(n.result, name, is_first)


_FRONT = -(1 << 40)
"""An end before the first element, for slices that go backwards."""


def _end(first: int, size: int, step: int) -> int:
    end = first + size * step
    return end if end >= 0 else _FRONT


def reverse(e: Export, n: Layer) -> None:
    """Add a reversal as slices that go backwards."""
    name, count = e.last(n[0]), len(n.params.axes)
    if count:
        axes = e.whole(*(axis % len(n.shape) for axis in n.params.axes))
        begins, ends, steps = (e.whole(*[value] * count) for value in (-1, _FRONT, -1))
        name = e.op("Slice", name, begins, ends, axes, steps)
    e.settle(n.result, name if count else e.op("Identity", name))


def tile(e: Export, n: Layer) -> None:
    e.settle(n.result, e.op("Tile", e.last(n[0]), e.whole(*n.params.multiples)))


def expand(e: Export, n: Layer) -> None:
    """Add Expand for BROADCAST_TO and FILL."""
    name = e.last(n[0])
    if n.op == "fill" and n.shape:
        name = _reshaped(e, name, ())
    e.settle(n.result, e.op("Expand", name, e.whole(*e.shape(n.result))))


def depth_to_space(e: Export, n: Layer) -> None:
    """Add DepthToSpace or SpaceToDepth of floats; other types are reshaped and transposed."""
    kind, is_deep = e.kind(n[0]), n.op == "depth_to_space"
    if e.real_type(n[0]).startswith("float"):
        operation = "DepthToSpace" if is_deep else "SpaceToDepth"
        name = e.op(
            operation,
            e.real(n[0], first=True),
            blocksize=n.params.block_size,
            **{"mode": "DCR"} if is_deep else {},
        )
        e.settle(n.result, e.quantised(name, kind), first=True)
        return
    batch, height, width, depth = kind.shape
    size = n.params.block_size
    apart = [batch, height, width, size, size, depth // size**2]
    if not is_deep:
        apart = [batch, height // size, size, width // size, size, depth]
    turned = e.op("Transpose", _reshaped(e, e.last(n[0]), apart), perm=[0, 1, 3, 2, 4, 5])
    e.settle(n.result, _reshaped(e, turned, e.shape(n.result)))


def space_to_batch(e: Export, n: Layer) -> None:
    """Add space to batch: a pad, and a transpose of the blocks."""
    block, rank = n.params.block_shape, len(n.params.block_shape)
    kind, shape = e.kind(n[0]), n.shape
    borders = ((0, 0), *n.params.paddings, *((0, 0),) * (len(shape) - rank - 1))
    name = e.last(n[0])
    if any(sum(pair) for pair in borders):
        value = 0 if kind.quantization is None else kind.quantization.zero_point
        pads = e.whole(*(pair[0] for pair in borders), *(pair[1] for pair in borders))
        name = _padded(e, name, pads, kind.dtype, value)
    wide = [size + sum(pair) for size, pair in zip(shape, borders, strict=True)]
    apart = [wide[0]]
    for size, parts in zip(wide[1:], block, strict=False):
        apart += [size // parts, parts]
    apart += wide[rank + 1 :]
    order = (*range(2, 2 * rank + 1, 2), 0, *range(1, 2 * rank, 2), *range(2 * rank + 1, len(apart)))
    phases = e.op("Transpose", _reshaped(e, name, apart), perm=list(order))
    e.settle(n.result, _reshaped(e, phases, e.shape(n.result)))


def batch_to_space(e: Export, n: Layer) -> None:
    """Add batch to space: a transpose of the blocks, and a slice."""
    block, rank, shape = n.params.block_shape, len(n.params.block_shape), n.shape
    batch = shape[0] // prod(block)
    apart = [*block, batch, *shape[1:]]
    order = [rank]
    for axis in range(rank):
        order += [rank + 1 + axis, axis]
    order += range(2 * rank + 1, len(apart))
    name = e.op("Transpose", _reshaped(e, e.last(n[0]), apart), perm=order)
    whole = [
        batch,
        *(size * parts for size, parts in zip(shape[1:], block, strict=False)),
        *shape[rank + 1 :],
    ]
    name = _reshaped(e, name, whole)
    if any(sum(pair) for pair in n.params.crops):
        ends = [size - pair[1] for size, pair in zip(whole[1:], n.params.crops, strict=False)]
        begins = [pair[0] for pair in n.params.crops]
        name = e.op("Slice", name, e.whole(*begins), e.whole(*ends), e.whole(*range(1, rank + 1)))
    e.settle(n.result, name)


def shuffle(e: Export, n: Layer) -> None:
    """Add a channel shuffle: a transpose of the channels as a matrix."""
    shape, axis, groups = n.shape, n.axis, n.params.groups
    apart = (prod(shape[:axis]), groups, shape[axis] // groups, prod(shape[axis + 1 :]))
    turned = e.op("Transpose", _reshaped(e, e.last(n[0]), apart), perm=[0, 2, 1, 3])
    e.settle(n.result, _reshaped(e, turned, shape))


def gather(e: Export, n: Layer) -> None:
    axis, batches = n.params.axis, n.params.batch_dims
    if not batches:
        e.settle(n.result, e.op("Gather", e.last(n[0]), e.last(n[1]), axis=axis))
        return
    if batches != axis:
        raise GraphError(f"npusim writes no ONNX for batches of {batches} axes in front of axis {axis}")
    places = e.op("Unsqueeze", _positions(e, n[1]), e.whole(len(e.shape(n[1]))))
    e.settle(n.result, e.op("GatherND", e.last(n[0]), places, batch_dims=batches))


def _positions(e: Export, number: int) -> str:
    from onnx import TensorProto

    if e.kind(number).dtype == "int64":
        return e.last(number)
    return e.op("Cast", e.last(number), to=int(TensorProto.INT64))


def gather_nd(e: Export, n: Layer) -> None:
    e.settle(n.result, e.op("GatherND", e.last(n[0]), _positions(e, n[1])))


def scatter_nd(e: Export, n: Layer) -> None:
    """Add ScatterND, or for indices along another axis than the first ScatterElements, which takes one per element.

    In both the last of several updates of a place stays.
    """
    data, places, updates = e.last(n[0]), _positions(e, n[1]), e.last(n[2])
    axis, batches, sizes = n.params.axis, n.params.batch_dims, e.kind(n[1]).shape
    if not axis:
        e.settle(n.result, e.op("ScatterND", data, places, updates, reduction=n.params.reduction))
        return
    if len(sizes) != batches + 2 or sizes[-1] != 1:
        raise GraphError("ONNX scatters along an axis behind the first by one number for each row")
    shape, rank = e.kind(n[2]).shape, len(e.kind(n[0]).shape)
    own = *sizes[:batches], *(1,) * (axis - batches), sizes[batches], *(1,) * (rank - axis - 1)
    places = e.op("Reshape", places, e.constant(own, "int64"))
    places = e.op("Expand", places, e.constant(shape, "int64"))
    e.settle(
        n.result, e.op("ScatterElements", data, places, updates, axis=axis, reduction=n.params.reduction)
    )


def embedding(e: Export, n: Layer) -> None:
    """Add a gather of a table's rows, whose indices are the first operand."""
    e.settle(n.result, e.op("Gather", e.last(n[1]), e.last(n[0]), axis=0))
