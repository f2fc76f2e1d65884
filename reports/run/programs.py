"""The summary of a run of several programs in the terminal: the sums, then the programs."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from npusim.reports.words import quantities as show
from npusim.reports.words.caveats import caveats

if TYPE_CHECKING:
    from npusim.numbers.job import JobResult

LONGEST_NAME = 60


def summary(result: JobResult) -> RenderableType:
    """The summary of a `JobResult`."""
    heading = Text.assemble(
        (show.printable(result.model), "bold"), " on ", (show.printable(result.hardware.name), "bold"), "\n"
    )
    said = dict.fromkeys(text for program in result.executable.programs for text in caveats(program))
    warnings = [Text(f"{caveat}\n", style="bold red") for caveat in said]
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
    read, write, fetched = result.dram_bytes.read, result.dram_bytes.write, result.dram_bytes.instructions
    table.add_row(
        "DRAM",
        show.size(read + write + fetched),
        f"read {show.size(read)}, write {show.size(write)}, instructions {show.size(fetched)}",
    )
    table.add_row("Work", show.count(result.macs), "MACs")
    table.add_row("Decided", _decisions(result), "as was said" if result.assumed else "by the data")
    return table


def _decisions(result: JobResult) -> str:
    """What was decided, how often: "loop 10", or "loop 10 (3 times)" where it was so more than once."""
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
        dram = program.dram_bytes
        table.add_row(
            show.shortened(program.name, LONGEST_NAME),
            show.whole(program.launches),
            show.whole(program.instructions),
            show.whole(program.cycles),
            show.percent(program.cycles / result.cycles if result.cycles else 0.0),
            show.energy(program.energy_uj),
            show.size(dram.read + dram.write + dram.instructions),
        )
    return table
