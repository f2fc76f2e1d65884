"""Styled text and tables for the terminal, which are laid out as plain lines without rich if everything fits.

rich takes as many instructions as an eighth of a small run. It prints on terminals, and wraps what does not fit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from npusim.isa.base.errors import printable_lines

if TYPE_CHECKING:
    from rich.console import RenderableType

_NARROW = re.compile("[\n -~\u00a0-\u02ff\u2026\u2580-\u259f]*")
"""Text whose characters each take one column of the terminal: Latin letters, "…" and block elements."""


class _NoFit(Exception):
    """Raised for content that only rich can lay out: it has to be wrapped, cut or escaped, or has wide characters."""


class Text:
    """Text as a sequence of pieces with a style each.

    whole_lines: its lines are neither wrapped nor cut, so that a command can be copied.
    """

    def __init__(self, text: str = "", style: str = "", *, whole_lines: bool = False) -> None:
        self.pieces = [(text, style)]
        self.whole_lines = whole_lines

    @classmethod
    def assemble(cls, *pieces: str | tuple[str, str]) -> Text:
        """Return a text of pieces, each with its style if it has one."""
        text = cls()
        text.pieces = [(piece, "") if isinstance(piece, str) else piece for piece in pieces]
        return text

    def append(self, text: str, style: str = "") -> None:
        """Add a piece at the end."""
        self.pieces.append((text, style))

    @property
    def cell_len(self) -> int:
        """Columns of the terminal that the text takes."""
        return int(self.__rich__().cell_len)

    def lines(self, width: int) -> list[str]:
        """Return the lines without styles for a terminal of `width` columns. Raises _NoFit if only rich can."""
        text = "".join(text for text, _ in self.pieces)
        lines = text.split("\n")
        fits = self.whole_lines or max(map(len, lines)) <= width
        if not fits or not _NARROW.fullmatch(text) or printable_lines(text) != text:
            raise _NoFit
        return lines

    def __rich__(self) -> Any:
        from rich.text import Text as RichText

        if len(self.pieces) > 1:
            return RichText.assemble(*self.pieces)
        text, style = self.pieces[0]
        if self.whole_lines:
            return RichText(text, style=style, no_wrap=True, overflow="ignore")
        return RichText(text, style=style)


class GridColumn(NamedTuple):
    """The layout of a column of a grid.

    overflow: what rich does with a word that is too long: "ellipsis" or "fold".
    least:    least width in columns of the terminal; 0 for none.
    exact:    width in columns of the terminal; 0 if the texts give it.
    """

    right: bool = False
    no_wrap: bool = False
    overflow: str = "ellipsis"
    least: int = 0
    exact: int = 0
    style: str = ""


class Grid:
    """A table without lines; `gap` columns of the terminal separate its columns."""

    def __init__(self, columns: Iterable[GridColumn], gap: int) -> None:
        self.columns = list(columns)
        self.gap = gap
        self.rows: list[Sequence[Any]] = []

    def add_row(self, *cells: Any) -> None:
        """Add a row of texts; those that are missing at its end are empty."""
        self.rows.append(cells)

    def lines(self, width: int) -> list[str]:
        """Return the lines without styles for a terminal of `width` columns. Raises _NoFit if only rich can."""
        if not self.rows:
            raise _NoFit
        rows = [[_lines(cell, width) for cell in row] for row in self.rows]
        widths = [column.exact or column.least for column in self.columns]
        for row in rows:
            for at, lines in enumerate(row):
                widths[at] = max(widths[at], *map(len, lines))
        widths[-1] = widths[-1] or 1  # rich gives each column, with its gap, at least one
        fits = sum(widths) + self.gap * (len(widths) - 1) <= width
        if not fits or any(
            column.exact not in (0, wide) for column, wide in zip(self.columns, widths, strict=True)
        ):
            raise _NoFit
        return [line for row in rows for line in self._row(row, widths)]

    def _row(self, row: Sequence[Sequence[str]], widths: Sequence[int]) -> Iterable[str]:
        for at in range(max(map(len, row))):
            cells = [lines[at] if at < len(lines) else "" for lines in row] + [""] * (len(widths) - len(row))
            yield (" " * self.gap).join(
                text.rstrip().rjust(wide) if column.right else text.ljust(wide)
                for text, wide, column in zip(cells, widths, self.columns, strict=True)
            )

    def __rich__(self) -> Any:
        from rich.table import Table

        table = Table.grid(padding=(0, self.gap))
        for column in self.columns:
            table.add_column(
                justify="right" if column.right else "left",
                no_wrap=column.no_wrap,
                overflow=column.overflow,  # type: ignore[arg-type]
                min_width=column.least or None,
                width=column.exact or None,
                style=column.style,
            )
        for row in self.rows:
            table.add_row(*row)
        return table


class Group:
    """Texts, grids and groups, stacked from top to bottom."""

    def __init__(self, *parts: RenderableType) -> None:
        self.parts = parts

    def lines(self, width: int) -> list[str]:
        """Return the lines without styles for a terminal of `width` columns. Raises _NoFit if only rich can."""
        return [line for part in self.parts for line in _lines(part, width)]

    def __rich__(self) -> Any:
        from rich.console import Group as RichGroup

        return RichGroup(*self.parts)


def _lines(part: Any, width: int) -> list[str]:
    if isinstance(part, Text | Grid | Group):
        return part.lines(width)
    if isinstance(part, str):
        return Text(part).lines(width)
    raise _NoFit


def plain_lines(shown: Any, width: int) -> list[str] | None:
    """Return the lines that rich prints without colours on a terminal of `width` columns; None if only rich can."""
    try:
        return _lines(shown, width)
    except _NoFit:
        return None
