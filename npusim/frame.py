"""Rows as a table of pandas, which is an extra."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from npusim.isa.errors import NpusimError

if TYPE_CHECKING:
    import pandas


def frame(rows: Sequence[Mapping[str, Any]]) -> pandas.DataFrame:
    """A table with a line per row. Raises NpusimError without pandas."""
    try:
        import pandas
    except ImportError as fault:
        raise NpusimError(
            "to_pandas() needs pandas, which is not installed: pip install 'npusim[pandas]'"
        ) from fault
    return pandas.DataFrame(rows)
