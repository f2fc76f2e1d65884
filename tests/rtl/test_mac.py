"""The MAC unit: model and register-transfer description agree on every byte, cycle and port access."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
from numpy.typing import NDArray

from npusim.isa.arithmetic.integer import requantise
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
INSTRUCTIONS = sized(40, 150, 400)
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
    for number in range(sized(12, 20, 60)):
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
        element = FLOAT_TYPES[number % 2]
        real = row(element=number % 2, **geometry)
        run = referee(shape).run(codes, case.hardware, case.scratchpad)
        cost = real.cost(Context(with_mode(case.hardware.mac_array, element)))
        assert cost.cycles == run.cycles, f"instruction {number}: {real}\n{case.hardware.mac_array}"


def in_bytes(instruction: Convolve | Depthwise) -> tuple[dict[str, int], dict[str, int]]:
    """Addresses of operands without gaps, the feature map as int16 and as a plane of bytes, and their sizes."""
    pixels = instruction.ifm_height * instruction.ifm_width
    sizes = {
        "ifm": 2 * pixels * instruction.ifm_depth,
        "plane": pixels * instruction.ifm_depth,
        "weights": instruction._weight_count(),
        "parameters": 13 * instruction.ofm_depth + 4,
        "ofm": 4 * instruction.ofm_height * instruction.ofm_width * instruction.ofm_depth,
    }
    ends = np.cumsum([0, *sizes.values()]).tolist()
    return dict(zip(sizes, ends, strict=False)), sizes


@pytest.mark.parametrize("kind", KINDS)
def test_int16_values_pass_byte_by_byte(kind: str) -> None:
    """The registers take the upper and the lower bytes one after the other: the same sums, cycles and accesses.

    They give sums as words of 32 bits, which are combined and requantized here; those of a depthwise convolution they
    do not give, so that cycles and accesses alone are compared.
    """
    shape = SHAPES[0]
    rng = np.random.default_rng([16, KINDS.index(kind)])
    for number in range(INSTRUCTIONS):
        case = draw_case(rng, shape, kind)
        drawn = case.instruction
        places, sizes = in_bytes(drawn)
        if getattr(drawn, "ifm_transposed", 0) or sum(sizes.values()) > SCRATCHPAD_BYTES:
            continue
        plain = dict.fromkeys(("ifm_zero", "ofm_zero", "low", "high", "rescale", "other_sign"), 0)
        channels, row = drawn.ofm_depth, drawn.ifm_width * drawn.ifm_depth
        orders = {"weight_stride": 0, "wide": 0} if isinstance(drawn, Convolve) else {}
        addresses = {name: places[name] for name in ("ifm", "weights", "parameters", "ofm")}
        wide = replace(
            drawn,
            **plain,
            **orders,
            **addresses,
            int16=1,
            per_channel=1,
            ifm_row_stride=2 * row,
            ifm_pixel_stride=2 * drawn.ifm_depth,
            ofm_row_stride=2 * drawn.ofm_width * channels,
            ofm_pixel_stride=2 * channels,
        )
        array = case.hardware.mac_array.model_copy(update={"int16_passes": 2})
        hardware = case.hardware.model_copy(update={"mac_array": array})
        assert not wide.faults() + wide.misfits(Context(hardware))
        scratchpad = rng.integers(0, 256, SCRATCHPAD_BYTES, np.uint8)
        largest = 1 << (40 if drawn.rounding else 20)
        bias = rng.integers(-largest, largest, channels) >> rng.integers(0, 20, channels)
        multiplier = rng.integers(1 << 30, 1 << 31, channels)
        shift = rng.integers(-31, -5, channels)
        block = b"".join(
            each.tobytes()
            for each in (
                bias.astype("<i8"),
                multiplier.astype("<i4"),
                shift.astype(np.int8),
                np.array([-30000, 31000], "<i2"),
            )
        )
        scratchpad[places["parameters"] :][: len(block)] = np.frombuffer(block, np.uint8)
        expected = executed(wide, scratchpad)[places["ofm"] :][: sizes["ofm"] // 2].view("<i2")
        sums, cycles, read = [], 0, 0
        one = np.zeros(channels, "<i4").tobytes() + np.int32(1 << 30).tobytes() + np.int8(1).tobytes()
        for upper in (1, 0):
            image = scratchpad.copy()
            values = image[places["ifm"] :][: sizes["ifm"]].view(np.uint8)
            image[places["plane"] :][: sizes["plane"]] = values[upper::2]
            image[places["parameters"] :][: len(one)] = np.frombuffer(one, np.uint8)
            size = 1
            if isinstance(drawn, Convolve):
                orders, size = {"weight_stride": 0, "wide": 2}, 4
            codes = plain if size == 4 else plain | {"high": 127}
            part = replace(
                wide,
                **codes,
                **orders,
                int16=0,
                signed=upper,
                rounding=1,
                per_channel=0,
                ifm=places["plane"],
                ifm_row_stride=row,
                ifm_pixel_stride=drawn.ifm_depth,
                ofm_row_stride=size * drawn.ofm_width * channels,
                ofm_pixel_stride=size * channels,
            )
            run = referee(shape).run(part, hardware, image)
            cycles, read = cycles + run.cycles, read + run.bytes_read
            sums.append(run.scratchpad[places["ofm"] :][: sizes["ofm"]].view("<i4").astype(np.int64))
        cost = wide.cost(Context(hardware))
        where = f"instruction {number}: {wide}\n{array}"
        assert (cycles, read) == (
            cost.cycles,
            cost.actions["scratchpad_read_byte"] - wide._parameter_bytes(),
        ), where
        if isinstance(drawn, Convolve):
            combined = (256 * sums[0] + sums[1]).reshape(-1, channels) + bias
            rounding = "single" if wide.rounding else "double"
            results = requantise(combined, multiplier, shift, 0, -30000, 31000, np.int16, rounding)
            if wide.rounding or (np.abs(combined) < 1 << 31).all():  # what the rounding double is for
                assert (results.reshape(-1) == expected).all(), where
