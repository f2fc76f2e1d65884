"""Tables for the terminal: grids from a word per column, columns that know their width, and plain text of both."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from io import StringIO
from typing import TYPE_CHECKING, Any, NamedTuple

from npusim.base.console import console
from npusim.reports.words.layout import Grid, GridColumn, Text, plain_lines

if TYPE_CHECKING:
    from rich.console import RenderableType

WIDEST = 110
"""Most columns of the terminal that running text and charts take."""

_COLUMN = re.compile(r"([<>=~])(\d*) ?(\w*)")

STYLES = {"better": "green", "worse": "red", "same": "dim", "other": ""}
"""Style of a change by its judgement."""


def grid(*columns: str, gap: int = 2) -> Grid:
    """Create a table without lines; a word describes each column: side, least width, style, as in ">9 dim".

    Sides: "<" flush left and ">" flush right, on one line; "=" wrapped; "~" wrapped, long words folded.
    """
    return Grid(map(_described, columns), gap)


def _described(word: str) -> GridColumn:
    match = _COLUMN.fullmatch(word)
    assert match, word
    side, least, style = match.groups()
    overflow = "fold" if side == "~" else "ellipsis"
    return GridColumn(side == ">", side in "<>", overflow, least=int(least or 0), style=style)


class Column(NamedTuple):
    """A column of a table that drops columns on narrow terminals.

    right:    its texts are flush right.
    least:    columns of the terminal from which on it is shown.
    optional: the order in which a narrow terminal drops it, 1 first; 0 if it never does.
    """

    head: str
    texts: Sequence[Any]
    right: bool = False
    least: int = 0
    optional: int = 0

    @property
    def width(self) -> int:
        """Columns of the terminal that it takes."""
        widths = (len(text) if isinstance(text, str) else text.cell_len for text in self.texts)
        return max(len(self.head), *widths, 0)


def table(columns: Sequence[Column], indent: int = 0) -> Grid:
    """Lay out columns side by side, each below its head; `indent` is the width of an empty column before them."""
    empty = [GridColumn(exact=indent)] if indent else []
    grid = Grid([*empty, *(GridColumn(column.right, no_wrap=True) for column in columns)], gap=1)
    before = [Text("") for _ in empty]
    grid.add_row(*before, *(Text(column.head, style="dim") for column in columns))
    for row in zip(*(column.texts for column in columns), strict=True):
        grid.add_row(*before, *(Text(text) if isinstance(text, str) else text for text in row))
    return grid


def titled(title: str, *body: RenderableType) -> Iterable[RenderableType]:
    """Return the parts of a section: an empty line, a title in bold, and the body."""
    return Text(""), Text(title, style="bold"), *body


def plain(shown: RenderableType, width: int, crop: bool = True) -> str:
    """Render for a terminal of `width` columns as text without colours; `crop` cuts longer lines."""
    lines = plain_lines(shown, width)
    if lines is not None and not (crop and any(len(line) > width for line in lines)):
        return "".join(f"{line}\n" for line in lines)
    file = StringIO()
    console(file, width=width, color_system=None, force_terminal=False).print(shown, crop=crop)
    return file.getvalue()
