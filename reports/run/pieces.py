"""The pieces of a run for a terminal: who computes which layers, and what each boundary cost."""

from __future__ import annotations

from collections.abc import Iterator
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
    """How many pieces there are, and whose."""
    number = show.plural(len(result.pieces), "piece")
    if result.several_devices:
        return f"Partition, {number} on {len(result.at_work)} devices"
    return f"Partition, {number} on NPU and host"


def who(result: RunResult, piece: Piece) -> str:
    """The side that computes a piece, with its device where there are several."""
    if not result.several_devices:
        return SIDE_WORDS[piece.side]
    is_cpu = any(device.name == piece.device and device.is_cpu for device in result.devices)
    return show.printable(piece.device) + (", host" if piece.side == "host" and not is_cpu else "")


def boundaries(result: RunResult) -> list[Boundary]:
    """The boundaries that have cycles of their own, in order."""
    found = [boundary for piece in result.pieces for boundary in (piece.entered, piece.left)]
    return [boundary for boundary in found if boundary is not None and boundary.cycles]


def table(result: RunResult) -> Table:
    """A row per piece; of very many those that take longest. The sums of both kinds are the run's."""
    grid = Table.grid(padding=(0, 2))
    for justify in ("right", "left", "right", "right"):
        grid.add_column(justify=justify, no_wrap=True)
    grid.add_column(style="dim")
    shown = sorted(result.pieces, key=lambda piece: -piece.cycles)[:MOST_ROWS]
    for piece in sorted(shown, key=lambda piece: piece.first_layer):
        layers = f"{piece.first_layer}" + (f"-{piece.last_layer}" if piece.layers > 1 else "")
        grid.add_row(
            Text(f"  {layers}"),
            Text(who(result, piece), style="bold"),
            *_amounts(result, piece.cycles),
            Text(_entered(piece)),
        )
    left = len(result.pieces) - len(shown)
    if left:
        grid.add_row(
            Text(""), Text(""), Text(""), Text(""), Text(f"and {show.plural(left, 'shorter piece')}")
        )
    between = boundaries(result)
    if between:
        cycles = sum(boundary.cycles for boundary in between)
        words = show.plural(len(between), "boundary").replace("boundarys", "boundaries")
        grid.add_row(Text(""), Text("between", style="bold"), *_amounts(result, cycles), Text(words))
    return grid


def _amounts(result: RunResult, cycles: int) -> Iterator[Text]:
    yield Text(show.whole(cycles))
    yield Text(show.percent(cycles / result.cycles if result.cycles else 0.0))


def _entered(piece: Piece) -> str:
    """What the boundary in front of a piece cost, and that behind the last one."""
    texts = [_crossed(piece.entered)] if piece.entered is not None else []
    texts += [f"behind it {_crossed(piece.left)}"] if piece.left is not None else []
    return "; ".join(texts)


def _crossed(boundary: Boundary) -> str:
    words = [show.size(boundary.bytes) + " cross"] if boundary.copies else ["nothing crosses"]
    if boundary.cycles:
        words.append(f"{show.whole(boundary.cycles)} cycles between")
    if boundary.copies:
        words.append(f"{show.whole(boundary.copy_cycles)} {'' if boundary.cycles else 'cycles '}of copies")
    if boundary.handover_cycles:
        words.append(f"{show.whole(boundary.handover_cycles)} of handover")
    return ", ".join(words)
