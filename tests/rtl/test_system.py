"""Front end, DMA channels and DRAM port: model and register-transfer description agree on every cycle and byte."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest

from npusim.isa.hardware.hardware import Hardware, MacArray
from npusim.isa.instructions.control import Barrier
from npusim.isa.instructions.instruction import Instruction
from npusim.isa.instructions.region import Space

from .conftest import sized
from .mac_referee import Shape
from .model import program_of, timeline
from .random_dma import CODE_ADDRESS, add_waits, draw_copies, draw_hardware, write_lists
from .system_referee import DRAM_BYTES, SystemReferee, Timeline
from .unit_bench import SCRATCHPAD_BYTES

SHAPE = Shape(4, 4, 64, ifm_port=8, weight_port=4, lanes=4)
ARRAY = MacArray(
    rows=4, columns=4, accumulator_kib=1, ifm_bytes_per_cycle=8, weight_bytes_per_cycle=4, output_lanes=4
)
PROGRAMS = sized(8, 60, 150)
COPIES = 24
"""Of one program, at most."""

referee = lru_cache(SystemReferee)


def both(
    instructions: list[Instruction], hardware: Hardware, rng: np.random.Generator
) -> tuple[Timeline, Timeline]:
    """RTL and model, beginning with the same random memories."""
    scratchpad, dram = (rng.integers(0, 256, size, np.uint8) for size in (SCRATCHPAD_BYTES, DRAM_BYTES))
    write_lists(rng, instructions, {Space.SCRATCHPAD: scratchpad, Space.DRAM: dram})
    program = program_of(instructions, hardware, CODE_ADDRESS, DRAM_BYTES)
    code = program.code.reshape(-1)
    dram[CODE_ADDRESS : CODE_ADDRESS + len(code)] = code
    rtl = referee(SHAPE).run(program, scratchpad, dram)
    return rtl, timeline(program, scratchpad, dram)


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_random_copies(seed: int) -> None:
    """Random copies, fills and gathers with random waits and barriers on random channels, queues, DRAM and ports."""
    rng = np.random.default_rng(seed)
    copies = draw_copies(rng, int(rng.integers(1, COPIES + 1)) if seed % 2 else COPIES)
    instructions = add_waits(rng, list(copies))
    hardware = draw_hardware(rng, ARRAY)
    rtl, model = both(instructions, hardware, rng)
    assert rtl.differences(model) == [], f"{hardware.dma}\n{hardware.dram}\n{hardware.front_end}"


@pytest.mark.parametrize(("banks", "agrees"), [(1, False), (2, False), (8, True), (16, False)])
def test_where_rows_are_open_is_noticed(banks: int, agrees: bool) -> None:
    """The random copies visit so many rows that a wrong number of banks shows."""
    copies: list[Instruction] = list(draw_copies(np.random.default_rng(3), COPIES))
    hardware = draw_hardware(np.random.default_rng(5), ARRAY)
    memory = {"row_bytes": 256, "row_miss_ns": 25.0, "bandwidth_gb_per_s": 8.0, "grant_bytes": 256}
    built, modelled = (
        hardware.model_copy(update={"dram": hardware.dram.model_copy(update=memory | {"banks": number})})
        for number in (8, banks)
    )
    rtl, _ = both(copies, built, np.random.default_rng(1))
    _, model = both(copies, modelled, np.random.default_rng(1))
    assert (rtl.differences(model) == []) is agrees


@pytest.mark.parametrize(("setup_cycles", "agrees"), [(11, False), (12, True), (13, False)])
def test_one_cycle_is_noticed(setup_cycles: int, agrees: bool) -> None:
    """The comparison is able to fail: on both sides of the right number."""
    rng = np.random.default_rng(0)
    instructions: list[Instruction] = list(draw_copies(rng, 3))
    hardware = draw_hardware(rng, ARRAY)
    built, modelled = (
        hardware.model_copy(update={"dma": hardware.dma.model_copy(update={"setup_cycles": cycles})})
        for cycles in (12, setup_cycles)
    )
    rtl, _ = both(instructions, built, np.random.default_rng(1))
    _, model = both(instructions, modelled, np.random.default_rng(1))
    assert (rtl.differences(model) == []) is agrees


@pytest.mark.parametrize("cycles", [0, 1, 2, 500])
def test_what_stands_behind_a_barrier_is_dispatched_its_cycles_later(cycles: int) -> None:
    """A copy, a barrier that waits for it, a copy: the front end holds from the end of the first one on."""
    rng = np.random.default_rng(2)
    first, second = draw_copies(rng, 2)
    hardware = draw_hardware(rng, ARRAY)
    waits = ((int(first.unit), 1),)
    rtl, model = both([first, Barrier(waits=waits, cycles=cycles), second], hardware, rng)
    assert rtl.differences(model) == []
    assert rtl.started[1] == rtl.ended[0] > rtl.dispatched[1]
    assert rtl.ended[1] == rtl.started[1] + cycles
    assert rtl.dispatched[2] == rtl.ended[1] + hardware.front_end.decode_cycles


@pytest.mark.parametrize(("cycles", "agrees"), [(69, False), (70, True), (71, False)])
def test_one_cycle_of_a_barrier_is_noticed(cycles: int, agrees: bool) -> None:
    """The registers hold for 70 cycles."""
    copies = draw_copies(np.random.default_rng(4), 2)
    hardware = draw_hardware(np.random.default_rng(4), ARRAY)
    rtl, _ = both([copies[0], Barrier(cycles=70), copies[1]], hardware, np.random.default_rng(1))
    _, model = both([copies[0], Barrier(cycles=cycles), copies[1]], hardware, np.random.default_rng(1))
    wrong = [name.partition(":")[0] for name in rtl.differences(model) if "bytes" not in name]
    assert (wrong == []) is agrees
