"""Boxes (x1, y1, x2, y2) of reals: transformation by deltas, intersection over union, suppression; rules of types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base.errors import OperandFault
from npusim.isa.base.tensor import Array, TensorType

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
    """Positions from the largest score down; equal ones stay in order."""
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
    """Rows as a tensor of the most that there can be, zeros behind."""
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
