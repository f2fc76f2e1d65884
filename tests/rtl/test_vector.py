"""The vector unit: model and register-transfer description agree on every byte, cycle and port access."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest

from npusim.isa.hardware.hardware import Hardware, Vector
from npusim.isa.instructions.instruction import Context

from .conftest import sized
from .model import executed
from .random_vector import KINDS, Case, draw_case
from .vector_referee import VectorReferee

LANES = (8, 3, 16)[: sized(1, 2, 3)]
INSTRUCTIONS = sized(40, 120, 300)
"""For each number of lanes and kind."""

referee = lru_cache(VectorReferee)


def differences(case: Case, lanes: int, hardware: Hardware | None = None) -> dict[str, object]:
    """What RTL and model disagree on: (RTL, model) by name; `hardware` is the model's, if not the same."""
    run = referee(lanes).run(case.instruction, case.hardware, case.scratchpad)
    cost = case.instruction.cost(Context(hardware or case.hardware))
    found: dict[str, object] = {
        name: (rtl, model)
        for name, rtl, model in (
            ("cycles", run.cycles, cost.cycles),
            ("bytes read", run.bytes_read, cost.actions["scratchpad_read_byte"]),
            ("bytes written", run.bytes_written, cost.actions["scratchpad_write_byte"]),
        )
        if rtl != model
    }
    wrong = np.flatnonzero(run.scratchpad != executed(case.instruction, case.scratchpad))
    if len(wrong):
        found["memory"] = f"{len(wrong)} bytes, the first at {wrong[0]}"
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lanes", LANES)
def test_random_instructions(lanes: int, kind: str) -> None:
    """Random functions, sizes, strides, scales and memory on units with random lanes and cycles."""
    rng = np.random.default_rng([lanes, list(KINDS).index(kind)])
    for number in range(INSTRUCTIONS):
        case = draw_case(rng, lanes, kind)
        found = differences(case, lanes)
        assert not found, f"instruction {number}: {found}\n{case.instruction}\n{case.hardware.vector}"


def test_one_cycle_is_noticed() -> None:
    """The comparison is able to fail."""
    case = draw_case(np.random.default_rng(0), 8, "convert")
    startup_cycles = case.hardware.vector.startup_cycles + 1
    other = Hardware(
        name="rtl", vector=Vector(**{**dict(case.hardware.vector), "startup_cycles": startup_cycles})
    )
    assert list(differences(case, 8, other)) == ["cycles"]
