"""Figures of a run for papers, slides and notebooks, with matplotlib.

Each function takes a result and returns a matplotlib Figure that belongs to nobody: it is not registered with
pyplot, needs no display, and is saved with `figure.savefig("roofline.svg")`. Options of all of them:

width_inches: width of the figure; its height stays.
title:        title that replaces kind of figure, model and hardware; empty for no title.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import cache, wraps
from math import log10
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

import numpy as np
from numpy.typing import NDArray

from npusim.numbers.power import CHART_WINDOW, Amounts
from npusim.reports.run.run_data import scratchpads
from npusim.reports.run.series import Charts, Items, Track, patches, tracks
from npusim.reports.words import quantities as show
from npusim.reports.words.names import (
    CAUSE_COLOURS,
    CAUSE_NAMES,
    COMPONENT_COLOURS,
    RESOURCE_COLOURS,
    TRACK_NAMES,
    bound_name,
    bound_style,
    component_names,
    component_style,
    short_names,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from npusim.numbers.run import RunResult

    class Drawing(Protocol):
        """A function that draws a figure of a run; see the options above."""

        def __call__(
            self, result: RunResult | Charts, /, *, width_inches: float = ..., title: str | None = ...
        ) -> Figure: ...


WIDTH_INCHES = 9.0
FORMATS = ("svg", "png", "pdf")
"""File formats of the figures of reports."""
_METADATA = {"svg": ("Description", "Date"), "png": ("Description",), "pdf": ("Subject", "CreationDate")}
"""Metadata keys by format: first that of a description, then those of time stamps that matplotlib would write."""
LABELLED_LAYERS = 6
LEAST_LABELLED = 0.02
LISTED_LAYERS = 24
COLUMNS, ROWS = 1200, 24
"""Cells of a track of the timeline. A column is about as wide as a pixel of the PNG."""
TRACK_HEIGHT = 0.76
SHADES = ("cc", "66")
"""Opacities, as hexadecimal digits, that alternate between neighbouring layers to tell them apart."""
POWER_WINDOWS = 500
INK, FAINT, GRID, SHADE = "#1d2329", "#5f6971", "#e3e6e9", "#e8ebee"
_STYLE: Any = {
    "font.size": 9.0,
    "font.family": "sans-serif",
    "axes.edgecolor": "#aeb6bd",
    "axes.labelcolor": FAINT,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlecolor": INK,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    "legend.fontsize": 8.0,
    "text.color": INK,
    "text.parse_math": False,  # a "$" in the name of a layer starts no formula
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "savefig.dpi": 150.0,
    "svg.fonttype": "none",
    "svg.hashsalt": "npusim",  # a fixed salt instead of a random one, so that equal runs give equal files
}


def styled() -> AbstractContextManager[object]:
    """Return a context with the style of all figures, in which they are drawn and saved."""
    _import_matplotlib()
    from matplotlib import rc_context

    return rc_context(_STYLE)


@cache
def _import_matplotlib() -> None:
    """Import matplotlib even if MPLBACKEND names no backend, and keep its notes about caches off the terminal.

    No figure needs a window system, so a missing backend must not prevent one. The NullHandler hides log records only
    if the program has not configured logging itself.
    """
    logging.getLogger("matplotlib").addHandler(logging.NullHandler())
    if "matplotlib" in sys.modules:
        return
    backend = os.environ.pop("MPLBACKEND", None)
    try:
        import matplotlib
    finally:
        if backend is not None:
            os.environ["MPLBACKEND"] = backend
    if backend:
        with suppress(ValueError):  # no such backend: matplotlib then chooses one when a window is opened
            matplotlib.rcParams["backend"] = backend


def _in_style(draw: Callable[[Charts], Figure]) -> Drawing:
    @wraps(draw)
    def drawn(
        result: RunResult | Charts, *, width_inches: float = WIDTH_INCHES, title: str | None = None
    ) -> Figure:
        with styled():
            figure = draw(Charts.of(result))
            figure.set_figwidth(width_inches)
            if title is not None:
                figure.axes[0].set_title(title)
            return figure

    return drawn


@_in_style
def roofline(charts: Charts) -> Figure:
    """The layers of the MAC array between the two limits of the machine: multipliers and DRAM bandwidth."""
    result = charts.result
    figure, (axes,) = _figure(result, "Roofline", 4.8)
    roof, names = charts.roofline, short_names([layer.name for layer in result.layers], 28)
    known = [point for point in roof.points if point.macs_per_byte is not None]
    intensities = [point.macs_per_byte or 0.0 for point in known] + [roof.ridge_macs_per_byte]
    low, high = min(intensities) / 3, max(intensities) * 6
    x = np.array([low, roof.ridge_macs_per_byte, high])
    axes.plot(x, np.minimum(roof.peak_macs_per_cycle, x * roof.bytes_per_cycle), color=INK, linewidth=1.4)
    axes.set(xscale="log", yscale="log", xlim=(low, high))
    axes.margins(y=0.12)
    total = max(int(result.cycles), 1)
    for point in roof.points:
        axes.scatter(
            high / 1.5 if point.macs_per_byte is None else point.macs_per_byte,
            point.macs_per_cycle,
            s=18 + 1500 * point.layer.cycles / total,
            marker=">" if point.macs_per_byte is None else "o",
            color=RESOURCE_COLOURS[bound_style(point.layer.bound_by)],
            alpha=0.6,
            linewidths=0,
        )
    labelled: list[tuple[float, float]] = []
    for point in sorted(known, key=lambda point: -point.layer.cycles):
        at = (point.macs_per_byte or 0.0, point.macs_per_cycle)
        small = point.layer.cycles < LEAST_LABELLED * total
        if small or len(labelled) == LABELLED_LAYERS or any(_near(at, other) for other in labelled):
            continue
        labelled.append(at)
        name = names[point.index]
        above = 6 + (point.layer.cycles / total * 470) ** 0.5
        axes.annotate(name, at, xytext=(0, above), textcoords="offset points", fontsize=7.5, ha="center",
                      bbox={"facecolor": "white", "alpha": 0.75, "pad": 0.6, "linewidth": 0})  # fmt: skip
    for before, line in zip((None, *roof.roofs), roof.roofs, strict=False):
        peak = line.peak_macs_per_cycle
        axes.axhline(peak, color=FAINT, linewidth=0.8, linestyle=(0, (2, 3)))
        # Between two close lines there is no room for a label.
        close = before is not None and before.peak_macs_per_cycle < 1.6 * peak
        words = f"{show.digits(peak)} MACs/cycle" + (f", {line.name}" if line.name else "")
        axes.text(
            low * 1.1,
            peak / 1.08 if close else peak * 1.08,
            words,
            color=FAINT,
            va="top" if close else "baseline",
        )
    bandwidth, middle = (
        f"{result.hardware.dram.bandwidth_gb_per_s:g} GB/s",
        (low * roof.ridge_macs_per_byte) ** 0.5,
    )
    axes.annotate(bandwidth, (middle, middle * roof.bytes_per_cycle), xytext=(6, -4),
                  textcoords="offset points", color=FAINT, va="top")  # fmt: skip
    bounds = dict.fromkeys(point.layer.bound_by for point in roof.points)
    _legend(figure, {f"bound by {bound_name(kind)}": RESOURCE_COLOURS[bound_style(kind)] for kind in bounds})
    axes.set(xlabel="MACs per byte of DRAM traffic", ylabel="MACs per cycle")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.minorticks_off()
    axes.grid(True, which="major")
    return figure


@_in_style
def timeline(charts: Charts) -> Figure:
    """What every unit does, and in stalls, why nothing computes."""
    result = charts.result
    work, stalls = charts.work, charts.stalls
    used = tracks(work)
    figure, (axes,) = _figure(result, "Timeline", 1.3 + 0.42 * (len(used) + 1))
    for row, (_, unit, mine) in enumerate(used):
        items = Items(work.layer[mine] % 2, work.begin[mine], work.end[mine], work.busy[mine])
        _track(axes, result, row, items, [unit.kind.colour + shade for shade in SHADES])
    causes = list(dict.fromkeys(stalls.cause))
    kinds = np.array([causes.index(cause) for cause in stalls.cause], np.int64)
    items = Items(kinds, stalls.begin, stalls.end, stalls.end - stalls.begin)
    _track(axes, result, len(used), items, [CAUSE_COLOURS[cause] for cause in causes])
    axes.set(
        xlabel="ms",
        xlim=(0, max(result.latency_ms, 1e-9)),
        ylim=(len(used) + 0.6, -0.6),
        yticks=range(len(used) + 1),
        yticklabels=[*(_track_name(result, track) for track in used), "nothing computes"],
    )
    axes.tick_params(axis="y", length=0, colors=INK)
    axes.grid(True, axis="x")
    _legend(figure, {CAUSE_NAMES[cause]: CAUSE_COLOURS[cause] for cause in dict.fromkeys(stalls.cause)})
    return figure


def _track_name(result: RunResult, track: Track) -> str:
    """Return the label of a track: its unit, and its device in a run on several devices."""
    name = TRACK_NAMES[track.unit]
    return (
        f"{show.shortened(result.devices[track.device].name, 20)}: {name}" if result.several_devices else name
    )


@_in_style
def energy(charts: Charts) -> Figure:
    """Energy by component, and by layer with its components."""
    result = charts.result
    by_component = {name: value for name, value in result.energy_uj.by_component.items() if value > 0}
    by_layer = charts.layer_energy_uj
    totals = np.array([layer.energy_uj for layer in result.layers])
    listed = np.sort(np.argsort(-totals, kind="stable")[:LISTED_LAYERS])
    height = 1.6 + 0.22 * len(by_component) + 0.2 * len(listed)
    ratios = [len(by_component) + 1, len(listed) + 1]
    figure, (parts, layers) = _figure(result, "Energy", height, rows=2, ratios=ratios)
    named = component_names(result.hardware)
    names = [name for name in named if name in by_component]
    values = [by_component[name] for name in names]
    bars = parts.barh(
        [named[name] for name in names],
        values,
        color=[COMPONENT_COLOURS[component_style(name)] for name in names],
    )
    total = float(result.energy_uj) or 1.0
    amounts = [f" {show.energy(value)}, {show.percent(value / total)}" for value in values]
    parts.bar_label(bars, amounts, fontsize=8, color=FAINT)
    labels = short_names([layer.name for layer in result.layers], 36)
    left = np.zeros(len(listed))
    for name in names:
        shares = by_layer.get(name, np.zeros(len(totals)))[listed]
        layers.barh(
            range(len(listed)), shares, left=left, color=COMPONENT_COLOURS[component_style(name)], height=0.8
        )
        left += shares
    layers.set_yticks(range(len(listed)), [labels[i] for i in listed.tolist()], fontsize=7.5)
    if len(listed) < len(totals):
        layers.set_title(f"by layer, the {len(listed)} largest of {len(totals)}", fontsize=9)
    for axes in (parts, layers):
        axes.invert_yaxis()
        axes.set_xlabel("uJ")
        axes.margins(x=0.18, y=0.01)
        axes.tick_params(axis="y", length=0, colors=INK)
        axes.grid(True, axis="x")
    return figure


@_in_style
def power(charts: Charts) -> Figure:
    """Power over time by component; the area is the energy, the shade above it reaches the highest 10 us."""
    result = charts.result
    figure, (axes,) = _figure(result, "Power over time", 3.6)
    power = result.moving_power(POWER_WINDOWS)
    ms = power.edges * result.hardware.us_of_cycles(1) * 1e-3
    base: Amounts = np.zeros(len(ms) - 1)
    shown = {}
    named = component_names(result.hardware)
    for name in reversed(list(named)):
        part = power.by_component_mw.get(name)
        if part is not None and part.any():
            _stairs(axes, ms, base, base + part, COMPONENT_COLOURS[component_style(name)])
            base = base + part
            shown[named[name]] = COMPONENT_COLOURS[component_style(name)]
    _stairs(axes, ms, base, power.highest_mw, SHADE)
    shown[f"highest {CHART_WINDOW}"] = SHADE
    _line(axes, result.power_mw.average, f"average {show.power(result.power_mw.average)}")
    _line(axes, result.power_mw.peak_10us, f"peak of {CHART_WINDOW} {show.power(result.power_mw.peak_10us)}")
    axes.set(xlabel="ms", ylabel="mW", xlim=(0, max(result.latency_ms, 1e-9)), ylim=(0, None))
    axes.grid(True, axis="y")
    _legend(figure, shown)
    return figure


@_in_style
def occupancy(charts: Charts) -> Figure:
    """Bytes of the scratchpad in use over time."""
    result = charts.result
    figure, (axes,) = _figure(result, "Scratchpad in use", 2.8)
    use = charts.occupancy
    end = max(int(result.cycles), int(use.cycles[-1]))
    ms = np.append(use.cycles, end) * result.hardware.us_of_cycles(1) * 1e-3
    _stairs(axes, ms, np.zeros(len(use.sizes)), use.sizes / 1024, COMPONENT_COLOURS["scratchpad"])
    sizes = {size for _, _, size in scratchpads(result)}
    size_kib = max(sizes) / 1024
    _line(axes, size_kib, f"{'size' if len(sizes) == 1 else 'largest'} {show.size(max(sizes))}")
    axes.set(xlabel="ms", ylabel="KiB", xlim=(0, max(result.latency_ms, 1e-9)), ylim=(0, size_kib * 1.12))
    axes.grid(True, axis="y")
    return figure


FIGURES: Mapping[str, Drawing] = {
    "roofline": roofline,
    "timeline": timeline,
    "energy": energy,
    "power": power,
    "occupancy": occupancy,
}
"""Every figure by the name of its file."""


def _figure(
    result: RunResult, title: str, height: float, rows: int = 1, ratios: list[int] | None = None
) -> tuple[Figure, list[Axes]]:
    """Create an empty figure with `rows` axes below each other. The caller has set the style (`_in_style`)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH_INCHES, height), layout="constrained")
    axes = figure.subplots(rows, 1, squeeze=False, gridspec_kw={"height_ratios": ratios})[:, 0].tolist()
    axes[0].set_title(f"{title}: {show.printable(result.model)} on {show.printable(result.machine_name)}")
    return figure, axes


