"""A chip, its referee, and the numbers by which a preset is judged.

A chip is one file with a `Chip` and one line in the table of them (`benchmarks.silicon.chips`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, log, sqrt
from pathlib import Path
from statistics import fmean

from npusim.isa.hardware.agreement import Quantity
from npusim.isa.hardware.hardware import Hardware
from npusim.numbers.run import RunResult

QUANTITIES: Mapping[str, Quantity] = {
    "cycles": "latency",
    "us": "latency",
    "ms": "latency",
    "uJ": "energy",
    "mJ": "energy",
}
"""What a number in a unit is."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """One row: what a referee says of a network, in the unit of its chip.

    file:     of the network, which rows of one network share; where it is described without a file, its name.
    held_out: no constant of the preset was chosen by it.
    settings: keys that differ from the preset for this row, because they did on the chip.
    """

    network: str
    file: Path
    value: float
    held_out: bool = False
    settings: Mapping[str, int | float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Bar:
    """What is asked: at most so much error, for all rows and for one, at least so much rank correlation."""

    error: float
    worst: float
    rank: float


@dataclass(frozen=True, slots=True)
class Fit:
    """A constant of a preset: its value, what the rows say together (the median of them, or the least squares of all
    constants), and the least and the most of that without the rows of one network or another.
    """

    key: str
    value: float
    rows: int
    median: float
    least: float
    most: float


@dataclass(frozen=True, slots=True)
class Chip:
    """A preset, or a core of the host, with its referee. Of several chips of a preset the first is who is quoted.

    referee:      who says it; what stands before the first comma is its name, "Vela's estimates" for no chip.
    unit:         of the values, a row of `QUANTITIES`.
    decimals:     that they are shown with.
    measurements: the rows. Raises `benchmarks.peers.Missing` where the tables are not at hand.
    simulate:     what the preset gives for a row, in the same unit.
    remarks:      what is not modelled and what it costs, in sentences.
    fits:         the constants of the preset that no document states.
    seen:         what the referee's numbers are.
    """

    preset: str
    referee: str
    unit: str
    bar: Bar
    measurements: Callable[[], Iterator[Measurement]]
    simulate: Callable[[Measurement], float]
    decimals: int = 0
    remarks: tuple[str, ...] = ()
    fits: Callable[[], Iterator[Fit]] = lambda: iter(())
    seen: str = "measured"

    @property
    def quantity(self) -> Quantity:
        """What its rows are about."""
        return QUANTITIES[self.unit]


@dataclass(frozen=True, slots=True)
class Compared:
    """A row, measured and simulated."""

    measurement: Measurement
    simulated: float

    @property
    def ratio(self) -> float:
        """Simulated by measured."""
        return self.simulated / self.measurement.value


@dataclass(frozen=True, slots=True)
class Agreement:
    """What rows say together.

    error: the geometric mean of the larger of ratio and 1 / ratio, minus 1; worst: the same of the worst row; bias: the
    geometric mean of the ratio; rank: Spearman's correlation of networks, None for fewer than three. Rows of one file
    are one network, with the geometric mean of what they say: a preset cannot tell them apart.
    """

    rows: int
    error: float
    worst: float
    bias: float
    rank: float | None

    def holds(self, bar: Bar) -> bool:
        """Whether a bar is kept."""
        ranked = self.rank is None or self.rank >= bar.rank
        return self.error <= bar.error and self.worst <= bar.worst and ranked


def timed_run(network: Path | str, hw: Hardware | str) -> RunResult:
    """Return the run of a network, a file or a built-in one, without data."""
    import npusim

    result = npusim.run(str(network), hw=hw, timing_only=True)
    assert isinstance(result, RunResult), f"{network} decides nothing"
    return result


def compared(chip: Chip) -> list[Compared]:
    """All rows of a chip. Raises `benchmarks.peers.Missing`."""
    return [Compared(row, chip.simulate(row)) for row in chip.measurements()]


def agreement(rows: Sequence[Compared]) -> Agreement:
    """The agreement of one or more rows."""
    off = [log(row.ratio) for row in rows]
    return Agreement(
        len(rows),
        exp(fmean([abs(each) for each in off])) - 1,
        exp(max([abs(each) for each in off])) - 1,
        exp(fmean(off)),
        spearman(*_by_network(rows)),
    )


def _by_network(rows: Sequence[Compared]) -> tuple[list[float], list[float]]:
    """Return the geometric means of the measured and the simulated values of each network."""
    by_network: dict[Path, list[Compared]] = {}
    for row in rows:
        by_network.setdefault(row.measurement.file, []).append(row)
    measured = [exp(fmean([log(row.measurement.value) for row in same])) for same in by_network.values()]
    simulated = [exp(fmean([log(row.simulated) for row in same])) for same in by_network.values()]
    return measured, simulated


def spearman(first: Sequence[float], second: Sequence[float]) -> float | None:
    """The rank correlation of two lists; None for fewer than three values, or where all are equal."""
    if len(first) < 3:
        return None
    a, b = _ranks(first), _ranks(second)
    mean = (len(first) - 1) / 2
    spread = sum([(x - mean) ** 2 for x in a]) * sum([(y - mean) ** 2 for y in b])
    if not spread:
        return None
    return sum([(x - mean) * (y - mean) for x, y in zip(a, b, strict=True)]) / sqrt(spread)


def _ranks(values: Sequence[float]) -> list[float]:
    """The place of each value in order; equal ones share theirs."""
    return [
        sum([other < value for other in values]) + (sum([other == value for other in values]) - 1) / 2
        for value in values
    ]
