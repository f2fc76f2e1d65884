"""The MAC unit: model and register-transfer description agree on every byte, cycle and port access."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
from numpy.typing import NDArray

from npusim.isa.arithmetic.integer import quantize_multipliers
from npusim.isa.hardware.hardware import Hardware, MacArray
from npusim.isa.instructions.instruction import Context
from npusim.isa.instructions.lanes import FLOAT_TYPES
from npusim.isa.instructions.mac import CODES, Convolve, Depthwise
from npusim.isa.instructions.real_mac import RealConvolve, RealDepthwise

from .comparing import disagreements
from .conftest import sized
from .mac_referee import MacReferee, Shape
from .model import executed
from .random_mac import Case, draw_case
from .unit_bench import SCRATCHPAD_BYTES

SHAPES = (
    Shape(8, 4, 64, ifm_port=12, weight_port=4, lanes=4),
    Shape(4, 8, 64, ifm_port=8, weight_port=8, lanes=8),
    Shape(4, 4, 128, ifm_port=8, weight_port=4, lanes=4),
    Shape(8, 8, 64, ifm_port=16, weight_port=8, lanes=8),
    Shape(16, 8, 64, ifm_port=32, weight_port=8, lanes=8),
    Shape(5, 3, 64, ifm_port=15, weight_port=5, lanes=4),
    Shape(1, 1, 128, ifm_port=2, weight_port=2, lanes=2),
)[: sized(1, 3, 7)]
KINDS = ("weight_stationary", "output_stationary", "depthwise")
ALL_KINDS = (*KINDS, *[f"int16_{kind}" for kind in KINDS])
INSTRUCTIONS = sized(40, 150, 400)
"""For each shape and kind."""

referee = lru_cache(MacReferee)


def differences(case: Case, shape: Shape) -> dict[str, object]:
    """What registers and model disagree on. The published formulas leave out the last cycle of the array in a pass."""
    run = referee(shape).run(case.instruction, case.hardware, case.scratchpad)
    array = case.hardware.mac_array
    hidden = 0 if array.shadow_weights else array.int16_passes if case.instruction.int16 else 1
    return disagreements(run, case, hidden_cycles=hidden)


@pytest.mark.parametrize("kind", ALL_KINDS)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: f"{shape.rows}x{shape.columns}")
def test_random_instructions(shape: Shape, kind: str) -> None:
    """Random windows, sizes, codes and memory on arrays with random ports, lanes, accumulators, registers."""
    rng = np.random.default_rng([shape.rows, shape.columns, ALL_KINDS.index(kind)])
    for number in range(INSTRUCTIONS):
        case = draw_case(rng, shape, kind)
        found = differences(case, shape)
        assert not found, f"instruction {number}: {found}\n{case.instruction}\n{case.hardware.mac_array}"


def chosen_sums(
    rng: np.random.Generator, count: int, bits: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Sums and scales whose products lie near ties, sums that float32 rounds, scales of any bits.

    bits: of the largest sums, without their sign.
    """
    largest = 1 << bits
    sums = rng.integers(-largest, largest, count) >> rng.integers(0, bits + 1, count)
    scales = rng.integers(0, 1 << 32, count, np.uint32).view(np.float32)
    near = rng.random(count) < 0.7
    most = 300 if bits < 32 else 40_000
    steps = rng.integers(-most, most, count) + 0.5
    scales[near] = (steps / np.where(sums, sums, 1)).astype(np.float32)[near]
    sums[rng.random(count) < 0.05] = 0
    corners = [
        *(np.inf, -np.inf, np.nan, 0, -0.0, 1e-45, 1e-38, 1.1754944e-38, 3.4028235e38),
        *(2.0**-bits, -(2**-24), 0.5),
    ]
    chosen = rng.random(count) < 0.2
    scales[chosen] = rng.choice(np.array(corners, np.float32), count)[chosen]
    whole = rng.random(count) < 0.1
    edges = [1 << 24, (1 << 24) + 1, (1 << 25) + 2, (1 << 25) + 6, largest - 1, -largest]
    sums[whole] = rng.choice(edges, count)[whole]
    return sums, scales


