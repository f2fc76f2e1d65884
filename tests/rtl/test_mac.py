"""The MAC unit: model and register-transfer description agree on every byte, cycle and port access."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest
from numpy.typing import NDArray

from npusim.isa.hardware.hardware import Hardware, MacArray
from npusim.isa.instructions.context import Context
from npusim.isa.instructions.mac import CODES, Convolve, Depthwise
from npusim.isa.instructions.real import REAL_TYPES
from npusim.isa.instructions.real_mac import RealConvolve, RealDepthwise

from .comparing import disagreements
from .conftest import ALL
from .mac_referee import MacReferee, Shape
from .model import executed
from .random_mac import Case, draw_case
from .unit_bench import SCRATCHPAD_BYTES

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
    """What registers and model disagree on. The published formulas leave out the last cycle of the array."""
    run = referee(shape).run(case.instruction, case.hardware, case.scratchpad)
    return disagreements(run, case, hidden_cycles=int(not case.hardware.mac_array.shadow_weights))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: f"{shape.rows}x{shape.columns}")
def test_random_instructions(shape: Shape, kind: str) -> None:
    """Random windows, sizes, codes and memory on arrays with random ports, lanes, accumulators, registers."""
    rng = np.random.default_rng([shape.rows, shape.columns, KINDS.index(kind)])
    for number in range(INSTRUCTIONS):
        case = draw_case(rng, shape, kind)
        found = differences(case, shape)
        assert not found, f"instruction {number}: {found}\n{case.instruction}\n{case.hardware.mac_array}"


def chosen_sums(rng: np.random.Generator, count: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Sums and scales whose products lie near ties, sums that float32 rounds, scales of any bits."""
    sums = rng.integers(-(1 << 31), 1 << 31, count) >> rng.integers(0, 32, count)
    scales = rng.integers(0, 1 << 32, count, np.uint32).view(np.float32)
    near = rng.random(count) < 0.7
    steps = rng.integers(-300, 300, count) + 0.5
    scales[near] = (steps / np.where(sums, sums, 1)).astype(np.float32)[near]
    sums[rng.random(count) < 0.05] = 0
    corners = [
        np.inf,
        -np.inf,
        np.nan,
        0,
        -0.0,
        1e-45,
        1e-38,
        1.1754944e-38,
        3.4028235e38,
        2**-31,
        -(2**-24),
        0.5,
    ]
    chosen = rng.random(count) < 0.2
    scales[chosen] = rng.choice(np.array(corners, np.float32), count)[chosen]
    whole = rng.random(count) < 0.1
    sums[whole] = rng.choice(
        [1 << 24, (1 << 24) + 1, (1 << 25) + 2, (1 << 25) + 6, (1 << 31) - 1, -(1 << 31)], count
    )[whole]
    return sums.astype(np.int32), scales


@pytest.mark.parametrize("kind", [Convolve, Depthwise])
def test_rescale_in_float32_of_chosen_sums(kind: type[Convolve | Depthwise]) -> None:
    """A weight of 0 and a bias for each channel: any sum, any scale; registers and numpy agree on every code."""
    shape, channels = SHAPES[0], 1200
    hardware = Hardware(
        name="rtl",
        mac_array=MacArray(
            rows=8,
            columns=4,
            accumulator_kib=1,
            ifm_bytes_per_cycle=12,
            weight_bytes_per_cycle=4,
            output_lanes=4,
        ),
    )
    rng = np.random.default_rng([7, kind.opcode])
    ones = dict.fromkeys(
        (
            "ifm_height",
            "ifm_width",
            "ofm_height",
            "ofm_width",
            "kernel_height",
            "kernel_width",
            "stride_height",
            "stride_width",
            "dilation_height",
            "dilation_width",
        ),
        1,
    )
    seen: set[int] = set()
    for number in range(60 if ALL else 12):
        sums, scales = chosen_sums(rng, channels)
        signed = number % 2
        low, high = CODES[signed]
        instruction = kind(
            **ones,
            weights=4096,
            parameters=16384,
            ofm=32768,
            ifm_depth=1 if kind is Convolve else channels,
            ofm_depth=channels,
            ifm_pixel_stride=1200,
            ifm_row_stride=1200,
            ofm_pixel_stride=channels,
            ofm_row_stride=channels,
            signed=signed,
            low=low,
            high=high,
            per_channel=1,
            rescale=1,
            ofm_zero=int(rng.integers(low, high + 1)),
        )
        scratchpad = np.zeros(SCRATCHPAD_BYTES, np.uint8)
        block = np.frombuffer(sums.astype("<i4").tobytes() + scales.astype("<f4").tobytes(), np.uint8)
        scratchpad[16384 : 16384 + len(block)] = block
        found = differences(Case(instruction, hardware, scratchpad), shape)
        assert not found, found
        seen |= set(executed(instruction, scratchpad)[32768 : 32768 + channels].tolist())
    assert len(seen) == 256


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
