"""The pieces of a run in the terminal, with the cost of each boundary; and the summary of a run of an executable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from npusim.numbers.layers import share
from npusim.reports.run.run_data import boundaries
from npusim.reports.words import quantities as show
from npusim.reports.words.claims import caveats
from npusim.reports.words.grids import grid

if TYPE_CHECKING:
    from npusim.numbers.job import JobResult
    from npusim.numbers.layers import Boundary, Piece
    from npusim.numbers.run import RunResult
    from npusim.reports.run.run_data import RunData
    from npusim.reports.words.layout import Grid

MOST_ROWS = 12


def title(result: RunResult) -> str:
    """Return the title of the table of pieces: how many there are, and on which sides."""
    number = show.plural(len(result.pieces), "piece")
    sides = f"{len(result.at_work)} devices" if result.several_devices else "NPU and host"
    return f"Partition, {number} on {sides}"


def table(data: RunData) -> Grid:
    """Return the table of pieces, a row each; if there are very many, those that take longest.

    The pieces and boundaries add up to the run.
    """
    rows, result = grid(">", "<", ">", ">", "= dim"), data.result
    shown = sorted(data.pieces, key=lambda entry: -entry[1].cycles)[:MOST_ROWS]
    for who, piece in sorted(shown, key=lambda entry: entry[1].first_layer):
        layers = f"{piece.first_layer}" + (f"-{piece.last_layer}" if piece.layers > 1 else "")
        amounts = _amounts(result, piece.cycles)
        rows.add_row(Text(f"  {layers}"), Text(who, style="bold"), *amounts, Text(_entered(piece)))
    left = len(result.pieces) - len(shown)
    if left:
        rows.add_row("", "", "", "", Text(f"and {show.plural(left, 'shorter piece')}"))
    if data.between:
        count = len(boundaries(result))
        words = f"{show.whole(count)} {'boundary' if count == 1 else 'boundaries'}"
        rows.add_row("", Text("between", style="bold"), *_amounts(result, data.between.cycles), Text(words))
    return rows


def _amounts(result: RunResult, cycles: int) -> Iterator[Text]:
    yield Text(show.whole(cycles))
    yield Text(show.percent(share(cycles, result.cycles)))


def _entered(piece: Piece) -> str:
    """Return the cost of the boundary before a piece as text; for the last piece, also of that after it."""
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


LONGEST_NAME = 60


def summary(result: JobResult) -> RenderableType:
    """Return the summary of a `JobResult` for a terminal."""
    heading = Text.assemble(
        (show.printable(result.model), "bold"), " on ", (show.printable(result.hardware.name), "bold"), "\n"
    )
    texts = dict.fromkeys(text for program in result.executable.programs for text in caveats(program))
    warnings = [Text(f"{caveat}\n", style="bold red") for caveat in texts]
    return Group(heading, *warnings, _sums(result), Text(), _programs(result))


def _sums(result: JobResult) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    launches = sum(program.launches for program in result.programs)
    table.add_row(
        "Latency",
        show.time(result.latency_ms),
        f"{show.whole(result.cycles)} cycles in {show.whole(launches)} launches of "
        f"{show.plural(len(result.programs), 'program')}\n{result.uncertainty.words('latency')}",
    )
    energy = f"with DRAM and host\n{result.uncertainty.words('energy')}"
    table.add_row("Energy", show.energy(result.energy_uj), energy)
    moved = result.dram_bytes
    words = f"read {show.size(moved.read)}, write {show.size(moved.write)}, "
    table.add_row("DRAM", show.size(moved.total), f"{words}instructions {show.size(moved.instructions)}")
    table.add_row("Work", show.count(result.macs), "MACs")
    table.add_row("Decided", _decisions(result), "as stated" if result.assumed else "by the data")
    return table


def _decisions(result: JobResult) -> str:
    """Return the decisions as text: "loop 10", or "loop 10 (3 times)" if it was decided so three times."""
    counts = Counter(result.decisions)
    return "\n".join(
        f"{show.shortened(name, LONGEST_NAME)} {number}" + (f" ({count} times)" if count > 1 else "")
        for (name, number), count in counts.items()
    )


def _programs(result: JobResult) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("program")
    for name in ("launches", "instructions", "cycles", "share", "energy", "DRAM"):
        table.add_column(name, justify="right")
    for program in result.programs:
        table.add_row(
            show.shortened(program.name, LONGEST_NAME),
            show.whole(program.launches),
            show.whole(program.instructions),
            show.whole(program.cycles),
            show.percent(share(program.cycles, result.cycles)),
            show.energy(program.energy_uj),
            show.size(program.dram_bytes.total),
        )
    return table
