"""Constants, and tensors that follow from shapes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from math import prod
from typing import Any

import numpy as np

from npusim.frontends.forms.conversion import MOST_CONSTANT, Conversion
from npusim.frontends.forms.row import Row
from npusim.frontends.paddle.operations.row import element_type, numbers, op, renamed
from npusim.kernels.graph.builder import unshaped


def _shape(c: Conversion) -> Sequence[int]:
    return [c.constant(np.array(c.shape(c.real("Input")), np.int32))]


def _made(c: Conversion, shape: Sequence[int], number: float, dtype: str) -> Sequence[int]:
    c.require(dtype.startswith("float") or bool(np.isfinite(number)), f"{number} is no {dtype}")
    return [c.filled(shape, int(number) if "int" in dtype else number, dtype)]


def _filled(c: Conversion) -> Sequence[int]:
    """A constant; a text, where there is one, has all digits of its value. One size may be that of another tensor."""
    shape, text = numbers(c, "shape", "ShapeTensor", "ShapeTensorList"), c.attribute("str_value", "")
    try:
        number = float(text) if text else float(c.attribute("value", 0.0))
    except ValueError:
        raise c.source.fault(f"str_value is {text[:40]!r}, which is no number") from None
    if c.has("ValueTensor"):
        number = float(c.value("ValueTensor").reshape(-1)[0])
    if c.has("Input"):
        own = c.shape(c.real("Input"))
        source = c.axis(int(c.attribute("input_dim_idx", 0)), len(own), "input_dim_idx")
        shape[c.axis(int(c.attribute("output_dim_idx", 0)), len(shape), "output_dim_idx")] = own[source]
    return _made(c, shape, number, element_type(c))


def _filled_like(c: Conversion) -> Sequence[int]:
    like, said = c.real("X"), int(c.attribute("dtype", -1))
    dtype = c.builder.type(like).dtype if said == -1 else element_type(c)
    return _made(c, c.shape(like), float(c.attribute("value", 0.0)), dtype)


def _values(c: Conversion) -> Sequence[int]:
    """The numbers of an attribute of the element type's name."""
    dtype, shape = element_type(c), numbers(c, "shape")
    named: list[Any] = [
        c.attribute(f"{word}values") for word in ("", "bool_", "fp32_", "int32_", "int64_", "fp64_")
    ]
    values: list[Any] = next(filter(None, named), [])
    c.require(
        min(shape, default=0) >= 0 and prod(shape) == len(values),
        f"{len(values)} values have no shape {shape}",
    )
    return [c.constant(np.array(values, np.dtype(dtype)).reshape(shape))]


def _grid(c: Conversion) -> Sequence[int]:
    """Vectors along an axis each, as large as all of them together."""
    tensors = c.tensors("X")
    sizes = c.small([prod(c.shape(tensor)) for tensor in tensors])
    shapes = [[size if at == axis else 1 for at, size in enumerate(sizes)] for axis in range(len(sizes))]
    alone = [c.reshaped(tensor, shape) for tensor, shape in zip(tensors, shapes, strict=True)]
    return [c.step("broadcast_to", [tensor], shape=sizes) for tensor in alone]


def _one_hot(c: Conversion) -> Sequence[int]:
    x, depth = (
        c.real("X"),
        c.wholes("depth_tensor")[0] if c.has("depth_tensor") else int(c.attribute("depth", -1)),
    )
    c.require(0 < depth <= MOST_CONSTANT, f"depth is {depth}, must be 1..{MOST_CONSTANT}")
    places = c.constant(np.arange(depth, dtype=c.builder.type(x).numpy_dtype))
    there = c.step("equal", [c.reshaped(x, (*c.shape(x), 1)), places], "bool")
    return c.nodes("cast", [there], [unshaped(element_type(c))])


ROWS: tuple[Row, ...] = tuple(
    chain(
        op("shape", "Input", _shape, "", groups=False),
        op("fill_constant", "ValueTensor? ShapeTensor? ShapeTensorList*", _filled, "", groups=False),
        op("fill_constant_batch_size_like", "Input", _filled, "", groups=False),
        op("fill_any_like fill_zeros_like", "X", _filled_like, "", groups=False),
        op("assign_value", "", _values, "", groups=False),
        renamed("range", "Range", "start=Start limit=End delta=Step"),
        op("meshgrid", "X*", _grid, "broadcast_to reshape", "Out*", groups=False),
        op("one_hot_v2", "X depth_tensor?", _one_hot, "equal cast reshape", groups=False),
    )
)
