"""The writer of CSV, whose texts a spreadsheet shows and never computes as formulas."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from io import StringIO
from typing import Any

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""First characters of texts that Excel, LibreOffice and Google Sheets compute instead of showing, despite quotes.
The CSV injection page of OWASP lists these."""


def csv_text(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return CSV with a line of column names; each row has a cell per name."""
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
