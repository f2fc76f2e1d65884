"""Plain tables: aligned columns that are read by people and cut by `awk` alike."""

from __future__ import annotations

from collections.abc import Sequence

from npusim.reports.words.quantities import printable


def columns(head: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> str:
    """Text with a head line and a line per row; columns of `right` are flush right."""
    lines = [[printable(cell) for cell in row] for row in (head, *rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]

    def aligned(line: Sequence[str]) -> str:
        cells = (
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        return "  ".join(cells).rstrip()

    return "\n".join(aligned(line) for line in lines)