def _track(axes: Axes, result: RunResult, row: int, items: Items, colours: Sequence[str]) -> None:
    """Draw items on a track in the colours of their kinds, without antialiasing, which would mix colours."""
    from matplotlib.collections import PolyCollection

    ms = result.latency_ms / COLUMNS
    high = TRACK_HEIGHT / ROWS
    bottom = row + TRACK_HEIGHT / 2
    rectangles = list(patches(items, int(result.cycles), COLUMNS, ROWS))
    corners = [
        [(left * ms, bottom - low * high), (right * ms, bottom - low * high),
         (right * ms, bottom - top * high), (left * ms, bottom - top * high)]
        for _, left, right, low, top in rectangles
    ]  # fmt: skip
    axes.add_collection(
        PolyCollection(
            corners,
            facecolors=[colours[box.kind] for box in rectangles],
            linewidths=0,
            antialiaseds=False,
        )
    )


def _stairs(axes: Axes, edges: NDArray[Any], low: NDArray[Any], high: NDArray[Any], colour: str) -> None:
    """Fill the area between two amounts that are constant from one of `edges` to the next."""
    low, high = np.append(low, low[-1:]), np.append(high, high[-1:])
    axes.fill_between(edges[: len(low)], low, high, step="post", color=colour, linewidth=0)


