"""Writes docs/example.ipynb: the cells below, executed, with what they show.

    python docs/make_notebook.py

What differs from one execution to the next (times of day, execution metadata, identifiers) is not kept, so that the
file changes only when a result does. tests/npusim/session/test_notebook.py executes the same cells.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parent / "example.ipynb"

# Pairs of a language and the text of a cell.
CELLS: tuple[tuple[str, str], ...] = (
    (
        "markdown",
        """\
# npusim in a notebook

A network, a piece of hardware that does not exist yet, and four questions: how fast, how much energy, where does the
time go, and what would change it. Results show themselves; figures are plain matplotlib figures.

This file is written by `docs/make_notebook.py`.""",
    ),
    (
        "python",
        """\
import npusim

result = npusim.run("mobilenet_v2", hw="edge-128", timing_only=True)
result""",
    ),
    (
        "markdown",
        """\
`timing_only` executes no data: the cycles and the energy are the same, and there are no outputs. Every number has a
name and a unit in it; `result.to_dict()` is the JSON of the command line.""",
    ),
    (
        "python",
        """\
print(f"{result.latency_ms:.3f} ms, {result.energy_uj:.0f} uJ, {result.power_mw.average:.0f} mW on average")
print(f"lower bound {result.lower_bound.cycles} cycles, set by {result.lower_bound.bound_by}")
dict(result.lost_cycles)""",
    ),
    (
        "markdown",
        "## Where the time goes\n\nLayers below the roofs of the MAC array and of the DRAM port:",
    ),
    ("python", "result.plot_roofline()"),
    ("markdown", "What each unit does when, and what it waits for:"),
    ("python", "result.plot_timeline()"),
    ("markdown", "Energy by component and layer, and power over the inference:"),
    ("python", "result.plot_energy()"),
    ("python", "result.plot_power()"),
    ("markdown", "What the scratchpad holds:"),
    ("python", "result.plot_occupancy()"),
    ("markdown", "The layers as a pandas table, for questions of your own:"),
    (
        "python",
        """\
layers = result.to_pandas()
layers.groupby(["op", "bound_by"])[["cycles", "macs", "bytes", "energy_uj"]].sum().sort_values("cycles")""",
    ),
    (
        "markdown",
        """\
## Another machine

The same network with twice the multipliers. The array was waiting for DRAM before, so that buys next to nothing:""",
    ),
    (
        "python",
        """\
wider = npusim.run("mobilenet_v2", hw="edge-256", timing_only=True)
npusim.compare(result, wider)""",
    ),
    (
        "markdown",
        """\
## What would help

Each hardware parameter changed alone, the model compiled for it and simulated again:""",
    ),
    ("python", 'npusim.what_if("ds_cnn", hw="edge-128")'),
    (
        "markdown",
        """\
## The same on the command line

    npusim run mobilenet_v2 --json a.json --report report
    npusim run mobilenet_v2 --hw edge-256 --json b.json
    npusim compare a.json b.json --html comparison.html --fail-if 'latency_ms>+5%'
    npusim run ds_cnn --what-if

The page of a comparison can be written from here as well:""",
    ),
    (
        "python",
        """\
from pathlib import Path

from npusim.reports.comparison import page as comparison_page

page = Path("comparison.html")
page.write_text(comparison_page.render(npusim.compare(result, wider)), "utf-8")
page.stat().st_size < 1_000_000""",
    ),
)


def notebook() -> Any:
    """Return the notebook before it is executed."""
    make = {"markdown": nbformat.v4.new_markdown_cell, "python": nbformat.v4.new_code_cell}
    cells = [make[kind](text) for kind, text in CELLS]
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    metadata = {
        "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
        "language_info": {"name": "python"},
    }
    return nbformat.v4.new_notebook(cells=cells, metadata=metadata)


def executed(folder: Path) -> Any:
    """Execute the notebook in `folder` and return it with its outputs. Raises CellExecutionError for a failing cell."""
    found = notebook()
    metadata = dict(found.metadata)
    NotebookClient(
        found, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    ).execute()
    found.metadata = metadata
    for cell in found.cells:
        cell.metadata = {}
        for output in cell.get("outputs", ()):
            output.pop("metadata", None)
            if output.output_type in ("execute_result", "display_data"):
                output.metadata = {}
                if "image/png" in output.data:  # its text is an address in memory, or nothing new
                    output.data = {"image/png": output.data["image/png"]}
    return found


def main() -> None:
    """Write the notebook."""
    with tempfile.TemporaryDirectory() as folder:
        found = executed(Path(folder))
    nbformat.validate(found)
    nbformat.write(found, NOTEBOOK)


if __name__ == "__main__":
    main()
