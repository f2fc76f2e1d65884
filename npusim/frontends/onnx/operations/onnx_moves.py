"""Operations of ONNX that move elements: reshapes, slices, pads, gathers and scatters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from npusim.frontends.forms import moves
from npusim.frontends.forms.conversion import MOST_CONSTANT
from npusim.frontends.forms.node_conversion import NodeConversion
from npusim.frontends.forms.node_rows import Row
from npusim.frontends.onnx.operations.onnx_axes import axes_of
from npusim.kernels.operator.parameters import MOST


def _reshape(c: NodeConversion) -> Sequence[int]:
    return [moves.reshaped_to(c, c.tensor("data"), c.wholes("shape"), zeros=c.flag("allowzero"))]


def _flatten(c: NodeConversion) -> Sequence[int]:
    data, own = c.tensor("input"), c.shape("input")
    axis = int(c.attribute("axis", 1))
    c.require(-len(own) <= axis <= len(own), f"axis is {axis}, must be {-len(own)}..{len(own)}")
    axis = axis % len(own) if axis < 0 else axis
    sizes = prod(own[:axis]), prod(own[axis:])
    return [c.node("reshape", [data], shape=sizes)]


def _transpose(c: NodeConversion) -> Sequence[int]:
    rank = len(c.shape("data"))
    perm = [int(axis) for axis in c.attribute("perm") or range(rank - 1, -1, -1)]
    return [moves.permuted(c, c.tensor("data"), perm)]


def _identity(c: NodeConversion) -> Sequence[int]:
    return [c.tensor("input")]


def _squeeze(c: NodeConversion) -> Sequence[int]:
    data, own = c.tensor("data"), c.shape("data")
    has_axes = c.attribute("axes") is not None or c.has("axes")
    axes = axes_of(c, len(own)) if has_axes else [axis for axis, size in enumerate(own) if size == 1]
    for axis in axes:
        c.require(own[axis] == 1, f"axis {axis} has {own[axis]} elements, not 1")
    shape = tuple(size for axis, size in enumerate(own) if axis not in axes)
    return [c.node("reshape", [data], shape=shape)]


def _unsqueeze(c: NodeConversion) -> Sequence[int]:
    """Insert axes of one element; the axes are counted in the result."""
    data = c.tensor("data")
    stated_axes = c.attribute("axes") or c.wholes("axes")
    shape = list(c.shape(data))
    for axis in axes_of(c, len(shape) + len(stated_axes)):
        shape.insert(axis, 1)
    return [c.node("reshape", [data], shape=tuple(shape))]


def _concat(c: NodeConversion) -> Sequence[int]:
    tensors = c.tensors("inputs")
    c.require(bool(tensors), "has no inputs")
    axis = c.axis(int(c.attribute("axis", 0)), moves.common_rank(c, tensors))
    return [moves.concatenated(c, tensors, axis)]


def _split(c: NodeConversion) -> Sequence[int]:
    """Split by stated sizes, or into equal parts for the outputs, the last of which may be smaller."""
    data, own = c.tensor("input"), c.shape("input")
    axis, count = c.axis(int(c.attribute("axis", 0)), len(own)), len(c.outputs)
    sizes = [int(size) for size in c.attribute("split") or (c.wholes("split") if c.has("split") else ())]
    if not sizes:
        count = int(c.attribute("num_outputs", count))
        c.require(count == len(c.outputs), f"num_outputs is {count}, there are {len(c.outputs)} outputs")
        part = -(-own[axis] // count)
        sizes = [min(part, max(own[axis] - part * place, 0)) for place in range(count)]
    return moves.split(c, data, axis, sizes)


def _slice(c: NodeConversion) -> Sequence[int]:
    data, starts, ends = c.tensor("data"), c.wholes("starts"), c.wholes("ends")
    axes = c.wholes("axes") if c.has("axes") else list(range(len(starts)))
    steps = c.wholes("steps") if c.has("steps") else [1] * len(starts)
    return [c.node("strided_slice", [data], **moves.part(c, data, axes, starts, ends, steps))]


def _tile(c: NodeConversion) -> Sequence[int]:
    return [moves.tiled(c, c.tensor("input"), c.wholes("repeats"))]


def _expand(c: NodeConversion) -> Sequence[int]:
    return [moves.expanded(c, c.tensor("input"), c.wholes("shape"))]


def _pad(c: NodeConversion) -> Sequence[int]:
    x, shape, pads = c.tensor("data"), c.shape("data"), c.wholes("pads")
    axes = (
        [c.axis(axis, len(shape), "axes") for axis in c.wholes("axes")]
        if c.has("axes")
        else range(len(shape))
    )
    c.require(len(pads) == 2 * len(axes), f"pads {pads} are not two numbers for each of {len(axes)} axes")
    pairs = [(0, 0)] * len(shape)
    for place, axis in enumerate(axes):
        pairs[axis] = pads[place], pads[len(axes) + place]
    mode, number = c.attribute("mode", "constant"), None
    if mode == "constant" and c.has("constant_value"):
        number = c.value("constant_value").reshape(-1)[0]
    return [moves.padded(c, x, pairs, mode, number)]


def _blocks(op: str) -> Callable[[NodeConversion], Sequence[int]]:
    """Return the conversion of SpaceToDepth or DepthToSpace."""

    def convert(c: NodeConversion) -> Sequence[int]:
        x, shape = c.tensor("input"), c.shape("input")
        block = int(c.attribute("blocksize", 0))
        c.require(len(shape) == 4, f"input has shape {list(shape)}, must have 4 axes")
        c.require(0 < block <= MOST, f"blocksize is {block}, must be 1..{MOST}")
        mode = c.attribute("mode", "DCR")
        c.require(mode in ("DCR", "CRD"), f"mode is {mode!r}, must be 'DCR' or 'CRD'")
        if op == "depth_to_space":
            return [_apart(c, x, shape, block)]
        c.require(shape[2] % block == shape[3] % block == 0, f"blocks of {block} do not divide {list(shape)}")
        if mode == "DCR":
            return [c.node(op, [x], block_size=block)]
        [blocks] = c.nodes(op, [x], [c.like(x)], block_size=block)
        sizes = c.shape(blocks)
        split = c.reshaped(blocks, (shape[0], block * block, *shape[1:2], *sizes[2:]))
        return [c.node("reshape", [c.transposed(split, (0, 2, 1, 3, 4))], shape=sizes)]

    return convert


def _apart(c: NodeConversion, x: int, shape: Sequence[int], block: int) -> int:
    """Return depth to space: the channels of a block are the outer axis (DCR) or the inner one (CRD)."""
    c.require(shape[1] % block**2 == 0, f"{shape[1]} channels do not fall into blocks of {block} by {block}")
    if c.attribute("mode", "DCR") == "DCR":
        return c.node("depth_to_space", [x], block_size=block)
    depth = shape[1] // block**2
    split = c.reshaped(x, (shape[0], depth, block * block, *shape[2:]))
    turned = c.reshaped(c.transposed(split, (0, 2, 1, 3, 4)), shape)
    return c.node("depth_to_space", [turned], block_size=block)


def _reversed(c: NodeConversion) -> Sequence[int]:
    """Reverse the first elements of each sequence, as many as a constant states, by gathering along the time axis."""
    x, lengths = c.real("input"), c.wholes("sequence_lens")
    shape, batch, time = c.shape(x), int(c.attribute("batch_axis", 1)), int(c.attribute("time_axis", 0))
    c.require({batch, time} == {0, 1} and len(shape) > 1, "batch_axis and time_axis are not 0 and 1")
    c.require(
        len(lengths) == shape[batch] and all(0 <= length <= shape[time] for length in lengths),
        f"sequence_lens {lengths} do not fit {list(shape)}",
    )
    places = np.tile(np.arange(shape[time], dtype=np.int64), (shape[batch], 1))
    for row, length in enumerate(lengths):
        places[row, :length] = places[row, :length][::-1]
    turned = c.transposed(x, (1, 0, *range(2, len(shape)))) if batch == 1 else x
    [result] = c.nodes("gather", [turned, c.constant(places)], [c.like(x)], axis=1, batch_dims=1)
    return [c.transposed(result, (1, 0, *range(2, len(shape)))) if batch == 1 else result]


def from_front(c: NodeConversion, indices: int, extents: Sequence[int]) -> int:
    """Return indices with those below 0, which count from the end, counted from the front.

    extents: of the axis that is indexed, or one for each entry of the indices' last axis.
    """
    held = c.builder.tensors[indices]
    c.require(held.type.dtype in ("int32", "int64"), f"indices are {held.type.dtype}, must be int32 or int64")
    ends: Any = np.array(extents if len(extents) > 1 else extents[0], held.type.numpy_dtype)
    known: Any = held.array
    if known is not None:
        wrong = (known < -ends) | (known >= ends)
        c.require(not wrong.any(), f"indices are not within {list(extents)}")
        return c.constant(np.where(known < 0, known + ends, known))
    below = c.step("less", [indices, c.scalar(0, indices)], "bool")
    moved = c.step("add", [indices, c.constant(ends)])
    return c.nodes("select_v2", [below, moved, indices], [c.like(indices)])[0]


def _gather(c: NodeConversion) -> Sequence[int]:
    data, shape = c.tensor("data"), c.shape("data")
    axis = c.axis(int(c.attribute("axis", 0)), len(shape))
    return [c.node("gather", [data, from_front(c, c.real("indices"), [shape[axis]])], axis=axis)]


def _gather_nd(c: NodeConversion) -> Sequence[int]:
    """Add GatherND; batch axes become leading entries of the indices."""
    data, indices = c.tensor("data"), c.real("indices")
    shape, sizes, batches = c.shape(data), c.shape(indices), int(c.attribute("batch_dims", 0))
    c.require(
        0 <= batches < min(len(shape), len(sizes)) and shape[:batches] == sizes[:batches],
        f"batch_dims {batches} are not leading axes of {list(shape)} and {list(sizes)} alike",
    )
    count = sizes[-1]
    c.require(1 <= count <= len(shape) - batches, f"indices have {count} entries for {list(shape)}")
    indices = from_front(c, indices, shape[batches : batches + count])
    if batches:
        grid = np.moveaxis(np.indices(sizes[:-1])[:batches], 0, -1)
        places = c.constant(grid.astype(c.builder.type(indices).numpy_dtype))
        indices = c.step("concatenation", [places, indices], axis=len(sizes) - 1)
    return [c.node("gather_nd", [data, indices])]


def _linear(c: NodeConversion, shape: Sequence[int], indices: int, axis: int) -> int:
    """Return the places in the flattened tensor for indices along an axis."""
    sizes = c.shape(indices)
    c.require(
        len(sizes) == len(shape)
        and all(
            size <= extent for at, (size, extent) in enumerate(zip(sizes, shape, strict=True)) if at != axis
        ),
        f"indices {list(sizes)} do not fit {list(shape)} along axis {axis}",
    )
    indices = from_front(c, indices, [shape[axis]])
    dtype = c.builder.type(indices).numpy_dtype
    steps = [prod(shape[at + 1 :]) for at in range(len(shape))]
    c.small(sizes)
    begin: Any = np.zeros(sizes, np.int64)
    for at, step in enumerate(steps):
        if at != axis:
            own = [1] * len(sizes)
            own[at] = sizes[at]
            begin = begin + np.arange(sizes[at]).reshape(own) * step
    scaled = c.step("mul", [indices, c.scalar(steps[axis], indices)])
    return c.step("add", [scaled, c.constant(begin.astype(dtype))])


def _gather_elements(c: NodeConversion) -> Sequence[int]:
    data, shape = c.tensor("data"), c.shape("data")
    axis = c.axis(int(c.attribute("axis", 0)), len(shape))
    places = _linear(c, shape, c.real("indices"), axis)
    return [c.node("gather", [c.reshaped(data, (prod(shape),)), places], axis=0)]


def _reduction(c: NodeConversion) -> str:
    reduction = c.attribute("reduction", "none")
    c.require(reduction in ("none", "add", "mul", "max", "min"), f"reduction is {reduction!r}")
    return str(reduction)


def _scatter_nd(c: NodeConversion) -> Sequence[int]:
    data, indices, updates = c.real("data"), c.real("indices"), c.real("updates")
    shape, sizes = c.shape(data), c.shape(indices)
    c.require(
        bool(sizes)
        and 1 <= sizes[-1] <= len(shape)
        and c.shape(updates) == (*sizes[:-1], *shape[sizes[-1] :]),
        f"data {list(shape)}, indices {list(sizes)} and updates {list(c.shape(updates))} do not fit",
    )
    indices = from_front(c, indices, shape[: sizes[-1]])
    return [c.node("scatter_nd", [data, indices, updates], reduction=_reduction(c))]


def _tensor_scatter(c: NodeConversion) -> Sequence[int]:
    """Write an update into a cache. Each batch has its own start position along the axis (`write_indices`)."""
    cache, update = c.real("past_cache"), c.real("update")
    shape, sizes = c.shape(cache), c.shape(update)
    axis, mode = c.axis(int(c.attribute("axis", -2)), len(shape)), c.attribute("mode", "linear")
    c.require(mode in ("linear", "circular"), f"mode is {mode!r}, must be 'linear' or 'circular'")
    c.require(axis > 0, "axis is 0, along which batches lie; must be another")
    alike = shape == (*sizes[:axis], shape[axis], *sizes[axis + 1 :])
    c.require(alike, f"past_cache {list(shape)} and update {list(sizes)} may differ along axis {axis} only")
    c.small((shape[0], sizes[axis]), MOST_CONSTANT)
    places = c.constant(np.broadcast_to(np.arange(sizes[axis]), (shape[0], sizes[axis])))
    if c.has("write_indices"):
        first = c.reshaped(c.real("write_indices"), (shape[0], 1))
        places = first if sizes[axis] == 1 else c.step("add", [places, first])
    if mode == "circular":
        places = c.step("floor_mod", [places, c.scalar(shape[axis], places)])
    places = c.reshaped(places, (shape[0], sizes[axis], 1))
    return [c.step("scatter_nd", [cache, places, update], axis=axis, batch_dims=1)]


def _unrepeated(c: NodeConversion, indices: int) -> int:
    """Return constant or expanded indices with one element along each axis that repeats them, others unchanged."""
    rank, known = len(c.shape(indices)), c.builder.tensors[indices].array
    if isinstance(known, np.ndarray) and known.size:
        for axis in range(rank):
            first = known.take([0], axis)
            known = first if np.array_equal(np.broadcast_to(first, known.shape), known) else known
        return c.constant(known)
    for node in reversed(c.builder.nodes):
        if indices in node.outputs and node.op == "broadcast_to" and node.inputs[0] is not None:
            shape = c.shape(node.inputs[0])
            return c.reshaped(node.inputs[0], (*(1,) * (rank - len(shape)), *shape))
    return indices


def _scatter_elements(c: NodeConversion) -> Sequence[int]:
    data, indices, updates = c.real("data"), c.real("indices"), c.real("updates")
    shape, sizes = c.shape(data), c.shape(indices)
    axis = c.axis(int(c.attribute("axis", 0)), len(shape))
    c.require(c.shape(updates) == sizes, f"updates {list(c.shape(updates))} and indices {list(sizes)} differ")
    if (*shape[:axis], *shape[axis + 1 :]) == (*sizes[:axis], *sizes[axis + 1 :]):
        rows = _unrepeated(c, indices)
        own = c.shape(rows)
        batch_dims = next((at for at, size in enumerate(own[:axis]) if size != sizes[at]), axis)
        if prod(own[batch_dims:]) == own[axis] == sizes[axis]:  # whole rows go to one place each
            places = from_front(c, c.reshaped(rows, (*own[:batch_dims], sizes[axis], 1)), [shape[axis]])
            operands, reduction = [data, places, updates], _reduction(c)
            return [c.node("scatter_nd", operands, axis=axis, batch_dims=batch_dims, reduction=reduction)]
    places = c.reshaped(_linear(c, shape, indices, axis), (prod(sizes), 1))
    flat = [c.reshaped(data, (prod(shape),)), places, c.reshaped(updates, (prod(sizes),))]
    return [c.reshaped(c.node("scatter_nd", flat, reduction=_reduction(c)), shape)]


_WRAPPED = "less add select_v2"


ROWS: tuple[Row, ...] = (
    Row("Reshape", "data shape", _reshape, "reshape"),
    Row("Flatten", "input", _flatten, "reshape"),
    Row("Transpose", "data", _transpose, "transpose"),
    Row("Identity", "input", _identity, "reshape"),
    Row("Squeeze", "data axes?", _squeeze, "reshape"),
    Row("Unsqueeze", "data axes?", _unsqueeze, "reshape"),
    Row("Concat", "inputs*", _concat, "concatenation reshape"),
    Row("Split", "input split?", _split, "split reshape"),
    Row("Slice", "data starts ends axes? steps?", _slice, "strided_slice"),
    Row("Tile", "input repeats", _tile, "tile"),
    Row("Expand", "input shape", _expand, "broadcast_to"),
    Row(
        "Pad",
        "data pads constant_value? axes?",
        _pad,
        "pad mirror_pad edge_pad gather strided_slice quantize",
    ),
    Row("DepthToSpace", "input", _blocks("depth_to_space"), "depth_to_space transpose reshape"),
    Row("SpaceToDepth", "input", _blocks("space_to_depth"), "space_to_depth"),
    Row("ReverseSequence", "input sequence_lens", _reversed, "gather transpose", groups=False),
    Row("Gather", "data indices", _gather, f"gather {_WRAPPED}"),
    Row("GatherND", "data indices", _gather_nd, f"gather_nd concatenation {_WRAPPED}"),
    Row("GatherElements", "data indices", _gather_elements, f"gather mul reshape {_WRAPPED}"),
    Row(
        "TensorScatter",
        "past_cache update write_indices?",
        _tensor_scatter,
        f"scatter_nd add floor_mod {_WRAPPED}",
        groups=False,
    ),
    Row("ScatterND", "data indices updates", _scatter_nd, f"scatter_nd {_WRAPPED}", groups=False),
    Row(
        "ScatterElements",
        "data indices updates",
        _scatter_elements,
        f"scatter_nd mul {_WRAPPED}",
        groups=False,
    ),
    Row("Scatter", "data indices updates", _scatter_elements, f"scatter_nd mul {_WRAPPED}", groups=False),
)
