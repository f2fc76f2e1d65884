"""docs/silicon.svg: reference against simulated, a panel for each preset and quantity."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from io import StringIO
from typing import TYPE_CHECKING, Any

from benchmarks.silicon.frame import Compared
from benchmarks.silicon.page import Result
from npusim.reports.words import quantities as show

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

COLUMNS = 4
PANEL_WIDTH, PANEL_HEIGHT = 2.7, 3.5
MARKERS = "osD^vPX"
"""Of the first referee of a panel, of the second, and so on."""

INK, BAND, LINE, SEEN, ASIDE = "#333333", "#e3e9f1", "#8a94a3", "#2f6db3", "#d9731a"
FEW_DECADES = 50
"""A range of values up to this factor gets more ticks."""

MOST_OFF = 1.5
"""The least range of the ratios that are shown: from its inverse to it."""


def panels(results: Sequence[Result]) -> list[list[Result]]:
    """The results by preset and quantity, in their order: all referees of one in one panel."""
    found: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        found.setdefault((result[0].preset, result[0].quantity), []).append(result)
    return list(found.values())


def svg(results: Sequence[Result]) -> str:
    """The figure as text; equal for equal rows."""
    import matplotlib

    style: Any = {
        "svg.fonttype": "none",
        "svg.hashsalt": "npusim",
        "font.family": "sans-serif",
        "font.sans-serif": ["DejaVu Sans"],
        "font.size": 8,
        "axes.edgecolor": LINE,
        "text.color": INK,
        "axes.labelcolor": INK,
        "xtick.color": INK,
        "ytick.color": INK,
    }
    with matplotlib.rc_context(style):
        from matplotlib.figure import Figure

        shown = panels(results)
        lines = -(-len(shown) // COLUMNS)
        figure = Figure(figsize=(COLUMNS * PANEL_WIDTH, lines * PANEL_HEIGHT + 0.4), layout="constrained")
        grid = figure.add_gridspec(2 * lines, COLUMNS, height_ratios=[2.6, 1] * lines)
        for at, panel in enumerate(shown):
            line, column = divmod(at, COLUMNS)
            above = figure.add_subplot(grid[2 * line, column])
            below = figure.add_subplot(grid[2 * line + 1, column], sharex=above)
            _panel(above, below, panel)
        _legend(figure)
        file = StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    return file.getvalue()


def _panel(above: Axes, below: Axes, panel: Sequence[Result]) -> None:
    (chip, _), rows = panel[0], [row for _, found in panel for row in found]
    values = [value for row in rows for value in (row.measurement.value, row.simulated)]
    ends = min(values) / 1.6, max(values) * 1.6
    off = 1 + max([each.bar.worst for each, _ in panel])
    title = chip.preset if chip.quantity == "latency" else f"{chip.preset}, {chip.quantity}"
    above.set(xscale="log", yscale="log", xlim=ends, ylim=ends, title=title, ylabel=f"simulated, {chip.unit}")
    above.title.set_fontweight("bold")
    above.fill_between(ends, [end / off for end in ends], [end * off for end in ends], color=BAND, lw=0)
    above.plot(ends, ends, color=LINE, lw=0.8)
    most = max(MOST_OFF, off, *(max(row.ratio, 1 / row.ratio) for row in rows)) * 1.06
    below.set(yscale="log", ylim=(1 / most, most), xlabel=f"{chip.seen}, {chip.unit}", ylabel="ratio")
    below.axhspan(1 / off, off, color=BAND, lw=0)
    below.axhline(1, color=LINE, lw=0.8)
    _ratios(below, off)
    for marker, (_, found) in zip(MARKERS, panel, strict=False):
        _points(above, found, marker, lambda row: row.simulated)
        _points(below, found, marker, lambda row: row.ratio)
    for axis in (above.xaxis, above.yaxis):
        _numbers(axis, wide=ends[1] / ends[0] > FEW_DECADES)
    above.tick_params(labelbottom=False)


def _numbers(axis: Axis, wide: bool) -> None:
    """Powers of ten; of a narrow range also twice and five times these. Ticks as people write them: 200 k."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axis.set_major_locator(LogLocator(subs=(1,) if wide else (1, 2, 5)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: show.count(value)))


def _ratios(axes: Axes, off: float) -> None:
    """Ticks at 1 and at the ends of the band."""
    axes.minorticks_off()
    axes.set_yticks([1 / off, 1, off], [f"{1 / off:.2f}", "1", f"{off:.2f}"])


def _points(axes: Axes, rows: Sequence[Compared], marker: str, value: Callable[[Compared], float]) -> None:
    for aside, colour in ((False, SEEN), (True, ASIDE)):
        some = [row for row in rows if row.measurement.held_out == aside]
        axes.plot(
            [row.measurement.value for row in some],
            [value(row) for row in some],
            marker,
            color=colour,
            markerfacecolor="white" if aside else colour,
            markersize=4,
            markeredgewidth=1.1,
            zorder=3,
        )


def _legend(figure: Figure) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles = [
        Line2D([], [], marker="o", ls="", color=SEEN, markersize=5, label="row"),
        Line2D(
            [],
            [],
            marker="o",
            ls="",
            color=ASIDE,
            markerfacecolor="white",
            markersize=5,
            label="row, held out",
        ),
        Line2D([], [], marker="s", ls="", color=SEEN, markersize=5, label="row of a second referee"),
        Line2D([], [], color=LINE, lw=0.8, label="simulated = reference"),
        Patch(color=BAND, label="within the bar for the worst row"),
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles), frameon=False)
