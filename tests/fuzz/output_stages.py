"""Output stages: random sums, scales, zero points, clamps and types by the integer rule, step by step.

Half of the sums lie around the steps of the result, where an arithmetic that is not exact goes wrong first.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from npusim.isa.arithmetic.integer import Rounding, requantise

from .child import Report
from .harness import Kind

STAGES = 100
"""Output stages of a case."""
SUMS = 1500
SMALLEST, LARGEST = -(1 << 31), (1 << 31) - 1
Ints = NDArray[np.int64]


class Stage(NamedTuple):
    """The arguments of `requantise` after the sums."""

    multipliers: Ints
    shifts: Ints
    zero_point: int
    low: int
    high: int
    dtype: Any
    rounding: Rounding


def by_the_rule(sums: Ints, stage: Stage) -> NDArray[Any]:
    """The results as the kernels' C code computes them, with its divisions toward zero and its int32 overflows."""
    multipliers, shifts = stage.multipliers, stage.shifts
    if stage.rounding == "single":
        scaled = (sums * multipliers + (1 << (30 - shifts))) >> (31 - shifts)
        scaled = np.where((scaled < SMALLEST) | (scaled > LARGEST), SMALLEST, scaled)
    else:
        shifted = (sums << np.maximum(shifts, 0)).astype(np.int32).astype(np.int64)
        products = shifted * multipliers
        nudged = products + np.where(products >= 0, 1 << 30, 1 - (1 << 30))
        high = np.sign(nudged) * (np.abs(nudged) >> 31)
        right = np.maximum(-shifts, 0)
        mask = (1 << right) - 1
        scaled = (high >> right) + ((high & mask) > (mask >> 1) + (high < 0))
    codes = (scaled + stage.zero_point).astype(np.int32)
    return np.clip(codes, stage.low, stage.high).astype(stage.dtype)


def draw_stage(rng: np.random.Generator) -> Stage:
    """A stage for one scale or a scale per channel; zero points are often at an end of the range, as with ReLU."""
    dtype = rng.choice([np.uint8, np.int8, np.uint8, np.int8, np.int16, np.int32])
    limits = np.iinfo(dtype)
    channels = int(rng.choice([1, 1, 2, 3, 7, 16]))
    shifts = int(rng.integers(-31, 31)) + rng.integers(-3, 4, channels) * rng.integers(0, 2)
    multipliers = rng.integers(1 << 30, 1 << 31, channels)
    multipliers[0] = rng.choice([multipliers[0], 1 << 30, LARGEST, 0, rng.integers(0, 1 << 31)])
    zero_point = int(rng.choice([limits.min, limits.max, 0, rng.integers(limits.min, limits.max + 1)]))
    if rng.random() < 0.1:
        zero_point = int(rng.integers(-256, 256))
    bounds = [limits.min, limits.max, zero_point, *rng.integers(limits.min, limits.max + 1, 2).tolist()]
    low, high = sorted(max(min(int(bound), limits.max), limits.min) for bound in rng.choice(bounds, 2))
    rounding: Rounding = "single" if rng.integers(2) else "double"
    return Stage(multipliers, np.clip(shifts, -31, 30), zero_point, low, high, dtype, rounding)


def draw_sums(stage: Stage, rng: np.random.Generator) -> Ints:
    """Sums of all magnitudes, or the sums around steps of the result."""
    shape = (int(rng.integers(1, SUMS)), len(stage.shifts))
    if rng.integers(2):
        return rng.integers(SMALLEST, LARGEST + 1, shape) >> rng.integers(0, 31)
    steps = rng.integers(stage.low - stage.zero_point - 1, stage.high - stage.zero_point + 2, shape)
    scales = np.ldexp(np.maximum(stage.multipliers, 1).astype(np.float64), stage.shifts - 31)
    sums = np.rint((steps - rng.choice([0.0, 0.5], shape)) / scales) + rng.integers(-2, 3, shape)
    return np.clip(sums, SMALLEST, LARGEST).astype(np.int64)


def run(seed: int, folder: Path, report: Report) -> None:
    """Requantize in many stages and compare with the rule."""
    rng = np.random.default_rng([seed, 11])
    for _ in range(STAGES):
        stage = draw_stage(rng)
        sums = draw_sums(stage, rng)
        expected = by_the_rule(sums, stage)
        found = requantise(sums.astype(np.int32), *stage)
        wrong = np.argwhere(found != expected)
        if len(wrong):
            at = tuple(wrong[0])
            values = f"{sums[at]} in channel {at[1]} gives {found[at]}, not {expected[at]}"
            report.note("wrong bytes", f"{stage}: {len(wrong)} results, {values}")
    report.note("run")


KIND = Kind("random output stages against the integer rule", run)
