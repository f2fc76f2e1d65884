"""The pieces of a run for a terminal: who computes which layers, and what each boundary cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from npusim.reports.words import quantities as show

if TYPE_CHECKING:
    from npusim.numbers.pieces import Boundary, Piece
    from npusim.numbers.run import RunResult

MOST_ROWS = 12
SIDE_WORDS = {"npu": "NPU", "host": "host"}


def title(result: RunResult) -> str:
    """How many pieces there are."""
    return f"Partition, {show.plural(len(result.pieces), 'piece')} on NPU and host"


def table(result: RunResult) -> Table:
    """A row per piece; of very many those that take longest."""
    grid = Table.grid(padding=(0, 2))
    for justify in ("right", "left", "right", "right"):
        grid.add_column(justify=justify, no_wrap=True)
    grid.add_column(style="dim")
    shown = sorted(result.pieces, key=lambda piece: -piece.cycles)[:MOST_ROWS]
    for piece in sorted(shown, key=lambda piece: piece.first_layer):
        share = piece.cycles / result.cycles if result.cycles else 0.0
        layers = f"{piece.first_layer}" + (f"-{piece.last_layer}" if piece.layers > 1 else "")
        grid.add_row(
            Text(f"  {layers}"),
            Text(SIDE_WORDS[piece.side], style="bold"),
            Text(show.whole(piece.cycles)),
            Text(show.percent(share)),
            Text(_entered(piece)),
        )
    left = len(result.pieces) - len(shown)
    if left:
        grid.add_row(
            Text(""), Text(""), Text(""), Text(""), Text(f"and {show.plural(left, 'shorter piece')}")
        )
    return grid


def _entered(piece: Piece) -> str:
    boundary = piece.entered
    return "" if boundary is None else _crossed(boundary)


def _crossed(boundary: Boundary) -> str:
    words = [show.size(boundary.bytes) + " cross"] if boundary.copies else ["nothing crosses"]
    if boundary.copies:
        words.append(f"{show.whole(boundary.copy_cycles)} cycles of copies")
    if boundary.handover_cycles:
        words.append(f"{show.whole(boundary.handover_cycles)} of handover")
    return ", ".join(words)
