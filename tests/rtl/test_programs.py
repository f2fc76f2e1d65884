"""Whole small programs, as the compiler makes them: model and registers agree on every cycle and byte."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

import numpy as np
import pytest

from npusim.isa.hardware.file import change
from npusim.isa.hardware.units import Unit
from npusim.isa.instructions.control import Barrier
from npusim.isa.instructions.region import Space
from npusim.isa.instructions.table import decode_all
from npusim.isa.program.program import Program
from npusim.isa.program.start import memory_of
from npusim.kernels.graph.graph import Graph
from npusim.scheduler.compile import compile_graph

from ..graphs import random_inputs
from .conftest import sized
from .mac_referee import Shape
from .model import timeline
from .small_programs import NETWORKS, SETUPS, Setup, small_machine, small_program
from .system_referee import DRAM_BYTES, SystemReferee, Timeline
from .unit_bench import SCRATCHPAD_BYTES

SHAPES = (
    Shape(4, 4, 64, ifm_port=8, weight_port=4, lanes=4),
    Shape(8, 4, 64, ifm_port=8, weight_port=4, lanes=4),
    Shape(4, 8, 64, ifm_port=16, weight_port=8, lanes=8),
    Shape(8, 8, 64, ifm_port=16, weight_port=8, lanes=8),
)[: sized(1, 2, 4)]

referee = lru_cache(SystemReferee)


def cases() -> Iterator[tuple[Callable[[], Graph], Shape, Setup]]:
    """By night all networks in all setups on all arrays; else each network on each array, the setups in turn."""
    for shape in SHAPES:
        for number, network in enumerate(NETWORKS):
            for place, setup in enumerate(SETUPS):
                if sized(False, False, True) or place == number % len(SETUPS):
                    yield network, shape, setup


def _name(value: object) -> str:
    if isinstance(value, Shape):
        return f"{value.rows}x{value.columns}"
    if isinstance(value, Setup):
        return value.dataflow + "-shadow" * value.shadow_weights
    return getattr(value, "__name__", "").strip("_")


def images(program: Program, graph: Graph) -> tuple[np.ndarray, np.ndarray]:
    """Both memories before the run: constants, code and random inputs in the DRAM, random bytes elsewhere."""
    rng = np.random.default_rng(0)
    scratchpad, dram = (rng.integers(0, 256, size, np.uint8) for size in (SCRATCHPAD_BYTES, DRAM_BYTES))
    memory = memory_of(program)
    memory.store_inputs(random_inputs(graph))
    dram[: program.dram_size_bytes] = memory.spaces[Space.DRAM]
    code = program.code.reshape(-1)
    dram[program.code_address : program.code_address + len(code)] = code
    return scratchpad, dram


def overlaps(program: Program, run: Timeline) -> int:
    """How many copies are under way while an instruction of the MAC array begins or goes on."""
    units = [each.unit for each in decode_all(program.code)]
    spans = list(zip(units, run.started, run.ended, strict=True))
    mac = [(start, end) for unit, start, end in spans if unit is Unit.MAC]
    copies = [(start, end) for unit, start, end in spans if unit < Unit.MAC]
    return sum(any(start < last and first < end for first, last in mac) for start, end in copies)


@pytest.mark.parametrize(("network", "shape", "setup"), list(cases()), ids=_name)
def test_small_program(network: Callable[[], Graph], shape: Shape, setup: Setup) -> None:
    """Tiled and double-buffered in 4 KiB, weights streamed."""
    program = small_program(network, shape, setup)
    scratchpad, dram = images(program, network())
    rtl = referee(shape).run(program, scratchpad, dram)
    assert rtl.differences(timeline(program, scratchpad, dram)) == []
    tiles = sum(each.unit is Unit.MAC for each in decode_all(program.code))
    assert tiles > sum(layer.unit == "mac" for layer in program.layers), "is not tiled"
    assert overlaps(program, rtl) >= 4, "is not double-buffered"


@pytest.mark.parametrize("overlap", ["all", "loads", "none"])
@pytest.mark.parametrize("network", NETWORKS[sized(slice(6, 9), slice(5, 11), slice(None))], ids=_name)
def test_small_program_of_prepared_layers(network: Callable[[], Graph], overlap: str) -> None:
    """Each layer begins with a barrier of 700 cycles, which waits for the layer before where they do not overlap."""
    changes = {"front_end.layer_cycles": 700, "overlap": overlap}
    program = compile_graph(network(), change(small_machine(SHAPES[0], SETUPS[-1]), changes))
    scratchpad, dram = images(program, network())
    rtl = referee(SHAPES[0]).run(program, scratchpad, dram)
    assert rtl.differences(timeline(program, scratchpad, dram)) == []
    held = [each.cycles for each in decode_all(program.code) if isinstance(each, Barrier)]
    assert 700 in held
    assert max(rtl.ended) >= sum(held)
