"""Operations that keep all elements and change shapes: reshape, transpose, join, split, fill."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from npusim.frontends.nn_hal.enumerations import HalVersion, OperationType
from npusim.frontends.nn_hal.operations import constraints
from npusim.frontends.nn_hal.operations.constraints import (
    axis_of,
    elements_at_least,
    entry_per_dimension,
    rank_of,
)
from npusim.frontends.nn_hal.operations.named_arguments import Call, Size
from npusim.frontends.nn_hal.operations.operation_row import Conversion, Row, Rule
from npusim.frontends.nn_hal.operations.signatures import NUMBERS, OLD_TYPES, SINCE_1_1

_T = OperationType
_ANY_TENSOR = "F16@1.3 F32@1.3 I32@1.3 Q8@1.3 Q16S@1.3 B8@1.3 Q8C@1.3 Q16A@1.3 Q8SY@1.3 Q8S@1.3"
_RANKS = rank_of("input", 1, 4)
_OF_INPUTS = constraints.same_quantization("output", "inputs")
_OF_INPUTS_BELOW_1_2 = constraints.same_quantization("output", "inputs", until=HalVersion.V1_2)
_REST = -1
"""The size in a new shape that follows from the others."""


# Shapes


def _one_rest(call: Call) -> str | None:
    """the sizes of shape are 0 or more, but at most one is -1"""
    sizes = call.wholes("shape")
    sound = sizes is None or (min(sizes, default=0) >= _REST and sizes.count(_REST) <= 1)
    return None if sound else "shape"


def _as_many_elements(call: Call) -> str | None:
    """shape has the number of elements of the input"""
    sizes, own = call.wholes("shape"), call.shape("input")
    if sizes is None or own is None or None in own:
        return None
    elements, others = prod(size or 0 for size in own), prod(size for size in sizes if size != _REST)
    fits = elements % others == 0 if _REST in sizes and others else elements == others
    return None if fits else "shape"


def _reshape(c: Conversion) -> Sequence[int]:
    """Resolve a size of -1. For a tensor without elements it becomes 0."""
    sizes, elements = c.wholes("shape"), prod(c.shape("input"))
    if _REST in sizes:
        others = prod(size for size in sizes if size != _REST)
        sizes[sizes.index(_REST)] = elements // others if others else 0
    return c.add(inputs=[c.tensor("input")], shape=tuple(sizes))


def _ones(call: Call) -> str | None:
    """the dimensions at axes are 1"""
    axes, sizes = call.wholes("axes"), call.shape("input")
    if axes is None or sizes is None:
        return None
    return None if all(sizes[axis] in (1, None) for axis in axes) else "axes"


def _squeeze(c: Conversion) -> Sequence[int]:
    """Drop axes of one element. If none is left, one dimension of one element remains."""
    sizes = c.shape("input")
    gone = [axis for axis, size in enumerate(sizes) if size == 1]
    if c.has("axes"):
        gone = [axis % len(sizes) for axis in c.wholes("axes")]
    kept = tuple(size for axis, size in enumerate(sizes) if axis not in gone)
    return c.add(inputs=[c.tensor("input")], shape=kept or (1,))


def _expand_dims(c: Conversion) -> Sequence[int]:
    sizes, axis = c.shape("input"), c.axis("axis", "input", 1)
    return c.add(shape=(*sizes[:axis], 1, *sizes[axis:]))


def _permutation(call: Call) -> str | None:
    """permutation has each of 0 to n - 1 once for the n dimensions of input"""
    order, rank = call.wholes("permutation"), call.rank("input")
    if order is None:
        return None
    return None if sorted(order) == list(range(len(order) if rank is None else rank)) else "permutation"


def _transpose(c: Conversion) -> Sequence[int]:
    """Transpose by the permutation, or reverse the axes if it is omitted."""
    order = tuple(reversed(range(len(c.shape("input")))))
    return c.add(perm=tuple(c.wholes("permutation")) if c.has("permutation") else order)


def _fill(c: Conversion) -> Sequence[int]:
    return c.add(inputs=[c.tensor("value")], shape=tuple(c.wholes("sizes")))


def _rank(c: Conversion) -> Sequence[int]:
    return [c.constant("output", np.array(len(c.shape("input")), np.int32))]


# Joined and split tensors


def _joined(call: Call) -> str | None:
    """inputs have equal dimensions but along axis, where those of the output add up"""
    axis = call.axis("axis", "inputs")
    shapes = [argument.shape for argument in call.all("inputs")]
    known = [shape for shape in shapes if shape is not None]
    if axis is None or not known:
        return None
    first = known[0]
    for shape in known[1:]:
        same = len(shape) == len(first) and all(
            at == axis or constraints.may_be_same(*pair)
            for at, pair in enumerate(zip(first, shape, strict=True))
        )
        if not same:
            return "inputs"
    if len(known) < len(shapes):
        return None
    sizes: list[Size] = [next((s[at] for s in known if s[at] is not None), None) for at in range(len(first))]
    along = [shape[axis] for shape in known]
    sizes[axis] = None if None in along else sum(size or 0 for size in along)
    return None if constraints.may_equal(tuple(sizes), call.shape("output")) else "output"


def _equal_shapes(call: Call) -> str | None:
    """inputs have equal dimensions"""
    first, *others = (argument.shape for argument in call.all("inputs"))
    return None if all(constraints.may_equal(first, shape) for shape in others) else "inputs"


def _pack(c: Conversion) -> Sequence[int]:
    return c.add(axis=c.axis("axis", "inputs", 1))


def _count(call: Call) -> str | None:
    """count is the number of outputs"""
    return None if call.whole("count") in (None, len(call.outputs)) else "count"


def _divisible(call: Call) -> str | None:
    """the dimension of input at axis is divisible by the number of outputs"""
    axis = call.axis("axis", "input")
    size = None if axis is None else call.size("input", axis)
    return None if size is None or size % len(call.outputs) == 0 else "input"


def _split(c: Conversion) -> Sequence[int]:
    axis, count = c.axis("axis", "input"), len(c.call.outputs)
    return c.add(sizes=(c.shape("input")[axis] // count,) * count)


# Rows


def move(
    type_: OperationType,
    form: str,
    types: str,
    op: str,
    parameters: tuple[Rule, ...] = (),
    shapes: tuple[Rule, ...] = (),
    **more: Any,
) -> Row:
    """Return the row of a move of elements from `input` to `output`, which have one scale and zero point."""
    types = types if ":" in types else f"T: {types}"
    more = {"quantization": (constraints.same_quantization("input", "output"),)} | more
    return Row(type_, (form,), types, op, parameters, shapes, **more)


ROWS: tuple[Row, ...] = (
    move(
        _T.RESHAPE,
        "input:T shape:I32 > output:T",
        f"{OLD_TYPES} I32@6",
        "reshape",
        (_one_rest,),
        (_RANKS, rank_of("shape", 1), rank_of("output", 1, 4), _as_many_elements),
        convert=_reshape,
    ),
    move(
        _T.SQUEEZE,
        "input:T axes:I32? > output:T",
        SINCE_1_1,
        "reshape",
        (constraints.axes_of("axes", "input"),),
        (_RANKS, rank_of("axes", 1), _ones),
        convert=_squeeze,
    ),
    move(
        _T.EXPAND_DIMS,
        "input:T axis:i > output:T",
        NUMBERS,
        "reshape",
        (axis_of("axis", "input", 1),),
        convert=_expand_dims,
    ),
    move(
        _T.TRANSPOSE,
        "input:T permutation:I32? > output:T",
        SINCE_1_1,
        "transpose",
        (_permutation,),
        (_RANKS, entry_per_dimension("permutation", "input")),
        words={"perm": "permutation"},
        convert=_transpose,
    ),
    move(
        _T.CONCATENATION,
        "inputs:T+ axis:i > output:T",
        OLD_TYPES,
        "concatenation",
        (axis_of("axis", "inputs", negative=False),),
        (rank_of("inputs", 1, 4), _joined),
        quantization=(_OF_INPUTS_BELOW_1_2,),
    ),
    move(
        _T.PACK,
        "axis:i inputs:T+ > output:T",
        "F16@6 F32@6 I32@6 Q8@6 Q8S@6",
        "pack",
        (axis_of("axis", "inputs", 1, negative=False),),
        (_equal_shapes,),
        quantization=(_OF_INPUTS,),
        convert=_pack,
    ),
    move(
        _T.SPLIT,
        "input:T axis:i count:i > output:T+",
        NUMBERS,
        "split",
        (axis_of("axis", "input"), _count),
        (_divisible,),
        convert=_split,
    ),
    move(
        _T.FILL,
        "sizes:I32 value:V > output:T",
        "T V: F16,h@1.3 F32,f@1.3 I32,i@1.3",
        "fill",
        (elements_at_least(0, "sizes"),),
        (rank_of("sizes", 1),),
        quantization=(),
        convert=_fill,
    ),
    move(_T.RANK, "input:T > output:i", _ANY_TENSOR, "", quantization=(), convert=_rank),
)
