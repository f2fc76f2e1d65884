"""The vector unit: model and register-transfer description agree on every byte, cycle and port access."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest

from npusim.isa.hardware.hardware import Hardware, Vector
from npusim.isa.instructions import reduction
from npusim.isa.instructions.elementwise import NAMES, Binary
from npusim.isa.instructions.instruction import Context, Instruction
from npusim.isa.instructions.lanes import FORMAT_NAMES
from npusim.isa.instructions.reduction import Reduce
from npusim.isa.instructions.vector import INT16_TABLES, TYPES, Convert, Lookup
from npusim.isa.instructions.windows import FUNCTIONS as POOLS
from npusim.isa.instructions.windows import Pool

from .conftest import sized
from .model import executed
from .random_vector import KINDS, Case, draw_case
from .unit_bench import SCRATCHPAD_BYTES
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


def unit(**changes: int) -> Hardware:
    """8 lanes behind 4 registers; a lane takes two passes over an int16 value."""
    cycles = {
        "add_cycles": 2, "mul_cycles": 3, "requantise_cycles": 2, "max_cycles": 1, "pool_cycles": 1,
        "reduce_cycles": 1, "divide_cycles": 5, "lut_cycles": 1,
    }  # fmt: skip
    parameters = {"lanes": 8, "startup_cycles": 4, "int16_passes": 2, **cycles, **changes}
    return Hardware(name="rtl", vector=Vector(**parameters))


def grid(function: str, rows: int, columns: int, of: str = "int16") -> Binary:
    """A function of two dense operands."""
    row = columns * (2 if of == "int16" else 1)
    return Binary(
        format=FORMAT_NAMES.index(of),
        function=NAMES.index(function),
        b=4096,
        output=8192,
        rows=rows,
        columns=columns,
        a_row_stride=row,
        b_row_stride=row,
        a_column_stride=1,
        b_column_stride=1,
        high=127,
    )


def pool(function: str, of: str = "int16") -> Pool:
    """Windows of 2 x 2 on 3 x 3 pixels of 9 channels."""
    pixel = 9 * (2 if of == "int16" else 1)
    window = {"ifm_height": 3, "ifm_width": 3, "depth": 9, "ofm_height": 2, "ofm_width": 2}
    window |= {"kernel_height": 2, "kernel_width": 2, "stride_height": 1, "stride_width": 1}
    strides = {"ifm_row_stride": 3 * pixel, "ofm_row_stride": 2 * pixel}
    choice = {"format": FORMAT_NAMES.index(of), "function": POOLS.index(function)}
    return Pool(ofm=8192, high=127, **choice, **window, **strides)


def reduced(function: str, results: int, count: int, wide: int = 0, of: str = "int16") -> Reduce:
    """Results of `count` elements each."""
    sizes = {"outer": 1, "parts": 1, "middle": 1, "count": count, "inner": results}
    choice = {"format": FORMAT_NAMES.index(of), "function": reduction.FUNCTIONS.index(function)}
    return Reduce(output=8192, high=127, wide=wide, **choice, **sizes)


def converted(source: str, target: str, size: int) -> Convert:
    types = {"source": TYPES.index(source), "target": TYPES.index(target)}
    return Convert(output=8192, size=size, high=127, multiplier=1 << 30, **types)


def looked_up(function: str, size: int) -> Lookup:
    return Lookup(
        output=8192, table=4096, size=size, int16=INT16_TABLES.index(function), multiplier=20000, right=14
    )


# 4 cycles until the first step is in front of the lanes; 8 results at once.
BY_HAND = [
    ("add of codes", unit(), grid("add", 4, 5, "8_bit"), 4 + 3 * 2),
    ("add", unit(), grid("add", 4, 5), 4 + 3 * (2 * 2)),
    ("add in one pass", unit(int16_passes=1), grid("add", 4, 5), 4 + 3 * 2),
    ("add in three passes", unit(int16_passes=3), grid("add", 4, 5), 4 + 3 * (3 * 2)),
    ("product", unit(), grid("mul", 2, 8), 4 + 2 * (2 * 3)),
    ("maximum of one", unit(), grid("max", 1, 1), 4 + 2 * 1),
    # 4 pixels with two groups of channels; the division goes through the lane twice, too.
    ("average", unit(), pool("average"), 4 + 4 * 2 * (2 * (4 * 1 + 5))),
    ("maximum pool", unit(), pool("maximum"), 4 + 4 * 2 * (2 * 4 * 1)),
    ("sum", unit(), reduced("sum", 8, 6), 4 + 2 * (6 * 1 + 2)),
    # The first byte of a position leaves with the last element, three follow.
    ("position in codes", unit(), reduced("arg_max", 10, 3, 0, "8_bit"), 4 + 2 * (3 * 1 + 3)),
    # Two bytes at once: one piece follows, of 8 bytes three.
    ("position", unit(), reduced("arg_max", 10, 3), 4 + 2 * (2 * 3 * 1 + 1)),
    ("long position", unit(), reduced("arg_min", 10, 3, 1), 4 + 2 * (2 * 3 * 1 + 3)),
    # Lanes that read the scratchpad itself do so once, before the pieces.
    ("position without registers", unit(startup_cycles=0), reduced("arg_min", 10, 3), 2 * (2 * 3 * 1 + 1)),
    ("to codes", unit(), converted("int16", "int8", 17), 4 + 3 * (2 * 2)),
    ("from codes", unit(), converted("uint8", "int16", 17), 4 + 3 * (2 * 2)),
    # 513 entries of 2 bytes come byte by byte; a result takes two entries and a product.
    ("interpolated", unit(), looked_up("interpolated", 17), 4 + 129 + 3 * (2 * (2 * 1 + 3))),
    ("logistic", unit(), looked_up("logistic", 8), 4 + 64 + 2 * (2 * 1 + 3)),
]


@pytest.mark.parametrize(
    ("what", "hardware", "instruction", "cycles"),
    BY_HAND,
    ids=[case[0].replace(" ", "_") for case in BY_HAND],
)
def test_cycles_by_hand(what: str, hardware: Hardware, instruction: Instruction, cycles: int) -> None:
    assert instruction.faults() == []
    scratchpad = np.random.default_rng(1).integers(0, 256, SCRATCHPAD_BYTES, np.uint8)
    case = Case(instruction, hardware, scratchpad)
    assert referee(8).run(instruction, hardware, scratchpad).cycles == cycles, what
    assert differences(case, 8) == {}


@pytest.mark.parametrize("kind", ["convert", "int16_reduce"])
def test_one_cycle_is_noticed(kind: str) -> None:
    """The comparison is able to fail."""
    case = draw_case(np.random.default_rng(0), 8, kind)
    startup_cycles = case.hardware.vector.startup_cycles + 1
    other = Hardware(
        name="rtl", vector=Vector(**{**dict(case.hardware.vector), "startup_cycles": startup_cycles})
    )
    assert list(differences(case, 8, other)) == ["cycles"]
