"""Results of a run of a compiled model: outputs, and cycles and energy of pieces and boundaries."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from npusim.base import files
from npusim.frontends.nnadapter.nnadapter_codes import InvalidParameter
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.tensor import Array
from npusim.numbers.layers import Boundary
from npusim.numbers.run import RunResult


class Foreign(NamedTuple):
    """A piece that a device computed itself; `time_us` is None if the device did not report it."""

    device: str
    time_us: float | None


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of the model: consecutive operations on one device.

    operations, inputs, outputs: names.
    cycles:             of the system's clock, from launch to end; None for a device that npusim does not simulate.
    time_us, energy_uj: microseconds and microjoules; None likewise.
    """

    device: str
    operations: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    cycles: int | None
    time_us: float | None
    energy_uj: float | None

    @property
    def energy(self) -> float | None:
        """Energy in microjoules."""
        return self.energy_uj


@dataclass(frozen=True, kw_only=True, repr=False)
class Result:
    """The result of one run.

    outputs: the output arrays by index.
    run:     the measurements of the simulated part; None if no device was simulated.
    pieces:  the pieces in order.
    foreign: the pieces that devices computed themselves.
    """

    outputs: Sequence[Array]
    run: RunResult | None
    pieces: Sequence[Piece]
    foreign: Sequence[Foreign] = ()

    @property
    def not_simulated(self) -> tuple[str, ...]:
        """The devices that computed pieces themselves and did not report their time."""
        return tuple(dict.fromkeys(one.device for one in self.foreign if one.time_us is None))

    @property
    def boundaries(self) -> list[Boundary]:
        """The transfers between pieces in order; their cycles and those of the pieces add up to the run's."""
        pieces = () if self.run is None else self.run.pieces
        crossings = [one.entered for one in pieces] + [one.left for one in pieces[-1:]]
        return [one for one in crossings if one is not None and one.cycles]

    @property
    def cycles(self) -> int:
        """The cycles of the simulated system."""
        return 0 if self.run is None else int(self.run.cycles)

    @property
    def energy(self) -> float:
        """The energy of the simulated system in microjoules."""
        return 0.0 if self.run is None else float(self.run.energy_uj)

    @property
    def latency(self) -> float:
        """Milliseconds of the simulated system plus those that other devices reported (see `not_simulated`)."""
        said_us = sum(one.time_us or 0.0 for one in self.foreign)
        return (0.0 if self.run is None else self.run.latency_ms) + said_us * 1e-3

    def report(self, path: str | Path) -> Path:
        """Write a report as `npusim run` does: `.html`, `.json`, `.csv` or `.trace.json`.

        Raises InvalidParameter for another suffix, and if no device was simulated.
        """
        target = Path(path)
        if self.run is None:
            raise InvalidParameter(f"{path}: no device of this run is simulated, there is nothing to report")
        text = _rendered(self.run, target)
        files.write(target, lambda file: file.write(text.encode("utf-8")))
        return target

    def __repr__(self) -> str:
        numbers = f"{self.cycles} cycles, {self.latency:.4g} ms, {self.energy:.4g} uJ"
        return f"<Result: {len(self.outputs)} outputs, {numbers}>"


def _rendered(run: RunResult, path: Path) -> str:
    from npusim.reports.run import chrome_trace, html, result_json, tables

    name = path.name.lower()
    for suffix, render in (
        (".trace.json", chrome_trace.render),
        (".json", result_json.render),
        (".csv", tables.render),
        (".html", html.render),
    ):
        if name.endswith(suffix):
            return render(run)
    raise InvalidParameter(f"{path}: a report ends with .html, .json, .csv or .trace.json")
