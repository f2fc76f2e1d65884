"""Ports of scratchpad banks: model and registers agree where units wait for each other all the time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from npusim.isa.hardware.file import change
from npusim.isa.instructions.instruction import Instruction
from npusim.kernels.graph.graph import Graph
from npusim.machine.system import execute

from .conftest import ALL, sized
from .model import program_of, timeline
from .random_dma import CODE_ADDRESS, draw_copies, draw_hardware
from .small_programs import NETWORKS, SETUPS, small_program
from .system_referee import DRAM_BYTES
from .test_programs import SHAPES, images, referee
from .test_system import ARRAY, both

PROGRAMS = sized(4, 24, 60)
BANKS = sized((4,), (1, 4), (1, 4, 8))


@pytest.mark.parametrize(
    "network", NETWORKS if ALL else NETWORKS[6:10], ids=lambda network: network.__name__.strip("_")
)
def test_small_programs_with_one_port(network: Callable[[], Graph]) -> None:
    """DMA channels, MAC array and vector unit in a few banks of one port each."""
    made = small_program(network, SHAPES[0], SETUPS[NETWORKS.index(network) % len(SETUPS)])
    waited = 0
    for banks in BANKS:
        hardware = change(made.hardware, {"scratchpad.bank_ports": 1, "scratchpad.banks": banks})
        program = replace(made, hardware=hardware)
        scratchpad, dram = images(program, network())
        rtl = referee(SHAPES[0]).run(program, scratchpad, dram)
        assert rtl.differences(timeline(program, scratchpad, dram)) == [], f"{banks} banks"
        trace = execute(program, data=False).trace
        waited += int(np.count_nonzero(trace.started > trace.ready))
    assert waited >= len(BANKS)


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_random_copies_crowd_in_few_banks(seed: int) -> None:
    """Four channels that wait for nothing but ports; `test_system` draws banks and ports with waits."""
    rng = np.random.default_rng([7, seed])
    hardware = change(
        draw_hardware(rng, ARRAY),
        {"scratchpad.banks": int(rng.choice([1, 2, 4])), "scratchpad.bank_ports": 1 + seed % 2},
    )
    instructions: list[Instruction] = list(draw_copies(rng, 24))
    trace = execute(program_of(instructions, hardware, CODE_ADDRESS, DRAM_BYTES), data=False).trace
    if hardware.scratchpad.bank_ports == 1:
        assert np.count_nonzero(trace.started > trace.ready) > 0
    rtl, model = both(instructions, hardware, rng)
    assert rtl.differences(model) == [], f"{hardware.scratchpad}\n{hardware.dma}\n{hardware.dram}"


@pytest.mark.parametrize("ports", [1, 3])
def test_a_wrong_number_of_ports_is_noticed(ports: int) -> None:
    """The comparison is able to fail: the registers have two ports, the model one or three."""
    rng = np.random.default_rng(5)
    hardware = change(
        draw_hardware(rng, ARRAY),
        {"scratchpad.banks": 1, "scratchpad.bank_ports": 2, "front_end.queue_depth": 16},
    )
    instructions: list[Instruction] = list(draw_copies(rng, 24))
    rtl, _ = both(instructions, hardware, np.random.default_rng(1))
    _, model = both(
        instructions, change(hardware, {"scratchpad.bank_ports": ports}), np.random.default_rng(1)
    )
    assert rtl.differences(model) != []
