"""The MAC array: small sums written out, and exact occupancy on both sides of each gate."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from npusim.isa.hardware.file import change, hardware
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.instructions.instruction import Context
from npusim.isa.instructions.mac import Convolve, Depthwise

from .samples import codes, read, run, tiny_hardware

IFM, WEIGHTS, PARAMETERS, OFM = 0, 1024, 2048, 4096
ONE = (1 << 30, 1)
"""Multiplier and shift of the scale 1: 2^30 * 2^(1 - 31)."""
HALF = (1 << 30, 0)
QUARTER = (1 << 30, -1)


def parameters(biases: list[int], *scales: tuple[int, int]) -> bytes:
    """Biases, then multipliers, then shifts."""
    multipliers, shifts = zip(*scales, strict=True)
    return np.array([*biases, *multipliers], "<i4").tobytes() + np.array(shifts, np.int8).tobytes()


def window(
    ifm: tuple[int, int, int], ofm: tuple[int, int, int], kernel: tuple[int, int], **fields: Any
) -> dict[str, Any]:
    """The fields of an int8 convolution of dense feature maps, whose clamp does nothing."""
    return {
        "ifm": IFM, "weights": WEIGHTS, "parameters": PARAMETERS, "ofm": OFM,
        "ifm_height": ifm[0], "ifm_width": ifm[1], "ifm_depth": ifm[2],
        "ifm_pixel_stride": ifm[2], "ifm_row_stride": ifm[1] * ifm[2],
        "ofm_height": ofm[0], "ofm_width": ofm[1], "ofm_depth": ofm[2],
        "ofm_pixel_stride": ofm[2], "ofm_row_stride": ofm[1] * ofm[2],
        "kernel_height": kernel[0], "kernel_width": kernel[1],
        "stride_height": 1, "stride_width": 1, "dilation_height": 1, "dilation_width": 1,
        "low": -128, "high": 127, "signed": 1, "weights_signed": 1,
    } | fields  # fmt: skip


def result(instruction: Convolve | Depthwise, ifm: bytes, weights: bytes, block: bytes) -> Any:
    """The output [height][width][channel]."""
    memory = run(instruction, {IFM: ifm, WEIGHTS: weights, PARAMETERS: block})
    shape = (instruction.ofm_height, instruction.ofm_width, instruction.ofm_depth)
    return read(memory, OFM, *shape, dtype="int8" if instruction.signed else "uint8")


PIXELS = window((1, 2, 2), (1, 2, 1), (1, 1))


def test_a_matrix_product_with_bias() -> None:
    """1 * 5 + 2 * 6 = 17 and 3 * 5 + 4 * 6 = 39, plus 3."""
    got = result(Convolve(**PIXELS), codes(1, 2, 3, 4), codes(5, 6), parameters([3], ONE))
    assert got == [[[20], [42]]]


def test_zero_points_and_clamp() -> None:
    """(11 - 10) * (7 - 2) + (12 - 10) * (8 - 2) = 17, (13 - 10) * 5 + (14 - 10) * 6 = 39; halved 9 (8.5), 20 (19.5).

    Less 4 at the output: 5 and 16, the second clamped to 12.
    """
    fields = PIXELS | {"ifm_zero": 10, "weight_zero": 2, "ofm_zero": -4, "low": 0, "high": 12}
    got = result(Convolve(**fields), codes(11, 12, 13, 14), codes(7, 8), parameters([0], HALF))
    assert got == [[[5], [12]]]


def test_unsigned_codes() -> None:
    """(200 - 128) * (3 - 128) + (0 - 128) * (255 - 128) = -25256; / 2^8 = -98.66, plus 128 = 29."""
    fields = window((1, 1, 2), (1, 1, 1), (1, 1), signed=0, weights_signed=0, low=0, high=255)
    fields |= {"ifm_zero": 128, "weight_zero": 128, "ofm_zero": 128}
    block = parameters([0], (1 << 30, 1 - 8))
    assert result(Convolve(**fields), codes(200, 0, dtype="uint8"), codes(3, 255, dtype="uint8"), block) == [
        [[29]]
    ]


def test_padding_reads_as_the_zero_point() -> None:
    """A 3 x 3 kernel of ones over a 2 x 2 map of 6 with zero point 5: every window sees the four ones."""
    fields = window((2, 2, 1), (2, 2, 1), (3, 3), pad_top=1, pad_left=1, ifm_zero=5)
    got = result(Convolve(**fields), codes(6, 6, 6, 6), codes(*[1] * 9), parameters([0], ONE))
    assert got == [[[4], [4]], [[4], [4]]]


def test_strides_and_dilations() -> None:
    """Map 0..24 of 5 x 5; taps (0, 0) and (0, 1) two columns apart, times 1 and 2; windows two rows apart.

    Row 0: 0 + 2 * 2 = 4, 1 + 2 * 3 = 7, 2 + 2 * 4 = 10. Row 2: 10 + 2 * 12 = 34, 37, 40.
    """
    fields = window((5, 5, 1), (2, 3, 1), (1, 2), stride_height=2, dilation_width=2)
    got = result(Convolve(**fields), codes(*range(25)), codes(1, 2), parameters([0], ONE))
    assert got == [[[4], [7], [10]], [[34], [37], [40]]]


def test_one_scale_per_channel() -> None:
    """Channels 10 * 1 + 1 and 10 * 2 + 2, times 1 and a quarter: 11 and 6 (5.5 away from zero)."""
    fields = window((1, 1, 1), (1, 1, 2), (1, 1), per_channel=1)
    got = result(Convolve(**fields), codes(10), codes(1, 2), parameters([1, 2], ONE, QUARTER))
    assert got == [[[11, 6]]]


@pytest.mark.parametrize(("rounding", "quarter_of_five"), [(0, 2), (1, 1)])
def test_both_roundings(rounding: int, quarter_of_five: int) -> None:
    """5 / 4: in two steps 2.5 -> 3 -> 1.5 -> 2, in one 1.25 -> 1."""
    fields = window((1, 1, 1), (1, 1, 1), (1, 1), rounding=rounding)
    assert result(Convolve(**fields), codes(5), codes(1), parameters([0], QUARTER)) == [[[quarter_of_five]]]


def float_parameters(biases: list[int], *scales: float) -> bytes:
    """Biases, then float32 scales."""
    return np.array(biases, "<i4").tobytes() + np.array(scales, "<f4").tobytes()


def test_rescale_in_float32() -> None:
    """5 * 1 and 5 * 3 by a half are 2.5 and 7.5: 2 and 8, halves to even, plus 1; fixed point gives 3 and 8."""
    fields = window((1, 1, 1), (1, 1, 2), (1, 1), ofm_zero=1)
    in_float = Convolve(**fields, rescale=1)
    assert result(in_float, codes(5), codes(1, 3), float_parameters([0, 0], 0.5)) == [[[3, 9]]]
    assert result(Convolve(**fields), codes(5), codes(1, 3), parameters([0, 0], HALF)) == [[[4, 9]]]
    by_channel = replace(in_float, per_channel=1)
    assert result(by_channel, codes(5), codes(1, 3), float_parameters([0, 2], 0.5, 0.25)) == [[[3, 5]]]
    channel_by_channel = Depthwise(**window((1, 1, 2), (1, 1, 2), (1, 1), ofm_zero=1), rescale=1)
    assert result(channel_by_channel, codes(5, 15), codes(1, 1), float_parameters([0, 0], 0.5)) == [[[3, 9]]]


def test_an_output_of_the_other_sign() -> None:
    """1 * 5 + 2 * 6 = 17 and 3 * 5 + 4 * 6 = 39, less 30, of int8 codes: 0 and 9 of uint8; and back, 200 - 150 = 50."""
    fields = PIXELS | {"low": 0, "high": 255, "other_sign": 1, "ofm_zero": -30}
    instruction = Convolve(**fields)
    memory = run(
        instruction, {IFM: codes(1, 2, 3, 4), WEIGHTS: codes(5, 6), PARAMETERS: parameters([0], ONE)}
    )
    assert read(memory, OFM, 2, dtype="uint8") == [0, 9]
    back = Convolve(**window((1, 1, 1), (1, 1, 1), (1, 1), signed=0, other_sign=1, ofm_zero=-150))
    memory = run(back, {IFM: codes(200, dtype="uint8"), WEIGHTS: codes(1), PARAMETERS: parameters([0], ONE)})
    assert read(memory, OFM, 1, dtype="int8") == [50]
    assert replace(back, high=200).faults() == ["clamp -128..200 is not within -128..127"]


def test_what_a_rescale_in_float32_cannot_be_and_costs() -> None:
    fields = window((1, 10, 5), (1, 10, 5), (1, 1))
    assert Convolve(**fields, rescale=1, rounding=1).faults() == [
        "rescale float32 with rounding single; it may be double"
    ]
    wide = Convolve(**fields | {"low": 0, "high": 0}, rescale=1, wide=2)
    assert wide.faults() == [
        "wide results with rescale float32 and other_sign 0; they may be fixed_point and 0"
    ]
    in_float = Convolve(**fields, rescale=1)
    without = Context(change(CHIP, {"float32_rescale": False}))
    assert in_float.misfits(Context(CHIP)) == []
    assert in_float.misfits(without) == ["rescale is float32; the machine has float32_rescale = false"]
    # The cycles of fixed point; a scale is 4 bytes, not 5.
    fixed, cost = (each.cost(Context(CHIP)) for each in (Convolve(**fields), in_float))
    assert (fixed.cycles, fixed.array_cycles) == (cost.cycles, cost.array_cycles)
    changed = {name: count for name, count in cost.actions.items() if fixed.actions.get(name) != count}
    read = fixed.actions["scratchpad_read_byte"] - 1
    assert changed == {"requantise_float32": 50, "scratchpad_read_byte": read}
    by_channel = replace(in_float, per_channel=1).cost(Context(CHIP))
    assert by_channel.actions["scratchpad_read_byte"] == read + 4 * 4


def test_the_new_fields_lie_behind_all_others() -> None:
    """Words made before there were these fields say what they said."""
    for row in (Convolve, Depthwise):
        last = ["rescale", "other_sign", "few_bits", "looked_up", "int16"]
        assert [spec.name for spec in row.specs[-5:]] == last
    assert [spec.offset for spec in Convolve.specs[-6:]] == [569, 571, 572, 573, 574, 575]
    assert Depthwise.specs[-5].offset == 547


def test_maps_inside_larger_ones() -> None:
    """A map of 2 x 2 pixels in rows of 3 pixels of 4 channels, of which the second is used; output every third byte."""
    fields = window((2, 2, 1), (2, 2, 1), (1, 1))
    fields |= {
        "ifm": 1,
        "ifm_pixel_stride": 4,
        "ifm_row_stride": 12,
        "ofm_pixel_stride": 3,
        "ofm_row_stride": 6,
    }
    instruction = Convolve(**fields)
    memory = run(instruction, {0: bytes(range(24)), WEIGHTS: codes(2), PARAMETERS: parameters([0], ONE)})
    assert read(memory, OFM, 11) == [2, 0, 0, 10, 0, 0, 26, 0, 0, 34, 0]


def test_wide_results_are_words_of_16_bits() -> None:
    """100 * 100 * 3 = 30000 and a bias, 30000 + 3000 beyond 32767, -30000 - 3000 beyond -32768; low bytes first."""
    fields = window((1, 1, 3), (1, 1, 4), (1, 1), wide=1, low=0, high=0, ofm_pixel_stride=8, ofm_row_stride=8)
    weights = codes(*[100] * 3, *[100] * 3, *[-100] * 3, *[0] * 3)
    block = parameters([0, 3000, -3000, -2], ONE)
    instruction = Convolve(**fields)
    memory = run(instruction, {IFM: codes(100, 100, 100), WEIGHTS: weights, PARAMETERS: block})
    words = np.array(read(memory, OFM, 8, dtype="uint8"), np.uint8).view("<i2")
    assert words.tolist() == [30000, 32767, -32768, -2]
    assert Convolve(**fields | {"high": 7}).faults() == [
        "wide results with zero point 0 and clamp 0..7; all may be 0"
    ]


def test_wider_results_are_not_clamped() -> None:
    fields = window((1, 1, 3), (1, 1, 2), (1, 1), wide=2, low=0, high=0, ofm_pixel_stride=8, ofm_row_stride=8)
    weights = codes(*[127] * 3, *[-128] * 3)
    memory = run(
        Convolve(**fields),
        {IFM: codes(100, 100, 100), WEIGHTS: weights, PARAMETERS: parameters([7, -7], ONE)},
    )
    words = np.array(read(memory, OFM, 8, dtype="uint8"), np.uint8).view("<i4")
    assert words.tolist() == [38107, -38407]


def test_wide_results_are_twice_the_bytes_in_the_same_cycles() -> None:
    narrow = window((4, 4, 8), (4, 4, 8), (1, 1))
    wide = narrow | {"wide": 1, "low": 0, "high": 0, "ofm_pixel_stride": 16, "ofm_row_stride": 64}
    costs = [Convolve(**fields).cost(Context(tiny_hardware())) for fields in (narrow, wide)]
    assert costs[0].cycles == costs[1].cycles
    assert [cost.actions["scratchpad_write_byte"] for cost in costs] == [128, 256]
    regions = [Convolve(**fields).regions(Context(tiny_hardware()))[1][0] for fields in (narrow, wide)]
    assert [region.size_bytes for region in regions] == [128, 256]


def test_both_dataflows_give_the_same_bytes() -> None:
    rng = np.random.default_rng(1)
    ifm, weights = (rng.integers(-128, 128, size, np.int8).tobytes() for size in (5 * 5 * 3, 4 * 9 * 3))
    block = parameters([1, -2, 3, -4], *[(1 << 30, -5)] * 4)
    fields = window((5, 5, 3), (5, 5, 4), (3, 3), pad_top=1, pad_left=1, per_channel=1)
    first = result(Convolve(**fields), ifm, weights, block)
    assert first == result(Convolve(**fields, output_stationary=1), ifm, weights, block)
    assert first != result(Convolve(**fields), ifm, weights[::-1], block)


def test_factors_of_a_product_as_they_lie() -> None:
    """[[1, 2], [3, 4], [5, 6]] by [[1, 2], [10, 20]] is [[21, 42], [43, 86], [65, 130]], the last one clamped."""
    wanted = [[[21, 42]], [[43, 86]], [[65, 127]]]
    size = window((3, 1, 2), (3, 1, 2), (1, 1))
    block = parameters([0, 0], ONE)
    second_transposed, second = codes(1, 10, 2, 20), codes(1, 2, 99, 10, 20)
    first, first_transposed = codes(1, 2, 3, 4, 5, 6), codes(1, 3, 5, 99, 2, 4, 6)
    turned = {"ifm_transposed": 1, "ifm_row_stride": 1, "ifm_pixel_stride": 4}
    assert result(Convolve(**size), first, second_transposed, block) == wanted
    assert result(Convolve(**size, weight_stride=3), first, second, block) == wanted
    assert result(Convolve(**size | turned), first_transposed, second_transposed, block) == wanted
    both = Convolve(**size | turned, weight_stride=3)
    assert result(both, first_transposed, second, block) == wanted
    # What lies between the rows of a factor is not read, and the cycles are those of any product of this size.
    (ifm, weights, _), _ = both.regions(Context(tiny_hardware()))
    assert (ifm.counts, ifm.strides, weights.counts, weights.strides) == ((2, 3), (4,), (2, 2), (3,))
    context = Context(tiny_hardware())
    assert both.cost(context) == Convolve(**size).cost(context)


def test_factors_that_cannot_be() -> None:
    size = window((3, 1, 2), (3, 1, 2), (1, 1))
    assert Convolve(**size, weight_stride=1).faults() == ["weight_stride is 1; it may be 0, or 2 or more"]
    assert Convolve(**size, ifm_transposed=1).faults() == [
        "a transposed feature map of 1 columns with rows 2 bytes apart; it may have 1 column, and rows 1 byte apart"
    ]


def test_depthwise_with_a_multiplier() -> None:
    """Channels 0, 0, 1, 1 read map channels 3, 3, 5, 5: 3 * 1, 3 * 2, 5 * 3, 5 * 4."""
    fields = window((1, 1, 2), (1, 1, 4), (1, 1))
    assert result(Depthwise(**fields), codes(3, 5), codes(1, 2, 3, 4), parameters([0] * 4, ONE)) == [
        [[3, 6, 15, 20]]
    ]


def test_depthwise_windows() -> None:
    """Two channels, kernel 2 x 1 of (1, 10) and (2, 20) on a column of (1, 2), (3, 4), (5, 6)."""
    fields = window((3, 1, 2), (2, 1, 2), (2, 1))
    got = result(Depthwise(**fields), codes(1, 2, 3, 4, 5, 6), codes(1, 2, 10, 20), parameters([0, 0], ONE))
    assert got == [
        [[1 * 1 + 3 * 10, 2 * 2 + 4 * 20]],
        [[3 * 1 + 5 * 10, 127]],
    ]  # 4 * 2 + 6 * 20 = 128 is clamped


# Occupancy. 4 rows x 4 columns with ports of 4 bytes: loading weights takes 4 cycles, the pipeline is 6 deep. 1 KiB
# of accumulators: 32 pixels per column and half.

CHIP = change(
    tiny_hardware(),
    {
        "mac_array.shadow_weights": True, "mac_array.ifm_bytes_per_cycle": 4, "mac_array.weight_bytes_per_cycle": 4,
        "mac_array.output_lanes": 4,
    },
)  # fmt: skip
PLAIN = change(CHIP, {"mac_array.shadow_weights": False})


def cost_of(chip: Hardware, pixels: int, inner: int, channels: int, **fields: Any) -> tuple[int, int]:
    """(all cycles, cycles of the array) of a 1 x 1 convolution."""
    instruction = Convolve(**window((1, pixels, inner), (1, pixels, channels), (1, 1), **fields))
    cost = instruction.cost(Context(chip))
    return cost.cycles, cost.array_cycles


@pytest.mark.parametrize(
    ("pixels", "inner", "channels", "total", "array"),
    [
        # load 4, stream 10, pipeline 6; then the output stage writes 10 pixels, 4 channels per cycle
        (10, 4, 4, 4 + 10 + 6 + 10, 4 + 10 + 6),
        # one value more than rows: a second fold
        (10, 5, 4, 4 + 2 * 10 + 6 + 10, 4 + 2 * 10 + 6),
        (10, 8, 4, 4 + 2 * 10 + 6 + 10, 4 + 2 * 10 + 6),
        # one channel more than columns: a second group, whose 10 output cycles hide behind the stream but for the last
        (10, 4, 5, 4 + 10 + 10 + 6 + 10, 4 + 10 + 10 + 6),
        # fewer pixels than the load takes: the load shows, but for the last fold, behind which nothing is loaded
        (4, 5, 4, 4 + 2 * 4 + 6 + 4, 4 + 2 * 4 + 6),
        (3, 5, 4, 4 + 4 + 3 + 6 + 3, 4 + 4 + 3 + 6),
        # 32 accumulators per column: the 33rd pixel is a block of its own, whose output waits for that of the first
        (32, 4, 4, 4 + 32 + 6 + 32, 4 + 32 + 6),
        (33, 4, 4, 4 + 32 + 6 + 32 + 1, 4 + 32 + 1 + 6),
    ],
)
def test_weight_stationary_with_shadow_weights(
    pixels: int, inner: int, channels: int, total: int, array: int
) -> None:
    assert cost_of(CHIP, pixels, inner, channels) == (total, array)


@pytest.mark.parametrize(
    ("pixels", "inner", "channels", "total", "array"),
    [
        # every fold loads 4, streams, drains 6; array cycles leave out the last one
        (10, 4, 4, 4 + 10 + 6 + 10, 4 + 10 + 6 - 1),
        (10, 5, 4, 2 * 20 + 10, 2 * 20 - 1),
        (11, 4, 4, 4 + 11 + 6 + 11, 4 + 11 + 6 - 1),
    ],
)
def test_weight_stationary_without_shadow_weights(
    pixels: int, inner: int, channels: int, total: int, array: int
) -> None:
    assert cost_of(PLAIN, pixels, inner, channels) == (total, array)


@pytest.mark.parametrize(
    ("chip", "pixels", "inner", "channels", "total", "array"),
    [
        # stream the dot product of 10, pipeline 6, then 4 pixels out
        (CHIP, 4, 10, 4, 10 + 6 + 4, 10 + 6),
        (CHIP, 4, 11, 4, 11 + 6 + 4, 11 + 6),
        # one pixel more than rows, one channel more than columns: a second group each
        (CHIP, 5, 10, 4, 2 * 10 + 6 + 1, 2 * 10 + 6),
        (CHIP, 4, 10, 5, 2 * 10 + 6 + 4, 2 * 10 + 6),
        # a dot product shorter than the 4 cycles that moving out the results of the group before takes
        (CHIP, 5, 4, 4, 2 * 4 + 6 + 1, 2 * 4 + 6),
        (CHIP, 5, 3, 4, 3 + 4 + 6 + 1, 3 + 4 + 6),
        # without shadow registers each group fills and drains
        (PLAIN, 4, 10, 4, 16 + 4, 16 - 1),
        (PLAIN, 5, 10, 4, 2 * 16 + 1, 2 * 16 - 1),
    ],
)
def test_output_stationary(
    chip: Hardware, pixels: int, inner: int, channels: int, total: int, array: int
) -> None:
    assert cost_of(chip, pixels, inner, channels, output_stationary=1) == (total, array)


@pytest.mark.parametrize(
    ("changes", "fields", "total"),
    [
        (
            {"mac_array.ifm_bytes_per_cycle": 3},
            {},
            4 + 2 * 10 + 6 + 10,
        ),  # a vector of 4 operands in two beats
        ({"mac_array.weight_bytes_per_cycle": 3}, {}, 8 + 10 + 6 + 10),  # a row of 4 weights in two beats
        ({"mac_array.output_lanes": 3}, {}, 4 + 10 + 6 + 2 * 10),  # 4 channels in two cycles
        ({"mac_array.ifm_bytes_per_cycle": 3}, {"output_stationary": 1}, 2 * 8 + 4 + 6 + 2),  # 4 and 2 pixels
        ({"mac_array.weight_bytes_per_cycle": 3}, {"output_stationary": 1}, 3 * 8 + 6 + 2),
    ],
)
def test_narrow_ports(changes: dict[str, Any], fields: dict[str, Any], total: int) -> None:
    """10 pixels, dot products of 4, 4 channels; output stationary: groups of 4, 4 and 2 pixels."""
    assert cost_of(change(CHIP, changes), 10, 4, 4, **fields)[0] == total


def test_a_vector_shorter_than_the_port_takes_one_beat() -> None:
    narrow = change(CHIP, {"mac_array.ifm_bytes_per_cycle": 2})
    assert cost_of(narrow, 10, 2, 4)[0] == 4 + 10 + 6 + 10
    assert cost_of(narrow, 10, 3, 4)[0] == 4 + 20 + 6 + 10


def test_actions_of_a_convolution() -> None:
    """10 pixels, dot products of 5 (two folds), 5 channels (two column groups): 250 MACs on 16 elements.

    The array is busy for 4 + 4 * 10 + 6 = 50 cycles. The map is read once per column group, 10 * 5 * 2 bytes, the
    25 weights once, and the parameter block of 4 * 5 + 5 bytes; each accumulator is updated once per fold.
    """
    cost = Convolve(**window((1, 10, 5), (1, 10, 5), (1, 1))).cost(Context(CHIP))
    assert dict(cost.actions) == {
        "mac_int8": 250,
        "pe_register": 250,
        "pe_idle": 50 * 16 - 250,
        "accumulator_update": 10 * 5 * 2,
        "requantise": 50,
        "scratchpad_read_byte": 100 + 25 + 25,
        "scratchpad_write_byte": 50,
    }
    per_channel = Convolve(**window((1, 10, 5), (1, 10, 5), (1, 1), per_channel=1)).cost(Context(CHIP))
    assert per_channel.actions["scratchpad_read_byte"] == 100 + 25 + 9 * 5
    stationary = Convolve(**window((1, 10, 5), (1, 10, 5), (1, 1), output_stationary=1)).cost(Context(CHIP))
    assert stationary.actions["accumulator_update"] == 50


def test_actions_with_few_bits() -> None:
    """3 x 3 x 32 outputs of 9 x 16 products on the bit-serial engine: one block, one step.

    It is busy for 31 + 32 * 5 + 14 cycles, in which 81 * 16 bits pass; the map of 25 pixels of 16 channels is read,
    weights of 5 bits each, and the parameter block of 4 * 32 + 5 bytes.
    """
    machine = change(hardware("gap9"), {"mac_array.weight_bits": 5})
    fields = window((5, 5, 16), (3, 3, 32), (3, 3))
    macs = 9 * 32 * 144
    few = Convolve(**fields, few_bits=1).cost(Context(machine))
    assert few.array_cycles == 31 + 32 * 5 + 14
    assert dict(few.actions) == {
        "mac_bit": macs * 5,
        "pe_idle": (few.array_cycles * (81 * 16 // 5) * 5 - macs * 5) // 8,
        "accumulator_update": 9 * 32,
        "requantise": 9 * 32,
        "scratchpad_read_byte": 25 * 16 + 32 * 144 * 5 // 8 + 4 * 32 + 5,
        "scratchpad_write_byte": 9 * 32,
    }
    whole = Convolve(**fields).cost(Context(machine))
    assert whole.array_cycles == 31 + 32 * 8 + 14
    assert (whole.actions["mac_int8"], whole.actions["scratchpad_read_byte"]) == (
        macs,
        25 * 16 + 32 * 144 + 4 * 32 + 5,
    )


DEPTHWISE = Depthwise(**window((4, 12, 4), (2, 10, 4), (3, 3)))


@pytest.mark.parametrize(
    ("fields", "port", "total"),
    [
        # 20 pixels in 2 rows, 9 taps on 4 rows: folds of 4, 4 and 1 taps. A window moves on by one column; what it
        # held moves over but for the last column of each kernel row in the fold: 2, 2 and 1 taps are new, 8, 8
        # and 4 bytes for 4 channels. The first window of each row comes in whole: 16, 16 and 4 bytes.
        ({}, 16, 4 + 3 * 20 + 6 + 20),
        ({}, 15, 4 + 2 * (20 + 2) + 20 + 6 + 20),
        ({}, 8, 4 + 2 * (20 + 2) + 20 + 6 + 20),
        ({}, 7, 4 + 2 * (40 + 2) + 20 + 6 + 20),
        # a stride of 2 leaves 3, 4 and 1 new taps, one of 5 all of them, and so does a dilated kernel
        ({"stride_width": 2}, 12, 4 + (20 + 2) + 2 * 20 + 20 + 6 + 20),
        ({"stride_width": 5}, 12, 4 + 2 * 2 * 20 + 20 + 6 + 20),
        ({"dilation_width": 2}, 12, 4 + 2 * 2 * 20 + 20 + 6 + 20),
    ],
)
def test_depthwise(fields: dict[str, Any], port: int, total: int) -> None:
    chip = change(CHIP, {"mac_array.ifm_bytes_per_cycle": port})
    assert replace(DEPTHWISE, **fields).cost(Context(chip)).cycles == total


def test_actions_of_a_depthwise_convolution() -> None:
    """2 * 10 pixels of 4 channels of 9 taps; 2 whole windows, 5 new taps for the other 18 pixels (in the folds of 4,
    4 and 1 taps: 2, 2 and 1), weights once, parameters 4 * 4 + 5.
    """
    cost = DEPTHWISE.cost(Context(CHIP))
    macs, array = 80 * 9, cost.array_cycles
    assert dict(cost.actions) == {
        "mac_int8": macs,
        "pe_register": macs,
        "pe_idle": array * 16 - macs,
        "accumulator_update": 80 * 3,
        "requantise": 80,
        "scratchpad_read_byte": 4 * (2 * 9 + 18 * 5) + 36 + 21,
        "scratchpad_write_byte": 80,
    }
