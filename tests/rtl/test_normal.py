"""Normalization of rows: model and register-transfer description agree on every byte, cycle and port access."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
from numpy.typing import NDArray

from npusim.isa.hardware.hardware import Hardware, Vector
from npusim.isa.instructions.instruction import Context
from npusim.isa.instructions.lanes import bits_of
from npusim.isa.instructions.normalize import FUNCTIONS, PARAMETER_BYTES, Normalize
from npusim.isa.instructions.word import CODES

from .conftest import sized
from .model import executed
from .unit_bench import SCRATCHPAD_BYTES, Run, UnitBench

LANES = (8, 3)[: sized(1, 2, 2)]
INSTRUCTIONS = sized(60, 200, 600)
"""For each number of lanes."""

STRAPS = (
    "lanes",
    "startup_cycles",
    "exp_cycles",
    "moment_cycles",
    "fused_cycles",
    "dequantise_cycles",
    "literal_cycles",
)


@lru_cache
def bench(lanes: int) -> UnitBench:
    return UnitBench("normal_bench", {"LANES": lanes})


def drawn(rng: np.random.Generator) -> Normalize:
    """Return a random legal normalization: below and above the rows that a lane holds, in place or not."""
    rows, depth = int(rng.choice([1, 2, 7, 15, 16, 17, 33])), int(rng.integers(1, 30))
    sizes = depth * PARAMETER_BYTES, rows * depth, rows * depth
    begins = np.cumsum([int(rng.integers(0, 20)), *[size + int(rng.integers(0, 20)) for size in sizes]])
    table, source, target = (int(begin) for begin in begins[:3])
    signs = int(rng.integers(0, 2)), int(rng.integers(0, 2))
    zeros = [int(rng.integers(low, high + 1)) for low, high in (CODES[sign] for sign in signs)]
    low, high = sorted(int(value) for value in rng.integers(*np.add(CODES[signs[1]], (0, 1)), 2))
    return Normalize(
        function=int(rng.integers(0, 2)),
        fused=int(rng.integers(0, 2)),
        input=source,
        output=source if rng.random() < 0.3 else target,
        rows=rows,
        depth=depth,
        table=table,
        epsilon=bits_of(float(rng.choice([0.0, 1e-5, 0.1]))),
        input_zero=zeros[0],
        output_zero=zeros[1],
        input_scale=bits_of(float(rng.uniform(0.001, 1))),
        output_scale=bits_of(float(rng.uniform(0.001, 0.1))),
        low=low,
        high=high,
        input_signed=signs[0],
        signed=signs[1],
    )


def memory(rng: np.random.Generator, row: Normalize) -> NDArray[np.uint8]:
    """Return random values, some rows all alike, and factors and addends of moderate size, one of them infinite."""
    scratchpad = rng.integers(0, 256, SCRATCHPAD_BYTES, np.uint8)
    if rng.random() < 0.3:
        scratchpad[row.input : row.input + row.depth] = 7
    numbers = rng.normal(0, 20 if row.fused else 1, 2 * row.depth).astype("<f4")
    if rng.random() < 0.1:
        numbers[0] = np.inf
    table = numbers.view(np.uint8)
    scratchpad[row.table : row.table + len(table)] = table
    return scratchpad


def run(lanes: int, row: Normalize, vector: Vector, before: NDArray[np.uint8]) -> Run:
    return bench(lanes).run(row, tuple([getattr(vector, name) for name in STRAPS]), before)


def random_vector(rng: np.random.Generator, lanes: int) -> Vector:
    cycles = {name: int(rng.choice([1, 2, 5])) for name in STRAPS[2:]}
    return Vector(lanes=int(rng.integers(1, lanes + 1)), startup_cycles=int(rng.choice([0, 1, 8])), **cycles)


@pytest.mark.parametrize("lanes", LANES)
def test_random_rows(lanes: int) -> None:
    rng = np.random.default_rng(lanes)
    for number in range(INSTRUCTIONS):
        row = drawn(rng)
        assert row.faults() == []
        before, vector = memory(rng, row), random_vector(rng, lanes)
        found = run(lanes, row, vector, before)
        cost = row.cost(Context(Hardware(name="rtl", vector=vector)))
        counts = (found.cycles, found.bytes_read, found.bytes_written)
        reads, writes = (cost.actions[f"scratchpad_{way}_byte"] for way in ("read", "write"))
        assert counts == (cost.cycles, reads, writes), f"{number}: {row} on {vector}"
        wrong = np.flatnonzero(found.scratchpad != executed(row, before))
        assert not len(wrong), f"{number}: {len(wrong)} bytes, the first at {wrong[0]}: {row}"


VECTOR = Vector(
    lanes=4,
    startup_cycles=5,
    exp_cycles=11,
    moment_cycles=2,
    fused_cycles=3,
    dequantise_cycles=6,
    literal_cycles=7,
)
ROW = Normalize(
    rows=1,
    depth=4,
    table=0,
    input=1000,
    output=2000,
    input_scale=bits_of(1.0),
    output_scale=bits_of(1.0),
    high=255,
)


@pytest.mark.parametrize(
    ("changes", "cycles"),
    [
        # start-up; sum; centred square; root; 8 bytes of parameters; result
        ({}, 5 + 6 + (6 + 3) + 11 + 8 + 7),
        # no mean
        ({"function": FUNCTIONS.index("rms")}, 5 + (6 + 3) + 11 + 8 + 7),
        # both sums in one pass
        ({"fused": 1}, 5 + 2 + 11 + 8 + 3),
        # nine elements fill the four lanes three times
        ({"fused": 1, "depth": 9}, 5 + 3 * 2 + 11 + 3 * (8 + 3)),
        # six rows: two roots, parameters once
        ({"fused": 1, "rows": 6}, 5 + 6 * 2 + 2 * 11 + 8 + 6 * 3),
        # eighteen rows: sixteen at once, then two
        ({"fused": 1, "rows": 18}, 5 + 16 * 2 + 4 * 11 + 8 + 16 * 3 + 2 * 2 + 11 + 8 + 2 * 3),
    ],
)
def test_sums_of_cycles(changes: dict[str, int], cycles: int) -> None:
    row = replace(ROW, **changes)
    assert row.cost(Context(Hardware(name="rtl", vector=VECTOR))).cycles == cycles
    assert run(LANES[0], row, VECTOR, np.zeros(SCRATCHPAD_BYTES, np.uint8)).cycles == cycles


def test_one_cycle_more_is_detected() -> None:
    before = np.zeros(SCRATCHPAD_BYTES, np.uint8)
    slower = Vector(lanes=4, startup_cycles=5, moment_cycles=2)
    model = replace(ROW, fused=1).cost(
        Context(Hardware(name="rtl", vector=Vector(lanes=4, startup_cycles=5)))
    )
    assert run(LANES[0], replace(ROW, fused=1), slower, before).cycles == model.cycles + 1
