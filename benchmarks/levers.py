"""Levers: does each line of an answer hold, is the first one the best single change, and what do they cost?

    python -m benchmarks.levers MODEL... [--presets edge-128 ...]     levers against `--set`, and against all of what-if
    python -m benchmarks.levers MODEL... --cost                       CPU seconds of a run with and without levers

A preset may be a hardware file. A line holds if the machine with the very keys that it names, read as `--set` reads
them, takes the cycles that it says. The first line is compared with every key of what-if alone, doubled or halved, the
clock as far as it goes. Exit status: 0 all lines hold, 1 one does not, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import npusim
from npusim.kernels.graph.graph import Graph
from npusim.numbers.answer import Lever
from npusim.numbers.variants import Variant
from npusim.session import api
from npusim.study.levers import levers
from npusim.study.what_if import what_if

PRESETS = ("edge-128", "mobile-1024", "ethos-u55-128", "ethos-u55-256", "gap9", "stm32n6", "cortex-m7")
ROUNDING = 1e-9


class Cell(NamedTuple):
    """A model on a machine: its levers, how many of them hold, and the best single key."""

    model: str
    preset: str
    found: Sequence[Lever]
    note: str
    held: int
    best: Variant | None

    @property
    def first_is_best(self) -> bool:
        """Whether no single key takes off more than the first line; a machine without an NPU has none."""
        if self.best is None or not self.best.latency_percent:
            return True
        if not self.found:
            return "no NPU" in self.note or self.best.latency_percent > -1.0
        return self.found[0].latency_percent <= self.best.latency_percent + ROUNDING


def cell(model: str, preset: str) -> Cell:
    """The levers of a model on a machine, each tried as a user would."""
    graph, hardware = npusim.load(model), npusim.hardware(preset)
    result = api.simulate(api.compile_program(graph, hardware), timing_only=True)
    tried = levers(graph, result, file=model)
    answer = npusim.numbers.answer.answer(result.accounts.network, result.layers, tried)
    found = (answer.levers if answer else None) or ()
    held = sum(_holds(graph, preset, lever) for lever in found)
    ran = [each for each in what_if(graph, hardware, jobs=1).variants if not each.reason]
    best = min(ran, key=lambda each: each.latency_percent or 0.0, default=None)
    return Cell(model, preset, found, answer.note if answer else "", held, best)


def _holds(graph: Graph, preset: str, lever: Lever) -> bool:
    """Return whether a run with the keys of a line, given as text, takes its cycles. Commands are tried elsewhere."""
    if lever.do:
        return True
    hardware = npusim.hardware(preset, [f"{path}={value}" for path, value in lever.set.items()])
    then = npusim.simulate(npusim.compile(graph, hardware), timing_only=True)
    return (int(then.cycles), then.latency_ms) == (lever.cycles, lever.latency_ms)


def cells(models: Sequence[str], presets: Sequence[str]) -> Iterator[Cell]:
    """All of them that fit their machine."""
    for model in models:
        for preset in presets:
            try:
                yield cell(model, preset)
            except npusim.NpusimError as fault:
                print(f"{model} on {preset}: {fault}"[:160], flush=True)


def cpu_seconds(model: str, preset: str, *options: str) -> float:
    """CPU seconds of `npusim run` in a process of its own."""
    command = [sys.executable, "-m", "npusim", "run", model, "--hw", preset, *options]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        _, _, used = os.wait4(process.pid, 0)
        process.returncode = 0
    return used.ru_utime + used.ru_stime


def main(words: Sequence[str] | None = None) -> int:
    """Print a line for each model on each machine, and the sums."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("models", nargs="+")
    parser.add_argument("--presets", nargs="+", default=PRESETS)
    parser.add_argument("--cost", action="store_true")
    asked = parser.parse_args(words)
    if asked.cost:
        for model in asked.models:
            for preset in asked.presets:
                without, then = (cpu_seconds(model, preset, *each) for each in (("--no-lever",), ()))
                print(
                    f"{model} on {preset}: {without:.2f} s, {then:.2f} s ({then / without - 1:+.0%})",
                    flush=True,
                )
        return 0
    count = lines = held = best = 0
    for each in cells(asked.models, asked.presets):
        count, lines, held, best = (
            count + 1,
            lines + len(each.found),
            held + each.held,
            best + each.first_is_best,
        )
        first = each.found[0] if each.found else None
        words_of = f"{first.latency_percent:+.1f} % {first.do or dict(first.set)}" if first else each.note
        single = f"{each.best.latency_percent:+.1f} % {each.best.parameter}" if each.best else "none"
        mark = "" if each.first_is_best else "  BETTER ALONE"
        print(
            f"{each.model} on {each.preset}: {each.held}/{len(each.found)} hold; {words_of}; {single}{mark}",
            flush=True,
        )
    print(f"{count} runs: {held} of {lines} lines hold; the first is the best in {best}")
    return 0 if held == lines else 1


if __name__ == "__main__":
    sys.exit(main())
