"""Geometry of boxes and their overlaps, and the lists of boxes that detection operators share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from npusim.isa.base.errors import OperandFault
from npusim.isa.base.tensor import Array, Float32Array, Int64Array, TensorType
from npusim.kernels.operator.operands import code_range, input_value, quantization
from npusim.kernels.operator.operator import Call, Reference, Values

COORDINATES = 4
OPERATIONS_PER_TRANSFORM = 20  # two exponentials, and four each of sums, products, halves and limits
OPERATIONS_PER_OVERLAP = 12  # four comparisons, four differences, two products, a sum, a quotient


def transformed(boxes: Float32Array, deltas: Float32Array) -> Float32Array:
    """Move boxes [..., 4] by deltas (dx, dy, log dw, log dh) relative to their size."""
    size = boxes[..., 2:] - boxes[..., :2]
    centre = (boxes[..., :2] + boxes[..., 2:]) / np.float32(2)
    with np.errstate(over="ignore"):
        after = np.exp(deltas[..., 2:]) * size
    middle = centre + deltas[..., :2] * size
    half = after / np.float32(2)
    corners: Float32Array = np.concatenate([middle - half, middle + half], axis=-1)
    return corners


def clipped(boxes: Float32Array, height: Float32Array, width: Float32Array) -> Float32Array:
    """Clip boxes to an image; height and width broadcast against the boxes without their last axis."""
    most = np.stack(np.broadcast_arrays(width, height, width, height), axis=-1)
    inside: Float32Array = np.clip(boxes, np.float32(0), most)
    return inside


def overlaps(box: Float32Array, others: Float32Array) -> Float32Array:
    """Return the intersection over union of a box with each of the others; 0 where both are empty."""
    sides = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
    sides = np.maximum(sides, np.float32(0))
    shared = sides[:, 0] * sides[:, 1]
    union = area(box) + area(others) - shared
    shares: Float32Array = np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)
    return shares


def area(boxes: Float32Array) -> Float32Array:
    """Return the area of every box."""
    sides = boxes[..., 2:] - boxes[..., :2]
    product: Float32Array = sides[..., 0] * sides[..., 1]
    return product


def decreasing(scores: Float32Array) -> Int64Array:
    """Return the positions from the largest score down; equal scores stay in order."""
    return np.argsort(-scores, kind="stable")


def suppressed(
    boxes: Float32Array,
    scores: Float32Array,
    most: int,
    rescale: Callable[[Float32Array], Float32Array],
    least_score: float,
) -> tuple[Int64Array, Float32Array]:
    """Choose boxes best first, at most `most`; return them and the scores that they had when chosen.

    After each choice the scores of the remaining boxes are multiplied by `rescale` of their overlap with it. Boxes
    whose score becomes 0 or less than `least_score` are dropped.
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
    """Return the rescale of hard suppression: boxes that overlap by the threshold or more are dropped."""
    return lambda shares: (shares < np.float32(threshold)).astype(np.float32)


def check_images(images: Any, count: int) -> None:
    """Raise OperandFault for a box whose image is not one of `count`."""
    strangers = [index for index, image in enumerate(images) if not 0 <= image < count]
    if strangers:
        first = strangers[0]
        raise OperandFault(f"box {first} is in image {images[first]}, there are {count}")


def filled(tensor: TensorType, rows: Sequence[Any]) -> Array:
    """Return the rows as a tensor of the largest possible size, filled up with zeros."""
    result = np.zeros(tensor.shape, tensor.numpy_dtype)
    if len(rows):
        result[: len(rows)] = rows
    return result


def rows_of(count: int) -> Callable[[Sequence[Array]], list[Array]]:
    """Return the valid rows of results, whose number is the result at position `count`."""

    def defined(outputs: Sequence[Array]) -> list[Array]:
        rows = int(outputs[count].reshape(-1)[0])
        return [*(np.ascontiguousarray(output[:rows]) for output in outputs[:count]), outputs[count]]

    return defined


def in_float32(compute: Reference) -> Reference:
    """Return the reference for quantized values and float16, from one that takes and gives float32.

    Integers without scale stay as they are.
    """

    def reference(call: Call, values: Values) -> list[Array]:
        given = zip(call.inputs, values, strict=True)
        floats = [None if tensor is None or value is None else real(tensor, value) for tensor, value in given]
        of_floats = replace(
            call,
            inputs=tuple(None if tensor is None else _as_float(tensor) for tensor in call.inputs),
            outputs=tuple(_as_float(tensor) for tensor in call.outputs),
            constants={},
        )
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            results = compute(of_floats, floats)
            return [stored(tensor, result) for tensor, result in zip(call.outputs, results, strict=True)]

    return reference


def arrays(values: Values, count: int) -> list[Any]:
    """Return the values of the first inputs, which the operator's rules require to be there."""
    return [input_value(values, position) for position in range(count)]


def _as_float(tensor: TensorType) -> TensorType:
    return TensorType("float32", tensor.shape) if tensor.quantized or tensor.real else tensor


def real(tensor: TensorType, value: Array) -> Array:
    """Return quantized values and float16 as float32; values without scale stay as they are."""
    if tensor.real:
        return value.astype(np.float32, copy=False)
    if not tensor.quantized:
        return value
    code = quantization(tensor)
    steps = value.astype(np.float32) - np.float32(code.zero_point)
    numbers: Array = steps * np.float32(code.scale)
    return numbers


def stored(tensor: TensorType, value: Array) -> Array:
    """Return float32 values in the type of a tensor; quantized values round half away from zero and are limited."""
    if not tensor.quantized:
        with np.errstate(over="ignore"):
            return value.astype(tensor.numpy_dtype)
    code = quantization(tensor)
    steps = value.astype(np.float32) / np.float32(code.scale)
    codes = np.trunc(steps + np.copysign(np.float32(0.5), steps)) + code.zero_point
    limited: Array = np.clip(codes, *code_range(tensor.dtype)).astype(tensor.numpy_dtype)
    return limited
