"""What weights take when packed, remembered: every design point asks again, few need the bytes themselves."""

from __future__ import annotations

import weakref

from npusim.isa.arithmetic.packing import GROUP, HEADER_BYTES, Lengths, lengths, pack
from npusim.isa.base.tensor import Array
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.program.program import Piece
from npusim.kernels.lowering.work import Constants

_SAMPLES = 128
"""Groups of weights that an estimate looks at."""


class _Memory:
    """The lengths of tensors, by identity and zero point; forgotten when the tensor is."""

    def __init__(self) -> None:
        self._found: dict[tuple[int, int, bool], Lengths] = {}

    def lengths(self, tensor: Array, zero_point: int, skips: bool) -> Lengths:
        """`npusim.isa.arithmetic.packing.lengths` of a constant tensor."""
        key = (id(tensor), zero_point, skips)
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = lengths(tensor, zero_point, skips)
            weakref.finalize(tensor, self._found.pop, key, None)
        return found


_MEMORY = _Memory()


def block(constants: Constants, packed: bool, skips: bool = False) -> tuple[Piece, int]:
    """Constants as they lie in DRAM, and how many of their bytes are packed weights; `skips`: for a decoder that does.

    Weights are packed if they may be and if that makes them shorter; else the number is 0. Those known by their size
    only count as they are: how short they are when packed depends on their data.
    """
    plain, weights, zero_point = constants.plain, constants.weights, constants.zero_point
    if constants.absent_bytes:
        return Piece(constants.absent_bytes, None), 0
    if weights is None:
        return Piece(len(plain), lambda: plain), 0
    size = _lengths(constants, skips).packed_bytes() if packed else weights.size
    if size < weights.size:
        return Piece(len(plain) + size, lambda: plain + pack(weights, zero_point, skips)), size
    return Piece(len(plain) + weights.size, lambda: plain + weights.tobytes()), 0


def spared_bytes(constants: Constants, hardware: Hardware) -> int:
    """Bytes of weights beyond `mac_array.weight_bits`: they have addresses, but take no room and no time."""
    return constants.weight_count - hardware.mac_array.stored_bytes(constants.weight_count)


def _lengths(constants: Constants, skips: bool) -> Lengths:
    """The lengths of the groups of the weights: those of the whole tensor, where the groups are the same."""
    weights, whole, first = constants.weights, constants.whole, constants.first_weight
    assert weights is not None
    if whole is None:
        return _MEMORY.lengths(weights, constants.zero_point, skips)
    last = first + weights.size
    if first % GROUP or (last % GROUP and last < whole.size):
        return lengths(weights, constants.zero_point, skips)
    groups = slice(first // GROUP, -(-last // GROUP))
    return Lengths(*(each[groups] for each in _MEMORY.lengths(whole, constants.zero_point, skips)))


def share(constants: Constants, skips: bool = False) -> float:
    """About how many bytes a packed weight takes, from evenly spread groups; at most 1."""
    found, weights = _lengths(constants, skips), constants.weights
    groups = 0 if weights is None else weights.size // GROUP
    if groups == 0:
        return min(found.packed_bytes() / max(0 if weights is None else weights.size, 1), 1.0)
    step = -(-groups // _SAMPLES)
    chosen = Lengths(*(each[:groups:step] for each in found))
    return min((chosen.packed_bytes() - HEADER_BYTES) / (len(chosen.low_bytes) * GROUP), 1.0)
