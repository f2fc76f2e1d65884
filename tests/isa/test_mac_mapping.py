"""Corners of the MAC array: what the compiler takes is as fast as the whole array, mostly as the best corner."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from npusim.isa.engines.systolic import mapping as mac_mapping
from npusim.isa.engines.systolic import timing as mac_timing
from npusim.isa.engines.systolic.timing import ArrayShape, Window, array_shape, corner
from npusim.isa.hardware.file import hardware

FORMS = {False: mac_timing.weight_stationary, True: mac_timing.output_stationary}
PRESETS = ("edge-32", "edge-128", "edge-512", "mobile-1024", "mobile-4096")


def chosen(shape: ArrayShape, *work: int) -> int:
    resting_outputs, part = mac_mapping.convolution(shape, "both", *work)
    return FORMS[resting_outputs](corner(shape, *part), *work).total


def draw(rng: np.random.Generator, largest: int) -> int:
    return int(np.exp(rng.uniform(0, np.log(largest))))


@pytest.mark.parametrize("preset", PRESETS)
def test_a_corner_is_no_slower_than_the_whole_array(preset: str) -> None:
    shape = array_shape(hardware(preset).mac_array)
    rng = np.random.default_rng(0)
    for _ in range(200):
        work = draw(rng, 8000), draw(rng, 2000), draw(rng, 1000)
        whole = min(form(shape, *work).total for form in FORMS.values())
        assert chosen(shape, *work) <= whole * 1.01, work
        window = Window(draw(rng, 100), draw(rng, 100), 3, 3, int(rng.integers(1, 3)), 1)
        channels = draw(rng, 1000)
        part = mac_mapping.depthwise(shape, window, channels)
        assert (
            mac_timing.depthwise(corner(shape, *part), window, channels).total
            <= mac_timing.depthwise(shape, window, channels).total
        )


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["edge-128", "mobile-1024"])
def test_the_corner_is_near_the_best_of_all(preset: str) -> None:
    shape = array_shape(hardware(preset).mac_array)
    rng = np.random.default_rng(1)
    lost = []
    for _ in range(40):
        work = draw(rng, 2000), draw(rng, 1000), draw(rng, 300)
        halvings = product(range(4), range(4), range(5))
        parts = [corner(shape, *each) for each in halvings]
        parts = [part for part in parts if part.rows and part.columns and part.half_accumulators]
        best = min(form(part, *work).total for form in FORMS.values() for part in parts)
        lost.append(chosen(shape, *work) / best - 1)
    assert np.mean(lost) < 0.02
    assert max(lost) < 0.25


def test_a_short_layer_takes_a_small_corner() -> None:
    """One pixel, 8 values, 4 channels: 8 rows of weights to load, one vector, 8 + 4 - 2 cycles through the array, the
    output. On the whole array of 32 x 32 the vector takes 62 cycles, and 32 rows are loaded.
    """
    shape = array_shape(hardware("mobile-1024").mac_array)
    whole = min(form(shape, 1, 8, 4).total for form in FORMS.values())
    assert chosen(shape, 1, 8, 4) < whole / 3
