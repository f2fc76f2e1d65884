"""Ladders: is a network ever slower on a machine that is better in one respect and equal in all others?

    python -m benchmarks.ladder                                       all of it: half an hour on one core
    python -m benchmarks.ladder --models ds_cnn --presets edge-512    a piece
    python -m benchmarks.ladder --axes dram.bandwidth_gb_per_s        bandwidths alone
    python -m benchmarks.ladder --csv points.csv                      keep the points; those that are there stay

Each rung of a ladder is a machine compiled for by itself and timed without data. A rung that takes over 1 % longer
than the fastest of the weaker ones below it is printed. Exit status: 0 there is none, 1 there is, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple

import npusim
from benchmarks import peers
from npusim.isa.hardware.file import change
from npusim.models import MODELS as BUILT_IN

TOLERANCE = 0.01
"""How much slower than a weaker machine still counts as equal: decisions are made by estimates."""

MODELS = (
    "digits_cnn",
    "ds_cnn",
    "mlperf_ad01_int8",
    "mlperf_kws_int8",
    "mlperf_resnet8_int8",
    "mlperf_vww96_int8",
    "tflm_person_detect_int8",
    "coral_mobilenet_v1_0.25_128_quant",
    "coral_mobilenet_v2_1.0_224_quant",
    "resnet18",
)
PRESETS = ("edge-32", "edge-64", "edge-128", "edge-256", "edge-512", "mobile-1024")

BANDWIDTH = "dram.bandwidth_gb_per_s"
COUNTS = (
    "mac_array.rows",
    "mac_array.columns",
    "mac_array.accumulator_kib",
    "mac_array.ifm_bytes_per_cycle",
    "mac_array.weight_bytes_per_cycle",
    "mac_array.output_lanes",
    "vector.lanes",
    "scratchpad.size_kib",
    "scratchpad.banks",
    "scratchpad.bank_ports",
    "dma.channels",
    "dma.port_bytes_per_cycle",
    "dma.decoder_bytes_per_cycle",
    "dram.row_bytes",
    "dram.banks",
    "dram.outstanding_requests",
    "front_end.queue_depth",
    "front_end.fetch_instructions",
)
"""Capacities, widths and counts. Not `dram.burst_bytes` and `dram.grant_bytes`: coarser pieces are not better ones."""

FACTORS: dict[str, tuple[float, ...]] = {
    BANDWIDTH: (0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4, 6, 8, 16, 32, 64),
    **dict.fromkeys(COUNTS, (0.5, 1, 2, 4)),
}
"""The rungs of each ladder: factors on the value of a preset. Machines that break a rule are left out."""


class Place(NamedTuple):
    """A rung: the factor on a parameter of a preset."""

    model: str
    preset: str
    axis: str
    factor: float


class Loss(NamedTuple):
    """A rung that is slower than a weaker one: the share by which it is, and both factors and cycles."""

    share: float
    better: Place
    cycles: int
    weaker_factor: float
    weaker_cycles: int


Points = dict[Place, int]
"""Cycles of the rungs; 0 where the network does not fit or there is no such machine."""


def measure(graph: npusim.Graph, place: Place) -> int:
    """Cycles of a network on a rung, compiled for it; 0 if there is no such machine or the network does not fit."""
    base = npusim.hardware(place.preset)
    section, key = place.axis.split(".")
    value = getattr(getattr(base, section), key)
    wanted = value * place.factor
    if isinstance(value, int):
        if wanted != int(wanted) or not wanted:
            return 0
        wanted = int(wanted)
    try:
        program = npusim.compile(graph, change(base, {place.axis: wanted}))
    except npusim.NpusimError:
        return 0
    return npusim.simulate(program, timing_only=True).cycles


def losses(points: Points) -> list[Loss]:
    """Rungs that are slower than the fastest weaker one of their ladder, the worst first."""
    ladders: dict[tuple[str, str, str], list[Place]] = defaultdict(list)
    for place, cycles in points.items():
        if cycles:
            ladders[place[:3]].append(place)
    found = []
    for rungs in ladders.values():
        weakest, *better = sorted(rungs, key=lambda place: place.factor)
        best = weakest
        for rung in better:
            if points[rung] > points[best]:
                share = points[rung] / points[best] - 1
                found.append(Loss(share, rung, points[rung], best.factor, points[best]))
            else:
                best = rung
    return sorted(found, key=lambda loss: (-loss.share, loss.better))


def climb(
    models: Sequence[str], presets: Sequence[str], axes: Sequence[str], known: Points
) -> Iterator[tuple[Place, int]]:
    """Every rung that is not known yet, with its cycles; a preset itself is measured once for all its ladders."""
    for model in models:
        graph = npusim.load(_file(model))
        for preset in presets:
            own = {
                cycles
                for place, cycles in known.items()
                if place[:2] == (model, preset) and place.factor == 1
            }
            for place in (Place(model, preset, axis, factor) for axis in axes for factor in FACTORS[axis]):
                if place in known:
                    continue
                cycles = own.pop() if place.factor == 1 and own else measure(graph, place)
                if place.factor == 1:
                    own.add(cycles)
                yield place, cycles


def _file(model: str) -> str | Path:
    """A built-in model, a file, or a reference model by its name."""
    if model in {each.name for each in BUILT_IN} or Path(model).is_file():
        return model
    return peers.model(model)


def main() -> int:
    """Climb the ladders that the command line names; returns the exit status."""
    options = _parser().parse_args()
    points = _read(options.csv) if options.csv else {}
    climbing = climb(options.models, options.presets, options.axes, points)
    with options.csv.open("a", newline="") if options.csv else nullcontext() as file:
        for place, cycles in climbing:
            points[place] = cycles
            if file is not None:
                csv.writer(file).writerow([*place, cycles])
                file.flush()
    asked = {
        place: cycles
        for place, cycles in points.items()
        if place.model in options.models and place.preset in options.presets and place.axis in options.axes
    }
    return _print(asked, losses(asked))


def _read(path: Path) -> Points:
    if not path.is_file():
        return {}
    with path.open(newline="") as file:
        rows = csv.reader(file)
        return {Place(*names, float(factor)): int(cycles) for *names, factor, cycles in rows}  # type: ignore[arg-type, call-arg]


def _print(points: Points, found: Sequence[Loss]) -> int:
    """The rungs that are too slow, and a summary by axis; the exit status."""
    for loss in found:
        if loss.share > TOLERANCE:
            model, preset, axis, factor = loss.better
            print(
                f"{loss.share:+7.2%}  {model}, {preset}, {axis} x{factor:g}: {loss.cycles:,} cycles, "
                f"x{loss.weaker_factor:g}: {loss.weaker_cycles:,}"
            )
    print(f"{'ladder':34}{'rungs':>7}{'slower':>8}{'over 1 %':>10}{'worst':>9}")
    for axis in dict.fromkeys(place.axis for place in points):
        rungs = sum(place.axis == axis and cycles > 0 for place, cycles in points.items())
        shares = [loss.share for loss in found if loss.better.axis == axis]
        over = sum(share > TOLERANCE for share in shares)
        print(f"{axis:34}{rungs:7}{len(shares):8}{over:10}{max(shares, default=0.0):9.2%}")
    return int(any(loss.share > TOLERANCE for loss in found))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.ladder", description="Is a network ever slower on a better machine?"
    )
    parser.add_argument(
        "--models", nargs="+", default=MODELS, metavar="MODEL", help="built-in names or files [ten]"
    )
    parser.add_argument("--presets", nargs="+", default=PRESETS, metavar="PRESET", help="[six]")
    parser.add_argument(
        "--axes", nargs="+", default=[*FACTORS], choices=[*FACTORS], metavar="KEY", help="[all]"
    )
    parser.add_argument("--csv", type=Path, metavar="FILE", help="points: read from here, and added to it")
    return parser


if __name__ == "__main__":
    sys.exit(main())
