"""The layers as CSV: `npusim run --csv`, a row per layer, the columns of `LayerResult.to_row`."""

from __future__ import annotations

import csv
from dataclasses import fields
from io import StringIO
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from npusim.result import RunResult


def render(result: RunResult) -> str:
    """The CSV text with a line of column names; what a layer does not have is left empty."""
    from npusim.losses import CAUSES
    from npusim.result import LayerResult

    names = [field.name for field in fields(LayerResult) if field.name != "lost_cycles"]
    file = StringIO()
    writer = csv.DictWriter(file, [*names, *(f"lost_{cause}" for cause in CAUSES)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(layer.to_row() for layer in result.layers)
    return file.getvalue()
