"""The PerformanceInfo table of the NN HAL driver, in the terminal and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from npusim.base.files import json_text
from npusim.reports.words import quantities as show
from npusim.reports.words.claims import of_cpu, of_standing
from npusim.reports.words.grids import grid

if TYPE_CHECKING:
    from npusim.numbers.performance import Capabilities, Cell


def to_json(capabilities: Capabilities) -> str:
    """Return the JSON of a table: every cell with its origin, and the struct of every HAL version."""
    return json_text(capabilities.to_dict())


def table(capabilities: Capabilities) -> RenderableType:
    """Return the computed cells, followed by the operand types that each stands for."""
    from npusim.numbers.performance import CELLS, CONTROL_FLOW, OPERAND_TYPES, RELAXED

    titles = {row.name: row.title for row in CELLS} | {RELAXED: RELAXED, CONTROL_FLOW: "if, while"}
    ratios, sources, listing = grid("<", ">", ">"), grid("<", "= dim"), grid("<", "=")
    ratios.add_row(*(Text(word, style="dim") for word in ("", "execTime", "powerUsage")))
    for name, cell in capabilities.cells.items():
        ratios.add_row(Text(titles[name], style="bold"), *_numbers(cell))
        sources.add_row(Text(titles[name]), Text(cell.provenance))
    types: dict[str, list[str]] = {}
    for row in OPERAND_TYPES:
        types.setdefault(row.cell, []).append(row.name)
    for cell_name, names in types.items():
        listing.add_row(Text(titles.get(cell_name, "not offered")), Text(", ".join(names)))
    return Group(
        Text.assemble("PerformanceInfo of ", (show.printable(capabilities.hardware), "bold")),
        Text("NPU / CPU for the same work, driver call included; smaller is better", style="dim"),
        Text(f"{side(capabilities)}\n", style="dim"),
        ratios,
        Text("\nOperand types", style="bold"),
        listing,
        Text("\nWhere the numbers come from", style="bold"),
        sources,
    )


def side(capabilities: Capabilities) -> str:
    """Return a sentence about the error of the NPU's side of the ratios, which is measured on 8-bit networks."""
    cpu = of_cpu(capabilities.host)
    return f"NPU's side of 8 bits: {of_standing(capabilities.standing)}{cpu and f'. {cpu}'}"


def _numbers(cell: Cell) -> tuple[Text, Text]:
    if cell.performance is None:
        return Text("-"), Text("-")
    return Text(show.ratio(cell.performance.execTime)), Text(show.ratio(cell.performance.powerUsage))
