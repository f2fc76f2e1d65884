"""Products of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from npusim.frontends.nnef.operations.call_conversion import MOST_ELEMENTS, CallConversion
from npusim.frontends.nnef.operations.row import Row
from npusim.frontends.sums import bias_fault, of_sums


def bias_of(c: CallConversion, channels: int, image: int, weights: int) -> int | None:
    """Return the argument `bias` as a vector; None for zero.

    With quantized operands, a constant on another scale is requantized to input scale times weight scale. A bias that
    is computed by the run makes the whole sum a floating-point one.
    """
    number = c.number("bias")
    if number == 0.0:
        return None
    tensor = c.tensor("bias")
    count = prod(c.shape(tensor))
    c.require(
        count in (1, channels) and max(c.shape(tensor), default=1) == count,
        f"bias has shape {list(c.shape(tensor))}, not [1,{channels}] or one element",
    )
    held = c.builder.tensors[tensor]
    own, kinds = held.type.quantization, [c.builder.type(operand) for operand in (image, weights)]
    scalings = [kind.quantization for kind in kinds]
    if held.array is not None and count == 1 < channels:
        c.require(channels <= MOST_ELEMENTS, f"{channels} channels are more than {MOST_ELEMENTS:,}")
        tensor = c.constant(np.full((channels,), held.array.reshape(-1)[0], held.array.dtype), own)
        held = c.builder.tensors[tensor]
    tensor = c.reshaped(tensor, (channels,))
    held = c.builder.tensors[tensor]
    own = held.type.quantization
    if scalings[0] is None or scalings[1] is None or c.kind().quantization is None:
        return tensor
    if bias_fault(held.type.dtype, own, scalings[0], scalings[1]) is None:
        return tensor
    real = c.as_real(tensor)
    reals = c.builder.tensors[real].array
    if reals is None:
        return real
    along = of_sums(scalings[0], scalings[1])
    steps = reals.astype(np.float64) / np.array(along.scales)
    limits = np.iinfo(np.int32)
    codes = np.clip(np.copysign(np.floor(np.abs(steps) + 0.5), steps), limits.min, limits.max)
    return c.constant(codes.astype(np.int32), along)


def _linear(c: CallConversion) -> Sequence[int]:
    vectors, weights = c.tensor("input"), c.tensor("filter")
    shapes = c.shape(vectors), c.shape(weights)
    fits = len(shapes[0]) == len(shapes[1]) == 2 and shapes[0][1] == shapes[1][1]
    c.require(fits, f"input {list(shapes[0])} and filter {list(shapes[1])} are not [batch,in] and [out,in]")
    bias = bias_of(c, shapes[1][0], vectors, weights)
    return [c.node("fully_connected", [vectors, weights, bias], activation=c.activation)]


def _matmul(c: CallConversion) -> Sequence[int]:
    """Axes before the last two broadcast; of operands of other ranks from the left, as everywhere."""
    pair = [c.tensor("A"), c.tensor("B")]
    shapes = [c.shape(tensor) for tensor in pair]
    c.require(min(map(len, shapes)) >= 2, f"shapes {[*map(list, shapes)]} are of rank below 2")
    batches = max(map(len, shapes)) - 2
    for place, shape in enumerate(shapes):
        ones = (1,) * (batches - len(shape) + 2)
        pair[place] = c.reshaped(pair[place], (*shape[:-2], *ones, *shape[-2:]))
    turned = [bool(c.value(name)) for name in ("transposeA", "transposeB")]
    return [c.node("batch_matmul", pair, adj_x=turned[0], adj_y=turned[1])]


ROWS: tuple[Row, ...] = (
    Row("linear", _linear, ("fully_connected",), activated=True),
    Row("matmul", _matmul, ("batch_matmul",)),
)
