"""The command: every row, what comes of them, and the files that say so."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.peers import Missing
from benchmarks.silicon import data, page, plot
from benchmarks.silicon.chips import CHIPS
from benchmarks.silicon.frame import agreement, compared
from benchmarks.silicon.page import Result, cells, held_out, numbers, percent
from benchmarks.silicon.zoo.page import compared_zoo, zoo_page
from npusim.isa.hardware import agreement as product

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE, PICTURE = DOCS / "silicon.md", DOCS / page.PICTURE
WRITTEN = {PAGE: page.page, PICTURE: plot.svg, product.FILE: data.text}
"""What the rows are written to."""
ZOO = DOCS / "silicon_zoo.md"
"""That of networks which need Vela."""


def silicon(write: bool) -> int:
    """Print all rows, and write the files if it is wanted and nothing is missing. 0 if all bars hold, 1 if not."""
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
        names = ", ".join(file.name for file in WRITTEN)
        print(f"{names} are not written: {missing} chips are missing", file=sys.stderr)
        return 1
    if write:
        for file, text in WRITTEN.items():
            file.write_text(text(results), encoding="utf-8")
        print("written; documents quote the errors: python docs/generate.py")
    _zoo(write)
    return 0 if holds else 1


def _zoo(write: bool) -> None:
    """The networks that nobody had looked at, where Vela can be run; else their page stays as it is."""
    try:
        results = compared_zoo()
    except Missing as reason:
        print(f"{ZOO.name} skipped: {reason}")
        return
    text = zoo_page(results)
    print(text)
    if write:
        ZOO.write_text(text, encoding="utf-8")
