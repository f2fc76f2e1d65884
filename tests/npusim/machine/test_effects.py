"""Tiles that are computed together give the bytes that each alone would, also in programs with wrong waits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import npusim
from npusim.isa.base.errors import SimulationError
from npusim.isa.base.tensor import Array
from npusim.isa.instructions.dma import Copy
from npusim.isa.instructions.instruction import Instruction
from npusim.isa.instructions.mac import Convolve
from npusim.isa.instructions.memory import Memory, commit
from npusim.isa.instructions.region import Space
from npusim.isa.instructions.table import decode_all, encode_all
from npusim.isa.program.executable import Executable
from npusim.isa.program.program import Program
from npusim.machine import effects
from npusim.machine.job import Bindings
from npusim.machine.system import System

from ...examples import tried

RNG = np.random.default_rng(3)
CONVOLVE = Convolve(
    ifm=64, ifm_row_stride=40, ifm_pixel_stride=5, ifm_height=6, ifm_width=8, ifm_depth=5, ofm_height=3, ofm_width=4,
    ofm_row_stride=64, ofm_pixel_stride=16, ofm_depth=1, kernel_height=3, kernel_width=3, stride_height=2,
    stride_width=2, dilation_height=1, dilation_width=1, pad_top=1, ifm_zero=90, weight_zero=100, ofm_zero=20, high=255,
)  # fmt: skip


def states_after(program: Program, values: tuple[Array, ...]) -> list[bytes] | str:
    """The outputs and the scratchpad after a run, or the message of a deadlock."""
    system = System((program.hardware,))
    job = system.submit(Executable.of(program), Bindings(values))
    try:
        system.run()
    except SimulationError as fault:
        return str(fault)
    outputs = job.runs[0].outputs or ()
    return [*(each.tobytes() for each in outputs), system.cores[0].scratchpad.tobytes()]


def with_wrong_waits(instructions: list[Instruction]) -> Iterator[list[Instruction]]:
    """The program with one wait deleted, for each of its waits; then with all waits of one unit deleted."""
    for index, each in enumerate(instructions):
        for wait in each.waits:
            rest = tuple(other for other in each.waits if other != wait)
            yield [*instructions[:index], replace(each, waits=rest), *instructions[index + 1 :]]
    for unit in sorted({each.unit for each in instructions}):
        yield [replace(each, waits=()) if each.unit == unit else each for each in instructions]


@pytest.mark.slow
@pytest.mark.parametrize("slow", [True, False])
def test_wrong_waits_show_the_same_wrong_bytes(slow: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    speed = "dram.bandwidth_gb_per_s=0.05" if slow else "dram.bandwidth_gb_per_s=8"
    program = npusim.compile(npusim.load("ds_cnn"), "edge-32")
    assert isinstance(program, Program)
    program = replace(program, hardware=npusim.hardware("edge-32", [speed]))
    instructions = decode_all(program.code)
    assert len(effects._followed_by_kin(instructions)) > 10
    values = tuple(RNG.integers(-128, 128, place.type.shape).astype(np.int8) for place in program.inputs)
    right = states_after(program, values)
    wrong = tries = 0
    for broken in with_wrong_waits(instructions):
        changed = replace(program, code=encode_all(broken))
        together = states_after(changed, values)
        with monkeypatch.context() as patch:
            patch.setattr(effects, "_followed_by_kin", lambda _: {})
            assert together == states_after(changed, values)
        tries += 1
        wrong += not isinstance(together, str) and together[0] != right[0]
    assert tries > 40
    assert wrong > 10


def scratchpad(tiles: list[Convolve]) -> Memory:
    """A scratchpad of random bytes, with parameter blocks of sensible scales."""
    content = RNG.integers(0, 256, 1 << 14).astype(np.uint8)
    for tile in tiles:
        scales = tile.ofm_depth if tile.per_channel else 1
        biases = RNG.integers(-5000, 5000, tile.ofm_depth).astype("<i4").tobytes()
        if tile.rescale:
            block = biases + RNG.uniform(0.0005, 0.002, scales).astype("<f4").tobytes()
        else:
            block = biases + RNG.integers(1 << 30, 1 << 31, scales).astype("<i4").tobytes()
            block += RNG.integers(-11, -8, scales).astype(np.int8).tobytes()
        content[tile.parameters : tile.parameters + len(block)] = np.frombuffer(block, np.uint8)
    return Memory({Space.SCRATCHPAD: content})


def random_schedule(rng: np.random.Generator) -> tuple[list[Instruction], list[tuple[str, int]]]:
    """Tiles and copies whose bytes overlap often, and the order in which three units start and end them."""

    def place() -> int:
        return int(rng.integers(0, 8000))

    tiles = [
        replace(
            CONVOLVE, ifm=64 + 2000 * int(rng.integers(0, 8) == 0), ofm_depth=int(rng.integers(1, 5)),
            weights=place(), parameters=4096 + 64 * int(rng.integers(0, 8)), ofm=place(),
        )
        for _ in range(8)
    ]  # fmt: skip
    copies = [
        Copy(channel=channel, source=place(), target=place(), size=int(rng.integers(1, 1500)))
        for channel in (0, 1)
        for _ in range(6)
    ]
    queues = [list(range(8)), list(range(8, 14)), list(range(14, 20))]
    running: dict[int, int] = {}
    steps = []
    while any(queues) or running:
        unit = int(rng.integers(3))
        if unit in running:
            steps.append(("end", running.pop(unit)))
        elif queues[unit]:
            running[unit] = queues[unit].pop(0)
            steps.append(("start", running[unit]))
    return [*tiles, *copies], steps


@cache
def some_program() -> Program:
    """A program, which lends its name and hardware."""
    program = npusim.compile(npusim.load("digits_cnn"))
    assert isinstance(program, Program)
    return program


def after(steps: list[tuple[str, int]], instructions: list[Instruction], content: Memory) -> bytes:
    """The scratchpad after instructions that start and end in this order."""
    program = some_program()
    memory = Memory({Space.SCRATCHPAD: content.spaces[Space.SCRATCHPAD].copy()})
    made = effects.Effects(program, program.context, instructions, memory)
    for name, index in steps:
        getattr(made, name)(index)
    return memory.spaces[Space.SCRATCHPAD].tobytes()


def test_put_off_or_not_memory_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    together = []
    for seed in range(tried(100, 2000)):
        instructions, steps = random_schedule(np.random.default_rng(seed))
        content = scratchpad([each for each in instructions if isinstance(each, Convolve)])
        together.append((steps, instructions, content, after(steps, instructions, content)))
    monkeypatch.setattr(effects, "_followed_by_kin", lambda _: {})
    for *case, found in together:
        assert found == after(*case)


@pytest.mark.parametrize("wide", [0, 1, 2])
@pytest.mark.parametrize("per_channel", [0, 1])
@pytest.mark.parametrize("rescale", [0, 1])
def test_together_as_one_after_the_other(wide: int, per_channel: int, rescale: int) -> None:
    if wide and rescale:
        return
    settings = {"wide": wide, "per_channel": per_channel, "rescale": rescale}
    if wide:
        settings |= {"ofm_zero": 0, "high": 0}
    places = {"weights": (1024, 2000, 1500), "parameters": (4096, 4200, 4300), "ofm": (8192, 8192 + 24, 9500)}
    tiles = [
        replace(CONVOLVE, **settings, ofm_depth=depth, **{name: at[number] for name, at in places.items()})
        for number, depth in enumerate((5, 1, 8))
    ]
    assert len({tile.kin for tile in tiles}) == 1
    memory = scratchpad(tiles)
    writes = Convolve.execute_together(tiles, memory)
    alone = [tile.execute(memory) for tile in tiles]
    for together, other in zip(writes, alone, strict=True):
        for (target, values), (wanted_target, wanted) in zip(together, other, strict=True):
            np.testing.assert_array_equal(values, wanted)
            assert values.dtype == wanted.dtype
            assert target.__array_interface__ == wanted_target.__array_interface__
        commit(together)
    assert len({values.tobytes() for ((_, values),) in writes}) == len(tiles)


def test_tiles_of_one_scale() -> None:
    tiles = [replace(CONVOLVE, ofm_depth=2, parameters=4096, ofm=8192 + 2 * number) for number in range(3)]
    memory = scratchpad(tiles)
    writes = Convolve.execute_together(tiles, memory)
    for together, tile in zip(writes, tiles, strict=True):
        np.testing.assert_array_equal(together[0][1], tile.execute(memory)[0][1])


def test_what_changes_the_sums_makes_another_kin() -> None:
    """Every field counts, unless it says where the output channels are or how long they take."""
    free = {
        "weights", "parameters", "ofm", "ofm_row_stride", "ofm_pixel_stride", "ofm_depth", "few_bits", "looked_up",
        "output_stationary", "row_halvings", "column_halvings", "accumulator_halvings",
    }  # fmt: skip
    for spec in Convolve.specs:
        other = replace(CONVOLVE, **{spec.name: getattr(CONVOLVE, spec.name) + 1})
        assert (other.kin == CONVOLVE.kin) == (spec.name in free), spec.name
    assert replace(CONVOLVE, int16=1).kin is None
    assert replace(CONVOLVE, weight_stride=40).kin is None
