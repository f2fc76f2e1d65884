"""The step of LSTM cells: model and register-transfer description agree on every byte, cycle and port access."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest
from numpy.typing import NDArray

from npusim.isa.hardware.hardware import Hardware, Vector
from npusim.isa.instructions.cell import ADDEND_BYTES, WORD_BYTES, LstmCell
from npusim.isa.instructions.instruction import Context
from npusim.isa.instructions.mac import CODES

from .conftest import sized
from .model import executed
from .unit_bench import SCRATCHPAD_BYTES, Run, UnitBench

LANES = (8, 3)[: sized(1, 2, 2)]
INSTRUCTIONS = sized(40, 150, 400)
"""For each number of lanes."""


@lru_cache
def bench(lanes: int) -> UnitBench:
    return UnitBench("cell_bench", {"LANES": lanes})


def drawn(rng: np.random.Generator) -> LstmCell:
    """A random legal step: rows apart or dense, with and without what is added, states in their own place or not."""
    rows, cells, coupled = int(rng.integers(1, 5)), int(rng.integers(1, 24)), int(rng.integers(0, 2))
    words = (4 - coupled) * cells
    stride = words * WORD_BYTES + int(rng.choice([0, 0, 6]))
    sizes = rows * stride, rows * words * ADDEND_BYTES, rows * cells * WORD_BYTES, rows * cells * WORD_BYTES
    begins = np.cumsum([int(rng.integers(0, 20)), *[size + int(rng.integers(0, 20)) for size in sizes]])
    sums, addends, state, following, output = (int(begin) for begin in begins)
    signed = int(rng.integers(0, 2))
    return LstmCell(
        sums=sums,
        sums_stride=stride,
        addends=addends,
        added=int(rng.integers(0, 2)),
        state=state,
        next_state=state if rng.random() < 0.3 else following,
        output=output,
        rows=rows,
        cells=cells,
        coupled=coupled,
        arithmetic=int(rng.integers(0, 2)),
        state_integer_bits=int(rng.integers(0, 9)),
        limit=int(rng.choice([0, 0, 100, 20000])),
        multiplier=int(rng.integers(1 << 30, 1 << 31)),
        shift=-int(rng.integers(20, 26)),
        zero=int(rng.integers(CODES[signed][0], CODES[signed][1] + 1)),
        signed=signed,
    )


def memory(rng: np.random.Generator, step: LstmCell) -> NDArray[np.uint8]:
    """Random bytes, so that sums and states are anything; addends that saturate once in a while."""
    scratchpad = rng.integers(0, 256, SCRATCHPAD_BYTES, np.uint8)
    count = step.rows * (4 - step.coupled) * step.cells
    addends = rng.integers(-60000, 60000, count).astype("<i4").view(np.uint8)
    scratchpad[step.addends : step.addends + len(addends)] = addends
    return scratchpad


def run(
    rng: np.random.Generator, lanes: int, step: LstmCell, before: NDArray[np.uint8]
) -> tuple[Run, Hardware]:
    vector = Vector(
        lanes=int(rng.integers(1, lanes + 1)),
        startup_cycles=int(rng.choice([0, 1, 8])),
        exp_cycles=int(rng.choice([1, 2, 8])),
        mul_cycles=int(rng.choice([1, 2, 5])),
    )
    straps = vector.lanes, vector.startup_cycles, vector.exp_cycles, vector.mul_cycles
    return bench(lanes).run(step, straps, before), Hardware(name="rtl", vector=vector)


@pytest.mark.parametrize("lanes", LANES)
def test_random_steps(lanes: int) -> None:
    rng = np.random.default_rng(lanes)
    for number in range(INSTRUCTIONS):
        step = drawn(rng)
        assert step.faults() == []
        before = memory(rng, step)
        found, hardware = run(rng, lanes, step, before)
        cost = step.cost(Context(hardware))
        counts = (found.cycles, found.bytes_read, found.bytes_written)
        expected = (
            cost.cycles,
            cost.actions["scratchpad_read_byte"],
            cost.actions["scratchpad_write_byte"],
        )
        assert counts == expected, f"{number}: {step} on {hardware.vector}"
        wrong = np.flatnonzero(found.scratchpad != executed(step, before))
        assert not len(wrong), f"{number}: {len(wrong)} bytes, the first at {wrong[0]}: {step}"
