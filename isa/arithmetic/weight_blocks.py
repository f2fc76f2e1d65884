"""Arithmetic on weights that are quantized in blocks: unpacking, dequantization, and sums of products.

`npusim.isa.base.block_format` describes how they are stored.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base.block_format import BlockFormat
from npusim.isa.base.tensor import Float32Array


def unpacked(packed: NDArray[np.uint8], bits: int, count: int) -> NDArray[np.uint8]:
    """Return elements of 2, 4 or 8 bits as uint8, one per element: [rows, count].

    packed: the bytes that hold them, [rows, bytes]. The first element of a byte is in its lowest bits.
    """
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    spread: NDArray[np.uint8] = (packed[..., None] >> shifts) & np.uint8(0xFF >> 8 - bits)
    return spread.reshape(len(packed), -1)[:, :count]


def centred(
    packed: NDArray[np.uint8], zeros: NDArray[np.uint8] | None, form: BlockFormat, inner: int
) -> NDArray[np.int32]:
    """Return integer weights minus the zero points of their blocks: [channels, blocks, block].

    packed, zeros: the bytes of weights and zero points, [channels, bytes]. Without `zeros`, all zero points are
                   2 ** (bits - 1).
    inner:         weights of a channel. The last block is filled up with 0.
    """
    blocks = form.blocks(inner)
    whole = unpacked(packed, form.bits, blocks * form.block).astype(np.int32)
    whole = whole.reshape(len(packed), blocks, form.block)
    if zeros is None:
        whole -= 1 << form.bits - 1
    else:
        whole -= unpacked(zeros, form.bits, blocks).astype(np.int32)[..., None]
    whole.reshape(len(packed), -1)[:, inner:] = 0
    return whole


def dequantised(steps: NDArray[np.int32], scales: NDArray[Any], inner: int, dtype: Any) -> NDArray[Any]:
    """Return the floating-point weights [channels, inner], products in float32 that are rounded to `dtype`.

    steps, scales: weights minus zero points as `centred` returns them, and the scale of each block [channels, blocks].
    """
    with np.errstate(over="ignore"):
        floats = steps.astype(np.float32) * scales.astype(np.float32)[..., None]
        weights: NDArray[Any] = floats.reshape(len(steps), -1)[:, :inner].astype(dtype)
    return weights


def sums_of_blocks(values: NDArray[Any], steps: NDArray[np.int32], scales: NDArray[Any]) -> Float32Array:
    """Return the product of integer values and weights in blocks as float32: [rows, channels].

    values:        integers [rows, inner].
    steps, scales: weights minus zero points as `centred` returns them, and the scale of each block [channels, blocks].

    The sum of a block is exact. It is rounded to float32 and multiplied by the block's scale, and the product is added
    to the sum of the blocks before it. Each step rounds to float32.
    """
    total = np.zeros((len(values), len(steps)), np.float32)
    factors = scales.astype(np.float32)
    for number in range(steps.shape[1]):
        first = number * steps.shape[2]
        part = values[:, first : first + steps.shape[2]].astype(np.float64)
        exact = part @ steps[:, number, : part.shape[1]].T.astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            total += exact.astype(np.float32) * factors[:, number]
    return total
