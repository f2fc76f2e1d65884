"""Packed weights: Golomb-Rice codes in groups, as the DMA engine's decoder unpacks them.

Weights crowd around their zero point. A weight w with zero point z becomes u = 2(w - z) - 1 if w > z, else
-2(w - z): small numbers first. `GROUP` weights share a mode of four bits:

    0..7  Rice code with k = mode: u >> k in unary (that many 0 bits, then a 1), then the k low bits
    8     the eight bits of each weight as they are
    9     all weights equal the zero point; nothing follows

A packed block keeps three streams apart, so that a decoder can read them side by side: a header of four bytes
(little-endian number of bytes of the unary stream), the modes (two per byte, low half first), the unary stream,
and the stream of low bits and plain weights. Bits are numbered from the low end of each byte.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from npusim.isa.errors import SimulationError

GROUP = 64
"""Weights that share a mode."""

PLAIN, ZEROS = 8, 9
HEADER_BYTES = 4

_MOST_STEPS = 1 << 22
"""Weights whose unary bits, at most 511 each, can be counted in 31 bits."""

Bytes = NDArray[np.uint8]


def pack(weights: NDArray[Any], zero_point: int) -> bytes:
    """The packed form of int8 or uint8 weights, in C order."""
    count, groups = weights.size, _groups(weights, zero_point)
    folded = _folds(zero_point, weights.dtype == np.int8).take(groups)
    modes, quotients, _ = _choose_modes(folded)
    unary = _unary_stream(quotients, modes, count)
    low = _low_stream(folded, groups, modes, count)
    nibbles = np.concatenate([modes, np.zeros(len(modes) % 2, np.uint8)])
    packed_modes: Bytes = nibbles[0::2] | nibbles[1::2] << 4
    return (
        len(unary).to_bytes(HEADER_BYTES, "little") + packed_modes.tobytes() + unary.tobytes() + low.tobytes()
    )


class Lengths(NamedTuple):
    """What groups of weights take when packed: bits of each in the unary stream, bytes in the stream of low bits."""

    unary_bits: NDArray[np.uint16]
    low_bytes: NDArray[np.uint16]

    def packed_bytes(self) -> int:
        """The length of a block of these groups."""
        modes_bytes = (len(self.low_bytes) + 1) // 2
        return HEADER_BYTES + modes_bytes + -(-int(self.unary_bits.sum()) // 8) + int(self.low_bytes.sum())


def lengths(weights: NDArray[Any], zero_point: int) -> Lengths:
    """The lengths of the groups of `pack(weights, zero_point)`, without packing them."""
    count = weights.size
    folded = _folds(zero_point, weights.dtype == np.int8).take(_groups(weights, zero_point))
    modes, _, sums = _choose_modes(folded)
    held = np.full(len(modes), GROUP, np.int64)
    if count % GROUP:
        held[-1] = count % GROUP
    unary_bits = np.where(modes < PLAIN, sums + held, 0)
    return Lengths(unary_bits.astype(np.uint16), _low_bytes(modes, count).astype(np.uint16))


def unpack(packed: Bytes, count: int, zero_point: int) -> Bytes:
    """The bytes of `count` weights. Raises SimulationError for a block that does not hold them."""
    number = -(-count // GROUP)
    unary_start = HEADER_BYTES + (number + 1) // 2
    low_start = unary_start + int.from_bytes(packed[:HEADER_BYTES].tobytes(), "little")
    if low_start > len(packed):
        raise SimulationError(
            f"packed weights: {len(packed)} bytes, header and modes of {count} weights say {low_start}"
        )
    nibbles = packed[HEADER_BYTES:unary_start]
    modes = np.stack([nibbles & 15, nibbles >> 4], 1).ravel()[:number]
    if modes.max(initial=0) > ZEROS:
        raise SimulationError(f"packed weights: mode {modes.max()} has no meaning; 0..{ZEROS} have")
    values = _quotients(packed[unary_start:low_start], modes, count)
    stream = packed[low_start:]
    if values is None or len(stream) < int(_low_bytes(modes, count).sum()):
        raise SimulationError(f"packed weights: the block ends before its {count} weights do")
    low = _low_values(stream, modes, count)
    values <<= np.minimum(modes, PLAIN - 1).astype(np.uint16)[:, np.newaxis]
    values |= low
    codes = _unfolds(zero_point).take(values, mode="clip")
    plain = np.flatnonzero(modes == PLAIN)
    codes[plain] = low[plain]
    return codes.reshape(-1)[:count]


def _groups(weights: NDArray[Any], zero_point: int) -> Bytes:
    """The bytes of the weights, [groups, GROUP]; the last group is filled up with zero points."""
    codes: Bytes = np.ascontiguousarray(weights).reshape(-1).view(np.uint8)
    if len(codes) % GROUP:
        codes = np.append(codes, np.full(-len(codes) % GROUP, zero_point & 0xFF, np.uint8))
    return codes.reshape(-1, GROUP)


def _folds(zero_point: int, signed: bool) -> NDArray[np.uint16]:
    """u of each byte of a weight."""
    codes = np.arange(256, dtype=np.uint8).view(np.int8 if signed else np.uint8).astype(np.int64)
    distance = codes - zero_point
    return np.where(distance > 0, 2 * distance - 1, -2 * distance).astype(np.uint16)


def _unfolds(zero_point: int) -> Bytes:
    """The byte of a weight for each u."""
    u = np.arange(2 * 256, dtype=np.int64)
    return (zero_point + np.where(u & 1, (u + 1) >> 1, -(u >> 1)) & 0xFF).astype(np.uint8)


def _choose_modes(folded: NDArray[np.uint16]) -> tuple[Bytes, NDArray[np.uint16], NDArray[np.int64]]:
    """The mode of each group; in Rice-coded ones its quotients and their sum.

    For numbers of geometric distribution the best k is near log2(ln 2 * mean), rounded up.
    """
    sums = _sums(folded)
    scaled = np.maximum(sums, 1) * (np.log(2) / GROUP)
    modes = np.clip(np.ceil(np.log2(scaled)), 0, PLAIN - 1).astype(np.uint8)
    quotients = folded >> modes.astype(np.uint16)[:, np.newaxis]
    of_quotients = _sums(quotients)
    modes[of_quotients + GROUP * (1 + modes.astype(np.int64)) >= 8 * GROUP] = PLAIN
    modes[sums == 0] = ZEROS
    return modes, quotients, of_quotients


def _sums(values: NDArray[np.uint16]) -> NDArray[np.int64]:
    """The sum of each group; u is at most 2 * 255, so that GROUP of them fit 16 bits."""
    sums: NDArray[np.int64] = np.add.reduce(values, axis=1, dtype=np.uint16).astype(np.int64)
    return sums


def _low_bytes(modes: Bytes, count: int) -> NDArray[np.int64]:
    """Bytes of each group in the stream of low bits: GROUP values of w bits are 8w bytes; the last is cut short."""
    width = np.where(modes <= PLAIN, modes, 0).astype(np.int64)
    sizes = width * (GROUP // 8)
    if count % GROUP:
        sizes[-1] = -(-int(width[-1]) * (count % GROUP) // 8)
    return sizes


def _unary_stream(quotients: NDArray[np.uint16], modes: Bytes, count: int) -> Bytes:
    """The quotients of all Rice-coded weights, each as that many 0 bits and a 1."""
    coded = modes < PLAIN
    steps = (quotients if coded.all() else quotients[coded]).ravel() + np.uint16(1)
    if len(modes) and coded[-1] and count % GROUP:
        steps = steps[: count % GROUP - GROUP]
    ends = np.cumsum(steps, dtype=np.int64 if steps.size > _MOST_STEPS else np.int32)
    bits = np.zeros(int(ends[-1]) if len(ends) else 0, np.uint8)
    bits[ends - 1] = 1
    return np.packbits(bits, bitorder="little")


def _quotients(unary: Bytes, modes: Bytes, count: int) -> NDArray[np.uint16] | None:
    """The inverse of `_unary_stream`, [groups, GROUP]; None if the stream is too short."""
    coded = modes < PLAIN
    wanted = int(np.count_nonzero(coded)) * GROUP
    short = GROUP - count % GROUP if wanted and coded[-1] and count % GROUP else 0
    ends = np.flatnonzero(np.unpackbits(unary, bitorder="little").view(np.bool_))
    if len(ends) < wanted - short:
        return None
    steps = np.zeros(wanted, np.uint16)
    if wanted:
        # Modulo 2^16, which no quotient of a weight comes near: a damaged block gives some weights or other.
        held = ends[: wanted - short].astype(np.uint16)
        steps[0] = held[0]
        np.subtract(held[1:], held[:-1], out=steps[1 : len(held)])
        steps[1 : len(held)] -= np.uint16(1)
    if coded.all():
        return steps.reshape(-1, GROUP)
    quotients = np.zeros((len(modes), GROUP), np.uint16)
    quotients[coded] = steps.reshape(-1, GROUP)
    return quotients


@cache
def _every(bits: int, pitch: int) -> np.uint64:
    """A word with the low `bits` of every `pitch` bits set."""
    return np.uint64(sum(((1 << bits) - 1) << start for start in range(0, 64, pitch)))


def _gathered(spread: NDArray[np.uint64], width: int) -> NDArray[np.uint64]:
    """Eight values of `width` bits, one per byte, moved together to the low end: in pairs, fours, all eight."""
    words = spread & _every(width, 8)
    for pitch in (8, 16, 32):
        bits = width * pitch // 8
        even = _every(bits, 2 * pitch)
        words = words & even | (words & even << np.uint64(pitch)) >> np.uint64(pitch - bits)
    return words


def _spread(words: NDArray[np.uint64], width: int) -> NDArray[np.uint64]:
    """The inverse of `_gathered`."""
    for pitch in (32, 16, 8):
        bits = width * pitch // 8
        even = _every(bits, 2 * pitch)
        words = words & even | words << np.uint64(pitch - bits) & even << np.uint64(pitch)
    return words


def _low_stream(folded: NDArray[np.uint16], codes: Bytes, modes: Bytes, count: int) -> Bytes:
    """Low bits and plain weights: eight values of w bits make w bytes, so groups of one mode go together."""
    sizes = _low_bytes(modes, count)
    rows = np.zeros((len(modes), GROUP), np.uint8)
    for mode in range(1, PLAIN + 1):
        chosen = np.flatnonzero(modes == mode)
        if not len(chosen):
            continue
        if mode == PLAIN:
            rows[chosen] = codes[chosen]
            continue
        words = _gathered(folded[chosen].astype(np.uint8).view("<u8"), mode)
        values = words.view(np.uint8).reshape(len(chosen), -1, 8)[:, :, :mode]
        rows[chosen, : mode * GROUP // 8] = values.reshape(len(chosen), -1)
    stream: Bytes = rows[np.arange(GROUP, dtype=np.uint8) < sizes.astype(np.uint8)[:, np.newaxis]]
    return stream


def _low_values(stream: Bytes, modes: Bytes, count: int) -> Bytes:
    """The inverse of `_low_stream`, [groups, GROUP]; 0 where a mode has no low bits."""
    sizes = _low_bytes(modes, count)
    starts = np.cumsum(sizes) - sizes
    padded = np.concatenate([stream, np.zeros(GROUP, np.uint8)])
    # Eight values of `mode` bits begin every `mode` bytes: a word at each byte of the stream.
    at = np.ndarray(len(stream) + GROUP - 7, "<u8", padded, 0, (1,))
    low = np.zeros((len(modes), GROUP), np.uint8)
    for mode in range(1, PLAIN + 1):
        chosen = np.flatnonzero(modes == mode)
        if len(chosen):
            words = at[starts[chosen, np.newaxis] + np.arange(0, mode * GROUP // 8, mode)]
            spread = words if mode == PLAIN else _spread(words & _every(8 * mode, 64), mode)
            low[chosen] = spread.view(np.uint8)
    return low
