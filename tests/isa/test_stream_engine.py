"""The streaming engine: cycles by hand, and against elements and passes that are walked through one by one."""

from __future__ import annotations

from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npusim.isa.base.errors import HardwareError
from npusim.isa.engines.engine import Layout, Problem
from npusim.isa.engines.kinds import engine_of
from npusim.isa.engines.mac_array import MacArray
from npusim.isa.hardware.file import change, hardware


def neural_art(units_per_layer: int = 1, **others: int) -> MacArray:
    changes = {"mac_array.stream.units_per_layer": units_per_layer}
    return change(hardware("stm32n6"), changes | {f"mac_array.{k}": v for k, v in others.items()}).mac_array


def cycles(problem: Problem, array: MacArray | None = None) -> int:
    array = array or neural_art()
    return engine_of(array).use(array, problem, Layout()).cycles


STRIDE_2 = {"stride_width": 2, "stride_height": 2}

# A unit of 75 multipliers, an output element a cycle and pass; ports of 8 bytes a cycle.
BY_HAND = [
    ("one pass", Problem(64, 64, 16, 3, 3, 3), 64 * 64 * 16),
    ("8 windows of 9", Problem(10, 10, 32, 8, 3, 3), 100 * 32),
    ("the ninth channel", Problem(10, 10, 32, 9, 3, 3), 100 * 32 * 2),
    ("3 windows of 25 are all 75", Problem(64, 64, 32, 3, 5, 5), 64 * 64 * 32),
    ("1 window of 49 at a time", Problem(64, 64, 32, 3, 7, 7), 64 * 64 * 32 * 3),
    ("a window of 80 in two pieces", Problem(10, 10, 32, 2, 10, 8), 100 * 32 * 2 * 2),
    ("75 channels", Problem(10, 10, 96, 75, 1, 1), 100 * 96),
    ("76 channels", Problem(10, 10, 96, 76, 1, 1), 100 * 96 * 2),
    # What a stride leaves out costs nothing: sets of kernels have the time of all of them.
    ("stride 2", Problem(10, 10, 32, 8, 3, 3, **STRIDE_2), 100 * 32),
    # One kernel for each channel: every position of its input passes, with the border.
    ("depthwise", Problem(10, 10, 32, 32, 3, 3, by_channel=True), 12 * 12 * 32),
    ("depthwise, stride 2", Problem(10, 10, 32, 32, 3, 3, by_channel=True, **STRIDE_2), 21 * 21 * 32),
    ("depthwise, dilated", Problem(10, 5, 32, 32, 3, 1, 1, 2, True, 1, 2), 14 * 5 * 32),
    ("depthwise, a point of each four", Problem(10, 10, 32, 32, 1, 1, by_channel=True, **STRIDE_2), 100 * 32),
    # Of one pixel: weights at 8 bytes a cycle.
    ("product", Problem(1, 1, 1000, 1024, 1, 1), 1000 * 1024 // 8),
    # Two sets of kernels: 600 channels pass twice at 8 bytes a cycle, slower than 17 x 8 elements.
    ("feature map", Problem(16, 16, 17, 600, 1, 1), 256 * 600 * 2 // 8),
]


@pytest.mark.parametrize(("what", "problem", "wanted"), BY_HAND, ids=[case[0] for case in BY_HAND])
def test_cycles_by_hand(what: str, problem: Problem, wanted: int) -> None:
    assert cycles(problem) == wanted, what


def test_units_that_divide_the_input_channels() -> None:
    """Ninety-six channels are 24 for each of four units: an element a cycle, and with one unit two passes."""
    problem = Problem(257, 1, 96, 96, 1, 1)
    assert [cycles(problem, neural_art(units)) for units in (1, 2, 4)] == [2 * 24_672, 24_672, 24_672]
    depthwise = Problem(10, 10, 32, 32, 3, 3, by_channel=True)
    assert cycles(depthwise, neural_art(4, output_lanes=4)) == 12 * 12 * 32 // 4
    assert cycles(depthwise._replace(ofm_depth=33), neural_art(4, output_lanes=4)) == 12 * 12 * 9
    assert cycles(depthwise, neural_art(4)) == 100 * 32  # one output lane


def test_the_full_array_is_that_of_all_units() -> None:
    chip = hardware("stm32n6")
    assert chip.macs_per_cycle == 4 * 75
    assert chip.tops == pytest.approx(0.6)  # 600 GOPS


def walked(problem: Problem, units: int) -> int:
    """Each channel and pass of the problem one after the other, and of its positions or pixels each a cycle."""
    taps = problem.kernel_height * problem.kernel_width
    rows, columns = (
        {at * stride + below for at in range(outputs) for below in range((kernel - 1) * dilation + 1)}
        for outputs, stride, kernel, dilation in (
            (problem.ofm_height, problem.stride_height, problem.kernel_height, problem.dilation_height),
            (problem.ofm_width, problem.stride_width, problem.kernel_width, problem.dilation_width),
        )
    )
    total = 0
    for _ in range(0, taps, 75):  # pieces of a window
        if problem.by_channel:
            for _ in range(0, problem.ofm_depth, units):
                total += len(rows) * len(columns)
            continue
        for _ in range(problem.ofm_depth):
            left = problem.ifm_depth
            while left > 0:
                left -= units * max(1, 75 // taps)  # each takes whole windows
                total += problem.pixels
    return total


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    by_channel = draw(st.booleans())
    depth = draw(st.integers(1, 40))
    sides = [draw(st.integers(1, 9)) for _ in range(4)]
    down, across = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    dilations = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    inputs = depth if by_channel else draw(st.integers(1, 200))
    return Problem(
        *sides[:2], depth, inputs, *sides[2:], across, dilations[1], by_channel, down, dilations[0]
    )


@pytest.mark.slow
@given(problems(), st.integers(1, 4))
def test_every_element_and_pass(problem: Problem, units: int) -> None:
    """Behind wide ports."""
    fast = neural_art(units, ifm_bytes_per_cycle=4096, weight_bytes_per_cycle=4096, output_lanes=1024)
    used = engine_of(fast).use(fast, problem, Layout())
    ports = ceil(max(used.map_values, used.weight_values) / 4096)
    assert used.cycles == max(walked(problem, units), ports)


@pytest.mark.slow
@given(problems(), st.integers(1, 4))
def test_what_is_lost_adds_up(problem: Problem, units: int) -> None:
    array = neural_art(units)
    engine = engine_of(array)
    used, lost = engine.use(array, problem, Layout()), engine.split(array, problem, Layout())
    assert len(lost) == len(engine.causes)
    assert min(lost) >= 0
    assert ceil(problem.macs / 300) + sum(lost) == used.cycles
    assert 0 < used.array_cycles <= used.cycles
    assert used.weight_values == problem.weights


def test_a_layout_has_nothing_to_choose() -> None:
    array = neural_art()
    engine = engine_of(array)
    assert engine.fastest(array, Problem(3, 3, 32, 16, 3, 3)) == Layout()
    assert engine.misfits(array, Layout(), True) == []
    assert engine.misfits(array, Layout(1), False) == [
        "output_stationary 1; it may be 0, feature maps stream through the array"
    ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"mac_array.stream.units_per_layer": 5},
            "stream.units_per_layer: 5 of 4 units, at most all of them",
        ),
    ],
)
def test_rules_of_the_kind(changes: dict[str, int], message: str) -> None:
    with pytest.raises(HardwareError) as caught:
        change(hardware("stm32n6"), changes)
    assert str(caught.value) == f"hardware: 1 fault: mac_array.{message}"
    change(hardware("edge-128"), changes, all_read=False)  # another engine type does not read it
