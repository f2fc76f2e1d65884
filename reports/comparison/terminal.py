"""The comparison in the terminal: main numbers first, then differing hardware, and the layers that changed most."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from npusim.reports.comparison import cells
from npusim.reports.words import quantities as show
from npusim.reports.words.grids import STYLES, WIDEST, Column, grid, plain, table, titled
from npusim.reports.words.names import COMPONENT_NAMES, PLAIN_CUT, short_names

if TYPE_CHECKING:
    from npusim.comparison.comparison import Comparison
    from npusim.comparison.conditions import Verdict
    from npusim.comparison.rows import HardwareRow, LayerRow, Row

NARROWEST = 40
MOST_LAYERS = 10
LEAST_NAME = 24
MOST_CAUSES = 8
MOST_HARDWARE_ROWS = 24
ALWAYS_SHOWN = ("latency_ms", "energy_uj.total", "power_mw.average", "cycles.total")
_GAP = 2

Line = tuple[str, "Row"]
"""A line of a table of all runs: its name and its numbers."""


def render(comparison: Comparison, verdicts: Sequence[Verdict] = (), width: int = 80) -> str:
    """Return the comparison as plain text, without colours."""
    return plain(summary(comparison, verdicts, width), width)


def summary(comparison: Comparison, verdicts: Sequence[Verdict], width: int) -> RenderableType:
    """Return the comparison for a terminal of `width` columns."""
    width = min(max(width, NARROWEST), WIDEST)
    return Group(
        *_heading(comparison, width),
        *_headline(comparison, width),
        *_claims(comparison),
        *_differences("Hardware", comparison.hardware, comparison, width),
        *(_differences("Made", rows, comparison, width) if (rows := comparison.provenance) else ()),
        *_losses(comparison, width),
        *_energy(comparison, width),
        *_layers(comparison, width),
        *_conditions(verdicts),
    )


def _heading(comparison: Comparison, width: int) -> Iterable[RenderableType]:
    rows = grid("< bold", "~")
    for letter, label, run in zip(comparison.letters, comparison.labels, comparison.runs, strict=True):
        base = " (baseline)" if letter == "A" else ""
        machine = f": {show.printable(run.model)} on {show.printable(run.hardware)}{base}"
        words = Text.assemble((show.shortened(label, max(12, width // 3)), "bold"), machine)
        rows.add_row(letter, words)
    yield rows
    for note in comparison.notes:
        yield Text(note, style="yellow")


def _headline(comparison: Comparison, width: int) -> Iterable[RenderableType]:
    rows = comparison.headline
    shown = [row for row in rows if row.changed or row.quantity.key in ALWAYS_SHOWN]
    yield from _table(comparison, [(row.quantity.label, row) for row in shown], width)
    same = [row.quantity.label for row in rows if row not in shown]
    if same:
        yield Text(f"  the same: {', '.join(same)}", style="dim")


def _claims(comparison: Comparison) -> Iterable[RenderableType]:
    """Return the section with the known errors of latency and energy, run by run."""
    claims, rows = cells.claims(comparison), grid("<", "~")
    for letters, words in claims:
        rows.add_row(f"  {letters}", show.printable(words))
    return titled("Error", rows) if claims else ()


def _losses(comparison: Comparison, width: int) -> Iterable[RenderableType]:
    """Return the cycle breakdown: the lower bound, and the causes that changed most.

    All other causes share one line, so that the lines add up to the total.
    """
    bound, *causes = comparison.losses
    causes.sort(key=lambda row: -row.largest)
    few, rest = causes[:MOST_CAUSES], causes[MOST_CAUSES:]
    if len(rest) == 1:
        few, rest = causes, []
    lines = [(cells.cause(row.quantity.key), row) for row in (bound, *few)]
    if rest:
        lines.append((show.plural(len(rest), "other cause"), total(rest)))
    unit = "cycles" if comparison.same_clock else "time"
    return _rows(f"Where the {unit} went", comparison, lines, width)


def total(rows: Sequence[Row]) -> Row:
    """Return the sum of rows of one kind, run by run."""
    return replace(
        rows[0],
        values=tuple(
            sum(amount or 0 for amount in run) for run in zip(*(row.values for row in rows), strict=True)
        ),
    )


def _energy(comparison: Comparison, width: int) -> Iterable[RenderableType]:
    names = [COMPONENT_NAMES.get(row.quantity.key, row.quantity.key) for row in comparison.energy]
    lines = list(zip(names, comparison.energy, strict=True))
    return _rows("Energy, by component", comparison, lines, width)


def _rows(title: str, comparison: Comparison, lines: Sequence[Line], width: int) -> Iterable[RenderableType]:
    """Return a section with the lines that changed."""
    changed = [(name, row) for name, row in lines if row.changed]
    return titled(title, *_table(comparison, changed, width)) if changed else ()


def _table(comparison: Comparison, lines: Sequence[Line], width: int) -> Iterable[RenderableType]:
    """Yield tables with the numbers of all runs side by side, as many as the width requires."""
    names = max(len(name) for name, _ in lines) + 2
    values = max(len(cells.value(row.quantity.kind, amount)) for _, row in lines for amount in row.values)
    room = (width - names - values - _GAP) // (values + 9 + 2 * _GAP)
    # A terminal too narrow for the baseline shows only the other run and its change.
    first = (0,) if room else ()
    for others in _chunks(range(1, len(comparison.runs)), room):
        runs = (*first, *others)
        heads = [word for run in runs for word in (comparison.letters[run], "change")[: 2 if run else 1]]
        rows = grid("<", *(">" for _ in heads), gap=_GAP)
        rows.add_row("", *(Text(word, style="dim") for word in heads))
        for name, row in lines:
            rows.add_row(Text(f"  {show.printable(name)}"), *_numbers(row, runs))
        yield rows


def _numbers(row: Row, runs: Sequence[int]) -> Iterable[Text]:
    for run in runs:
        yield Text(cells.value(row.quantity.kind, row.values[run]), style="bold" if run else "")
        if run:
            yield Text(cells.change(row, run), style=STYLES[cells.judgement(row, run)])


def _chunks(runs: Sequence[int], most: int) -> Iterable[Sequence[int]]:
    step = max(most, 1)
    return (runs[at : at + step] for at in range(0, len(runs), step))


def _differences(
    title: str, rows: Sequence[HardwareRow], comparison: Comparison, width: int
) -> Iterable[RenderableType]:
    yield Text("")
    if not rows:
        yield Text(f"{title}: the same", style="bold")
        return
    yield Text(f"{title}, {show.plural(len(rows), 'difference')}", style="bold")
    texts = {
        row.path: [show.shortened(cells.plain(value), 20) for value in row.values]
        for row in rows[:MOST_HARDWARE_ROWS]
    }
    names = max(len(path) for path in texts) + 2
    values = max(len(text) for row in texts.values() for text in row)
    room = (width - names - values - _GAP) // (values + _GAP)
    for others in _chunks(range(1, len(comparison.runs)), room):
        differing = {path: row for path, row in texts.items() if any(row[run] != row[0] for run in others)}
        if not differing:
            yield Text(f"  {', '.join(comparison.letters[run] for run in others)}: as A", style="dim")
            continue
        table = grid("~", *(">" for _ in (0, *others)), gap=_GAP)
        table.add_row("", *(Text(comparison.letters[run], style="dim") for run in (0, *others)))
        for path, row in differing.items():
            shown = (Text(row[run], style="bold" if row[run] != row[0] else "") for run in (0, *others))
            table.add_row(Text(f"  {show.printable(path)}"), *shown)
        yield table
    if len(rows) > MOST_HARDWARE_ROWS:
        yield Text(f"  and {len(rows) - MOST_HARDWARE_ROWS} more: --json, --html", style="dim")


def _layers(comparison: Comparison, width: int) -> Iterable[RenderableType]:
    """Yield the layers that changed most; for two runs, with the main cause of each change."""
    changed = [row for row in comparison.layers if row.cost.changed]
    unit = "cycles" if comparison.same_clock else "time"
    count = show.plural(len(comparison.layers), "layer")
    yield Text("")
    if not changed:
        yield Text(f"Layers: the {unit} of all {count} are the same", style="bold")
        return
    shown = changed[:MOST_LAYERS]
    some = f"{len(changed)} of {count}" if len(changed) < len(comparison.layers) else f"all {count}"
    most = f", the {len(shown)} largest" if len(shown) < len(changed) else ""
    yield Text(f"Layers by change of {unit}: {some} changed{most}", style="bold")
    if len(comparison.runs) > 2:
        longest = max(12, width - 46)
        names = short_names([row.name for row in shown], longest, PLAIN_CUT)
        lines = [(name, row.cost) for name, row in zip(names, shown, strict=True)]
        yield from _table(comparison, lines, width)
    else:
        yield _pair(shown, comparison, width)


def _pair(rows: Sequence[LayerRow], comparison: Comparison, width: int) -> RenderableType:
    """Return the table of layers of two runs, with the cause of each change.

    A narrow terminal leaves out the optional columns.
    """
    columns = [Column("operator", [Text(show.shortened(row.op, 17)) for row in rows], optional=1)]
    for run in (0, 1):
        values = [Text(cells.value(row.cost.quantity.kind, row.cost.values[run])) for row in rows]
        columns.append(Column(comparison.letters[run], values, right=True))
    styles = [STYLES[cells.judgement(row.cost, 1)] for row in rows]
    changes = [row.cost.change(1) for row in rows]
    deltas = [cells.delta(comparison.cost_kind, change.delta if change else None) for change in changes]
    percents = [cells.percent(change) for change in changes]
    reasons = [cells.reason(row, 1, comparison.letters) for row in rows]
    columns += [
        Column(
            "change",
            [Text(*cell) for cell in zip(deltas, styles, strict=True)],
            True,
            optional=2,
        ),
        Column("", [Text(*cell) for cell in zip(percents, styles, strict=True)], True),
        Column("mostly", [Text(reason, style="dim") for reason in reasons], optional=3),
    ]
    for step in (1, 2, 3):
        if width - sum(column.width + 1 for column in columns) < LEAST_NAME:
            columns = [column for column in columns if column.optional != step]
    room = max(width - sum(column.width + 1 for column in columns) - 2, 8)
    names = [Text(f"  {name}") for name in short_names([row.name for row in rows], room, PLAIN_CUT)]
    columns.insert(0, Column("  layer", names))
    return table(columns)


def _conditions(verdicts: Sequence[Verdict]) -> Iterable[RenderableType]:
    rows = grid("<", "<", "~")
    for verdict in verdicts:
        state = Text("FAILS", style="bold red") if verdict.fails else Text("passes", style="green")
        rows.add_row(Text("  ").append_text(state), verdict.letter, Text(sentence(verdict)))
    return titled("Conditions", rows) if verdicts else ()


def sentence(verdict: Verdict) -> str:
    """Return a verdict as one line: the condition, the numbers compared, and by how much it fails."""
    text = show.printable(verdict.condition.text)
    numbers = f"{verdict.before:.6g} -> {verdict.after:.6g}"
    change = f", {verdict.measured}" if verdict.condition.relative else ""
    beyond = f", beyond the limit by {verdict.excess}" if verdict.fails else ""
    return f"{text}: {numbers}{change}{beyond}"
