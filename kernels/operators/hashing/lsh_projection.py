"""lsh_projection: the signs of random projections of rows, which rows that are alike have in common.

Inputs: seeds [functions, bits] of reals; rows [rows, ...] of any type; weights [rows] or none. A projection is the sum
over the rows of weight times hash, in float64: the hash is FarmHash's Fingerprint64 of the seed's four float32 bytes
and the row's bytes, as a signed number. Its bit is 1 if the sum is above 0. Outputs int32: "dense" all bits,
[functions * bits]; "sparse" one number per function, its bits from the highest, plus function * 2**bits;
"sparse_deprecated" without that offset.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from npusim.isa.base.tensor import Array
from npusim.isa.base.workload import Workload
from npusim.kernels.operator import parameters
from npusim.kernels.operator.operands import elementwise, input_type, input_value
from npusim.kernels.operator.operator import Call, Operator, Shapes, Values
from npusim.kernels.operators.hashing.fingerprint import fingerprint64

_SEEDS, _ROWS, _WEIGHTS = range(3)
_SEED_BYTES = 4
_OPERATIONS_PER_BYTE = (
    3  # a factor, a rotation and a sum per word of eight bytes, and its share of the mix at the end
)
_OPERATIONS_PER_HASH = 20
_TYPES = ("float32|float16, float16|float32|int32|uint8|int8|int16|uint16|bool, float32|float16 -> int32",)


class Parameters(parameters.Parameters):
    """type: what becomes of the bits."""

    type: Literal["dense", "sparse", "sparse_deprecated"]


def _infer(call: Call[Parameters]) -> Shapes:
    functions, bits = input_type(call, _SEEDS).shape
    return ((functions * bits if call.parameters.type == "dense" else functions,),)


def _reference(call: Call[Parameters], values: Values) -> list[Array]:
    seeds = input_value(values, _SEEDS).astype(np.float32)
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
    given = values[_WEIGHTS] if len(values) > _WEIGHTS else None
    return None if given is None else given.astype(np.float64).tolist()


def _signs(seeds: Array, rows: list[bytes], weights: list[float] | None) -> Array:
    """A truth per seed: whether the sum of the rows' hashes is above 0."""
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


def _workload(call: Call) -> Workload:
    """Hashing is serial work on words, which no processor does many of at once; counted are scalar operations."""
    rows = input_type(call, _ROWS)
    hashes = input_type(call, _SEEDS).elements * rows.shape[0]
    row_bytes = rows.size_bytes // max(rows.shape[0], 1) + _SEED_BYTES
    return elementwise(call, hashes * (_OPERATIONS_PER_HASH + _OPERATIONS_PER_BYTE * row_bytes // 8))


# Rules


def _operands(call: Call) -> bool:
    """takes seeds, rows and, where the bits are dense, weights or none, and gives 1 output"""
    there = len(call.inputs) in (2, 3) and None not in call.inputs[:_WEIGHTS]
    return there and len(call.outputs) == 1


def _weighted(call: Call[Parameters]) -> bool:
    """only dense bits take weights"""
    return call.parameters.type == "dense" or len(call.inputs) == _WEIGHTS or call.inputs[_WEIGHTS] is None


def _shapes(call: Call[Parameters]) -> bool:
    """seeds are [functions, bits], there are as many weights as rows, and the output is as long as its type says"""
    rows, weights = (
        input_type(call, _ROWS).shape,
        call.inputs[_WEIGHTS] if len(call.inputs) > _WEIGHTS else None,
    )
    if len(input_type(call, _SEEDS).shape) != 2 or not rows:
        return False
    fits = weights is None or weights.shape == rows[:1]
    return fits and _infer(call) == tuple(output.shape for output in call.outputs)


def _in_32_bits(call: Call[Parameters]) -> bool:
    """signatures have at most 32 bits, those that number the functions included"""
    if call.parameters.type == "dense":
        return True
    functions, bits = input_type(call, _SEEDS).shape
    number = (functions - 1).bit_length() if call.parameters.type == "sparse" else 0
    return bits + number <= 32


OPERATOR = Operator(
    name="lsh_projection",
    parameters=Parameters,
    types=_TYPES,
    rules=(_operands, _weighted, _shapes, _in_32_bits),
    infer=_infer,
    reference=_reference,
    workload=_workload,
    on_host="the NPU does not hash",
)
