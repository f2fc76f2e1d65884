"""docs/silicon_zoo.md: the zoo beside Vela run live."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.silicon.ethos_u55 import SIZES, simulated
from benchmarks.silicon.frame import Compared, agreement
from benchmarks.silicon.page import held_out, numbers, percent
from benchmarks.silicon.zoo.zoo import APART, SEEN, Network, built, measured

Results = Mapping[int, Sequence[Compared]]

_HEAD = """\
# Networks that nobody had looked at

<!-- Written by `python -m benchmarks silicon --write` where Vela 5.2.0 is at hand (NPUSIM_VELA=/path/to/vela). -->

This page compares the presets of the Ethos-U55 with Vela 5.2.0, run live (`Ethos_U55_High_End_Embedded`,
`Shared_Sram`), on networks that `benchmarks/silicon/zoo` builds. They have the shapes of published families, or
unusual shapes on purpose, and random weights. No constant of a preset was fitted to one of them. Most of them showed a
mechanism that the model lacked, which was then added. The networks *apart* were run for the first time after that.
[silicon.md](silicon.md) defines the columns.

A row counts if three conditions hold. Vela leaves the CPU nothing but QUANTIZE and DEQUANTIZE. The network takes
10,000 cycles or more. Three quarters of these cycles are convolutions, fully connected layers, pools, sums, products,
extremes, softmax or concatenations. Other cells are blank.
"""


def compared_zoo() -> Results:
    """Every network that counts on every size. Raises `benchmarks.peers.Missing`."""
    with tempfile.TemporaryDirectory() as folder:
        files = {network: built(network, Path(folder)) for network in (*SEEN, *APART)}
        return {size: list(_rows(files, size)) for size in SIZES}


def _rows(files: Mapping[Network, Path], size: int) -> Iterator[Compared]:
    for network, file in files.items():
        found = measured(network, file, size)
        if found is not None:
            yield Compared(found, simulated(size, found))


def zoo_page(results: Results) -> str:
    """The page."""
    return "\n".join([_HEAD, *_summary(results), "", *_table(results)]) + "\n"


def _summary(results: Results) -> Iterator[str]:
    yield "| preset | rows | error | worst | bias | rank | rows apart | error, apart | worst, apart |"
    yield "| --- " * 9 + "|"
    for size, rows in results.items():
        every, away = agreement(rows), held_out(rows)
        cells = [f"`ethos-u55-{size}`", str(every.rows), *numbers(every)]
        cells += [str(away.rows), percent(away.error), percent(away.worst)] if away else [""] * 3
        yield f"| {' | '.join(cells)} |"


def _table(results: Results) -> Iterator[str]:
    yield f"| network | {' | '.join(f'Vela, {size}: cycles | ratio' for size in results)} | |"
    yield "| --- " * (2 + 2 * len(results)) + "|"
    for network in (*SEEN, *APART):
        cells = [network.__name__]
        for rows in results.values():
            row = next((each for each in rows if each.measurement.network == network.__name__), None)
            cells += ["", ""] if row is None else [f"{row.measurement.value:,.0f}", f"{row.ratio:.3f}"]
        yield f"| {' | '.join(cells)} | {'apart' if network in APART else ''} |"
