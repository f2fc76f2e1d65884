"""CRC-32C (Castagnoli) of many bytes in numpy.

A register that begins at 0 is linear in the data, over bits: the register after data A and B is that after A, shifted
through as many zero bytes as B has, xor that after B. So the first half of a block is shifted through the second and
added to it, word by word, and again, until one word is left. Bytes of zero in front change nothing.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

POLYNOMIAL = 0x82F63B78
"""Castagnoli's, lowest bit first."""

_HALVINGS = 14
_BLOCK_WORDS = 1 << _HALVINGS
"""Of 32 bits; of 2^10, 2^12, 2^14 and 2^16 the fastest on 32 MB (0.05 s)."""

Words = NDArray[np.uint32]


class _Shift(NamedTuple):
    """A word shifted through a number of zeros: what each value of its low and high 16 bits becomes."""

    low: Words
    high: Words

    def __call__(self, words: Words) -> Words:
        shifted: Words = self.low[words & np.uint32(0xFFFF)] ^ self.high[words >> np.uint32(16)]
        return shifted


def crc32c(data: bytes | memoryview) -> int:
    """The register after all bytes, lowest bit first, that began at 0, not inverted at the end."""
    if not len(data):
        return 0
    block_bytes = 4 * _BLOCK_WORDS
    begin = (len(data) - 1) % block_bytes + 1
    words = np.frombuffer(bytes(block_bytes - begin) + bytes(data[:begin]), "<u4").astype(np.uint32)
    shifts = _shifts()
    for position in range(begin, len(data), block_bytes):
        words = shifts[_HALVINGS](words) ^ np.frombuffer(data, "<u4", _BLOCK_WORDS, position)
    for halving in reversed(range(_HALVINGS)):
        half = len(words) // 2
        words = words[half:] ^ shifts[halving](words[:half])
    return int(shifts[0](words)[0])


@cache
def _shifts() -> tuple[_Shift, ...]:
    """Shifts through 1, 2, 4, .. 2^_HALVINGS words."""
    bits = np.left_shift(np.uint32(1), np.arange(32, dtype=np.uint32))
    for _ in range(32):
        bits = (bits >> np.uint32(1)) ^ np.where(bits & np.uint32(1), np.uint32(POLYNOMIAL), np.uint32(0))
    shifts = [_Shift(_sums(bits[:16]), _sums(bits[16:]))]
    for _ in range(_HALVINGS):
        bits = shifts[-1](bits)
        shifts.append(_Shift(_sums(bits[:16]), _sums(bits[16:])))
    return tuple(shifts)


def _sums(bits: Words) -> Words:
    """For each number the sum of the words of its bits."""
    sums = np.zeros(1 << len(bits), np.uint32)
    for number, word in enumerate(bits):
        sums[1 << number : 2 << number] = sums[: 1 << number] ^ word
    return sums
