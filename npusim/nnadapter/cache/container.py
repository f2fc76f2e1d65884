"""The `.nnc` container: named bytes with a checksum, as NNAdapter keeps compiled models.

Little endian: magic, version, CRC-32C of everything behind the header, four bytes of zero, number of entries; then per
entry the sizes of key and value in 8 bytes each, key and value, and zeros up to a multiple of 4 bytes.

The checksum does not guard the header, so all of it is compared with what must stand there: the number of entries is
that of those that end where the container ends. So a bit that changes anywhere is seen.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from npusim.isa.base.plain_values import shown
from npusim.nnadapter.cache.crc32c import crc32c
from npusim.nnadapter.cache.refusals import BadChecksum, BadContent, BadMagic, BadVersion, Truncated

MAGIC = 0x2E6E6E63
"""The characters ".nnc", the first one in the highest byte."""

VERSION = 1

_HEADER = struct.Struct("<IIIIQ")
_SIZES = struct.Struct("<QQ")
_ALIGNMENT = 4


def write_cache(entries: Mapping[str, bytes]) -> bytes:
    """The container of entries, in their order."""
    parts = []
    for key, value in entries.items():
        name = key.encode("utf-8")
        parts += [_SIZES.pack(len(name), len(value)), name, value, _padding(len(name) + len(value))]
    body = b"".join(parts)
    return _HEADER.pack(MAGIC, VERSION, crc32c(body), 0, len(entries)) + body


def _padding(size_bytes: int) -> bytes:
    return bytes(-size_bytes % _ALIGNMENT)


def read_cache(data: bytes) -> dict[str, bytes]:
    """The entries of a container, in its order.

    Raises Truncated, BadMagic, BadVersion, BadChecksum or BadContent, which say what is and what must be; no more is
    taken from memory than the container has.
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
