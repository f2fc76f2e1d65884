"""Runs cases of a kind one after the other, counts how they end, and keeps those that end badly.

A kind makes a case from a seed, in a folder of its own, and runs it there; both in a forked process. A second process
may check what the first left in the folder, unlimited by its memory: LiteRT may crash on a damaged file.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from . import child
from .child import Outcome, Report

BAD = ("exit 1", "wrong bytes", "broken invariant", "bad message", "timeout", "over 1 GB", "crash", "fault")
"""How a case may not end. "fault" is one of this harness or of the code that it calls."""

FINE = ("run", "refused", "compared", "not comparable")
"""What is counted besides: commands or models run, refusals, comparisons with LiteRT."""

COUNTS = (*FINE, *BAD)

Run = Callable[[int, Path, Report], None]
"""(seed, empty folder, report): makes the files of a case in the folder, runs npusim on them and reports."""

Check = Callable[[Path, Report], None]
"""Judges what a run left in the folder."""


@dataclass(frozen=True)
class Kind:
    """A kind of fuzzing.

    check:   called for cases that reported no refusal.
    prepare: called once, before the first case: what all forked processes then have.
    """

    about: str
    run: Run
    check: Check | None = None
    prepare: Callable[[], object] | None = None


@dataclass
class Tally:
    """What came of all cases of a kind."""

    counts: Counter[str] = field(default_factory=Counter)
    cases: int = 0
    slowest_s: float = 0.0
    slowest_seed: int = 0
    largest_bytes: int = 0
    largest_seed: int = 0
    kept: list[str] = field(default_factory=list)

    @property
    def bad(self) -> int:
        """How many things went wrong."""
        return sum(self.counts[name] for name in BAD)

    def lines(self) -> list[str]:
        """The counts, for people."""
        found = [f"{self.cases} cases"]
        found += [f"{self.counts[name]:9} {name}" for name in COUNTS]
        found.append(f"slowest {self.slowest_s:.1f} s of CPU (seed {self.slowest_seed})")
        found.append(f"largest {self.largest_bytes / 2**20:.0f} MiB (seed {self.largest_seed})")
        return found + [f"kept {name}" for name in self.kept]


def fuzz(
    kind: Kind,
    first_seed: int,
    seconds: float,
    keep: Path,
    cases: int | None = None,
    say: Callable[[str], object] = print,
) -> Tally:
    """Run cases with seeds from `first_seed` on until the time is over or so many are done."""
    if kind.prepare is not None:
        kind.prepare()
    tally, end, seed = Tally(), time.monotonic() + seconds, first_seed
    while time.monotonic() < end and (cases is None or tally.cases < cases):
        _one(kind, seed, tally, keep, say)
        seed += 1
    return tally


def _one(kind: Kind, seed: int, tally: Tally, keep: Path, say: Callable[[str], object]) -> None:
    with tempfile.TemporaryDirectory(prefix="npusim-fuzz-") as name:
        folder = Path(name)
        files = folder / "case"
        files.mkdir()
        outcome = child.run(lambda report: kind.run(seed, files, report), folder / "run.txt")
        found = _judged(outcome)
        if kind.check is not None and not any(note["kind"] in ("refused", *BAD) for note in found):
            check = kind.check
            checked = child.run(lambda report: check(files, report), folder / "check.txt")
            found += checked.notes
            if checked.stopped:
                found.append({"kind": "not comparable", "text": f"LiteRT: {checked.stopped}"})
        _count(tally, seed, outcome, found)
        bad = [note for note in found if note["kind"] in BAD]
        if bad:
            lines = [f"seed {seed}: {note['kind']}: {note['text']}" for note in bad]
            (folder / "what.txt").write_text("\n".join(lines) + "\n")
            target = keep / f"{seed}"
            shutil.copytree(folder, target, dirs_exist_ok=True)
            tally.kept.append(str(target))
            say("\n".join(line[:600] for line in lines))


def _judged(outcome: Outcome) -> list[dict[str, str]]:
    """The notes of a run, and what its time, memory and end say."""
    found = list(outcome.notes)
    if outcome.timed_out:
        found.append({"kind": "timeout", "text": f"{outcome.cpu_s:.1f} s of CPU"})
    elif outcome.stopped:
        found.append({"kind": "crash", "text": outcome.stopped})
    if outcome.too_large:
        found.append({"kind": "over 1 GB", "text": f"{outcome.peak_bytes / 2**20:.0f} MiB"})
    return found


def _count(tally: Tally, seed: int, outcome: Outcome, found: list[dict[str, str]]) -> None:
    tally.cases += 1
    tally.counts.update(note["kind"] for note in found)
    if outcome.cpu_s > tally.slowest_s:
        tally.slowest_s, tally.slowest_seed = outcome.cpu_s, seed
    if outcome.peak_bytes > tally.largest_bytes:
        tally.largest_bytes, tally.largest_seed = outcome.peak_bytes, seed
