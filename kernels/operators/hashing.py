"""Operators that hash values or draw random samples."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from npusim.isa.base.elements import Workload
from npusim.isa.base.tensor import Array
from npusim.kernels.operator import parameters, rules
from npusim.kernels.operator.operands import (
    elementwise,
    input_type,
    input_value,
    optional_type,
    optional_value,
)
from npusim.kernels.operator.operator import Call, Operator, Shapes, Values
from npusim.kernels.operator.parameters import Size

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
    """Return FarmHash's Fingerprint64 of some bytes, an unsigned number of 64 bits."""
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
    """Return the mix of the first and last 16 bytes: two numbers, then the first before and after mixing."""
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
    """Return the state after the 64 bytes at `begin`; the last round has another factor and weight."""
    x = _rotated(x + y + v.first + _word(data, begin + 8), 37) * factor
    y = _rotated(y + v.second + _word(data, begin + 48), 42) * factor
    x = (x & _MASK) ^ (w.second * weight & _MASK)
    y = (y + v.first * weight + _word(data, begin + 40)) & _MASK
    z = _rotated(z + w.first, 33) * factor & _MASK
    v_after = _weakly_mixed(data, begin, v.second * factor, x + w.first)
    w_after = _weakly_mixed(data, begin + 32, z + w.second, y + _word(data, begin + 16))
    return z, y, x, v_after, w_after


def _weakly_mixed(data: bytes, begin: int, a: int, b: int) -> _Pair:
    """Mix 32 bytes and two seeds."""
    first, second, third, last = (_word(data, begin + offset) for offset in (0, 8, 16, 24))
    a += first
    b = _rotated(b + a + last, 21)
    total = a + second + third
    return _Pair((total + last) & _MASK, (b + _rotated(total, 44) + a) & _MASK)


def _mixed(u: int, v: int, factor: int) -> int:
    """Mix two numbers to one of 64 bits."""
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


_LSH_SEEDS, _ROWS, _WEIGHTS = range(3)
_SEED_BYTES = 4
# A factor, a rotation and a sum per word of eight bytes, and its share of the mix at the end.
_OPERATIONS_PER_BYTE = 3
_OPERATIONS_PER_HASH = 20
_TYPES = ("float32|float16, float16|float32|int32|uint8|int8|int16|uint16|bool, float32|float16 -> int32",)


class LshProjectionParameters(parameters.Parameters):
    """type: how the bits of the projections become results."""

    type: Literal["dense", "sparse", "sparse_deprecated"]


def _lsh_infer(call: Call[LshProjectionParameters]) -> Shapes:
    functions, bits = input_type(call, _LSH_SEEDS).shape
    return ((functions * bits if call.parameters.type == "dense" else functions,),)


def _lsh_reference(call: Call[LshProjectionParameters], values: Values) -> list[Array]:
    seeds = input_value(values, _LSH_SEEDS).astype(np.float32)
    functions, bits = seeds.shape
    signs = _signs(seeds.reshape(-1), _row_bytes(input_value(values, _ROWS)), _weights(values))
    if call.parameters.type == "dense":
        return [signs.astype(np.int32)]
    places = np.arange(bits)[::-1]
    signatures = (signs.reshape(functions, bits).astype(np.int64) << places).sum(axis=1)
    if call.parameters.type == "sparse":
        signatures = signatures + (np.arange(functions, dtype=np.int64) << bits)
    return [signatures.astype(np.int32)]


def _row_bytes(rows: Array) -> list[bytes]:
    return [np.ascontiguousarray(row).tobytes() for row in rows]


def _weights(values: Values) -> list[float] | None:
    given = optional_value(values, _WEIGHTS)
    return None if given is None else given.astype(np.float64).tolist()


def _signs(seeds: Array, rows: list[bytes], weights: list[float] | None) -> Array:
    """Return a boolean per seed: whether the sum of the rows' hashes is above 0."""
    factors = [1.0] * len(rows) if weights is None else weights
    sums = []
    for seed in seeds:
        key, total = seed.tobytes(), 0.0
        for row, factor in zip(rows, factors, strict=True):
            total += factor * float(_signed(fingerprint64(key + row)))
        sums.append(total)
    return np.array(sums, np.float64) > 0


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word


