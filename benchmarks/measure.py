"""Measurements: fresh processes with their peak memory, and comparisons in turns."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import IO, NamedTuple

# Linux counts ru_maxrss in KiB, macOS in bytes.
_MAXRSS_BYTES = 1 if sys.platform == "darwin" else 1024


class BenchmarkError(Exception):
    """Something that was to be measured does not run: a broken benchmark, not a slow npusim."""


class Sample(NamedTuple):
    """One measured run: wall time, processor time of all its threads, peak resident memory (0: not measured)."""

    wall_s: float
    cpu_s: float
    peak_bytes: int = 0


@dataclass(frozen=True)
class Comparison:
    """Runs of ours and of a peer, taken in turns: sample i of one belongs to sample i of the other."""

    ours: Sequence[Sample]
    peer: Sequence[Sample]

    @property
    def wall_ratio(self) -> float:
        """Median over the turns of our wall time / the peer's."""
        return median(mine.wall_s / other.wall_s for mine, other in zip(self.ours, self.peer, strict=True))

    @property
    def cpu_ratio(self) -> float:
        """The same for processor time: hardly moved by what else the machine does."""
        return median(mine.cpu_s / other.cpu_s for mine, other in zip(self.ours, self.peer, strict=True))


def wall_s(samples: Sequence[Sample]) -> float:
    """Median wall time in seconds."""
    return median(sample.wall_s for sample in samples)


def peak_bytes(samples: Sequence[Sample]) -> int:
    """Highest peak of resident memory in bytes."""
    return max(sample.peak_bytes for sample in samples)


def take_turns(ours: Callable[[], Sample], peer: Callable[[], Sample], rounds: int) -> Comparison:
    """Measure both `rounds` times after one unmeasured run of each.

    They alternate, so that a busy minute of the machine hits both, and the one that goes first alternates too.
    """
    ours()
    peer()
    mine, others = [], []
    for turn in range(rounds):
        if turn % 2:
            others.append(peer())
            mine.append(ours())
        else:
            mine.append(ours())
            others.append(peer())
    return Comparison(mine, others)


def run_fresh(command: Sequence[str]) -> Sample:
    """Run a command in a process of its own, from start to exit.

    Raises BenchmarkError with the end of what it printed when it fails. The peak counts the memory of this
    process at the moment of the start, so this package imports nothing large before it measures. Python may keep
    its bytecode: pip compiles what it installs, a checkout is compiled by its first run.
    """
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryFile() as output:
        begin = time.perf_counter()
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment
            )
        except OSError as fault:
            raise BenchmarkError(f"{command[0]}: {fault.strerror}") from fault
        _, status, usage = os.wait4(process.pid, 0)
        elapsed_s = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise BenchmarkError(
                f"{' '.join(command)}: exit status {process.returncode}: {_last_line(output)}"
            )
    return Sample(elapsed_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * _MAXRSS_BYTES)


def npusim_run(model: Path | str, *options: str) -> Sample:
    """`npusim run MODEL` in a fresh process."""
    return run_fresh(npusim_command("run", str(model), *options))


def npusim_command(*arguments: str) -> list[str]:
    """The installed npusim of this Python; -P keeps the folder of the checkout from standing in for it."""
    return [sys.executable, "-P", "-m", "npusim", *arguments]


def output_of(worker: Path, *arguments: str, **variables: str) -> str:
    """Run a script in a process of its own and return what it prints. Raises BenchmarkError if it fails.

    variables: set in its environment, beside those of this process.
    """
    command = [sys.executable, "-P", str(worker), *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **variables}
    )
    if done.returncode:
        raise BenchmarkError(f"{worker.name}: {(done.stderr.strip() or 'it failed').splitlines()[-1]}")
    return done.stdout


def _last_line(output: IO[bytes]) -> str:
    output.seek(0)
    lines = output.read().decode(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "it printed nothing")


@dataclass(frozen=True)
class Row:
    """One measured number: `value` is a ratio to the peer, or where there is none a number of `unit`.

    `ours` and `peer` are the medians that the ratio belongs to (it is the median of ratios, not their quotient).
    `limit` is None where nothing is demanded. `cpu_ratio` is a ratio of times in processor time: it has no
    limit, it tells a slow npusim from a busy machine.
    """

    what: str
    model: str
    ours: str
    peer: str
    value: float
    limit: float | None = None
    cpu_ratio: float | None = None
    unit: str = ""

    @property
    def holds(self) -> bool:
        """Whether the number keeps its limit."""
        return self.limit is None or self.value <= self.limit