def _line(axes: Axes, value: float, label: str) -> None:
    """Draw a horizontal line at a value, with its label at the right end."""
    axes.axhline(value, color=INK, linewidth=0.9, linestyle=(0, (4, 3)))
    axes.annotate(label, (1, value), xycoords=("axes fraction", "data"), xytext=(0, 3), ha="right",
                  textcoords="offset points", fontsize=8)  # fmt: skip


def _legend(figure: Figure, colours: Mapping[str, str]) -> None:
    from matplotlib.patches import Patch

    patches = [Patch(color=colour, label=label) for label, colour in colours.items()]
    if patches:
        figure.legend(handles=patches, ncols=min(len(patches), 6), loc="outside lower center")


def _near(point: tuple[float, float], other: tuple[float, float]) -> bool:
    """Return whether the labels of two points in a roofline would cover each other."""
    return abs(log10(point[1] / other[1])) < 0.2 and abs(log10(point[0] / other[0])) < 1.3


def metadata(kind: str, provenance: Mapping[str, Any]) -> dict[str, str | None]:
    """Return the metadata of a figure's file: the provenance of its run as JSON.

    kind: the format, one of `FORMATS`. Time stamps are left out, so that equal runs give equal files.
    """
    name, *times = _METADATA[kind]
    return {name: json.dumps(provenance, ensure_ascii=True), **dict.fromkeys(times)}


def save(drawn: Callable[[], Figure], kind: str, provenance: Mapping[str, Any], file: BinaryIO) -> None:
    """Write a figure in a format with its provenance. `drawn` gives the same figure for all of its formats."""
    with styled():
        figure = drawn()
        _lay_out(figure)
        figure.savefig(file, format=kind, metadata=metadata(kind, provenance))


def _lay_out(figure: Figure) -> None:
    """Place the parts of a figure once and for all of its formats.

    matplotlib would draw the whole figure one more time for each format to place its parts. The canvas of SVG measures
    texts without a resolution, so that all formats agree.
    """
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    engine = figure.get_layout_engine()
    if engine is not None:
        FigureCanvasSVG(figure)
        engine.execute(figure)
        figure.set_layout_engine(None)
