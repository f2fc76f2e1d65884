"""The layers as CSV: `npusim run --csv`, a row per layer, a column per field of `LayerResult`."""

from __future__ import annotations

import csv
from dataclasses import asdict, fields
from io import StringIO
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from npusim.result import RunResult


def render(result: RunResult) -> str:
    """The CSV text with a line of column names; what a layer does not have is left empty."""
    from npusim.result import LayerResult

    file = StringIO()
    writer = csv.DictWriter(file, [field.name for field in fields(LayerResult)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(layer) for layer in result.layers)
    return file.getvalue()
