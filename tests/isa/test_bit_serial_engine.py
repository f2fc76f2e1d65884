"""The bit-serial engine: cycles by hand, and against blocks and steps that are walked through one by one."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npusim.isa.base.errors import HardwareError
from npusim.isa.engines.engine import Layout, Problem
from npusim.isa.engines.kinds import engine_of
from npusim.isa.engines.mac_array import MacArray
from npusim.isa.hardware.file import change, hardware

BITS = st.integers(2, 8)


def ne16(bits: int) -> MacArray:
    return change(hardware("gap9"), {"mac_array.weight_bits": bits}).mac_array


def cycles(bits: int, problem: Problem) -> int:
    array = ne16(bits)
    return engine_of(array).use(array, problem._replace(few_bits=True), Layout()).cycles


# The published model of the NE16: a step of a 3 x 3 kernel takes 31 + 6 + (6 + 32 x bits) + 2, one of 1 x 1
# 19 + 6 + (6 + 32) + 2 with nine pixels, the output stage 41 + 12 + 13.
BY_HAND = [
    ("3 x 3", 8, Problem(3, 3, 32, 16, 3, 3), 31 + 6 + 6 + 32 * 8 + 2 + 66),
    ("3 x 3, 5 bits", 5, Problem(3, 3, 32, 16, 3, 3), 31 + 6 + 6 + 32 * 5 + 2 + 66),
    ("two steps", 8, Problem(3, 3, 32, 17, 3, 3), 2 * (31 + 6 + 6 + 32 * 8 + 2) + 66),
    ("four blocks", 8, Problem(4, 4, 32, 16, 3, 3), 4 * (31 + 6 + 6 + 32 * 8 + 2 + 66)),
    # With stride 2 a block has 2 x 2 pixels: the inputs below it are 5 x 5. With stride 3 it has one.
    ("stride 2", 8, Problem(4, 4, 32, 16, 3, 3, 2, 1, False, 2), 4 * (31 + 6 + 6 + 32 * 8 + 2 + 66)),
    ("stride 3", 8, Problem(4, 4, 32, 16, 3, 3, 3, 1, False, 3), 16 * (31 + 6 + 6 + 32 * 8 + 2 + 66)),
    ("few channels", 8, Problem(3, 3, 10, 16, 3, 3), 31 + 6 + 6 + 10 * 8 + 2 + 66),
    ("1 x 1", 3, Problem(3, 3, 32, 16, 1, 1), 19 + 6 + 6 + 32 + 2 + 66),
    # One pixel: 524 steps of AD's first layer and its like.
    ("product", 6, Problem(1, 1, 128, 640, 1, 1), 4 * (40 * (11 + 6 + 6 + 32 + 2) + 66)),
    ("depthwise", 5, Problem(3, 3, 16, 16, 3, 3, by_channel=True), 31 + 6 + 6 + 16 * 5 + 2 + 33),
    # What it has no kernel for: ten MACs a cycle on the cores.
    ("10 x 4", 5, Problem(25, 5, 64, 1, 10, 4, 2, 1, False, 2), 25 * 5 * 64 * 40 // 10),
    ("dilated", 8, Problem(3, 3, 32, 16, 3, 3, 1, 1, False, 1, 2), 9 * 32 * 16 * 9 // 10 + 1),
]


@pytest.mark.parametrize(("what", "bits", "problem", "wanted"), BY_HAND, ids=[case[0] for case in BY_HAND])
def test_cycles_by_hand(what: str, bits: int, problem: Problem, wanted: int) -> None:
    assert cycles(bits, problem) == wanted, what


def test_bits_of_one_tap_lie_at_the_taps_of_the_other_kernel() -> None:
    """Eight bits at four taps are two cycles for each of 32 channels; three are one."""
    problem = Problem(3, 3, 32, 16, 1, 1)
    small = {"mac_array.bit_serial.kernel_side": 2}
    for bits, each in ((8, 2), (4, 1), (5, 2), (3, 1)):
        array = change(hardware("gap9"), {**small, "mac_array.weight_bits": bits}).mac_array
        used = engine_of(array).use(array, problem._replace(few_bits=True), Layout())
        assert used.cycles == 19 + 14 + 32 * each + 66


def test_pixels_of_a_step_pass_once() -> None:
    """Of the 31 cycles of a load 25 have a pixel of 16 channels."""
    array = ne16(8)
    assert engine_of(array).use(array, Problem(3, 3, 32, 17, 3, 3), Layout()).map_values == 2 * 25 * 16


RESNET_8 = (
    # Rows and columns, channels out and in, kernel, stride.
    *((32, 16, 3, 3, 1), (32, 16, 16, 3, 1), (32, 16, 16, 3, 1)),
    *((16, 32, 16, 3, 2), (16, 32, 32, 3, 1), (16, 32, 16, 1, 2)),
    *((8, 64, 32, 3, 2), (8, 64, 64, 3, 1), (8, 64, 32, 1, 2)),
)


def test_a_bit_of_resnet_8() -> None:
    """The published model has 174,166 cycles with 7 bits and 188,678 with 8: 14,512 for a bit."""
    seven, eight = (
        sum(
            cycles(bits, Problem(side, side, out, depth, kernel, kernel, stride, 1, False, stride, 1))
            for side, out, depth, kernel, stride in RESNET_8
        )
        for bits in (7, 8)
    )
    assert eight - seven == 188_678 - 174_166 == 14_512
    assert seven == pytest.approx(174_166, rel=0.02)


def walked(bits: int, problem: Problem) -> int:
    """Cycles of each block, group of channels and step, one after the other."""
    point = (problem.kernel_height, problem.kernel_width) == (1, 1) and not problem.by_channel
    side = 2 if max(problem.stride_height, problem.stride_width) > 1 and problem.kernel_height == 3 else 3
    lanes = 16 if problem.by_channel else 32
    total = 0
    corners = product(range(0, problem.ofm_height, side), range(0, problem.ofm_width, side))
    for _, channel in product(corners, range(0, problem.ofm_depth, lanes)):
        there = min(lanes, problem.ofm_depth - channel)
        inputs = [0] if problem.by_channel else range(0, problem.ifm_depth, 16)
        for _ in inputs:
            if point:
                total += 10 + min(3, problem.ofm_height) * min(3, problem.ofm_width)
                total += 6 + (6 + 32) + 2
            else:
                total += 6 + (2 + problem.kernel_height) * (2 + problem.kernel_width)
                total += 6 + (6 + there * bits) + 2
        total += 66 * lanes // 32
    return total


kernels = st.sampled_from([(1, 1), (3, 3)])
strides = st.sampled_from([(1, 1), (2, 2), (1, 2)])


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    by_channel = draw(st.booleans())
    sides = draw(st.integers(1, 20)), draw(st.integers(1, 20))
    depth = draw(st.integers(1, 90))
    inputs = depth if by_channel else draw(st.integers(1, 90))
    kernel = (3, 3) if by_channel else draw(kernels)
    down, across = draw(strides)
    return Problem(*sides, depth, inputs, *kernel, across, 1, by_channel, down, 1)


@pytest.mark.slow
@given(BITS, problems())
def test_every_block_and_step(bits: int, problem: Problem) -> None:
    assert cycles(bits, problem) == walked(bits, problem)


@pytest.mark.slow
@given(BITS, problems(), st.sampled_from([(1, 1), (3, 3), (5, 5), (10, 4)]), st.integers(1, 2), st.booleans())
def test_what_is_lost_adds_up(
    bits: int, problem: Problem, kernel: tuple[int, int], dilation: int, few_bits: bool
) -> None:
    problem = problem._replace(
        kernel_height=kernel[0], kernel_width=kernel[1], dilation_width=dilation, dilation_height=dilation
    )
    problem = problem._replace(few_bits=few_bits)
    array = ne16(bits)
    engine = engine_of(array)
    used, lost = engine.use(array, problem, Layout()), engine.split(array, problem, Layout())
    assert len(lost) == len(engine.causes)
    assert min(lost) >= 0
    assert -(-problem.macs // engine.macs_per_cycle(array)) + sum(lost) == used.cycles
    assert 0 < used.array_cycles <= used.cycles
    assert used.weight_values >= problem.weights


@pytest.mark.slow
@given(BITS, problems())
def test_weights_that_are_no_constants_keep_their_bits(bits: int, problem: Problem) -> None:
    """The second factor of a product of activations takes what it takes with eight bits."""
    array = ne16(bits)
    used = engine_of(array).use(array, problem, Layout())
    assert used == engine_of(ne16(8)).use(ne16(8), problem, Layout())
    assert used.product_bits == 8
    assert engine_of(array).use(array, problem._replace(few_bits=True), Layout()).product_bits == bits


def test_cores_multiply_all_bits() -> None:
    array = ne16(3)
    assert engine_of(array).use(array, Problem(9, 9, 8, 8, 5, 5, few_bits=True), Layout()).product_bits == 8


@pytest.mark.parametrize(("bits", "macs"), [(8, 162), (7, 185), (6, 216), (5, 259), (2, 648)])
def test_fewer_bits_are_faster(bits: int, macs: int) -> None:
    assert engine_of(ne16(bits)).macs_per_cycle(ne16(bits)) == macs


def test_a_layout_has_nothing_to_choose() -> None:
    array = ne16(8)
    engine = engine_of(array)
    assert engine.fastest(array, Problem(3, 3, 32, 16, 3, 3)) == Layout()
    assert engine.misfits(array, Layout(), True) == []
    assert engine.misfits(array, Layout(1), False) == [
        "output_stationary 1; it may be 0, the array works in blocks"
    ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {
                "mac_array.bit_serial.side": 1,
                "mac_array.bit_serial.kernel_side": 1,
                "mac_array.bit_serial.input_channels": 7,
            },
            "bit_serial.input_channels: 7 is too few: side x side x kernel_side x kernel_side x input_channels are 7 "
            "binary multipliers, fewer than the 8 bits of a weight",
        ),
    ],
)
def test_rules_of_the_kind(changes: dict[str, int], message: str) -> None:
    with pytest.raises(HardwareError) as caught:
        change(hardware("gap9"), changes)
    assert str(caught.value) == f"hardware: 1 fault: mac_array.{message}"
    change(hardware("edge-128"), changes, all_read=False)  # another engine type does not read it


@pytest.mark.parametrize(
    ("preset", "kind"), [("edge-128", "systolic"), ("ethos-u55-128", "block"), ("stm32n6", "stream")]
)
def test_other_kinds_refuse_few_bits(preset: str, kind: str) -> None:
    with pytest.raises(HardwareError) as caught:
        change(hardware(preset), {"mac_array.weight_bits": 5})
    assert str(caught.value) == (
        f"hardware: 1 fault: mac_array.weight_bits: a {kind} engine does not read it; only bit_serial engines do"
    )


@pytest.mark.parametrize("bits", [1, 9])
def test_weights_have_two_to_eight_bits(bits: int) -> None:
    with pytest.raises(HardwareError, match=r"mac_array\.weight_bits"):
        ne16(bits)
