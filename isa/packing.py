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

from typing import Any

import numpy as np
from numpy.typing import NDArray

from npusim.isa.errors import SimulationError

GROUP = 64
"""Weights that share a mode."""

PLAIN, ZEROS = 8, 9
HEADER_BYTES = 4

Bytes = NDArray[np.uint8]


def pack(weights: NDArray[Any], zero_point: int) -> bytes:
    """The packed form of int8 or uint8 weights, in C order."""
    codes = np.ascontiguousarray(weights).ravel()
    groups = _in_groups(codes, codes.dtype.type(zero_point))
    distance = groups.astype(np.int16)
    distance -= np.int16(zero_point)
    folded = np.abs(distance).astype(np.uint16)
    folded <<= 1
    folded -= distance > 0
    modes = _modes(folded, len(codes))
    unary = _unary_stream(folded, modes, len(codes))
    low = _low_stream(folded, groups.view(np.uint8), modes, len(codes))
    nibbles = np.concatenate([modes, np.zeros(len(modes) % 2, np.uint8)])
    header = len(unary).to_bytes(HEADER_BYTES, "little")
    packed_modes: Bytes = nibbles[0::2] | nibbles[1::2] << 4
    return header + packed_modes.tobytes() + unary.tobytes() + low.tobytes()


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
    coded = np.repeat(modes < PLAIN, GROUP)
    coded[count:] = False
    ends = np.flatnonzero(np.unpackbits(packed[unary_start:low_start], bitorder="little"))
    coded_count = int(np.count_nonzero(coded))
    low_bytes = int(_low_bytes(modes, count).sum())
    if len(ends) < coded_count or len(packed) - low_start < low_bytes:
        raise SimulationError(f"packed weights: the block ends before its {count} weights do")
    quotients = np.zeros(number * GROUP, np.int32)
    quotients[coded] = np.diff(ends[:coded_count], prepend=-1) - 1
    values = _low_values(packed[low_start:], quotients.reshape(-1, GROUP), modes, count)
    distance = (values + 1) >> 1
    np.negative(distance, out=distance, where=values & 1 == 0)
    distance += zero_point
    plain = modes == PLAIN
    distance[plain] = values[plain]
    return (distance.ravel()[:count] & 0xFF).astype(np.uint8)


def _in_groups(codes: NDArray[Any], filler: Any) -> NDArray[Any]:
    """[groups, GROUP], the last one filled up."""
    groups = np.full(-(-len(codes) // GROUP) * GROUP, filler, codes.dtype)
    groups[: len(codes)] = codes
    return groups.reshape(-1, GROUP)


def _modes(folded: NDArray[np.uint16], count: int) -> Bytes:
    """The mode of each group that takes the fewest bits; fillers are no burden in a Rice code of zeros."""
    lengths = np.empty((PLAIN + 1, len(folded)), np.int32)
    for k in range(PLAIN):
        lengths[k] = np.add.reduce(folded >> k, axis=1, dtype=np.uint32)
        lengths[k] += (1 + k) * GROUP
    lengths[PLAIN] = 8 * GROUP
    best: Bytes = lengths.argmin(0).astype(np.uint8)
    best[~folded.any(1)] = ZEROS
    return best


def _low_bytes(modes: Bytes, count: int) -> NDArray[np.int64]:
    """Bytes of each group in the stream of low bits: GROUP values of w bits are 8w bytes; the last is cut short."""
    width = np.where(modes <= PLAIN, modes, 0).astype(np.int64)
    sizes = width * (GROUP // 8)
    if count % GROUP:
        sizes[-1] = -(-int(width[-1]) * (count % GROUP) // 8)
    return sizes


def _unary_stream(folded: NDArray[np.uint16], modes: Bytes, count: int) -> Bytes:
    """The quotients of all Rice-coded weights, each as that many 0 bits and a 1."""
    coded = modes < PLAIN
    quotients = (folded[coded] >> modes[coded][:, np.newaxis]).ravel()
    if len(modes) and coded[-1] and count % GROUP:
        quotients = quotients[: count % GROUP - GROUP]
    ends = np.cumsum(quotients + np.uint16(1), dtype=np.int64)
    bits = np.zeros(int(ends[-1]) if len(ends) else 0, np.uint8)
    bits[ends - 1] = 1
    return np.packbits(bits, bitorder="little")


def _low_stream(folded: NDArray[np.uint16], codes: Bytes, modes: Bytes, count: int) -> Bytes:
    """Low bits and plain weights. Groups of one mode are laid out together, then put where they belong."""
    sizes = _low_bytes(modes, count)
    starts = np.cumsum(sizes) - sizes
    stream = np.zeros(int(sizes.sum()) + GROUP, np.uint8)
    for mode in range(1, PLAIN + 1):
        chosen = np.flatnonzero(modes == mode)
        if not len(chosen):
            continue
        values = codes[chosen] if mode == PLAIN else folded[chosen].astype(np.uint8)
        bits = np.unpackbits(values, axis=1, bitorder="little").reshape(len(chosen), GROUP, 8)[:, :, :mode]
        rows = np.packbits(bits.reshape(len(chosen), -1), axis=1, bitorder="little")
        stream[starts[chosen, np.newaxis] + np.arange(rows.shape[1])] = rows
    return stream[: int(sizes.sum())]


def _low_values(stream: Bytes, quotients: NDArray[np.int32], modes: Bytes, count: int) -> NDArray[np.int32]:
    """The inverse of `_low_stream`: low bits below the quotients."""
    sizes = _low_bytes(modes, count)
    starts = np.cumsum(sizes) - sizes
    padded = np.concatenate([stream, np.zeros(GROUP, np.uint8)])
    values = quotients
    for mode in range(1, PLAIN + 1):
        chosen = np.flatnonzero(modes == mode)
        if not len(chosen):
            continue
        rows = padded[starts[chosen, np.newaxis] + np.arange(mode * GROUP // 8)]
        bits = np.zeros((len(chosen), GROUP, 8), np.uint8)
        bits[:, :, :mode] = np.unpackbits(rows, axis=1, bitorder="little").reshape(len(chosen), GROUP, mode)
        low = np.packbits(bits.reshape(len(chosen), -1), axis=1, bitorder="little")
        shift = 0 if mode == PLAIN else mode
        values[chosen] = quotients[chosen] << shift | low
    return values


def packed_share(weights: NDArray[Any], zero_point: int, samples: int = 128) -> float:
    """About how many bytes a packed weight takes, from evenly spread groups."""
    codes = np.ascontiguousarray(weights).ravel()
    groups = len(codes) // GROUP
    if groups == 0:
        return len(pack(codes, zero_point)) / max(len(codes), 1)
    chosen = codes[: groups * GROUP].reshape(groups, GROUP)[:: -(-groups // samples)]
    return (len(pack(chosen, zero_point)) - HEADER_BYTES) / chosen.size
