"""Operators that pick elements along axes by their order, and cumulative sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from npusim.isa.base.tensor import Array, TensorType
from npusim.kernels.lowering.reduction_work import (
    float_reduction_lowering,
    position_lowering,
    selection_lowering,
)
from npusim.kernels.operator import rules
from npusim.kernels.operator.axes import (
    REDUCTION_RULES,
    Along,
    Reduction,
    all_read,
    an_axis,
    axis_of,
    reduced,
)
from npusim.kernels.operator.element_types import alike
from npusim.kernels.operator.operands import (
    by_type,
    code_range,
    elementwise,
    input_type,
    input_value,
    like_input,
    with_halves,
)
from npusim.kernels.operator.operator import Call, Operator, Shapes, Values, literal
from npusim.kernels.operator.parameters import Size, Step

NUMBERS = ("int8", "uint8", "int16", "int32", "int64", "float16", "float32", "bool")
TRUTHS = ("bool",)


def selecting_operator(name: str, select: np.ufunc, largest: bool, dtypes: tuple[str, ...]) -> Operator:
    """Return the operator that combines elements with `select`; of none the result is the end of the type that loses.

    largest: the largest element wins, not the smallest; of booleans that is whether any is true.
    """

    function = "max" if largest else "min"

    def reference(call: Call[Reduction], values: Values) -> list[Array]:
        x: Any = input_value(values)
        neutral = _last_choice(input_type(call), largest)
        extremes = select.reduce(x, axis=call.parameters.axes, initial=neutral)
        return [np.asarray(extremes, x.dtype).reshape(call.outputs[0].shape)]

    return Operator(
        name=name,
        parameters=Reduction,
        types=alike(*dtypes),
        rules=(*REDUCTION_RULES, rules.same_quantization),
        infer=reduced,
        reference=reference,
        workload=all_read,
        lowerings=(
            selection_lowering(function),
            float_reduction_lowering(function),
        ),
        arithmetics=(literal(selection_lowering(function, rules.same_codes)),),
    )


def _last_choice(tensor: TensorType, largest: bool) -> Any:
    """Return the value to which every other element of a type is preferred."""
    if tensor.real:
        return -np.inf if largest else np.inf
    low, high = code_range(tensor.dtype)
    return tensor.numpy_dtype.type(low if largest else high)


REDUCE_MAX = selecting_operator("reduce_max", np.maximum, True, NUMBERS)
"""The largest element over some dimensions; for booleans, whether any is true."""


REDUCE_MIN = selecting_operator("reduce_min", np.minimum, False, NUMBERS)
"""The smallest element over some dimensions; for booleans, whether all are true."""


REDUCE_ALL = selecting_operator("reduce_all", np.logical_and, False, TRUTHS)
"""True where all elements over some dimensions are true."""


REDUCE_ANY = selecting_operator("reduce_any", np.logical_or, True, TRUTHS)
"""True where any element over some dimensions is true."""


Find = Callable[..., Any]
"""numpy's `argmax` or `argmin`."""


class PositionParameters(Along):
    """axis: the searched axis; negative ones count from the back."""

    axis: Step


def _elements(call: Call[PositionParameters]) -> bool:
    """the axis has at least one element"""
    return input_type(call).shape[axis_of(call)] > 0


def _position_infer(call: Call[PositionParameters]) -> Shapes:
    axis, shape = axis_of(call), input_type(call).shape
    return (shape[:axis] + shape[axis + 1 :],)


_position_shape = rules.inferred(_position_infer, "the output has the input's shape without the axis")


def position_operator(name: str, find: Find) -> Operator:
    """Return the operator that gives what numpy's `find` finds."""

    def reference(call: Call[PositionParameters], values: Values) -> list[Array]:
        positions = find(input_value(values), axis=axis_of(call))
        return [positions.astype(call.outputs[0].numpy_dtype).reshape(call.outputs[0].shape)]

    return Operator(
        name=name,
        parameters=PositionParameters,
        types=("int8|uint8|int16|int32|int64|float16|float32|bool -> int32|int64",),
        rules=(rules.operands(1), rules.per_tensor, an_axis, _elements, _position_shape),
        infer=_position_infer,
        reference=reference,
        workload=all_read,
        lowerings=(position_lowering(name),),
    )


ARG_MAX = position_operator("arg_max", np.argmax)
"""The position of the largest element along one axis, the first one if there are several."""


ARG_MIN = position_operator("arg_min", np.argmin)
"""The position of the smallest element along one axis, the first one if there are several."""