def _lsh_workload(call: Call) -> Workload:
    """Return scalar operations: hashing is serial work on words that does not vectorize."""
    rows = input_type(call, _ROWS)
    hashes = input_type(call, _LSH_SEEDS).elements * rows.shape[0]
    row_bytes = rows.size_bytes // max(rows.shape[0], 1) + _SEED_BYTES
    return elementwise(call, hashes * (_OPERATIONS_PER_HASH + _OPERATIONS_PER_BYTE * row_bytes // 8))


# Rules


def _operands(call: Call) -> bool:
    """takes seeds, rows and, where the bits are dense, weights or none, and gives 1 output"""
    has_operands = len(call.inputs) in (2, 3) and None not in call.inputs[:_WEIGHTS]
    return has_operands and len(call.outputs) == 1


def _weighted(call: Call[LshProjectionParameters]) -> bool:
    """only dense bits take weights"""
    return call.parameters.type == "dense" or optional_type(call, _WEIGHTS) is None


def _lsh_shapes(call: Call[LshProjectionParameters]) -> bool:
    """seeds are [functions, bits], there are as many weights as rows, and the output is as long as its type says"""
    rows, weights = input_type(call, _ROWS).shape, optional_type(call, _WEIGHTS)
    if len(input_type(call, _LSH_SEEDS).shape) != 2 or not rows:
        return False
    fits = weights is None or weights.shape == rows[:1]
    return fits and _lsh_infer(call) == call.output_shapes


def _in_32_bits(call: Call[LshProjectionParameters]) -> bool:
    """signatures have at most 32 bits, those that number the functions included"""
    if call.parameters.type == "dense":
        return True
    functions, bits = input_type(call, _LSH_SEEDS).shape
    number = (functions - 1).bit_length() if call.parameters.type == "sparse" else 0
    return bits + number <= 32


LSH_PROJECTION = Operator(
    name="lsh_projection",
    parameters=LshProjectionParameters,
    types=_TYPES,
    rules=(_operands, _weighted, _lsh_shapes, _in_32_bits),
    infer=_lsh_infer,
    reference=_lsh_reference,
    workload=_lsh_workload,
    on_host="the NPU does not hash",
)
"""Signs of random projections of rows. Similar rows have most signs in common (locality-sensitive hashing).

Inputs: seeds [functions, bits] of floats; rows [rows, ...] of any type; weights [rows] or none. A projection is the sum
over the rows of weight times hash, in float64: the hash is FarmHash's Fingerprint64 of the seed's four float32 bytes
and the row's bytes, as a signed number. Its bit is 1 if the sum is above 0. Outputs int32: "dense" all bits,
[functions * bits]; "sparse" one number per function, its bits from the highest, plus function * 2**bits;
"sparse_deprecated" without that offset.
"""


_LOGARITHMS, _MULTINOMIAL_SEEDS = range(2)
_OPERATIONS_PER_CLASS = 3  # a difference, an exponential, a sum
_OPERATIONS_PER_SAMPLE = 20  # ten rounds of two products, for four words


class RandomMultinomialParameters(parameters.Parameters):
    """samples: the number of samples per row."""

    samples: Size


def _multinomial_infer(call: Call[RandomMultinomialParameters]) -> Shapes:
    return ((input_type(call).shape[0], call.parameters.samples),)


def _multinomial_reference(call: Call[RandomMultinomialParameters], values: Values) -> list[Array]:
    with np.errstate(invalid="ignore"):
        return [_sampled(call, values)]


def _sampled(call: Call[RandomMultinomialParameters], values: Values) -> Array:
    logarithms = input_value(values, _LOGARITHMS).astype(np.float64)
    batch, samples = _multinomial_infer(call)[0]
    seeds = input_value(values, _MULTINOMIAL_SEEDS).astype(np.int64) & 0xFFFFFFFF
    words = np.random.Philox(key=int(seeds[0]) | int(seeds[1]) << 64).random_raw(batch * samples)
    numbers = ((words >> np.uint64(11)) * 2.0**-53).reshape(batch, samples)
    classes = np.zeros((batch, samples), np.int32)
    for row in range(batch):
        sums = np.cumsum(np.exp(logarithms[row] - logarithms[row].max()))
        places = np.searchsorted(sums, numbers[row] * sums[-1], side="right")
        classes[row] = np.minimum(places, len(sums) - 1)
    return classes


def _multinomial_workload(call: Call[RandomMultinomialParameters]) -> Workload:
    batch, classes = input_type(call).shape
    search = max(classes - 1, 1).bit_length()
    drawn = batch * call.parameters.samples * (_OPERATIONS_PER_SAMPLE + search)
    return elementwise(call, batch * classes * _OPERATIONS_PER_CLASS + drawn)


def _multinomial_shapes(call: Call[RandomMultinomialParameters]) -> bool:
    """logarithms are [batch, 1 or more classes], there are two seeds, and the output is [batch, samples]"""
    shape = input_type(call).shape
    if len(shape) != 2 or shape[1] == 0 or input_type(call, _MULTINOMIAL_SEEDS).shape != (2,):
        return False
    return _multinomial_infer(call) == call.output_shapes


RANDOM_MULTINOMIAL = Operator(
    name="random_multinomial",
    parameters=RandomMultinomialParameters,
    types=("float32|float16, int32 -> int32",),
    rules=(rules.operands(2), _multinomial_shapes),
    infer=_multinomial_infer,
    reference=_multinomial_reference,
    workload=_multinomial_workload,
    on_host="the NPU draws no random numbers",
)
"""Samples of classes, from the logarithms of their probabilities.

Inputs: logarithms [batch, classes], not normalized, and two int32 seeds. Output: int32 classes [batch, samples]. The
numbers come from Philox 4x64 with 10 rounds (Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, SC 2011),
as numpy has it, whose stream of raw words is the same in every version. Its key is the two seeds. The words are used
row by row; the highest 53 bits of each are a number in [0, 1), which selects a class by the cumulated probabilities.
Equal seeds give equal samples; two zeros are seeds like any other.
"""


OPERATORS = (
    LSH_PROJECTION,
    RANDOM_MULTINOMIAL,
)