STAGES = ("float32", "int16_float32", "int16_double", "int16_single")
"""Output stages: float32 requantization of sums of 32 and of 48 bits, fixed-point requantization of the latter."""


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("kind", [Convolve, Depthwise])
def test_requantization_of_chosen_sums(kind: type[Convolve | Depthwise], stage: str) -> None:
    """A weight of 0 and a bias for each channel: any sum, any scale; registers and numpy agree on every result."""
    shape, channels, int16 = SHAPES[0], 1200, stage.startswith("int16")
    ports = {"ifm_bytes_per_cycle": 12, "weight_bytes_per_cycle": 4, "output_lanes": 4}
    array = MacArray(rows=8, columns=4, accumulator_kib=1, int16_passes=2, **ports)
    rng = np.random.default_rng([7, kind.opcode, STAGES.index(stage)])
    window = ("ifm", "ofm", "kernel", "stride", "dilation")
    ones = {f"{name}_{axis}": 1 for name in window for axis in ("height", "width")}
    seen: set[int] = set()
    for number in range(sized(12, 20, 60)):
        sums, scales = chosen_sums(rng, channels, 46 if int16 else 31)
        signed = number % 2
        low, high = CODES[signed]
        codes = {"low": low, "high": high, "ofm_zero": int(rng.integers(low, high + 1))}
        size = 2 if int16 else 1
        instruction = kind(
            **ones,
            weights=4096,
            parameters=16384,
            ofm=32768,
            ifm_depth=1 if kind is Convolve else channels,
            ofm_depth=channels,
            ifm_pixel_stride=1200 * size,
            ifm_row_stride=1200 * size,
            ofm_pixel_stride=channels * size,
            ofm_row_stride=channels * size,
            signed=signed,
            per_channel=1,
            rescale=int(stage.endswith("float32")),
            rounding=int(stage.endswith("single")),
            int16=int(int16),
            **({} if int16 else codes),
        )
        if instruction.rescale:
            block = scales.astype("<f4").tobytes()
        else:
            sound = np.where(np.isfinite(scales), np.abs(scales), 1.0)
            multiplier, shift = quantize_multipliers(sound)
            block = multiplier.astype("<i4").tobytes() + np.minimum(shift, 14).astype(np.int8).tobytes()
        bounds = np.array([-32768, 32767], "<i2").tobytes() if int16 else b""
        parameters = sums.astype("<i8" if int16 else "<i4").tobytes() + block + bounds
        scratchpad = np.zeros(SCRATCHPAD_BYTES, np.uint8)
        scratchpad[16384 : 16384 + len(parameters)] = np.frombuffer(parameters, np.uint8)
        found = differences(Case(instruction, Hardware(name="rtl", mac_array=array), scratchpad), shape)
        assert not found, found
        seen |= set(executed(instruction, scratchpad)[32768 : 32768 + size * channels].tolist())
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
        element = FLOAT_TYPES[number % 2]
        real = row(element=number % 2, **geometry)
        run = referee(shape).run(codes, case.hardware, case.scratchpad)
        cost = real.cost(Context(with_mode(case.hardware.mac_array, element)))
        assert cost.cycles == run.cycles, f"instruction {number}: {real}\n{case.hardware.mac_array}"


def pointwise(pixels: int, inner: int, channels: int, *, int16: bool, **fields: int) -> Case:
    """A 1 x 1 convolution of one row of pixels; `fields` are those of the array if it has them."""
    rng = np.random.default_rng([pixels, inner, channels])
    size = 1 + int16
    ones = {f"{name}_{axis}": 1 for name in ("kernel", "stride", "dilation") for axis in ("height", "width")}
    clamp = {} if int16 else {"low": -128, "high": 127}
    ports = {"ifm_bytes_per_cycle": 8, "weight_bytes_per_cycle": 4, "output_lanes": 4}
    array = {name: fields.pop(name) for name in tuple(fields) if name in MacArray.model_fields}
    hardware = MacArray(rows=8, columns=4, accumulator_kib=1, int16_passes=2, **{**ports, **array})
    instruction = Convolve(
        **{**ones, **clamp, **fields},
        ifm_height=1,
        ifm_width=pixels,
        ifm_depth=inner,
        ofm_height=1,
        ofm_width=pixels,
        ofm_depth=channels,
        weights=8192,
        parameters=16384,
        ofm=32768,
        ifm_pixel_stride=inner * size,
        ifm_row_stride=pixels * inner * size,
        ofm_pixel_stride=channels * size,
        ofm_row_stride=pixels * channels * size,
        signed=1,
        weights_signed=1,
        int16=int(int16),
    )
    scratchpad = rng.integers(0, 256, SCRATCHPAD_BYTES, np.uint8)
    bias = rng.integers(-900, 900, channels).astype("<i8" if int16 else "<i4").tobytes()
    parameters = bias + b"\0\0\0\x40" + b"\xf8" + np.array([-30000, 31000], "<i2").tobytes()
    scratchpad[16384 : 16384 + len(parameters)] = np.frombuffer(parameters, np.uint8)
    return Case(instruction, Hardware(name="rtl", mac_array=hardware), scratchpad)


# 8 rows of weights, a vector of operands per pixel, 8 + 4 - 2 cycles through the array, 4 results a cycle.
BY_HAND = [
    ("codes", pointwise(16, 8, 4, int16=False), 8 + 16 + 10 + 16),
    # Once for each byte of the operands; the sums of the upper bytes pass the output stage, too.
    ("int16", pointwise(16, 8, 4, int16=True), 2 * (8 + 16 + 10 + 16)),
    # The weights of the second fold come while the first one streams.
    ("two folds", pointwise(16, 16, 4, int16=True), 2 * (8 + 2 * 16 + 10 + 16)),
    ("narrow port", pointwise(16, 8, 4, int16=True, ifm_bytes_per_cycle=4), 2 * (8 + 16 * 2 + 10 + 16)),
    ("two results a cycle", pointwise(16, 8, 4, int16=True, output_lanes=2), 2 * (8 + 16 + 10 + 16 * 2)),
    ("output stationary", pointwise(8, 20, 4, int16=True, output_stationary=1), 2 * (20 + 10 + 8)),
]


@pytest.mark.parametrize(
    ("what", "case", "cycles"), BY_HAND, ids=[case[0].replace(" ", "_") for case in BY_HAND]
)
def test_cycles_by_hand(what: str, case: Case, cycles: int) -> None:
    assert case.instruction.faults() == []
    assert referee(SHAPES[0]).run(case.instruction, case.hardware, case.scratchpad).cycles == cycles, what
    assert differences(case, SHAPES[0]) == {}


@pytest.mark.parametrize("off", [-1, 1])
def test_one_cycle_is_noticed(off: int) -> None:
    """The comparison is able to fail, on both sides of the right number."""
    case = pointwise(16, 8, 4, int16=True)
    run = referee(SHAPES[0]).run(case.instruction, case.hardware, case.scratchpad)
    assert disagreements(run, case) == {}
    assert list(disagreements(replace(run, cycles=run.cycles + off), case)) == ["cycles"]
