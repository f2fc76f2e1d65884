"""The storage format of weights that are quantized in blocks, each with a scale and perhaps a zero point.

The weights of an output channel are cut into blocks along the dot product. A weight is an unsigned integer q of 2, 4
or 8 bits and stands for (q - zero point) * scale, with a float16 or float32 scale for each block. The zero point is
that of the block or, without zero points, 2 ** (bits - 1). Elements of less than a byte fill a byte from its lowest
bits on. All blocks of a channel are stored whole, the last one too, and its zero points fill whole bytes. ONNX Runtime
stores the weights of MatMulNBits in this way.

Nothing here imports numpy, because front ends check the sizes of files without it.
"""

from __future__ import annotations

from typing import NamedTuple

BITS = (2, 4, 8)
"""Bits that a weight may have."""


class BlockFormat(NamedTuple):
    """The parameters of the storage format.

    bits:        bits of a weight.
    block:       weights of a block.
    scale_bytes: bytes of a block's scale.
    zero_points: whether each block has a zero point.
    """

    bits: int
    block: int
    scale_bytes: int
    zero_points: bool

    def blocks(self, inner: int) -> int:
        """Return the number of blocks of a dot product of `inner` values."""
        return -(-inner // self.block)

    def weight_bytes(self, inner: int) -> int:
        """Return the bytes of a channel's weights."""
        return -(-self.blocks(inner) * self.block * self.bits // 8)

    def zero_point_bytes(self, inner: int) -> int:
        """Return the bytes of a channel's zero points."""
        return -(-self.blocks(inner) * self.bits // 8) if self.zero_points else 0

    def channel_bytes(self, inner: int) -> int:
        """Return the bytes of a channel's scales, zero points and weights."""
        scales = self.blocks(inner) * self.scale_bytes
        return scales + self.zero_point_bytes(inner) + self.weight_bytes(inner)

    @property
    def block_bits(self) -> int:
        """The bits of a block with its scale and zero point."""
        return self.block * self.bits + 8 * self.scale_bytes + self.bits * self.zero_points