def largest(values: Sequence[float], count: int) -> list[int]:
    """Return the positions of the `count` largest values, from the largest down; `count` is 1..len(values).

    This is libstdc++'s `std::partial_sort`: a heap of the best so far with the worst of them on top, in which a
    strictly better value replaces the top. It is not stable, and which of several equal values comes first, or
    comes at all, depends on every step of it.
    """
    heap = list(range(count))
    for parent in reversed(range(count // 2)):
        _place(heap, values, parent, count, heap[parent])
    for position in range(count, len(values)):
        if values[position] > values[heap[0]]:
            _place(heap, values, 0, count, position)
    for size in reversed(range(1, count)):
        displaced, heap[size] = heap[size], heap[0]
        _place(heap, values, 0, size, displaced)
    return heap


def _place(heap: list[int], values: Sequence[float], hole: int, size: int, item: int) -> None:
    """Put an item into a part of the heap whose root is free: the hole sinks to a leaf, the item rises from there."""
    root = hole
    while (left := 2 * hole + 1) < size:
        right = left + 1
        child = right if right < size and values[heap[right]] <= values[heap[left]] else left
        heap[hole], hole = heap[child], child
    while hole > root and values[heap[(hole - 1) // 2]] > values[item]:
        heap[hole], hole = heap[(hole - 1) // 2], (hole - 1) // 2
    heap[hole] = item


class TopkV2Parameters(Along):
    """k: the number of elements; axis: the searched axis; smallest: the smallest ones, in ascending order.

    last_first: of equal elements the last one comes first.
    """

    k: Size
    last_first: bool = False
    smallest: bool = False


def _topk_reference(call: Call[TopkV2Parameters], values: Values) -> list[Array]:
    parameters = call.parameters
    x: Any = np.moveaxis(input_value(values), axis_of(call), -1)
    # A stable sort in rising order has the first of equals first; read from the back, the last.
    turned = parameters.smallest == parameters.last_first
    positions = np.argsort(x[..., ::-1] if turned else x, axis=-1, kind="stable")
    positions = x.shape[-1] - 1 - positions if turned else positions
    positions = (positions if parameters.smallest else positions[..., ::-1])[..., : parameters.k]
    outputs = (np.take_along_axis(x, positions, axis=-1), positions.astype(call.outputs[1].numpy_dtype))
    return [np.ascontiguousarray(np.moveaxis(output, -1, axis_of(call))) for output in outputs]


def _topk_infer(call: Call[TopkV2Parameters]) -> Shapes:
    shape, axis = input_type(call).shape, axis_of(call)
    result = (*shape[:axis], call.parameters.k, *shape[axis + 1 :])
    return result, result


def _axis_holds_k(call: Call[TopkV2Parameters]) -> bool:
    """the axis has at least k elements"""
    return call.parameters.k <= input_type(call).shape[axis_of(call)]


_shapes = rules.inferred(_topk_infer, "both outputs have the input's shape, with k elements along the axis")


def _same_codes(call: Call) -> bool:
    """the elements keep their scale and zero point"""
    return input_type(call).quantization == call.outputs[0].quantization


TOPK_V2 = Operator(
    name="topk_v2",
    parameters=TopkV2Parameters,
    types=tuple(
        f"{dtype} -> {dtype}, int32|int64"
        for dtype in ("int8", "uint8", "int16", "int32", "int64", "float16", "float32")
    ),
    rules=(rules.operands(1, 2), rules.per_tensor, an_axis, _axis_holds_k, _shapes, _same_codes),
    infer=_topk_infer,
    reference=_topk_reference,
    workload=all_read,
    on_host="the vector unit does not sort",
)
"""The k largest or smallest elements along an axis in order, and their positions."""


class CumsumParameters(Along):
    """axis: the summed axis; exclusive: an element is not in its own sum; reverse: from the back."""

    axis: Step
    exclusive: bool = False
    reverse: bool = False


def _cumsum_reference(call: Call[CumsumParameters], values: Values) -> list[Array]:
    x: Any = np.moveaxis(input_value(values), axis_of(call), 0)
    if call.parameters.reverse:
        x = x[::-1]
    sums = np.cumsum(x, axis=0, dtype=x.dtype) + x.dtype.type(0)  # begins with 0, which beside -0 is 0
    if call.parameters.exclusive:
        sums = np.concatenate([np.zeros_like(sums[:1]), sums[:-1]])
    if call.parameters.reverse:
        sums = sums[::-1]
    return [np.ascontiguousarray(np.moveaxis(sums, 0, axis_of(call)))]


REFERENCES = with_halves(
    {"int32": _cumsum_reference, "int64": _cumsum_reference, "float32": _cumsum_reference}
)

CUMSUM = Operator(
    name="cumsum",
    parameters=CumsumParameters,
    types=alike(*REFERENCES),
    rules=(rules.operands(1), rules.same_shape, an_axis),
    infer=like_input,
    reference=by_type(REFERENCES),
    workload=elementwise,
    on_host="the vector unit has no running sums of 32-bit integers and of floating-point values",
)
"""Running sums along one axis."""


OPERATORS = (
    REDUCE_MAX,
    REDUCE_MIN,
    REDUCE_ALL,
    REDUCE_ANY,
    ARG_MAX,
    ARG_MIN,
    TOPK_V2,
    CUMSUM,
)
