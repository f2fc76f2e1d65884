"""Where the time of `npusim run` goes: imports, reading, compiling, simulating, and the functions that take it."""

from __future__ import annotations

import cProfile
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import CodeType

from benchmarks.measure import BenchmarkError, npusim_command, run_fresh

_SHOWN = 12
_IMPORT_LINE = re.compile(r"import time:\s*(\d+) \|\s*\d+ \| +(\S+)")


def profile(model: str, hardware: str) -> None:
    """Print the profile of one model on one machine."""
    _print_start_up(model, hardware)
    _print_steps(model, hardware)
    _print_functions(model, hardware)


def _print_start_up(model: str, hardware: str) -> None:
    """Time of a fresh process, and of its imports by top-level package."""
    arguments = ("run", model, "--hw", hardware, "--timing-only")
    whole = min(run_fresh(npusim_command(*arguments)) for _ in range(3))
    nothing = min(run_fresh([sys.executable, "-P", "-c", "pass"]) for _ in range(3))
    command = npusim_command(*arguments)
    done = subprocess.run(
        [command[0], "-X", "importtime", *command[1:]], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise BenchmarkError(f"npusim {' '.join(arguments)}: exit status {done.returncode}")
    spent_us = imports_us(done.stderr)
    print(f"fresh process, timing only: {whole.wall_s * 1e3:.0f} ms, of which CPU {whole.cpu_s * 1e3:.0f} ms")
    print(f"  an empty Python process: {nothing.wall_s * 1e3:.0f} ms")
    print(f"  imports: {sum(spent_us.values()) / 1e3:.0f} ms")
    for package, time_us in spent_us.most_common(_SHOWN):
        print(f"    {time_us / 1e3:7.1f} ms  {package}")


def imports_us(log: str) -> Counter[str]:
    """Microseconds by package from what `python -X importtime` prints; a module counts without its imports."""
    spent_us: Counter[str] = Counter()
    for line in log.splitlines():
        found = _IMPORT_LINE.match(line)
        if found:
            package, *rest = found[2].split(".")
            spent_us[f"{package}.{rest[0]}" if package == "npusim" and rest else package] += int(found[1])
    return spent_us


def _print_steps(model: str, hardware: str) -> None:
    """Load, compile and simulate in this process: the first time and the best of the following."""
    import npusim

    for title, timing_only in (("timing only", True), ("exact", False)):
        runs = [npusim.run(model, hardware, timing_only=timing_only).wall_s for _ in range(3)]
        print(f"\nin one process, {title}: {'first':>9} {'later':>9}")
        for step in ("load", "compile", "simulate"):
            times = [getattr(each, step) * 1e3 for each in runs]
            print(f"  {step:<20} {times[0]:7.0f} ms {min(times[1:]):6.0f} ms")


def _print_functions(model: str, hardware: str) -> None:
    """The functions that take the most time, of each step."""
    import npusim

    graph = npusim.load(model)
    program = npusim.compile(graph, hardware)
    _print_hottest("load", lambda: npusim.load(model))
    _print_hottest("compile", lambda: npusim.compile(graph, hardware))
    _print_hottest("simulate, timing only", lambda: npusim.simulate(program, timing_only=True))
    _print_hottest("simulate, exact", lambda: npusim.simulate(program))


def _print_hottest(title: str, work: Callable[[], object]) -> None:
    recorder = cProfile.Profile()
    recorder.runcall(work)
    entries = recorder.getstats()
    total_s = sum(entry.inlinetime for entry in entries)
    print(f"\n{title}: {total_s * 1e3:.0f} ms under the profiler, by function without what it calls")
    for entry in sorted(entries, key=lambda each: -each.inlinetime)[:_SHOWN]:
        print(f"  {entry.inlinetime * 1e3:7.1f} ms {entry.callcount:8} calls  {_place(entry.code)}")


def _place(code: CodeType | str) -> str:
    if isinstance(code, str):
        return code
    file = code.co_filename.rpartition("site-packages/")[2].removeprefix(f"{Path.cwd()}/")
    return f"{code.co_qualname} ({file}:{code.co_firstlineno})"
