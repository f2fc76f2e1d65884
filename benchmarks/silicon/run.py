"""The command: every row, what comes of them, and the page."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.peers import Missing
from benchmarks.silicon.chips import CHIPS
from benchmarks.silicon.frame import agreement, compared
from benchmarks.silicon.page import Result, cells, held_out, numbers, page, percent

PAGE = Path(__file__).resolve().parents[2] / "docs" / "silicon.md"


def silicon(write: bool) -> int:
    """Print all rows, and write the page if it is wanted and nothing is missing. 0 if all bars hold, 1 if not."""
    results: list[Result] = []
    missing = 0
    holds = True
    for chip in CHIPS:
        try:
            rows = compared(chip)
        except Missing as reason:
            print(f"{chip.preset}: skipped: {reason}")
            missing += 1
            continue
        results.append((chip, rows))
        for row in rows:
            network, measured, simulated, ratio, aside = cells(chip, row)
            print(f"{chip.preset:14} {network:36} {measured:>12} {simulated:>12} {ratio} {aside}")
        every, apart = agreement(rows), held_out(rows)
        holds = holds and every.holds(chip.bar) and (apart is None or apart.holds(chip.bar))
        error, worst, bias, rank = numbers(every)
        away = f"; held out {percent(apart.error)}, worst {percent(apart.worst)}" if apart else ""
        print(
            f"{chip.preset:14} {chip.referee}: error {error}, worst {worst}, bias {bias}, rank {rank}{away}"
        )
    if write and missing:
        print(f"{PAGE.name} is not written: {missing} chips are missing", file=sys.stderr)
        return 1
    if write:
        PAGE.write_text(page(results), encoding="utf-8")
    return 0 if holds else 1
