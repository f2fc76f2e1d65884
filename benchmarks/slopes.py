"""The table of `python -m benchmarks slopes`: CPU time and peak memory against operators, weights and equal layers.

All should be straight lines. The growth between two sizes is the exponent that the size would have if the time were a
power of it: 1 for a straight line through the origin, less with a constant part, 2 for a square.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from math import log
from pathlib import Path
from typing import NamedTuple

from benchmarks.measure import BenchmarkError, output_of

WORKER = Path(__file__).with_name("sizes.py")
MOST_GROWTH = 1.2
"""Highest exponent between the two largest sizes of a row. Times of two runs differ by a tenth."""


class Line(NamedTuple):
    """A workload of `sizes.py` that is measured at several sizes, and the unit of these."""

    workload: str
    unit: str
    sizes: tuple[int, ...]


LINES = {
    "operators": Line("run", "operators", (500, 2_000, 8_000, 20_000)),
    "weights": Line("weights", "x 1,024 weights", (1_024, 16_384, 131_072, 1_211_392)),
    "layers": Line("layers", "equal layers", (2, 8, 32, 64)),
}


class Point(NamedTuple):
    """One measurement: the size, the least CPU seconds of all rounds, and the peak memory in MiB."""

    size: int
    cpu_s: float
    peak_mib: float


def growth(sizes: Sequence[float], amounts: Sequence[float]) -> float:
    """Return the exponent between the last two of ascending sizes."""
    return log(amounts[-1] / amounts[-2]) / log(sizes[-1] / sizes[-2])


def slope(sizes: Sequence[float], amounts: Sequence[float]) -> float:
    """Return the amount per unit of size between the first and the last size."""
    return (amounts[-1] - amounts[0]) / (sizes[-1] - sizes[0])


def slopes(rounds: int, names: Sequence[str]) -> int:
    """Measure and print the lines, all or those named. Returns the exit status: 1 if one is not straight."""
    straight = True
    for name in names or LINES:
        line = LINES[name]
        print(f"\n{name}: compiled and timed without data, least of {rounds} rounds")
        try:
            points = list(_measured(line, rounds))
        except BenchmarkError as fault:
            print(f"failed: {fault}")
            straight = False
            continue
        sizes = [point.size for point in points]
        for what, unit, amounts, scale in (
            ("CPU time", "us", [point.cpu_s for point in points], 1e6),
            ("memory", "KiB", [point.peak_mib for point in points], 1024),
        ):
            exponent = growth(sizes, amounts)
            verdict = "straight" if exponent <= MOST_GROWTH else "NOT STRAIGHT"
            per_unit = slope(sizes, amounts) * scale
            print(f"  {what}: {per_unit:.3g} {unit} per {line.unit}, growth {exponent:.2f}: {verdict}")
            straight = straight and exponent <= MOST_GROWTH
    return 0 if straight else 1


def _measured(line: Line, rounds: int) -> Iterator[Point]:
    for size in line.sizes:
        samples = [
            json.loads(output_of(WORKER, line.workload, str(size), OPENBLAS_NUM_THREADS="1"))
            for _ in range(rounds)
        ]
        point = Point(
            size,
            min(sample["cpu_s"] for sample in samples),
            min(sample["peak_bytes"] for sample in samples) / (1 << 20),
        )
        print(f"  {size:>9,} {line.unit}: {point.cpu_s:7.2f} s {point.peak_mib:6.0f} MiB", flush=True)
        yield point
