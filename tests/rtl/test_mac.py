"""The MAC unit: model and register-transfer description agree on every byte, cycle and port access."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest

from npusim.isa.hardware.hardware import Hardware, MacArray
from npusim.isa.instructions.context import Context
from npusim.isa.instructions.real import REAL_TYPES
from npusim.isa.instructions.real_mac import RealConvolve, RealDepthwise

from .conftest import ALL
from .mac_referee import MacReferee, Shape
from .model import executed
from .random_mac import Case, draw_case

SHAPES = (
    Shape(8, 4, 64, ifm_port=12, weight_port=4, lanes=4),
    Shape(4, 8, 64, ifm_port=8, weight_port=8, lanes=8),
)
if ALL:
    SHAPES += (
        Shape(4, 4, 128, ifm_port=8, weight_port=4, lanes=4),
        Shape(8, 8, 64, ifm_port=16, weight_port=8, lanes=8),
        Shape(16, 8, 64, ifm_port=32, weight_port=8, lanes=8),
        Shape(5, 3, 64, ifm_port=15, weight_port=5, lanes=4),
        Shape(1, 1, 128, ifm_port=2, weight_port=2, lanes=2),
    )
KINDS = ("weight_stationary", "output_stationary", "depthwise")
INSTRUCTIONS = 400 if ALL else 120
"""For each shape and kind."""

referee = lru_cache(MacReferee)


def differences(case: Case, shape: Shape) -> dict[str, object]:
    """What RTL and model disagree on: (RTL, model) by name; empty when they agree."""
    run = referee(shape).run(case.instruction, case.hardware, case.scratchpad)
    cost = case.instruction.cost(Context(case.hardware))
    # The published formulas leave out the last cycle of the array.
    array_cycles = run.array_cycles - (not case.hardware.mac_array.shadow_weights)
    read = cost.actions["scratchpad_read_byte"] - case.instruction._parameter_bytes()
    found: dict[str, object] = {
        name: (rtl, model)
        for name, rtl, model in (
            ("cycles", run.cycles, cost.cycles),
            ("array cycles", array_cycles, cost.array_cycles),
            ("bytes read", run.bytes_read, read),
            ("bytes written", run.bytes_written, cost.actions["scratchpad_write_byte"]),
        )
        if rtl != model
    }
    wrong = np.flatnonzero(run.scratchpad != executed(case.instruction, case.scratchpad))
    if len(wrong):
        found["memory"] = f"{len(wrong)} bytes, the first at {wrong[0]}"
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: f"{shape.rows}x{shape.columns}")
def test_random_instructions(shape: Shape, kind: str) -> None:
    """Random windows, sizes, codes and memory on arrays with random ports, lanes, accumulators, registers."""
    rng = np.random.default_rng([shape.rows, shape.columns, KINDS.index(kind)])
    for number in range(INSTRUCTIONS):
        case = draw_case(rng, shape, kind)
        found = differences(case, shape)
        assert not found, f"instruction {number}: {found}\n{case.instruction}\n{case.hardware.mac_array}"


def with_mode(array: MacArray, element: str) -> Hardware:
    """A machine whose array is, in the mode for an element type, the array of codes."""
    size = 4 if element == "float32" else 2
    whole = {
        "columns": 2 * array.columns,
        f"{element}_columns": array.columns,
        "ifm_bytes_per_cycle": size * array.ifm_bytes_per_cycle,
        "weight_bytes_per_cycle": size * array.weight_bytes_per_cycle,
        "output_lanes": size * array.output_lanes,
    }
    return Hardware(name="rtl", mac_array=MacArray(**{**dict(array), **whole}))


@pytest.mark.parametrize("kind", KINDS)
def test_real_numbers_take_the_cycles_of_an_array_of_codes(kind: str) -> None:
    """In its float mode the array is one of fewer columns, through whose ports fewer values pass: registers tell."""
    shape = SHAPES[0]
    rng = np.random.default_rng([3, KINDS.index(kind)])
    row = RealDepthwise if kind == "depthwise" else RealConvolve
    shared = {spec.name for spec in row.specs} - {"element", "activation"}
    for number in range(INSTRUCTIONS):
        case = draw_case(rng, shape, kind)
        codes = case.instruction
        geometry = {name: getattr(codes, name) for name in shared if hasattr(codes, name)}
        element = REAL_TYPES[number % 2]
        real = row(element=number % 2, **geometry)
        run = referee(shape).run(codes, case.hardware, case.scratchpad)
        cost = real.cost(Context(with_mode(case.hardware.mac_array, element)))
        assert cost.cycles == run.cycles, f"instruction {number}: {real}\n{case.hardware.mac_array}"
