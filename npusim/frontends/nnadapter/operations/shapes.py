"""Operations whose results follow from shapes and parameters alone."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from npusim.frontends.nnadapter.codes import OperationType
from npusim.frontends.nnadapter.operations.conversion import Conversion
from npusim.frontends.nnadapter.operations.row import Row

MOST_BYTES = 1 << 28
"""Of a result that is a constant of the program."""


def _shape(c: Conversion) -> Sequence[int]:
    wanted = c.result()
    c.require(wanted.dtype in ("int32", "int64"), f"dtype is {c.whole('dtype')}, must be INT32 or INT64")
    return (c.constant(np.array(c.shape("input"), wanted.numpy_dtype)),)


def _range(c: Conversion) -> Sequence[int]:
    """start + i * step for each i from 0 on, as long as it is before the end (Paddle's arange)."""
    kind = c.result()
    precisions = {c.given(name).type.precision for name in ("start", "end", "step")}
    c.require(len(precisions) == 1, "start, end and step have different precisions, must have one")
    start, end, step = (c.number(name) for name in ("start", "end", "step"))
    c.require(bool(np.isfinite([start, end]).all()), f"start and end are {start} and {end}, must be finite")
    c.require(bool(np.isfinite(step)) and step != 0, f"step is {step}, must be finite and not 0")
    if kind.element.kind == "real":  # in the elements' own type, as Paddle divides
        count = max(
            int(np.ceil(np.divide(kind.numpy_dtype.type(end - start), kind.numpy_dtype.type(step)))), 0
        )
    else:
        count = len(range(int(start), int(end), int(step)))
    c.require(
        count * kind.numpy_dtype.itemsize <= MOST_BYTES,
        f"has {count} results, may have {MOST_BYTES // kind.numpy_dtype.itemsize}",
    )
    return (c.constant((start + np.arange(count) * step).astype(kind.numpy_dtype)),)


def _filled(c: Conversion, shape: Sequence[int]) -> Sequence[int]:
    c.require(min(shape, default=0) >= 0, f"shape is {list(shape)}, sizes count from 0 on")
    value = c.tensor("value")
    own = c.builder.shape(value)
    c.require(prod(own) == 1, f"value has shape {list(own)}, must have one element")
    return c.node("fill", [value if len(own) < 2 else c.reshaped(value, (1,))], shape=tuple(shape))


def _fill(c: Conversion) -> Sequence[int]:
    return _filled(c, c.wholes("shape"))


def _fill_like(c: Conversion) -> Sequence[int]:
    return _filled(c, c.shape("input"))


ROWS: tuple[Row, ...] = (
    Row(OperationType.FILL, "shape:I value > output=value", _fill, ("fill",)),
    Row(OperationType.FILL_LIKE, "input:s value > output=value", _fill_like, ("fill",)),
    Row(OperationType.RANGE, "start:v end:v step:v > output=start", _range, ()),
    Row(OperationType.SHAPE, "input:s dtype:i=5 > output@dtype", _shape, ()),
)
