"""Plain tables: aligned columns that are read by people and cut by `awk` alike."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap

from npusim.reports.words.quantities import printable

GAP = "  "
LEAST_WRAPPED = 30
"""Characters that a wrapped column has, however narrow the terminal is."""


def columns(
    head: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = (), width: int = 0
) -> str:
    """Text with a head line and a line per row; columns of `right` are flush right.

    width: wraps the last column so that lines have at most so many characters; 0 wraps nothing.
    """
    lines = [[printable(cell) for cell in row] for row in (head, *rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    left = width - sum(len(GAP) + each for each in widths[:-1])
    if width:
        lines = [part for line in lines for part in _wrapped(line, max(left, LEAST_WRAPPED))]

    def aligned(line: Sequence[str]) -> str:
        cells = (
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        return GAP.join(cells).rstrip()

    return "\n".join(aligned(line) for line in lines)


def _wrapped(line: list[str], most: int) -> list[list[str]]:
    """A line, and further ones for what does not fit into its last column."""
    first, *more = wrap(line[-1], most, break_long_words=False, break_on_hyphens=False) or [""]
    return [[*line[:-1], first], *([*[""] * (len(line) - 1), part] for part in more)]
