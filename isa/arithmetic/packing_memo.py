"""A cache of packed and decoded weights, by their content.

A warm process packs, measures and decodes the same weights in every run, and that took almost half of an exact run. So
the results are kept, each under the digest of the bytes that it was computed from. `pack` also tells the decoder which
weights a packed block holds. A block from a file is decoded from its bytes unless this process has packed or decoded an
equal one. A kept decoding therefore depends on the packed bytes alone, never on what a layer should give.
"""

from __future__ import annotations

from collections import OrderedDict
from hashlib import sha256
from threading import Lock
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from npusim.isa.arithmetic import packing
from npusim.isa.arithmetic.packing import Bytes, Lengths

_KEPT_BYTES = 1 << 26
"""Capacity of the cache in bytes, enough for the weights of ResNet-50, both packed and decoded."""

_LARGEST_SHARE = 8
"""A result that takes more than this fraction of `_KEPT_BYTES` would displace too many others and is not kept."""

_Key = tuple[object, ...]
_Result = TypeVar("_Result", bytes, Bytes, Lengths)


class _Memo:
    """A least-recently-used cache whose results together take a limited number of bytes.

    Threads may share it, because executions of a HAL device run in several.
    """

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.size_bytes = 0
        self._results: OrderedDict[_Key, tuple[Any, int]] = OrderedDict()
        self._lock = Lock()

    def get(self, key: _Key) -> Any:
        """Return the result of a key, or None."""
        with self._lock:
            entry = self._results.get(key)
            if entry is None:
                return None
            self._results.move_to_end(key)
            return entry[0]

    def keep(self, key: _Key, result: _Result, size_bytes: int) -> None:
        """Keep a result unless it is too large."""
        if size_bytes > self.most_bytes // _LARGEST_SHARE:
            return
        with self._lock:
            if key in self._results:
                return
            self._results[key] = result, size_bytes
            self.size_bytes += size_bytes
            while self.size_bytes > self.most_bytes:
                _, (_, dropped) = self._results.popitem(last=False)
                self.size_bytes -= dropped


_MEMO = _Memo(_KEPT_BYTES)


def _digest(values: NDArray[Any]) -> bytes:
    return sha256(np.ascontiguousarray(values).data).digest()


def pack(weights: NDArray[Any], zero_point: int, skips: bool = False) -> bytes:
    """Pack weights as `npusim.isa.arithmetic.packing.pack` does, and cache both packed and decoded weights."""
    key = "pack", _digest(weights), weights.dtype.char, zero_point, skips
    packed: bytes | None = _MEMO.get(key)
    if packed is None:
        packed = packing.pack(weights, zero_point, skips)
        _MEMO.keep(key, packed, len(packed))
        codes = np.frombuffer(weights.tobytes(), np.uint8)
        _MEMO.keep(_decoded_key(np.frombuffer(packed, np.uint8), weights.size, zero_point), codes, codes.size)
    return packed


def lengths(weights: NDArray[Any], zero_point: int, skips: bool = False) -> Lengths:
    """Return the cached result of `npusim.isa.arithmetic.packing.lengths`. Its arrays are read-only."""
    key = "lengths", _digest(weights), weights.dtype.char, zero_point, skips
    result: Lengths | None = _MEMO.get(key)
    if result is None:
        result = packing.lengths(weights, zero_point, skips)
        for array in result:
            array.flags.writeable = False
        _MEMO.keep(key, result, sum(array.nbytes for array in result))
    return result


def unpack(packed: Bytes, count: int, zero_point: int) -> Bytes:
    """Return the cached result of `npusim.isa.arithmetic.packing.unpack`. The array is read-only."""
    key = _decoded_key(packed, count, zero_point)
    codes: Bytes | None = _MEMO.get(key)
    if codes is None:
        codes = packing.unpack(packed, count, zero_point)
        codes.flags.writeable = False
        _MEMO.keep(key, codes, codes.size)
    return codes


def _decoded_key(packed: Bytes, count: int, zero_point: int) -> _Key:
    # The decoder computes modulo 256, so zero points that are equal modulo 256 share their weights.
    return "unpack", _digest(packed), count, zero_point & 0xFF
