"""Elements under another shape, or in another place."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from npusim.frontends.onnx.operations.conversion import Conversion
from npusim.frontends.onnx.operations.row import Row


def _reshape(c: Conversion) -> Sequence[int]:
    data, own = c.tensor("data"), c.shape("data")
    sizes = c.wholes("shape")
    if not c.attribute("allowzero", 0):
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
    return [c.node("reshape", [data], c.kind(0, c.like(data).dtype), shape=tuple(sizes))]


def _flatten(c: Conversion) -> Sequence[int]:
    data, own = c.tensor("input"), c.shape("input")
    axis = int(c.attribute("axis", 1))
    c.require(-len(own) <= axis <= len(own), f"axis is {axis}, must be {-len(own)}..{len(own)}")
    axis = axis % len(own) if axis < 0 else axis
    sizes = prod(own[:axis]), prod(own[axis:])
    return [c.node("reshape", [data], c.kind(0, c.like(data).dtype), shape=sizes)]


def _transpose(c: Conversion) -> Sequence[int]:
    data, rank = c.tensor("data"), len(c.shape("data"))
    perm = tuple(c.attribute("perm") or range(rank - 1, -1, -1))
    return [c.node("transpose", [data], c.kind(0, c.like(data).dtype), perm=perm)]


def _identity(c: Conversion) -> Sequence[int]:
    return [c.tensor("input")]


def _constant(c: Conversion) -> Sequence[int]:
    numbers = {
        "value_float": np.float32,
        "value_int": np.int64,
        "value_floats": np.float32,
        "value_ints": np.int64,
    }
    for name, dtype in numbers.items():
        if c.attribute(name) is not None:
            return [c.constant(np.array(c.attribute(name), dtype))]
    c.require(c.attribute("value") is not None, "has no value that npusim knows")
    return [c.constant(c.attribute("value"))]


def _shape(c: Conversion) -> Sequence[int]:
    own = c.shape(c.real("data"))
    return [c.constant(np.array(own[c.attribute("start", 0) : c.attribute("end", len(own))], np.int64))]


ROWS: tuple[Row, ...] = (
    Row("Reshape", "data shape", _reshape, ("reshape",)),
    Row("Flatten", "input", _flatten, ("reshape",)),
    Row("Transpose", "data", _transpose, ("transpose",)),
    Row("Identity", "input", _identity, ("reshape",)),
    Row("Constant", "", _constant, (), groups=False),
    Row("Shape", "data", _shape, (), groups=False),
)
