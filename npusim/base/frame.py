"""Rows as a table of pandas, which is imported when a table is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas


def frame(rows: Sequence[Mapping[str, Any]]) -> pandas.DataFrame:
    """A table with a line per row."""
    import pandas

    return pandas.DataFrame(rows)
