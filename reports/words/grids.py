"""Tables for the terminal: grids from a word per column, columns that know their width, and plain text of both."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from io import StringIO
from typing import NamedTuple

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from npusim.base.console import console

WIDEST = 110
"""Most columns of the terminal that running text and charts take."""

_COLUMN = re.compile(r"([<>=~])(\d*) ?(\w*)")

STYLES = {"better": "green", "worse": "red", "same": "dim", "other": ""}
"""Style of a change by its judgement."""


def grid(*columns: str, gap: int = 2) -> Table:
    """Create a table without lines; a word describes each column: side, least width, style, as in ">9 dim".

    Sides: "<" flush left and ">" flush right, on one line; "=" wrapped; "~" wrapped, long words folded.
    """
    table = Table.grid(padding=(0, gap))
    for column in columns:
        match = _COLUMN.fullmatch(column)
        assert match, column
        side, least, style = match.groups()
        table.add_column(
            justify="right" if side == ">" else "left",
            no_wrap=side in "<>",
            overflow="fold" if side == "~" else "ellipsis",
            min_width=int(least) if least else None,
            style=style,
        )
    return table


class Column(NamedTuple):
    """A column of a table that drops columns on narrow terminals.

    right:    its texts are flush right.
    least:    columns of the terminal from which on it is shown.
    optional: the order in which a narrow terminal drops it, 1 first; 0 if it never does.
    """

    head: str
    texts: Sequence[str | Text]
    right: bool = False
    least: int = 0
    optional: int = 0

    @property
    def width(self) -> int:
        """Columns of the terminal that it takes."""
        widths = (len(text) if isinstance(text, str) else text.cell_len for text in self.texts)
        return max(len(self.head), *widths, 0)


def table(columns: Sequence[Column], indent: int = 0) -> Table:
    """Lay out columns side by side, each below its head; `indent` is the width of an empty column before them."""
    made = Table.grid(padding=(0, 1))
    if indent:
        made.add_column(width=indent)
    for column in columns:
        made.add_column(justify="right" if column.right else "left", no_wrap=True)
    before = [Text("")] * bool(indent)
    made.add_row(*before, *(Text(column.head, style="dim") for column in columns))
    for row in zip(*(column.texts for column in columns), strict=True):
        made.add_row(*before, *(Text(text) if isinstance(text, str) else text for text in row))
    return made


def titled(title: str, *body: RenderableType) -> Iterable[RenderableType]:
    """Return the parts of a section: an empty line, a title in bold, and the body."""
    return Text(""), Text(title, style="bold"), *body


def plain(shown: RenderableType, width: int, crop: bool = True) -> str:
    """Render for a terminal of `width` columns as text without colours; `crop` cuts longer lines."""
    file = StringIO()
    console(file, width=width, color_system=None, force_terminal=False).print(shown, crop=crop)
    return file.getvalue()
