"""Constants of ONNX, and operations whose results depend on shapes or constants alone."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, prod

import numpy as np

from npusim.frontends.forms.conversion import MOST_CONSTANT
from npusim.frontends.forms.node_conversion import NodeConversion
from npusim.frontends.forms.node_rows import Row
from npusim.isa.base.elements import is_element
from npusim.isa.base.tensor import Array


def _constant(c: NodeConversion) -> Sequence[int]:
    numbers = {
        "value_float": np.float32,
        "value_int": np.int64,
        "value_floats": np.float32,
        "value_ints": np.int64,
    }
    for name, dtype in numbers.items():
        if c.attribute(name) is not None:
            return [c.constant(np.array(c.attribute(name), dtype))]
    value = c.attribute("value")
    c.require(isinstance(value, np.ndarray), "has no value of numbers")
    return [c.constant(value)]


def _shape(c: NodeConversion) -> Sequence[int]:
    own = c.shape(c.real("data"))
    begin, end = int(c.attribute("start", 0)), int(c.attribute("end", len(own)))
    return [c.constant(np.array(own[begin:end], np.int64))]


def _size(c: NodeConversion) -> Sequence[int]:
    return [c.constant(np.array(prod(c.shape(c.real("data"))), np.int64))]


def _filled(c: NodeConversion) -> Sequence[int]:
    value = c.attribute("value")
    number: Array = np.zeros(1, np.float32) if value is None else value
    c.require(isinstance(number, np.ndarray) and number.size == 1, "value is not one number")
    return [c.filled(c.wholes("input"), number.reshape(-1)[0], number.dtype.name)]


def _range(c: NodeConversion) -> Sequence[int]:
    start, limit, delta = (c.value(name).reshape(-1)[0] for name in ("start", "limit", "delta"))
    c.require(bool(delta != 0), "delta is 0")
    whole = start.dtype.kind in "iu"
    span = (int(limit) - int(start), int(delta)) if whole else (float(limit) - float(start), float(delta))
    c.require(bool(np.isfinite(span).all()), f"goes from {start} to {limit} by {delta}")
    count = max(-(-span[0] // span[1]) if whole else ceil(span[0] / span[1]), 0)
    c.small([int(count)], MOST_CONSTANT)
    if whole:
        return [c.constant(start + np.arange(int(count), dtype=start.dtype) * delta)]
    return [c.constant((start + np.arange(int(count)).astype(start.dtype) * delta).astype(start.dtype))]


def _eye(c: NodeConversion) -> Sequence[int]:
    x = c.real("input")
    shape = c.shape(x)
    c.require(len(shape) == 2, f"the input has shape {list(shape)}, is no matrix")
    dtype = c.builder.type(x).dtype
    if c.attribute("dtype") is not None:
        from npusim.frontends.forms.qdq import held_type

        dtype = held_type(int(c.attribute("dtype")))[0]
        c.require(is_element(dtype), f"dtype {dtype} is one that npusim lacks")
    c.small(shape, MOST_CONSTANT)
    return [
        c.constant(
            np.eye(shape[0], shape[1], _diagonal(int(c.attribute("k", 0)), shape), dtype=np.dtype(dtype))
        )
    ]


def _diagonal(k: int, shape: Sequence[int]) -> int:
    return min(max(k, -shape[0]), shape[1])


def _triangle(c: NodeConversion) -> Sequence[int]:
    """Add Trilu: elements on the other side of a diagonal become 0."""
    x = c.real("input")
    shape = c.shape(x)
    c.require(len(shape) > 1, f"the input has shape {list(shape)}, is no matrix")
    k = _diagonal(c.wholes("k")[0] if c.has("k") else 0, shape[-2:])
    c.small(shape[-2:], MOST_CONSTANT)
    ones = np.ones(shape[-2:], bool)
    kept = np.triu(ones, k) if c.flag("upper", True) else np.tril(ones, k)
    return c.nodes("select_v2", [c.constant(kept), x, c.scalar(0, x)], [c.like(x)])


def _one_hot(c: NodeConversion) -> Sequence[int]:
    """Add OneHot; indices below 0 count from the end, and those outside match no position."""
    indices, values = c.real("indices"), c.real("values")
    shape = c.shape(indices)
    depth = int(c.value("depth").reshape(-1)[0])
    axis = c.axis(int(c.attribute("axis", -1)), len(shape) + 1)
    c.require(depth > 0, f"depth is {depth}, must be 1 or more")
    c.small([*shape, depth])
    apart = c.reshaped(indices, (*shape[:axis], 1, *shape[axis:]))
    if c.builder.type(apart).real:
        apart = c.cast(apart, "int64")
    ones = [1] * (len(shape) + 1)
    ones[axis] = depth
    dtype = c.builder.type(apart).numpy_dtype
    places = np.arange(depth).reshape(ones)
    matches = [
        c.step("equal", [apart, c.constant(numbers.astype(dtype))], "bool")
        for numbers in ((places, places - depth) if dtype.kind == "i" else (places,))
    ]
    at = c.step("logical_or", matches) if len(matches) > 1 else matches[0]
    off, on = c.nodes("split", [values], [c.like(values)] * 2, axis=0, sizes=(1, 1))
    off, on = (c.reshaped(tensor, ()) for tensor in (off, on))
    return c.nodes("select_v2", [at, on, off], [c.like(values)])


def _not_zero(c: NodeConversion) -> Sequence[int]:
    """Add NonZero of a constant; of other tensors the number of results would depend on data."""
    return [c.constant(np.array(np.nonzero(np.atleast_1d(c.value("X"))), np.int64))]


def _compressed(c: NodeConversion) -> Sequence[int]:
    """Add Compress with a constant condition, along an axis or of the flattened tensor."""
    x, chosen = c.real("input"), np.flatnonzero(c.value("condition"))
    if c.attribute("axis") is None:
        x = c.reshaped(x, (prod(c.shape(x)),))
    shape = c.shape(x)
    axis = c.axis(int(c.attribute("axis", 0)), len(shape))
    c.require(chosen.size == 0 or int(chosen[-1]) < shape[axis], f"axis {axis} has {shape[axis]} parts")
    return c.nodes("gather", [x, c.constant(chosen.astype(np.int64))], [c.like(x)], axis=axis)


def _unique(c: NodeConversion) -> Sequence[int]:
    """Add Unique of a constant; of other tensors the number of results would depend on data."""
    x, axis = c.value("X"), c.attribute("axis")
    axis = None if axis is None else c.axis(int(axis), x.ndim)
    arrays = np.unique(x, return_index=True, return_inverse=True, return_counts=True, axis=axis)
    values, first, inverse, counts = (np.asarray(array) for array in arrays)
    if not c.flag("sorted", True):
        order = np.argsort(first)
        values, first, counts = np.take(values, order, axis or 0), first[order], counts[order]
        inverse = np.argsort(order)[inverse]
    positions = (array.reshape(-1).astype(np.int64) for array in (first, inverse, counts))
    return [c.constant(values), *map(c.constant, positions)]


def _rows(name: str, inputs: str, convert, operators: str = "") -> Row:  # type: ignore[no-untyped-def]
    return Row(name, inputs, convert, operators, groups=False)


ROWS: tuple[Row, ...] = (
    _rows("Constant", "", _constant),
    _rows("Shape", "data", _shape),
    _rows("Size", "data", _size),
    _rows("ConstantOfShape", "input", _filled),
    _rows("Range", "start limit delta", _range),
    _rows("EyeLike", "input", _eye),
    _rows("NonZero", "X", _not_zero),
    _rows("Compress", "input condition", _compressed, "gather"),
    _rows("Unique", "X", _unique),
    _rows("Trilu", "input k?", _triangle, "select_v2"),
    _rows("OneHot", "indices depth values", _one_hot, "equal logical_or select_v2 split"),
)
