"""Fuzzing: `python -m tests.fuzz KIND --minutes N [--seed S]` in the project's folder, with its `dev` extra installed.

Every case runs in a process of its own, with 10 s of CPU and 1 GB. A seed is a case: `--seed S --cases 1` makes it
again.
Cases that end badly stay, with what was printed, in a folder each. Exit status 1 if there are any.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

# Before numpy is imported: no threads, which a fork would lose.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def main() -> int:
    """Run one kind, or all one after the other; print the counts."""
    from .command import warm_up
    from .harness import fuzz
    from .kinds import KINDS

    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument(
        "kind", choices=[*KINDS, "all"], help="; ".join(f"{k}: {v.about}" for k, v in KINDS.items())
    )
    parser.add_argument("--minutes", type=float, default=1.0, help="how long each kind runs (default: 1)")
    parser.add_argument("--seed", type=int, help="the first seed (default: from the clock)")
    parser.add_argument("--cases", type=int, help="at most so many cases")
    parser.add_argument("--keep", type=Path, help="where bad cases go (default: a new temporary folder)")
    asked = parser.parse_args()
    seed = int(time.time()) * 1000 if asked.seed is None else asked.seed
    keep = asked.keep or Path(tempfile.mkdtemp(prefix="npusim-fuzz-bad-"))
    warm_up()
    bad = 0
    for name in KINDS if asked.kind == "all" else [asked.kind]:
        print(f"{name}: seeds from {seed}", flush=True)
        tally = fuzz(
            KINDS[name],
            seed,
            asked.minutes * 60,
            keep / name,
            asked.cases,
            lambda line: print(line, flush=True),
        )
        print(f"{name}:", *tally.lines(), sep="\n  ", flush=True)
        bad += tally.bad
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
