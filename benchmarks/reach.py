"""The table of `python -m benchmarks reach`: how fast npusim is beside its peers, and how fast it should be.

Both sides of a ratio run in turns. What counts is CPU time (user and system), the least of all rounds: other work on
the machine only adds to it. Every run compiles anew, except where "compiled before" is said. One BLAS thread.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import peers
from benchmarks.limits import HARDWARE, MLPERF_TINY, MOBILENET_V2
from benchmarks.measure import (
    BenchmarkError,
    Sample,
    npusim_command,
    npusim_run,
    output_of,
    run_fresh,
    take_turns,
)

ONNXIM_VARIABLE = "NPUSIM_ONNXIM"
POINTS = {"ds_cnn": 110, "mlperf_resnet8_int8": 60, "mobilenet_v2": 8}
TRANSFORMER_POINTS = {"bert_layer": 50, "llama3.2_1b": 5}
DECODE = {"tokens": 1, "past": 2047}
TRANSFORMERS: tuple[tuple[str, str, dict[str, int], float, float, float], ...] = (
    ("BERT-base, 128 tokens", "bert_base", {"tokens": 128}, 1.5, 150, 1.3),
    ("BERT-base, 128 tokens, exact", "bert_base", {"tokens": 128}, 5, 350, 1.3),
    ("ViT-B/16", "vit_b_16", {}, 1.5, 150, 1.2),
    ("Llama 3.2 1B, 512 tokens", "llama3.2_1b", {"tokens": 512}, 5, 300, 1.25),
    ("Llama 3.2 1B, a token behind 2,047", "llama3.2_1b", DECODE, 2.5, 200, 1.1),
    ("block of Stable Diffusion 1.5", "sd15_block", {}, 3, 250, 1.35),
    ("Llama 3 8B in int4, a token", "llama3_8b:int4-32", DECODE, 5, 500, 1.15),
    ("Llama 3 70B in int4, a token", "llama3_70b:int4-32", DECODE, 10, 500, 1.15),
)
"""What is measured, the model, its sizes; at most so many seconds, MiB, and times the lower bound."""
HERE = Path(__file__).parent


@dataclass(frozen=True)
class Reached:
    """A row: what was measured, ours and the peer's least (text with units), the number that has a goal, the goal.

    more: whether a larger number is better.
    """

    what: str
    ours: str
    peer: str
    value: float
    goal: float
    more: bool = False

    @property
    def holds(self) -> bool:
        """Whether the goal is reached."""
        return self.value >= self.goal if self.more else self.value <= self.goal


Measure = Callable[[int], Iterator[Reached]]


def warm(rounds: int) -> Iterator[Reached]:
    """MobileNetV2 with data in a warm process, against an inference of the LiteRT reference kernels."""
    peers.require_litert()
    worker = HERE / "warm_exact.py"
    samples = json.loads(_output_of(worker, str(peers.model(MOBILENET_V2)), str(rounds)))
    least = {side: min(cpu_s for _, cpu_s in pairs) for side, pairs in samples.items()}
    for what, side, goal in (("run, warm", "ours", 1.0), ("compiled before", "compiled", 0.7)):
        yield _ratio(f"{what}: MobileNetV2 / LiteRT reference", least[side], least["peer"], goal)


def timing(rounds: int) -> Iterator[Reached]:
    """MobileNetV2, `npusim run --timing-only` against a compilation by Vela, both in a fresh process."""
    peers.require_vela()
    network = peers.model(MOBILENET_V2)
    ours, peer = _in_turns(
        rounds, lambda: npusim_run(network, *HARDWARE, "--timing-only"), lambda: peers.vela_compile(network)
    )
    yield _ratio("fresh, timing only: MobileNetV2 / Vela", ours, peer, 0.4)


def tiny(rounds: int) -> Iterator[Reached]:
    """The four MLPerf Tiny networks with data against a compilation by Vela, both in a fresh process."""
    peers.require_vela()
    for name in MLPERF_TINY:
        network = peers.model(name)
        ours, peer = _in_turns(
            rounds,
            lambda file=network: npusim_run(file, *HARDWARE),  # type: ignore[misc]
            lambda file=network: peers.vela_compile(file),  # type: ignore[misc]
        )
        yield _ratio(f"fresh, with data: {name} / Vela", ours, peer, 1.0)


def points(rounds: int) -> Iterator[Reached]:
    """Design points per second of CPU, each compiled and simulated."""
    files = [f"{name}={peers.model(name)}" for name in MLPERF_TINY[:2]]  # those that the worker reads
    yield from _points(rounds, POINTS, *files)


def sweep(rounds: int) -> Iterator[Reached]:
    """Design points of transformers per second of CPU: a layer of BERT-base, and a decode step of Llama 3.2 1B."""
    yield from _points(rounds, TRANSFORMER_POINTS, "--transformers")


def _points(rounds: int, goals: Mapping[str, float], *arguments: str) -> Iterator[Reached]:
    samples = [json.loads(_output_of(HERE / "points.py", *arguments)) for _ in range(min(rounds, 3))]
    for name, goal in goals.items():
        rate = 1 / min(sample[f"compile {name}"] for sample in samples)
        yield Reached(f"design points of {name}", f"{rate:.3g}/s", "", rate, goal, more=True)


def events(rounds: int) -> Iterator[Reached]:
    """ResNet-18 event by event in a fresh process, against the compiled simulator ONNXim, and peak memory."""
    command = shlex.split(os.environ.get(ONNXIM_VARIABLE, ""))

    def ours() -> Sample:
        return npusim_run("resnet18", "--hw", "mobile-1024", "--timing-only")

    if command:
        least, peer = _in_turns(rounds, ours, lambda: run_fresh(command))
        yield _ratio("fresh, timing only: resnet18 / ONNXim", least, peer, 0.2)
    else:
        samples = [ours() for _ in range(rounds)]
        yield _seconds("fresh, timing only: resnet18", min(each.cpu_s for each in samples), 0.25)
    peak_mib = ours().peak_bytes / (1 << 20)
    yield Reached("peak memory: resnet18", f"{peak_mib:.0f} MiB", "", peak_mib, 50)


def start(rounds: int) -> Iterator[Reached]:
    """Commands that compute nothing."""
    for words, goal in ((("--help",), 0.08), (("hw", "list"), 0.2)):
        samples = [run_fresh(npusim_command(*words)) for _ in range(rounds + 1)]
        yield _seconds(f"npusim {' '.join(words)}", min(each.cpu_s for each in samples), goal)


def large(rounds: int) -> Iterator[Reached]:
    """EDSR, a chain of 20,000 operators, and the decode step of a Llama; one or two rounds, they take long."""
    for name, what, goal in (
        ("edsr", "timing only: EDSR f64b5, 264 M cycles", 3.0),
        ("chain", "compile 20,000 operators", 5.0),
    ):
        samples = [json.loads(_output_of(HERE / "sizes.py", name)) for _ in range(min(rounds, 2))]
        yield _seconds(what, min(sample["cpu_s"] for sample in samples), goal)
    step = HERE.parent / "tests" / "decode_step.py"
    taken = [json.loads(_output_of(step))["cpu_s"] for _ in range(min(rounds, 3))]
    yield _seconds("decode step of Llama 3.2 1B, fresh", min(taken), 1.0)


def language(rounds: int) -> Iterator[Reached]:
    """Steps of transformers on mobile-4096: seconds, peak memory, and latency over its lower bound."""
    for what, name, sizes, cpu_s, peak_mib, over_bound in TRANSFORMERS:
        words = (name, json.dumps(sizes), *(["--bytes"] if what.endswith("exact") else []))
        samples = [json.loads(_output_of(HERE / "transformers.py", *words)) for _ in range(min(rounds, 3))]
        yield _seconds(what, min(sample["cpu_s"] for sample in samples), cpu_s)
        peak = min(sample["peak_bytes"] for sample in samples) / (1 << 20)
        yield Reached(f"  peak memory: {name}", f"{peak:.0f} MiB", "", peak, peak_mib)
        ratio = samples[0]["over_bound"]
        yield Reached(f"  latency / lower bound: {name}", f"{ratio:.3f}", "", ratio, over_bound)


MEASURES: dict[str, Measure] = {
    each.__name__: each for each in (warm, timing, tiny, points, sweep, events, start, large, language)
}


def reach(rounds: int, names: Sequence[str]) -> int:
    """Measure the named parts of the table (all if none) and print it. Return 1 if one cannot be measured."""
    status = 0
    print(f"least CPU time of {rounds} rounds, in turns\n")
    print(f"{'what':52} {'ours':>10} {'peer':>10} {'ratio':>7} {'goal':>7}")
    for name in names or MEASURES:
        try:
            for row in MEASURES[name](rounds):
                ratio = f"{row.value:.2f}" if row.peer else ""
                bound = f"{'>=' if row.more else '<='} {row.goal:g}"
                mark = "" if row.holds else "  not reached"
                print(f"{row.what:52} {row.ours:>10} {row.peer:>10} {ratio:>7} {bound:>7}{mark}", flush=True)
        except peers.Missing as reason:
            print(f"{name}: skipped: {reason}", flush=True)
        except BenchmarkError as fault:
            print(f"{name}: failed: {fault}", flush=True)
            status = 1
    return status


def _in_turns(rounds: int, ours: Callable[[], Sample], peer: Callable[[], Sample]) -> tuple[float, float]:
    """Return the least CPU seconds of both."""
    taken = take_turns(ours, peer, rounds)
    return min(each.cpu_s for each in taken.ours), min(each.cpu_s for each in taken.peer)


def _ratio(what: str, ours_s: float, peer_s: float, goal: float) -> Reached:
    return Reached(what, f"{ours_s * 1e3:.0f} ms", f"{peer_s * 1e3:.0f} ms", ours_s / peer_s, goal)


def _seconds(what: str, cpu_s: float, goal: float) -> Reached:
    return Reached(what, f"{cpu_s:.3g} s", "", cpu_s, goal)


def _output_of(worker: Path, *arguments: str) -> str:
    return output_of(worker, *arguments, OPENBLAS_NUM_THREADS="1")
