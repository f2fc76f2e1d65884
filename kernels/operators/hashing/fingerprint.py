"""FarmHash's Fingerprint64: 64 bits of any bytes, equal on every machine and for ever.

The algorithm is G. Pike's of 2014: one mix for each class of lengths, and for more than 64 bytes a state of seven
words that takes 64 bytes per round. All arithmetic is modulo 2**64.
"""

from __future__ import annotations

from typing import NamedTuple

_K0 = 0xC3A5C85C97CB3127
_K1 = 0xB492B66FBE98F273
_K2 = 0x9AE16A3B2F90404F
_MASK = (1 << 64) - 1
_BLOCK = 64
_SEED = 81


class _Pair(NamedTuple):
    first: int
    second: int


def fingerprint64(data: bytes) -> int:
    """The fingerprint as a number of 64 bits without sign."""
    length = len(data)
    if length <= 16:
        return _up_to_16(data)
    if length <= 32:
        factor = _factor(length)
        u, v, _, _ = _ends(data, _K1, factor)
        return _mixed(u, v, factor)
    if length <= _BLOCK:
        return _up_to_64(data)
    return _long(data)


def _up_to_16(data: bytes) -> int:
    length = len(data)
    factor = _factor(length)
    if length >= 8:
        a, b = _word(data, 0) + _K2 & _MASK, _word(data, length - 8)
        return _mixed(_rotated(b, 37) * factor + a, (_rotated(a, 25) + b) * factor, factor)
    if length >= 4:
        first, last = int.from_bytes(data[:4], "little"), int.from_bytes(data[-4:], "little")
        return _mixed(length + (first << 3), last, factor)
    if length == 0:
        return _K2
    low = data[0] + (data[length >> 1] << 8)
    high = length + (data[-1] << 2)
    return _shift_mixed(low * _K2 & _MASK ^ high * _K0 & _MASK) * _K2 & _MASK


def _up_to_64(data: bytes) -> int:
    factor = _factor(len(data))
    u, v, y, a = _ends(data, _K2, factor)
    z = _mixed(u, v, factor)
    e, f = _word(data, 16) * factor, _word(data, 24)
    g = (y + _word(data, len(data) - 32)) * factor
    h = (z + _word(data, len(data) - 24)) * factor
    return _mixed(_rotated(e + f, 43) + _rotated(g, 30) + h, e + _rotated(f + a, 18) + g, factor)


def _ends(data: bytes, first_factor: int, factor: int) -> tuple[int, int, int, int]:
    """What is mixed of the first and last 16 bytes: both numbers, then the first again and what it began with."""
    a, b = _word(data, 0) * first_factor, _word(data, 8)
    c, d = _word(data, len(data) - 8) * factor, _word(data, len(data) - 16) * _K2
    u = _rotated(a + b, 43) + _rotated(c, 30) + d
    return u, a + _rotated(b + _K2, 18) + c, u, a


def _long(data: bytes) -> int:
    length = len(data)
    x, y = _SEED, (_SEED * _K1 + 113) & _MASK
    z = _shift_mixed((y * _K2 + 113) & _MASK) * _K2
    v, w = _Pair(0, 0), _Pair(0, 0)
    x = (x * _K2 + _word(data, 0)) & _MASK
    for begin in range(0, (length - 1) // _BLOCK * _BLOCK, _BLOCK):
        x, y, z, v, w = _round(data, begin, x, y, z, v, w, _K1, 1)
    factor = _K1 + ((z & 0xFF) << 1)
    w = _Pair(w.first + ((length - 1) & 63), w.second)
    v = _Pair(v.first + w.first, v.second)
    w = _Pair(w.first + v.first, w.second)
    x, y, z, v, w = _round(data, length - _BLOCK, x, y, z, v, w, factor, 9)
    return _mixed(
        _mixed(v.first, w.first, factor) + _shift_mixed(y) * _K0 + z,
        _mixed(v.second, w.second, factor) + x,
        factor,
    )


def _round(
    data: bytes, begin: int, x: int, y: int, z: int, v: _Pair, w: _Pair, factor: int, weight: int
) -> tuple[int, int, int, _Pair, _Pair]:
    """The state after the 64 bytes at `begin`; the last round has another factor and weight."""
    x = _rotated(x + y + v.first + _word(data, begin + 8), 37) * factor
    y = _rotated(y + v.second + _word(data, begin + 48), 42) * factor
    x = (x & _MASK) ^ (w.second * weight & _MASK)
    y = (y + v.first * weight + _word(data, begin + 40)) & _MASK
    z = _rotated(z + w.first, 33) * factor & _MASK
    v_after = _weakly_mixed(data, begin, v.second * factor, x + w.first)
    w_after = _weakly_mixed(data, begin + 32, z + w.second, y + _word(data, begin + 16))
    return z, y, x, v_after, w_after


def _weakly_mixed(data: bytes, begin: int, a: int, b: int) -> _Pair:
    """32 bytes and two seeds."""
    first, second, third, last = (_word(data, begin + offset) for offset in (0, 8, 16, 24))
    a += first
    b = _rotated(b + a + last, 21)
    total = a + second + third
    return _Pair((total + last) & _MASK, (b + _rotated(total, 44) + a) & _MASK)


def _mixed(u: int, v: int, factor: int) -> int:
    """Two numbers as one of 64 bits."""
    u, v = u & _MASK, v & _MASK
    a = _shift_mixed((u ^ v) * factor & _MASK)
    b = _shift_mixed((v ^ a) * factor & _MASK)
    return b * factor & _MASK


def _shift_mixed(value: int) -> int:
    return value ^ (value >> 47)


def _rotated(value: int, places: int) -> int:
    value &= _MASK
    return (value >> places | value << 64 - places) & _MASK


def _word(data: bytes, begin: int) -> int:
    return int.from_bytes(data[begin : begin + 8], "little")


def _factor(length: int) -> int:
    return _K2 + 2 * length
