"""Packed weights: Golomb-Rice codes in groups, as the DMA engine's decoder unpacks them.

Most weights are near their zero point. A weight w with zero point z becomes u = 2(w - z) - 1 if w > z, else
u = 2(z - w), so that weights near z become small numbers. `GROUP` weights share a mode of four bits:

    0..7  Rice code with k = mode: u >> k in unary (that many 0 bits, then a 1), then the k low bits
    8     the eight bits of each weight, not coded
    9     all weights equal the zero point; nothing follows

Decoders with `dma.decoder_skips` also know these modes, for whole groups only (not for a last group of fewer
weights):

    10    two values, then one bit per weight that selects one
    11    four values, then two bits per weight that select one
    12..  Rice code with k = mode - 9 of u - 1 where u > 0, with one more 0 in front; u = 0 is a single 1

A packed block has separate streams, so that a decoder can read them side by side: a header of four bytes
(little-endian number of bytes of the unary stream), the modes (two per byte, low half first), the unary stream, and
the stream of low bits and plain weights. Bits are numbered from the low end of each byte.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from npusim.isa.base.errors import SimulationError

GROUP = 64
"""Number of weights that share a mode."""

PLAIN, ZEROS, TWO_VALUES, FOUR_VALUES, SKIPPING = 8, 9, 10, 11, 12
_SKIPPING_LEAST = 3
"""Number k of low bits in the first mode that skips zeros."""
_MODES = 16
HEADER_BYTES = 4

_PART = 1 << 18
"""Weights packed at a time: few enough for their numbers and bits to fit a cache and to be counted in 31 bits."""

_EACH_OF_FOUR = np.uint64(0x0001_0001_0001_0001)

Bytes = NDArray[np.uint8]


def pack(weights: NDArray[Any], zero_point: int, skips: bool = False) -> bytes:
    """Pack int8 or uint8 weights in C order; `skips` allows the modes of decoders with `dma.decoder_skips`."""
    modes, unary, low = [], _BitStream(), []
    for codes, count in _parts(weights, zero_point):
        folded = _folded(codes, zero_point, weights.dtype)
        chosen, quotients, _ = _choose_modes(folded, codes if skips else None, count)
        modes.append(chosen)
        unary.append(_unary_bits(quotients, chosen, count))
        low.append(_low_stream(folded, codes, chosen, count))
    nibbles = np.concatenate([*modes, np.zeros(-(-weights.size // GROUP) % 2, np.uint8)])
    packed_modes: Bytes = nibbles[0::2] | nibbles[1::2] << 4
    stream = unary.finish()
    header = sum(map(len, stream)).to_bytes(HEADER_BYTES, "little")
    return b"".join((header, packed_modes.tobytes(), *stream, *low))


class Lengths(NamedTuple):
    """Lengths of packed groups: bits of each in the unary stream, bytes of each in the stream of low bits."""

    unary_bits: NDArray[np.uint16]
    low_bytes: NDArray[np.uint16]

    def packed_bytes(self) -> int:
        """Return the bytes of a block of these groups."""
        modes_bytes = (len(self.low_bytes) + 1) // 2
        return HEADER_BYTES + modes_bytes + -(-int(self.unary_bits.sum()) // 8) + int(self.low_bytes.sum())


def lengths(weights: NDArray[Any], zero_point: int, skips: bool = False) -> Lengths:
    """Return the lengths of the groups of `pack(weights, zero_point, skips)` without packing them.

    The result takes a sixteenth of the weights' bytes, and the computation a few megabytes more.
    """
    groups = -(-weights.size // GROUP)
    result, first = Lengths(np.empty(groups, np.uint16), np.empty(groups, np.uint16)), 0
    for codes, count in _parts(weights, zero_point):
        folded = _folded(codes, zero_point, weights.dtype)
        modes, quotients, sums = _choose_modes(folded, codes if skips else None, count)
        part = slice(first, first + len(modes))
        held = np.full(len(modes), GROUP, np.int64)
        held[-1] -= -count % GROUP
        result.unary_bits[part] = np.where(_coded(modes), sums + held, 0)
        result.low_bytes[part] = _low_bytes(modes, count, quotients)
        first = part.stop
    return result


def unpack(packed: Bytes, count: int, zero_point: int) -> Bytes:
    """Return the bytes of `count` weights. Raises SimulationError for a block that does not hold them."""
    number = -(-count // GROUP)
    unary_start = HEADER_BYTES + (number + 1) // 2
    low_start = unary_start + int.from_bytes(packed[:HEADER_BYTES].tobytes(), "little")
    if low_start > len(packed):
        raise SimulationError(
            f"packed weights: {len(packed)} bytes, header and modes of {count} weights say {low_start}"
        )
    nibbles = packed[HEADER_BYTES:unary_start]
    modes = np.stack([nibbles & 15, nibbles >> 4], 1).ravel()[:number]
    values = _quotients(packed[unary_start:low_start], modes, count)
    stream = packed[low_start:]
    if values is None or len(stream) < int(_low_bytes(modes, count, values).sum()):
        raise SimulationError(f"packed weights: the block ends before its {count} weights do")
    low = _low_values(stream, modes, count, values)
    _give_back_skipped(values, low, modes)
    values <<= np.where(modes < PLAIN, modes, 0).astype(np.uint16)[:, np.newaxis]
    values |= low
    codes = _unfolded(values, zero_point)
    whole = np.flatnonzero((modes >= PLAIN) & (modes < SKIPPING) & (modes != ZEROS))
    codes[whole] = low[whole]
    return codes.reshape(-1)[:count]


def _parts(weights: NDArray[Any], zero_point: int) -> Iterator[tuple[Bytes, int]]:
    """Yield the weights in parts: their bytes, [groups, GROUP], and their number.

    Every part but the last has whole groups. The last group is padded with zero points.
    """
    codes: Bytes = np.ascontiguousarray(weights).reshape(-1).view(np.uint8)
    whole = len(codes) // GROUP * GROUP
    for first in range(0, whole, _PART):
        part = codes[first : min(first + _PART, whole)]
        yield part.reshape(-1, GROUP), len(part)
    if rest := len(codes) - whole:
        last = np.full((1, GROUP), zero_point & 0xFF, np.uint8)
        last[0, :rest] = codes[whole:]
        yield last, rest


def _folded(codes: Bytes, zero_point: int, dtype: np.dtype[Any]) -> NDArray[np.uint16]:
    """Return u of each weight: with e = z - w, 2e if e >= 0, else -2e - 1.

    That is e shifted left by one bit, with all bits inverted if e is negative.
    """
    below = np.subtract(np.int16(zero_point), codes.view(dtype), dtype=np.int16)
    sign = below >> 15
    below <<= 1
    below ^= sign
    u: NDArray[np.uint16] = below.view(np.uint16)
    return u


def _unfolded(u: NDArray[np.uint16], zero_point: int) -> Bytes:
    """Return the byte of a weight for each u, the inverse of `_folded`.

    A u beyond all weights counts as the largest.
    """
    u = np.minimum(u, 2 * 256 - 1)
    turned = -(u & 1)
    u >>= 1
    u ^= turned
    return np.subtract(zero_point & 0xFF, u.astype(np.uint8), dtype=np.uint8)


@cache
def _mode_of_sum() -> Bytes:
    """Return the table from the sum of a group's numbers to the mode to try for it.

    For numbers of geometric distribution the best k is near log2(ln 2 * mean), rounded up.
    """
    sums = np.maximum(np.arange(1 << 16), 1)
    modes: Bytes = np.clip(np.ceil(np.log2(sums * (np.log(2) / GROUP))), 0, PLAIN - 1).astype(np.uint8)
    return modes


def _coded(modes: Bytes) -> NDArray[np.bool_]:
    """Return whether each group has numbers in the unary stream."""
    coded: NDArray[np.bool_] = (modes < PLAIN) | (modes >= SKIPPING)
    return coded


def _choose_modes(
    folded: NDArray[np.uint16], codes: Bytes | None = None, count: int = 0
) -> tuple[Bytes, NDArray[np.uint16], NDArray[np.int64]]:
    """Return the mode of each group, the quotients of Rice-coded groups, and the sum of their quotients.

    With `codes` (the bytes of the weights), all modes may be chosen; otherwise only modes 0..9.
    """
    sums = _sums(folded)
    modes = _mode_of_sum()[sums]
    # A word holds four numbers: the mask removes the bits that a shift moves in from the number above.
    shifts = modes.astype(np.uint64)[:, np.newaxis]
    quotients = folded.view(np.uint64) >> shifts
    quotients &= (np.uint64(0xFFFF) >> shifts) * _EACH_OF_FOUR
    of_quotients = _sums(quotients.view(np.uint16))
    modes[of_quotients + GROUP * (1 + modes.astype(np.int64)) >= 8 * GROUP] = PLAIN
    modes[sums == 0] = ZEROS
    numbers = quotients.view(np.uint16)
    if codes is not None:
        whole = len(modes) - bool(count % GROUP)
        _shorten(modes[:whole], numbers[:whole], of_quotients[:whole], folded[:whole], codes[:whole])
    return modes, numbers, of_quotients


def _shorten(
    modes: Bytes,
    quotients: NDArray[np.uint16],
    of_quotients: NDArray[np.int64],
    folded: NDArray[np.uint16],
    codes: Bytes,
) -> None:
    """Choose modes of decoders with `dma.decoder_skips` where they are shorter: few values, or many zeros."""
    bits = np.where(modes < PLAIN, of_quotients + GROUP * (1 + modes.astype(np.int64)), 8 * GROUP)
    bits[modes == ZEROS] = 0
    ordered = np.sort(codes, axis=1)
    values = 1 + np.count_nonzero(ordered[:, 1:] != ordered[:, :-1], axis=1)
    for mode in (FOUR_VALUES, TWO_VALUES):
        size = 8 * _PALETTE_BYTES[mode]
        better = (values <= _VALUES[mode]) & (bits > size)
        modes[better], bits[better] = mode, size
    present = folded > 0
    nonzero = np.count_nonzero(present, axis=1)
    for mode in range(SKIPPING, _MODES):
        width = mode - SKIPPING + _SKIPPING_LEAST
        shorter = np.flatnonzero((nonzero < GROUP) & (bits > GROUP + (1 + width) * nonzero))
        skipped = np.where(present[shorter], 1 + (folded[shorter] - np.uint16(1) >> np.uint16(width)), 0)
        total = skipped.sum(axis=1, dtype=np.int64)
        size_bits = GROUP + total + 8 * -(-nonzero[shorter] * width // 8)
        better = size_bits < bits[shorter]
        chosen = shorter[better]
        modes[chosen], bits[chosen], of_quotients[chosen] = mode, size_bits[better], total[better]
        quotients[chosen] = skipped[better]


_VALUES = {TWO_VALUES: 2, FOUR_VALUES: 4}
_PALETTE_BYTES = {mode: count + GROUP * (count // 2) // 8 for mode, count in _VALUES.items()}
"""Bytes of a group with two or four values: the values, and one or two bits per weight."""


def _sums(values: NDArray[np.uint16]) -> NDArray[np.int64]:
    """Return the sum of each group.

    A u is 1023 at most, so the sum of GROUP of them fits 16 bits, and words of four numbers can be added as one.
    """
    words = values.reshape(-1).view(np.uint64)
    while len(words) > len(values):
        words = words[0::2] + words[1::2]
    # The highest of the four lanes of this product is the sum of all four.
    return (words * _EACH_OF_FOUR >> np.uint64(48)).astype(np.int64)


def _low_bytes(modes: Bytes, count: int, quotients: NDArray[np.uint16]) -> NDArray[np.int64]:
    """Return the bytes of each group in the stream of low bits.

    GROUP values of w bits take GROUP / 8 * w bytes. The last group takes only the bytes of its weights.
    """
    width = np.where(modes <= PLAIN, modes, 0).astype(np.int64)
    sizes = width * (GROUP // 8)
    for mode, size in _PALETTE_BYTES.items():
        sizes[modes == mode] = size
    skipping = np.flatnonzero(modes >= SKIPPING)
    if len(skipping):
        nonzero = np.count_nonzero(quotients[skipping], axis=1)
        sizes[skipping] = -(-nonzero * (modes[skipping].astype(np.int64) - SKIPPING + _SKIPPING_LEAST) // 8)
    if count % GROUP:
        sizes[-1] = -(-int(width[-1]) * (count % GROUP) // 8)
    return sizes


def _unary_bits(quotients: NDArray[np.uint16], modes: Bytes, count: int) -> Bytes:
    """Return the quotients of all Rice-coded weights in unary, each as that many 0 bits and a 1; one byte per bit."""
    coded = _coded(modes)
    steps = (quotients if coded.all() else quotients[coded]).ravel() + np.uint16(1)
    if len(modes) and coded[-1] and count % GROUP:
        steps = steps[: count % GROUP - GROUP]
    ends = np.cumsum(steps, dtype=np.int32)  # int32 is enough: at most 512 bits per weight of a part
    bits = np.zeros(int(ends[-1]) if len(ends) else 0, np.uint8)
    bits[ends - 1] = 1
    return bits


class _BitStream:
    """A stream of bits that is appended to in parts of any length and packed into bytes."""

    def __init__(self) -> None:
        self._bytes: list[bytes] = []
        self._left_over: Bytes = np.empty(0, np.uint8)

    def append(self, bits: Bytes) -> None:
        """Add bits, given as one byte each."""
        bits = np.concatenate([self._left_over, bits])
        whole = len(bits) // 8 * 8
        self._bytes.append(np.packbits(bits[:whole], bitorder="little").tobytes())
        self._left_over = bits[whole:]

    def finish(self) -> list[bytes]:
        """Return all bits as pieces of bytes; the last byte is padded with 0 bits."""
        return [*self._bytes, np.packbits(self._left_over, bitorder="little").tobytes()]


def _quotients(unary: Bytes, modes: Bytes, count: int) -> NDArray[np.uint16] | None:
    """Decode the unary stream to quotients [groups, GROUP]; return None if the stream is too short."""
    coded = _coded(modes)
    wanted = int(np.count_nonzero(coded)) * GROUP
    short = GROUP - count % GROUP if wanted and coded[-1] and count % GROUP else 0
    ends = np.flatnonzero(np.unpackbits(unary, bitorder="little").view(np.bool_))
    if len(ends) < wanted - short:
        return None
    steps = np.zeros(wanted, np.uint16)
    if wanted:
        # Modulo 2^16, far above any valid quotient. Only a damaged block wraps, and it gives arbitrary weights.
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
    """Return a word with the low `bits` of every `pitch` bits set."""
    return np.uint64(sum(((1 << bits) - 1) << start for start in range(0, 64, pitch)))


def _gathered(spread: NDArray[np.uint64], width: int) -> NDArray[np.uint64]:
    """Move eight values of `width` bits, one per byte, together to the low end: in pairs, then fours, then all."""
    words = spread & _every(width, 8)
    for pitch in (8, 16, 32):
        bits = width * pitch // 8
        even = _every(bits, 2 * pitch)
        words = words & even | (words & even << np.uint64(pitch)) >> np.uint64(pitch - bits)
    return words


def _spread(words: NDArray[np.uint64], width: int) -> NDArray[np.uint64]:
    """Spread eight values of `width` bits to one per byte, the inverse of `_gathered`."""
    for pitch in (32, 16, 8):
        bits = width * pitch // 8
        even = _every(bits, 2 * pitch)
        words = words & even | words << np.uint64(pitch - bits) & even << np.uint64(pitch)
    return words


def _low_stream(folded: NDArray[np.uint16], codes: Bytes, modes: Bytes, count: int) -> bytes:
    """Return the stream of low bits and plain weights.

    Eight values of w bits make w bytes, so groups of one mode are encoded together.
    """
    present = folded > 0
    sizes = _low_bytes(modes, count, present.astype(np.uint16))
    rows = np.zeros((len(modes), GROUP), np.uint8)
    for mode, held in _VALUES.items():
        chosen = np.flatnonzero(modes == mode)
        palettes, numbers = _palettes(codes[chosen], held)
        rows[chosen, :held] = palettes
        rows[chosen, held : _PALETTE_BYTES[mode]] = _as_bits(numbers, held // 2)
    for mode in range(SKIPPING, _MODES):
        chosen = np.flatnonzero(modes == mode)
        width = mode - SKIPPING + _SKIPPING_LEAST
        kept = present[chosen]
        front = np.argsort(~kept, axis=1, kind="stable")
        low = np.where(kept, folded[chosen] - np.uint16(1), 0).astype(np.uint8)
        rows[chosen, : 8 * width] = _as_bits(np.take_along_axis(low, front, axis=1), width)
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
    return rows[np.arange(GROUP, dtype=np.uint8) < sizes.astype(np.uint8)[:, np.newaxis]].tobytes()


def _as_bits(values: Bytes, width: int) -> Bytes:
    """Return the low `width` bits of the values of each row, concatenated, as bytes."""
    places = np.arange(width, dtype=np.uint8)
    spread = np.bitwise_and(np.right_shift(values[:, :, np.newaxis], places), np.uint8(1))
    return np.packbits(spread.reshape(len(values), GROUP * width), axis=1, bitorder="little")


def _of_bits(rows: Bytes, width: int) -> Bytes:
    """Return the values of `width` bits of each row of bytes, the inverse of `_as_bits`."""
    bits = np.unpackbits(rows, axis=1, bitorder="little").reshape(len(rows), GROUP, width)
    values: Bytes = (bits << np.arange(width, dtype=np.uint8)).sum(axis=2, dtype=np.uint8)
    return values


def _palettes(codes: Bytes, values: int) -> tuple[Bytes, Bytes]:
    """Return the distinct values of each group in rising order, the last one repeated, and each weight's index."""
    ordered = np.sort(codes, axis=1)
    first = np.ones(ordered.shape, np.bool_)
    first[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    front = np.argsort(~first, axis=1, kind="stable")[:, :values]
    held = np.minimum(np.count_nonzero(first, axis=1), values)
    last = np.minimum(np.arange(values), held[:, np.newaxis] - 1)
    palettes = np.take_along_axis(ordered, np.take_along_axis(front, last, axis=1), axis=1)
    numbers: Bytes = (codes[:, :, np.newaxis] > palettes[:, np.newaxis, :]).sum(axis=2, dtype=np.uint8)
    return palettes, numbers


def _give_back_skipped(values: NDArray[np.uint16], low: Bytes, modes: Bytes) -> None:
    """Merge quotients and low bits of groups that skip zeros: `values` gets their numbers, `low` gets zeros."""
    for mode in range(SKIPPING, _MODES):
        chosen = np.flatnonzero(modes == mode)
        if not len(chosen):
            continue
        width = np.uint16(mode - SKIPPING + _SKIPPING_LEAST)
        quotients = values[chosen]
        numbers = (quotients - np.uint16(1) << width | low[chosen]) + np.uint16(1)
        values[chosen] = np.where(quotients > 0, numbers, 0)
        low[chosen] = 0


def _low_values(stream: Bytes, modes: Bytes, count: int, quotients: NDArray[np.uint16]) -> Bytes:
    """Decode the stream of low bits to [groups, GROUP], the inverse of `_low_stream`; 0 in modes without low bits."""
    sizes = _low_bytes(modes, count, quotients)
    starts = np.cumsum(sizes) - sizes
    padded = np.concatenate([stream, np.zeros(GROUP, np.uint8)])
    # Eight values of `mode` bits begin every `mode` bytes, so this view has a word at each byte of the stream.
    at = np.ndarray(len(stream) + GROUP - 7, "<u8", padded, 0, (1,))
    low = np.zeros((len(modes), GROUP), np.uint8)
    for mode in range(1, PLAIN + 1):
        chosen = np.flatnonzero(modes == mode)
        if len(chosen):
            words = at[starts[chosen, np.newaxis] + np.arange(0, mode * GROUP // 8, mode)]
            spread = words if mode == PLAIN else _spread(words & _every(8 * mode, 64), mode)
            low[chosen] = spread.view(np.uint8)
    for mode, values in _VALUES.items():
        chosen = np.flatnonzero(modes == mode)
        rows = padded[starts[chosen, np.newaxis] + np.arange(_PALETTE_BYTES[mode])]
        low[chosen] = np.take_along_axis(rows[:, :values], _of_bits(rows[:, values:], values // 2), axis=1)
    for mode in range(SKIPPING, _MODES):
        chosen = np.flatnonzero(modes == mode)
        width = mode - SKIPPING + _SKIPPING_LEAST
        front = np.argsort(quotients[chosen] == 0, axis=1, kind="stable")
        kept = _of_bits(padded[starts[chosen, np.newaxis] + np.arange(8 * width)], width)
        group = np.zeros((len(chosen), GROUP), np.uint8)
        np.put_along_axis(group, front, kept, axis=1)
        low[chosen] = group
    return low
