"""Elements chosen by indices, and elements put where indices say."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from npusim.frontends.forms.node_conversion import NodeConversion
from npusim.frontends.forms.row import Row


def from_front(c: NodeConversion, indices: int, extents: Sequence[int]) -> int:
    """Indices below 0, which count from the end, counted from the front.

    extents: of the axis that they choose from, or one for each entry of their last axis.
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
    """With batches those are the first entries of the indices."""
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
    """The places in a flat tensor that indices along an axis are, one for each of them."""
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
    how = c.attribute("reduction", "none")
    c.require(how in ("none", "add", "mul", "max", "min"), f"reduction is {how!r}")
    return str(how)


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


def _scatter_elements(c: NodeConversion) -> Sequence[int]:
    data, indices, updates = c.real("data"), c.real("indices"), c.real("updates")
    shape, sizes = c.shape(data), c.shape(indices)
    axis = c.axis(int(c.attribute("axis", 0)), len(shape))
    c.require(c.shape(updates) == sizes, f"updates {list(c.shape(updates))} and indices {list(sizes)} differ")
    places = c.reshaped(_linear(c, shape, indices, axis), (prod(sizes), 1))
    flat = [c.reshaped(data, (prod(shape),)), places, c.reshaped(updates, (prod(sizes),))]
    return [c.reshaped(c.node("scatter_nd", flat, reduction=_reduction(c)), shape)]


_WRAPPED = ("less", "add", "select_v2")

ROWS: tuple[Row, ...] = (
    Row("Gather", "data indices", _gather, ("gather", *_WRAPPED)),
    Row("GatherND", "data indices", _gather_nd, ("gather_nd", "concatenation", *_WRAPPED)),
    Row("GatherElements", "data indices", _gather_elements, ("gather", "mul", "reshape", *_WRAPPED)),
    Row("ScatterND", "data indices updates", _scatter_nd, ("scatter_nd", *_WRAPPED), groups=False),
    Row(
        "ScatterElements",
        "data indices updates",
        _scatter_elements,
        ("scatter_nd", "mul", *_WRAPPED),
        groups=False,
    ),
    Row("Scatter", "data indices updates", _scatter_elements, ("scatter_nd", "mul", *_WRAPPED), groups=False),
)
