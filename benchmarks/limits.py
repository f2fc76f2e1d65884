"""The benchmarks with their limits: one function each, listed in `BENCHMARKS`."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median

from benchmarks import peers
from benchmarks.exploring import exploring
from benchmarks.measure import (
    Comparison,
    Row,
    Sample,
    npusim_run,
    output_of,
    peak_bytes,
    take_turns,
    wall_s,
)

MOBILENET_V2 = "coral_mobilenet_v2_1.0_224_quant"
MLPERF_TINY = ("mlperf_kws_int8", "mlperf_resnet8_int8", "mlperf_vww96_int8", "mlperf_ad01_int8")
HARDWARE = ("--hw", "edge-128")
REUSE_LIMIT_MS = 1000 / 120
COMPILE_LIMIT_MS = {"ds_cnn": 25, "mlperf_kws_int8": 25, "mlperf_resnet8_int8": 40, "mobilenet_v2": 250}


Benchmark = Callable[[int], Iterator[Row]]
"""Measures in the given number of rounds and gives its rows. Raises `peers.Missing` to be skipped."""


def exact(rounds: int) -> Iterator[Row]:
    """MobileNetV2, load + compile + exact simulation in a warm process, against one LiteRT reference inference."""
    peers.require_litert()
    network = peers.model(MOBILENET_V2)
    worker = Path(__file__).with_name("warm_exact.py")
    samples = json.loads(output_of(worker, str(network), str(rounds)))
    comparison = Comparison(*([Sample(*pair) for pair in samples[side]] for side in ("ours", "peer")))
    yield _time_row("exact, warm", network, comparison, limit=10.0)


def timing(rounds: int) -> Iterator[Row]:
    """MobileNetV2, `npusim run --timing-only` against Vela, both in a fresh process; Vela reads the file."""
    peers.require_vela()
    network = peers.model(MOBILENET_V2)
    for ours in (network, Path("mobilenet_v2")):
        comparison = take_turns(
            lambda file=ours: npusim_run(file, *HARDWARE, "--timing-only"),  # type: ignore[misc]
            lambda: peers.vela_compile(network),
            rounds,
        )
        yield _time_row("timing only, fresh", ours, comparison, limit=0.8)


def points(rounds: int) -> Iterator[Row]:
    """CPU time of a design point in a sweep: of a program reused, and of a compilation with its timing."""
    worker = Path(__file__).with_name("points.py")
    files = [f"{name}={peers.model(name)}" for name in MLPERF_TINY[:2]]
    samples = [json.loads(output_of(worker, *files)) for _ in range(min(rounds, 3))]
    for key in samples[0]:
        kind, name = key.split()
        spent_ms = median(sample[key] for sample in samples) * 1e3
        limit_ms = REUSE_LIMIT_MS if kind == "reuse" else COMPILE_LIMIT_MS[name]
        what = "point, program reused" if kind == "reuse" else "point, compiled"
        shown = f"{spent_ms:.1f} ms, {1e3 / spent_ms:.3g}/s"
        yield Row(what, name, shown, "", spent_ms, limit_ms, unit="ms")


def events(rounds: int) -> Iterator[Row]:
    """ResNet-18 on 32 x 32 multipliers with all of the memory system, CPU time and memory of a fresh process."""
    samples = [npusim_run("resnet18", "--hw", "mobile-1024", "--timing-only") for _ in range(rounds + 1)][1:]
    spent_s = median(sample.cpu_s for sample in samples)
    yield Row("timing only, one core", "resnet18", _duration(spent_s), "", spent_s, 1.5, unit="s")
    yield _memory_row(Path("resnet18"), samples, limit_mb=200 * 1.048576)


def tiny(rounds: int) -> Iterator[Row]:
    """The four MLPerf Tiny networks, `npusim run` with exact data against Vela, both in a fresh process."""
    peers.require_vela()
    for name in MLPERF_TINY:
        network = peers.model(name)
        comparison = take_turns(
            lambda file=network: npusim_run(file, *HARDWARE),  # type: ignore[misc]
            lambda file=network: peers.vela_compile(file),  # type: ignore[misc]
            rounds,
        )
        yield _time_row("exact, fresh", network, comparison, limit=5.0)
        yield _memory_row(network, comparison.ours, limit_mb=200)


def memory(rounds: int) -> Iterator[Row]:
    """MobileNetV2, peak memory of `npusim run` with exact data in a fresh process."""
    network = peers.model(MOBILENET_V2)
    yield _memory_row(network, [npusim_run(network, *HARDWARE) for _ in range(min(rounds, 2))], limit_mb=600)


def cycles(rounds: int) -> Iterator[Row]:
    """Cycles of edge-128 beside what Vela estimates for an Ethos-U55-128. Another machine: no limit, a comparison."""
    peers.require_vela()
    for name in (*MLPERF_TINY, MOBILENET_V2):
        network = peers.model(name)
        ours, peer = _npusim_cycles(network), peers.vela_cycles(network)
        yield Row("cycles", name, f"{ours:,}", f"{peer:,}", ours / peer)


BENCHMARKS: dict[str, Benchmark] = {
    "exact": exact,
    "timing": timing,
    "points": points,
    "events": events,
    "tiny": tiny,
    "memory": memory,
    "cycles": cycles,
    "exploring": exploring,
}


def _npusim_cycles(network: Path) -> int:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "run.json"
        npusim_run(network, *HARDWARE, "--timing-only", "--json", str(file))
        total: int = json.loads(file.read_text())["cycles"]["total"]
        return total


def _time_row(what: str, network: Path, comparison: Comparison, limit: float) -> Row:
    return Row(
        what=what,
        model=network.stem,
        ours=_duration(wall_s(comparison.ours)),
        peer=_duration(wall_s(comparison.peer)),
        value=comparison.wall_ratio,
        limit=limit,
        cpu_ratio=comparison.cpu_ratio,
    )


def _memory_row(network: Path, samples: Sequence[Sample], limit_mb: float) -> Row:
    peak_mb = peak_bytes(samples) / 1e6
    return Row("peak memory", network.stem, f"{peak_mb:.0f} MB", "", peak_mb, limit_mb, unit="MB")


def _duration(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.0f} ms"
