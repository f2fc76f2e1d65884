"""Constant weights that a model stores in blocks of a few bits, as operands of the operator `block_product`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from npusim.frontends.forms.conversion import Conversion
from npusim.isa.base.block_format import BITS, BlockFormat
from npusim.isa.base.tensor import Array
from npusim.kernels.graph.builder import unshaped


class PackedWeights(NamedTuple):
    """Weights of a product as they are stored (`npusim.isa.base.block_format`).

    inner:       elements of a dot product.
    weights, scales, zero_points: [output channels, ...]; None for zero points in the middle of the range.
    """

    form: BlockFormat
    inner: int
    weights: Array
    scales: Array
    zero_points: Array | None


def packed(values: Any, scales: Any, zero_points: Any, bits: int, block: int) -> PackedWeights | None:
    """Pack quantized weights [inner, channels] of one element per byte; None if `block_product` does not take them.

    scales, zero_points: [blocks, channels]; None for zero points of 0. Signed elements become unsigned ones, with zero
    points moved by as much.
    """
    signed = values.dtype == np.int8
    fitting = values.dtype in (np.int8, np.uint8) and bits in BITS and block * bits % 8 == 0
    blocks = -(-len(values) // block)
    shapes = {scales.shape} if zero_points is None else {scales.shape, zero_points.shape}
    if not fitting or values.ndim != 2 or shapes != {(blocks, values.shape[1])}:
        return None
    if scales.dtype not in (np.float16, np.float32):
        return None
    shift = 1 << bits - 1 if signed else 0
    if zero_points is None and not signed:
        zero_points = np.zeros(scales.shape, np.uint8)
    spread = np.full((values.shape[1], blocks * block), shift, np.uint8)
    spread[:, : len(values)] = (values.T.astype(np.int32) + shift).astype(np.uint8)
    zeros = None if zero_points is None else _joined(zero_points.T.astype(np.int32) + shift, bits)
    form = BlockFormat(bits, block, scales.dtype.itemsize, zeros is not None)
    return PackedWeights(form, len(values), _joined(spread, bits), np.ascontiguousarray(scales.T), zeros)


def _joined(values: Any, bits: int) -> Array:
    """Return small unsigned integers [rows, n] as bytes, the first in the lowest bits."""
    per_byte = 8 // bits
    whole = np.zeros((len(values), -(-values.shape[1] // per_byte) * per_byte), np.uint8)
    whole[:, : values.shape[1]] = values
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    joined: Array = np.bitwise_or.reduce(whole.reshape(len(values), -1, per_byte) << shifts, axis=2)
    return joined


def block_product(c: Conversion, a: int, weights: PackedWeights, bias: int | None = None) -> int:
    """Add the product of floats with packed weights, as the result of a node."""
    form = weights.form
    operands = [
        a,
        *(
            None if data is None else c.constant(data)
            for data in (weights.weights, weights.scales, weights.zero_points)
        ),
        bias,
    ]
    kind = unshaped(c.builder.type(a).dtype)
    return c.node("block_product", operands, kind, inner=weights.inner, block=form.block, bits=form.bits)
