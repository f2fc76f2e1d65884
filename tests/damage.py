"""Ways to damage a file: what a bad disk, a cut transfer or somebody with an editor does to its bytes."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

Damage = Callable[[bytearray, random.Random], None]


def flip_bits(data: bytearray, rng: random.Random) -> None:
    for _ in range(rng.choice((1, 4, 32, 256))):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def truncate(data: bytearray, rng: random.Random) -> None:
    del data[rng.randrange(len(data)) :]


def zero_a_range(data: bytearray, rng: random.Random) -> None:
    start, size = rng.randrange(len(data)), rng.randrange(1, len(data) // 4)
    data[start : start + size] = bytes(len(data[start : start + size]))


def overwrite_integers(data: bytearray, rng: random.Random) -> None:
    """In the first KB, where the tables of many files are: random, in the file, and the extremes."""
    for _ in range(rng.choice((1, 3, 10))):
        value = rng.choice((rng.getrandbits(32), rng.randrange(len(data)), 0x7FFFFFFF, 0xFFFFFFFF))
        struct.pack_into("<I", data, rng.randrange(min(1024, len(data) - 4)), value)


def nudge_integers(data: bytearray, rng: random.Random) -> None:
    """Slightly wrong offsets, lengths and indexes, which lead to something that looks nearly right."""
    for _ in range(rng.choice((1, 3, 10))):
        at = rng.randrange(len(data) - 4) & ~3
        (value,) = struct.unpack_from("<I", data, at)
        struct.pack_into("<I", data, at, (value + rng.choice((-8, -4, -1, 1, 4, 8, 1 << 16))) & 0xFFFFFFFF)


def swap_blocks(data: bytearray, rng: random.Random) -> None:
    size = rng.randrange(1, len(data) // 4)
    first, second = rng.randrange(len(data) - size), rng.randrange(len(data) - size)
    data[first : first + size], data[second : second + size] = (
        data[second : second + size],
        data[first : first + size],
    )


def drop_bytes(data: bytearray, rng: random.Random) -> None:
    start = rng.randrange(len(data))
    del data[start : start + rng.randrange(1, 64)]


DAMAGES: tuple[Damage, ...] = (
    flip_bits,
    truncate,
    zero_a_range,
    overwrite_integers,
    nudge_integers,
    swap_blocks,
    drop_bytes,
)
