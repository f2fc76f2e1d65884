"""Operators that move elements as ONNX nodes, on quantized values if all have one scale."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from npusim.frontends.onnx.export.onnx_export import FIRST_AXIS, TO_FIRST, Export
from npusim.frontends.rewriting import there
from npusim.isa.base.errors import GraphError
from npusim.kernels.graph.graph import Node


def _are_alike(e: Export, node: Node) -> bool:
    """Return whether operands and results are quantized alike, or not at all."""
    numbers = [number for number in (*node.inputs, *node.outputs) if number is not None]
    return len({e.kind(number).quantization for number in numbers}) == 1


def _reshaped(e: Export, name: str, shape: Sequence[int]) -> str:
    return e.op("Reshape", name, e.whole(*shape), allowzero=int(0 in shape))


def reshape(e: Export, node: Node) -> None:
    """Add Reshape; an image of one pixel has the same order of elements channels-first and channels-last."""
    number, result = there(node, 0), node.outputs[0]
    is_first = e.is_first(number) and prod(e.shape(number)[1:3]) == 1
    e.settle(result, _reshaped(e, e.at(number, is_first), e.shape(result)))


def transpose(e: Export, node: Node) -> None:
    """Add Transpose, or use a channels-first copy that exists already."""
    how: Any = node.parameters
    e.settle(node.outputs[0], e.op("Transpose", e.last(there(node, 0)), perm=list(how.perm)))


def concatenation(e: Export, node: Node) -> None:
    """Add Concat; operands of different scales are joined as floats."""
    how: Any = node.parameters
    numbers = [number for number in node.inputs if number is not None]
    axis = how.axis % len(e.shape(node.outputs[0]))
    is_first = e.follows(*numbers)
    where = FIRST_AXIS[axis] if is_first else axis
    if _are_alike(e, node) and how.activation == "none":
        name = e.op("Concat", *(e.at(number, is_first) for number in numbers), axis=where)
        e.settle(node.outputs[0], name, is_first)
        return
    e.result(node, e.op("Concat", *(e.real(number, is_first) for number in numbers), axis=where), is_first)


def pack(e: Export, node: Node) -> None:
    """Add Concat of operands that get an axis of one."""
    how: Any = node.parameters
    axis = how.axis % len(e.shape(node.outputs[0]))
    if not _are_alike(e, node):
        raise GraphError("npusim writes no stacks of other scales as ONNX")
    parts = [e.op("Unsqueeze", e.last(number), e.whole(axis)) for number in node.inputs if number is not None]
    e.settle(node.outputs[0], e.op("Concat", *parts, axis=axis))


def unpack(e: Export, node: Node) -> None:
    """Add Split into parts of one along the axis, which then loses that axis."""
    how: Any = node.parameters
    number = there(node, 0)
    axis = how.axis % len(e.shape(number))
    sizes = [1] * len(node.outputs)
    parts = e.ops("Split", [e.last(number), e.whole(*sizes)], len(sizes), axis=axis)
    for result, part in zip(node.outputs, parts, strict=True):
        e.settle(result, e.op("Squeeze", part, e.whole(axis)))


def split(e: Export, node: Node) -> None:
    how: Any = node.parameters
    number = there(node, 0)
    axis, is_first = how.axis % len(e.shape(number)), e.is_first(number)
    sizes = e.whole(*how.sizes)
    where = FIRST_AXIS[axis] if is_first else axis
    parts = e.ops("Split", [e.at(number, is_first), sizes], len(node.outputs), axis=where)
    for result, part in zip(node.outputs, parts, strict=True):
        e.settle(result, part, is_first)


def pad(e: Export, node: Node) -> None:
    """Add Pad with zero or a value; quantized values are padded with the zero point."""
    how: Any = node.parameters
    number = there(node, 0)
    kind, is_first = e.kind(number), e.is_first(number)
    value = 0 if kind.quantization is None else kind.quantization.zero_point
    if getattr(how, "pad_value", None) is not None:
        value = how.pad_value
    mode = {"edge_pad": "edge", "mirror_pad": "reflect"}.get(node.op, "constant")
    pairs = [how.paddings[axis] for axis in TO_FIRST] if is_first else how.paddings
    pads = e.whole(*(pair[0] for pair in pairs), *(pair[1] for pair in pairs))
    e.settle(node.outputs[0], _padded(e, e.at(number, is_first), pads, kind.dtype, value, mode), is_first)


def _padded(e: Export, name: str, pads: str, dtype: str, value: float, mode: str = "constant") -> str:
    """Return Pad by way of int32 for 16-bit types, which ONNX Runtime lacks."""
    is_wide = dtype in ("int16", "uint16")
    operands = [e.wide(name, dtype) if is_wide else name, pads]
    if mode == "constant":
        operands.append(e.constant(np.array(value), "int32" if is_wide else dtype, "pad_value"))
    name = e.op("Pad", *operands, mode=mode)
    return e.wide(name, dtype, back=True) if is_wide else name


def mirror_pad(e: Export, node: Node) -> None:
    """Add reflections; those that repeat the edge are gathered."""
    how: Any = node.parameters
    if how.mode == "reflect":
        pad(e, node)
        return
    number = there(node, 0)
    positions = [
        np.pad(np.arange(size), pair, mode="symmetric")
        for size, pair in zip(e.shape(number), how.paddings, strict=True)
    ]
    _taken(e, node, positions)


def roll(e: Export, node: Node) -> None:
    """Add a roll as a gather."""
    how: Any = node.parameters
    shape = e.shape(there(node, 0))
    _taken(e, node, [np.roll(np.arange(size), by) for size, by in zip(shape, how.shifts, strict=True)])


def _taken(e: Export, node: Node, positions: Sequence[np.ndarray]) -> None:
    """Return a tensor gathered along each axis at some positions; an axis in its own order needs nothing."""
    number = there(node, 0)
    name = e.last(number)
    for axis, (size, taken) in enumerate(zip(e.shape(number), positions, strict=True)):
        if taken.size != size or (taken != np.arange(size)).any():
            name = e.op("Gather", name, e.constant(taken, "int64", "positions"), axis=axis)
    e.settle(node.outputs[0], e.op("Identity", name) if name == e.last(number) else name)


def slices(e: Export, node: Node) -> None:
    """Add Slice, and a Reshape if the result has other axes."""
    how: Any = node.parameters
    number, result = there(node, 0), node.outputs[0]
    shape = e.shape(number)
    is_first = e.is_first(number) and how.size == e.shape(result)
    steps = how.strides or (1,) * len(shape)
    name = e.at(number, is_first)
    cuts = [
        (FIRST_AXIS[axis] if is_first else axis, first, _end(first, size, step), step)
        for axis, (first, size, step, whole) in enumerate(zip(how.begin, how.size, steps, shape, strict=True))
        if (first, size, step) != (0, whole, 1)
    ]
    if cuts:
        axes, begins, ends, strides = (e.whole(*values) for values in zip(*cuts, strict=True))
        name = e.op("Slice", name, begins, ends, axes, strides)
    if how.size != e.shape(result):
        name = _reshaped(e, name, e.shape(result))
    elif not cuts:
        name = e.op("Identity", name)
    e.settle(result, name, is_first)


_FRONT = -(1 << 40)
"""An end before the first element, for slices that go backwards."""


def _end(first: int, size: int, step: int) -> int:
    end = first + size * step
    return end if end >= 0 else _FRONT


def reverse(e: Export, node: Node) -> None:
    """Add a reversal as slices that go backwards."""
    how: Any = node.parameters
    number = there(node, 0)
    count = len(how.axes)
    name = e.last(number)
    if count:
        rank = len(e.shape(number))
        axes = e.whole(*(axis % rank for axis in how.axes))
        backwards = [e.whole(*[value] * count) for value in (-1, _FRONT, -1)]
        name = e.op("Slice", name, backwards[0], backwards[1], axes, backwards[2])
    e.settle(node.outputs[0], name if count else e.op("Identity", name))


def tile(e: Export, node: Node) -> None:
    how: Any = node.parameters
    e.settle(node.outputs[0], e.op("Tile", e.last(there(node, 0)), e.whole(*how.multiples)))


def expand(e: Export, node: Node) -> None:
    """Add Expand for BROADCAST_TO and FILL."""
    number = there(node, 0)
    name = e.last(number)
    if node.op == "fill" and e.shape(number):
        name = _reshaped(e, name, ())
    e.settle(node.outputs[0], e.op("Expand", name, e.whole(*e.shape(node.outputs[0]))))


def depth_to_space(e: Export, node: Node) -> None:
    """Add DepthToSpace or SpaceToDepth of floats; other types are reshaped and transposed."""
    how: Any = node.parameters
    number, result = there(node, 0), node.outputs[0]
    kind, is_deep = e.kind(number), node.op == "depth_to_space"
    if e.real_type(number).startswith("float"):
        operation = "DepthToSpace" if is_deep else "SpaceToDepth"
        name = e.op(
            operation,
            e.real(number, first=True),
            blocksize=how.block_size,
            **{"mode": "DCR"} if is_deep else {},
        )
        e.settle(result, e.quantised(name, kind), first=True)
        return
    batch, height, width, depth = kind.shape
    size = how.block_size
    apart = [batch, height, width, size, size, depth // size**2]
    if not is_deep:
        apart = [batch, height // size, size, width // size, size, depth]
    turned = e.op("Transpose", _reshaped(e, e.last(number), apart), perm=[0, 1, 3, 2, 4, 5])
    e.settle(result, _reshaped(e, turned, e.shape(result)))


def space_to_batch(e: Export, node: Node) -> None:
    """Add space to batch: a pad, and a transpose of the blocks."""
    how: Any = node.parameters
    number, block, rank = there(node, 0), how.block_shape, len(how.block_shape)
    kind, shape = e.kind(number), e.shape(number)
    borders = ((0, 0), *how.paddings, *((0, 0),) * (len(shape) - rank - 1))
    name = e.last(number)
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
    e.settle(node.outputs[0], _reshaped(e, phases, e.shape(node.outputs[0])))


def batch_to_space(e: Export, node: Node) -> None:
    """Add batch to space: a transpose of the blocks, and a slice."""
    how: Any = node.parameters
    number, block, rank = there(node, 0), how.block_shape, len(how.block_shape)
    shape = e.shape(number)
    batch = shape[0] // prod(block)
    apart = [*block, batch, *shape[1:]]
    order = [rank]
    for axis in range(rank):
        order += [rank + 1 + axis, axis]
    order += range(2 * rank + 1, len(apart))
    name = e.op("Transpose", _reshaped(e, e.last(number), apart), perm=order)
    whole = [
        batch,
        *(size * parts for size, parts in zip(shape[1:], block, strict=False)),
        *shape[rank + 1 :],
    ]
    name = _reshaped(e, name, whole)
    if any(sum(pair) for pair in how.crops):
        ends = [size - pair[1] for size, pair in zip(whole[1:], how.crops, strict=False)]
        begins = [pair[0] for pair in how.crops]
        name = e.op("Slice", name, e.whole(*begins), e.whole(*ends), e.whole(*range(1, rank + 1)))
    e.settle(node.outputs[0], name)


def shuffle(e: Export, node: Node) -> None:
    """Add a channel shuffle: a transpose of the channels as a matrix."""
    how: Any = node.parameters
    number = there(node, 0)
    shape = e.shape(number)
    axis = how.axis % len(shape)
    apart = (prod(shape[:axis]), how.groups, shape[axis] // how.groups, prod(shape[axis + 1 :]))
    turned = e.op("Transpose", _reshaped(e, e.last(number), apart), perm=[0, 2, 1, 3])
    e.settle(node.outputs[0], _reshaped(e, turned, shape))


def gather(e: Export, node: Node) -> None:
    how: Any = node.parameters
    values, indices = there(node, 0), there(node, 1)
    if not how.batch_dims:
        e.settle(node.outputs[0], e.op("Gather", e.last(values), e.last(indices), axis=how.axis))
        return
    if how.batch_dims != how.axis:
        raise GraphError(
            f"npusim writes no ONNX for batches of {how.batch_dims} axes in front of axis {how.axis}"
        )
    places = e.op("Unsqueeze", _positions(e, indices), e.whole(len(e.shape(indices))))
    e.settle(node.outputs[0], e.op("GatherND", e.last(values), places, batch_dims=how.batch_dims))


def _positions(e: Export, number: int) -> str:
    from onnx import TensorProto

    if e.kind(number).dtype == "int64":
        return e.last(number)
    return e.op("Cast", e.last(number), to=int(TensorProto.INT64))


def gather_nd(e: Export, node: Node) -> None:
    values, indices = there(node, 0), there(node, 1)
    e.settle(node.outputs[0], e.op("GatherND", e.last(values), _positions(e, indices)))


def scatter_nd(e: Export, node: Node) -> None:
    """Add ScatterND, in which the last of several updates of a place stays."""
    how: Any = node.parameters
    data, indices, updates = (there(node, position) for position in range(3))
    operands = [e.last(data), _positions(e, indices), e.last(updates)]
    e.settle(node.outputs[0], e.op("ScatterND", *operands, reduction=how.reduction))


def embedding(e: Export, node: Node) -> None:
    """Add a gather of a table's rows, whose indices are the first operand."""
    indices, table = there(node, 0), there(node, 1)
    e.settle(node.outputs[0], e.op("Gather", e.last(table), e.last(indices), axis=0))
