"""CSV that a spreadsheet shows and never runs: the one writer of tables of text."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from io import StringIO
from typing import Any

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What a text begins with that Excel, LibreOffice and Google Sheets compute instead of showing it, in spite of quotes.
The CSV injection page of OWASP lists these."""


def csv_text(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """CSV with a line of column names; each row has a cell per name."""
    file = StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([cell(name) for name in head])
    writer.writerows([cell(value) for value in row] for row in rows)
    return file.getvalue()


def cell(value: Any) -> Any:
    """Return the content of a cell: numbers unchanged, flags as true or false, None empty, text never as a formula.

    Text that a spreadsheet would compute has an apostrophe before it, and only text: -1 is a number.
    """
    if isinstance(value, str):
        return f"'{value}" if value.lstrip(" ").startswith(_FORMULA) else value
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else value
