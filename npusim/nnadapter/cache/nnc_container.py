"""The `.nnc` container of NNAdapter's compiled models: named bytes with a checksum, and why one is refused.

Little endian: magic, version, CRC-32C of everything behind the header, four bytes of zero, number of entries; then per
entry the sizes of key and value in 8 bytes each, key and value, and zeros up to a multiple of 4 bytes.

The checksum does not guard the header, so every field of the header is compared with the only value that it may have:
the number of entries is that of the entries that end where the container ends. So any changed bit is detected.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from npusim.frontends.nnadapter.nnadapter_codes import InvalidParameter
from npusim.isa.base.plain_values import shown

MAGIC = 0x2E6E6E63
"""The characters ".nnc", the first one in the highest byte."""

VERSION = 1

_HEADER = struct.Struct("<IIIIQ")
_SIZES = struct.Struct("<QQ")
_ALIGNMENT = 4

POLYNOMIAL = 0x82F63B78
"""Castagnoli's, lowest bit first."""

_HALVINGS = 14
_BLOCK_WORDS = 1 << _HALVINGS
"""Words of 32 bits in a block; of 2^10, 2^12, 2^14 and 2^16 the fastest on 32 MB (0.05 s)."""

Words = NDArray[np.uint32]


class CacheRefused(InvalidParameter):
    """A cached model that cannot be restored; a compilation that has the model compiles it again."""


class BadMagic(CacheRefused):
    """The data does not begin as a `.nnc` container does."""


class BadVersion(CacheRefused):
    """The container has another version."""


class BadChecksum(CacheRefused):
    """The bytes of the container are not those that were written."""


class Truncated(CacheRefused):
    """Bytes of the container are missing, or follow its last entry."""


class BadContent(CacheRefused):
    """The container is intact, but an entry breaks a rule."""


class WrongToken(CacheRefused):
    """The model was cached under another token."""


class WrongDevice(CacheRefused):
    """The model was compiled for devices that the context does not have."""


class WrongMachine(CacheRefused):
    """The model was compiled by another npusim, or for devices with another configuration."""


def write_cache(entries: Mapping[str, bytes]) -> bytes:
    """Return the container of entries, in their order."""
    parts = []
    for key, value in entries.items():
        name = key.encode("utf-8")
        parts += [_SIZES.pack(len(name), len(value)), name, value, _padding(len(name) + len(value))]
    body = b"".join(parts)
    return _HEADER.pack(MAGIC, VERSION, crc32c(body), 0, len(entries)) + body


def _padding(size_bytes: int) -> bytes:
    return bytes(-size_bytes % _ALIGNMENT)


def read_cache(data: bytes) -> dict[str, bytes]:
    """Return the entries of a container, in its order.

    Raises Truncated, BadMagic, BadVersion, BadChecksum or BadContent. Sizes are compared with the data before anything
    is allocated.
    """
    if len(data) < _HEADER.size:
        raise Truncated(f"too short: {len(data)} bytes, the header has {_HEADER.size}")
    magic, version, checksum, padding, count = _HEADER.unpack_from(data)
    if magic != MAGIC:
        raise BadMagic(f"magic 0x{magic:08x}, must be 0x{MAGIC:08x}: this is no .nnc container")
    if version != VERSION:
        raise BadVersion(f"version {version}, must be {VERSION}")
    if padding:
        raise BadContent(f"padding of the header is 0x{padding:08x}, must be 0")
    body = memoryview(data)[_HEADER.size :]
    actual = crc32c(body)
    if actual != checksum:
        raise BadChecksum(
            f"checksum 0x{checksum:08x}, that of the {len(body)} bytes behind it is 0x{actual:08x}"
        )
    return _entries(body, count)


def _entries(body: memoryview, count: int) -> dict[str, bytes]:
    entries: dict[str, bytes] = {}
    begin = 0
    for number in range(count):
        where = f"entry {number} of {count}"
        if len(body) - begin < _SIZES.size:
            raise Truncated(
                f"entry does not fit: {where} needs {_SIZES.size} bytes for its sizes, there are {len(body) - begin}"
            )
        key_bytes, value_bytes = _SIZES.unpack_from(body, begin)
        begin += _SIZES.size
        size_bytes = key_bytes + value_bytes
        end = begin + size_bytes + -size_bytes % _ALIGNMENT
        if end > len(body):
            raise Truncated(
                f"entry does not fit: {where} has a key of {key_bytes} and a value of {value_bytes} bytes, "
                f"there are {len(body) - begin}"
            )
        key = _key(bytes(body[begin : begin + key_bytes]), where)
        if key in entries:
            raise BadContent(f"{where}: the key {shown(key)} stands twice")
        if any(body[begin + size_bytes : end]):
            raise BadContent(f"{where}: its padding is not zero")
        entries[key] = bytes(body[begin + key_bytes : begin + size_bytes])
        begin = end
    if begin != len(body):
        raise Truncated(
            f"{len(body) - begin} trailing bytes behind the last entry: the header announces {count} entries"
        )
    return entries


def _key(name: bytes, where: str) -> str:
    try:
        return name.decode("utf-8")
    except UnicodeDecodeError as fault:
        raise BadContent(f"{where}: its key is not UTF-8 at byte {fault.start}") from None


# Checksum


class _Shift(NamedTuple):
    """The CRC register after a number of zero bits, tabulated for each value of its low and high 16 bits."""

    low: Words
    high: Words

    def __call__(self, words: Words) -> Words:
        shifted: Words = self.low[words & np.uint32(0xFFFF)] ^ self.high[words >> np.uint32(16)]
        return shifted


def crc32c(data: bytes | memoryview) -> int:
    """Return the CRC-32C of bytes: the register starts at 0, takes the lowest bit first and is not inverted.

    The register is linear in the data over bits: after data A and B it is that after A, shifted through as many zeros
    as B has, xor that after B. So the first half of a block is shifted and added to the second half word by word, and
    again, until one word is left. Zero bytes in front change nothing.
    """
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
    """Return the shifts through 1, 2, 4, .. 2^_HALVINGS words."""
    bits = np.left_shift(np.uint32(1), np.arange(32, dtype=np.uint32))
    for _ in range(32):
        bits = (bits >> np.uint32(1)) ^ np.where(bits & np.uint32(1), np.uint32(POLYNOMIAL), np.uint32(0))
    shifts = [_Shift(_sums(bits[:16]), _sums(bits[16:]))]
    for _ in range(_HALVINGS):
        bits = shifts[-1](bits)
        shifts.append(_Shift(_sums(bits[:16]), _sums(bits[16:])))
    return tuple(shifts)


def _sums(bits: Words) -> Words:
    """Return, for each number, the xor of the words of its bits."""
    sums = np.zeros(1 << len(bits), np.uint32)
    for number, word in enumerate(bits):
        sums[1 << number : 2 << number] = sums[: 1 << number] ^ word
    return sums
