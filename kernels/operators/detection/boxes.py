"""Geometry of boxes and their overlaps, and the lists of boxes that detection operators share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base.errors import OperandFault
from npusim.isa.base.tensor import Array, TensorType
from npusim.kernels.operator.operands import code_range, input_value, quantization
from npusim.kernels.operator.operator import Call, Reference, Values

Float32Array = NDArray[np.float32]
IntArray = NDArray[np.int64]

COORDINATES = 4
OPERATIONS_PER_TRANSFORM = 20  # two exponentials, and four each of sums, products, halves and limits
OPERATIONS_PER_OVERLAP = 12  # four comparisons, four differences, two products, a sum, a quotient


def transformed(boxes: Float32Array, deltas: Float32Array) -> Float32Array:
    """Boxes [..., 4] moved by deltas (dx, dy, log dw, log dh) relative to their size."""
    size = boxes[..., 2:] - boxes[..., :2]
    centre = (boxes[..., :2] + boxes[..., 2:]) / np.float32(2)
    with np.errstate(over="ignore"):
        after = np.exp(deltas[..., 2:]) * size
    middle = centre + deltas[..., :2] * size
    half = after / np.float32(2)
    corners: Float32Array = np.concatenate([middle - half, middle + half], axis=-1)
    return corners


def clipped(boxes: Float32Array, height: Float32Array, width: Float32Array) -> Float32Array:
    """Boxes within an image; height and width broadcast against the boxes without their last axis."""
    most = np.stack(np.broadcast_arrays(width, height, width, height), axis=-1)
    inside: Float32Array = np.clip(boxes, np.float32(0), most)
    return inside


def overlaps(box: Float32Array, others: Float32Array) -> Float32Array:
    """Intersection over union of a box with each of the others; 0 where both are empty."""
    sides = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
    sides = np.maximum(sides, np.float32(0))
    shared = sides[:, 0] * sides[:, 1]
    union = area(box) + area(others) - shared
    shares: Float32Array = np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)
    return shares


def area(boxes: Float32Array) -> Float32Array:
    """Of every box."""
    sides = boxes[..., 2:] - boxes[..., :2]
    product: Float32Array = sides[..., 0] * sides[..., 1]
    return product


def decreasing(scores: Float32Array) -> IntArray:
    """Return the positions from the largest score down; equal ones stay in order."""
    return np.argsort(-scores, kind="stable")


def suppressed(
    boxes: Float32Array,
    scores: Float32Array,
    most: int,
    rescale: Callable[[Float32Array], Float32Array],
    least_score: float,
) -> tuple[IntArray, Float32Array]:
    """Boxes chosen best first, at most `most`, and the scores that they had then.

    After each choice the scores of those that are left are multiplied by `rescale` of their overlap with it; those that
    are 0 then, or below `least_score`, go.
    """
    left, current = np.arange(len(scores)), scores.copy()
    chosen: list[int] = []
    won: list[np.float32] = []
    while left.size and len(chosen) < most:
        place = int(np.argmax(current))
        best = int(left[place])
        chosen.append(best)
        won.append(current[place])
        left, current = np.delete(left, place), np.delete(current, place)
        factors = rescale(overlaps(boxes[best], boxes[left]))
        current = current * factors
        kept = (factors > 0) & ~(current < np.float32(least_score))
        left, current = left[kept], current[kept]
    return np.array(chosen, np.int64), np.array(won, np.float32)


def hard(threshold: float) -> Callable[[Float32Array], Float32Array]:
    """Overlaps of the threshold or more take everything."""
    return lambda shares: (shares < np.float32(threshold)).astype(np.float32)


def check_images(images: Any, count: int) -> None:
    """Raises OperandFault for a box whose image is none of `count`."""
    strangers = [index for index, image in enumerate(images) if not 0 <= image < count]
    if strangers:
        first = strangers[0]
        raise OperandFault(f"box {first} lies in image {images[first]}, there are {count}")


def filled(tensor: TensorType, rows: Sequence[Any]) -> Array:
    """Return the rows as a tensor of the most that there can be, zeros behind."""
    result = np.zeros(tensor.shape, tensor.numpy_dtype)
    if len(rows):
        result[: len(rows)] = rows
    return result


def rows_of(count: int) -> Callable[[Sequence[Array]], list[Array]]:
    """Of results with a number of true rows at position `count`, behind them all: those rows."""

    def defined(outputs: Sequence[Array]) -> list[Array]:
        rows = int(outputs[count].reshape(-1)[0])
        return [*(np.ascontiguousarray(output[:rows]) for output in outputs[:count]), outputs[count]]

    return defined


def in_reals(compute: Reference) -> Reference:
    """Return the reference of quantized values and halves, from one that takes and gives float32.

    Integers stay what they are.
    """

    def reference(call: Call, values: Values) -> list[Array]:
        given = zip(call.inputs, values, strict=True)
        reals = [None if tensor is None or value is None else real(tensor, value) for tensor, value in given]
        of_reals = replace(
            call,
            inputs=tuple(None if tensor is None else _as_real(tensor) for tensor in call.inputs),
            outputs=tuple(_as_real(tensor) for tensor in call.outputs),
            constants={},
        )
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            results = compute(of_reals, reals)
            return [stored(tensor, result) for tensor, result in zip(call.outputs, results, strict=True)]

    return reference


def arrays(values: Values, count: int) -> list[Any]:
    """Return the values of the first inputs, which the operator's rules require to be there."""
    return [input_value(values, position) for position in range(count)]


def _as_real(tensor: TensorType) -> TensorType:
    return TensorType("float32", tensor.shape) if tensor.quantized or tensor.real else tensor


def real(tensor: TensorType, value: Array) -> Array:
    """Quantized values and halves as float32; what stands for itself as it is."""
    if tensor.real:
        return value.astype(np.float32, copy=False)
    if not tensor.quantized:
        return value
    code = quantization(tensor)
    steps = value.astype(np.float32) - np.float32(code.zero_point)
    numbers: Array = steps * np.float32(code.scale)
    return numbers


def stored(tensor: TensorType, value: Array) -> Array:
    """Float32 as the type of a tensor has it: quantized values are rounded, halves away from zero, and limited."""
    if not tensor.quantized:
        with np.errstate(over="ignore"):
            return value.astype(tensor.numpy_dtype)
    code = quantization(tensor)
    steps = value.astype(np.float32) / np.float32(code.scale)
    codes = np.trunc(steps + np.copysign(np.float32(0.5), steps)) + code.zero_point
    limited: Array = np.clip(codes, *code_range(tensor.dtype)).astype(tensor.numpy_dtype)
    return limited
