"""Fingerprints, projections to bits, and samples drawn from seeds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from npusim.isa.base.tensor import TensorType
from npusim.kernels.operator.operator import Call
from npusim.kernels.operators.hashing import fingerprint64
from npusim.kernels.table import operator

from .calls import given

# of the bytes 0, 1, 2, ... as the library of G. Pike gives them, a length of every branch
FINGERPRINTS = {
    0: 0x9AE16A3B2F90404F,
    1: 0xBE6056EDF5E94B54,
    3: 0x94A13D22E9EBA49A,
    4: 0x82BFFD898958E540,
    8: 0xAD5A13E1E8E93B98,
    16: 0x0EFD25A0A34156D4,
    17: 0xBBB6A6F8F20D1F1C,
    32: 0x1A9D8199972CDF49,
    33: 0xE8756EC1CB75524E,
    64: 0xF58504BB53DECC4B,
    65: 0xC6A3282C3E793DBE,
    128: 0x1C484C95F0EA5DD3,
    200: 0x74C7FCC26D66FB3,
}


@pytest.mark.parametrize("length", FINGERPRINTS)
def test_fingerprints(length: int) -> None:
    assert fingerprint64(bytes(range(length))) == FINGERPRINTS[length]


SEEDS = np.array([[0.123, 0.456], [-0.321, 1.234], [5.678, -4.321]], np.float32)
ROWS = np.array([12345, 54321, 67890, 9876, -12345678, -87654321], np.int32)


def projected(kind: str, weights: Any = None) -> list[int]:
    entry = operator("lsh_projection")
    values = [SEEDS, ROWS, None if weights is None else np.array(weights, np.float32)]
    types = tuple(None if value is None else TensorType(str(value.dtype), value.shape) for value in values)
    unshaped = Call(given(entry.name, type=kind), types, (), {})
    [shape] = entry.infer(unshaped)
    call = Call(unshaped.parameters, types, (TensorType("int32", shape),), {})
    assert entry.broken_rule(call) is None
    [found] = entry.reference(call, values)
    assert (found.dtype, found.shape) == (np.dtype(np.int32), shape)
    return [int(number) for number in found]


def bit(seed: Any, weights: list[float]) -> int:
    """By the definition: the sign of the sum of the hashes as signed numbers."""
    total = 0.0
    for row, weight in zip(ROWS, weights, strict=True):
        word = fingerprint64(np.float32(seed).tobytes() + row.tobytes())
        total += weight * float(word if word < 1 << 63 else word - (1 << 64))
    return int(total > 0)


def test_projections_are_signs_of_sums_of_hashes() -> None:
    weights = [0.5, 1.0, 2.0, 0.25, 3.0, 1.5]
    plain = [bit(seed, [1.0] * 6) for seed in SEEDS.reshape(-1)]
    assert projected("dense") == plain
    assert projected("dense", weights) == [bit(seed, weights) for seed in SEEDS.reshape(-1)]
    signatures = [2 * first + second for first, second in zip(plain[::2], plain[1::2], strict=True)]
    assert projected("sparse_deprecated") == signatures
    assert projected("sparse") == [4 * function + bits for function, bits in enumerate(signatures)]


def test_sparse_projections_take_no_weights_and_have_32_bits() -> None:
    entry = operator("lsh_projection")
    weights, rows, output = TensorType("float32", (2,)), TensorType("int32", (2,)), TensorType("int32", (3,))
    sparse = given(entry.name, type="sparse")
    seeds = TensorType("float32", (3, 4))
    assert (
        entry.broken_rule(Call(sparse, (seeds, rows, weights), (output,), {}))
        == "only dense bits take weights"
    )
    wide = TensorType("float32", (3, 31))
    assert entry.broken_rule(Call(sparse, (wide, rows), (output,), {})) == (
        "signatures have at most 32 bits, those that number the functions included"
    )


def samples(logarithms: Any, count: int, seeds: tuple[int, int], dtype: str = "float32") -> Any:
    entry = operator("random_multinomial")
    values = [np.array(logarithms, dtype), np.array(seeds, np.int32)]
    types = tuple(TensorType(str(value.dtype), value.shape) for value in values)
    output = TensorType("int32", (len(values[0]), count))
    call = Call(given(entry.name, samples=count), types, (output,), {})
    assert entry.broken_rule(call) is None
    [found] = entry.reference(call, values)
    assert (found.dtype, found.shape) == (output.numpy_dtype, output.shape)
    return found


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_samples_are_as_frequent_as_their_probabilities(dtype: str) -> None:
    probabilities = np.array([[0.1, 0.0, 0.6, 0.3], [0.25, 0.25, 0.25, 0.25]])
    with np.errstate(divide="ignore"):
        found = samples(np.log(probabilities) + 5, 20_000, (37, 42), dtype)
    for row, wanted in zip(found, probabilities, strict=True):
        assert np.abs(np.bincount(row, minlength=4) / 20_000 - wanted).max() < 0.015


def test_equal_seeds_give_equal_samples_and_others_others() -> None:
    logarithms = np.zeros((2, 1000))
    first = samples(logarithms, 50, (1, 2))
    assert np.array_equal(first, samples(logarithms, 50, (1, 2)))
    assert not np.array_equal(first, samples(logarithms, 50, (2, 1)))
    assert not np.array_equal(first[0], first[1])
    # the stream does not depend on the version of numpy
    assert first[0, :5].tolist() == [309, 356, 36, 961, 18]
