"""The comparison in the terminal: main numbers first, then differing hardware, and the layers that changed most."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from io import StringIO
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from npusim.base.console import console
from npusim.reports.comparison import cells
from npusim.reports.run.terminal import WIDEST
from npusim.reports.words import quantities as show
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
_STYLES = {"better": "green", "worse": "red", "same": "dim", "other": ""}
_GAP = 2


def render(comparison: Comparison, verdicts: Sequence[Verdict] = (), width: int = 80) -> str:
    """Return the comparison as plain text, without colours."""
    file = StringIO()
    console(file, width=width, color_system=None, force_terminal=False).print(
        summary(comparison, verdicts, width)
    )
    return file.getvalue()


def summary(comparison: Comparison, verdicts: Sequence[Verdict], width: int) -> RenderableType:
    """Return the comparison for a terminal of `width` columns."""
    width = min(max(width, NARROWEST), WIDEST)
    return Group(
        *_heading(comparison, width),
        *_headline(comparison, width),
        *_claims(comparison),
        *_differences("Hardware", comparison.hardware, comparison, width),
        *(_differences("Made", made, comparison, width) if (made := comparison.provenance) else ()),
        *_losses(comparison, width),
        *_rows("Energy, by component", comparison, _components(comparison), width),
        *_layers(comparison, width),
        *_conditions(verdicts),
    )


class _Line(NamedTuple):
    """A line of a table of all runs: its name and its numbers."""

    name: str
    row: Row


def _heading(comparison: Comparison, width: int) -> Iterable[RenderableType]:
    grid = Table.grid(padding=(0, _GAP))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for letter, label, run in zip(comparison.letters, comparison.labels, comparison.runs, strict=True):
        base = " (baseline)" if letter == "A" else ""
        machine = f": {show.printable(run.model)} on {show.printable(run.hardware)}{base}"
        words = Text.assemble((show.shortened(label, max(12, width // 3)), "bold"), machine)
        grid.add_row(letter, words)
    yield grid
    for note in comparison.notes:
        yield Text(note, style="yellow")


def _headline(comparison: Comparison, width: int) -> Iterable[RenderableType]:
    rows = comparison.headline
    shown = [row for row in rows if row.changed or row.quantity.key in ALWAYS_SHOWN]
    yield from _table(comparison, [_Line(row.quantity.label, row) for row in shown], width)
    same = [row.quantity.label for row in rows if row not in shown]
    if same:
        yield Text(f"  the same: {', '.join(same)}", style="dim")


def _claims(comparison: Comparison) -> Iterable[RenderableType]:
    """Yield the section with the known errors of latency and energy, run by run."""
    claims = cells.claims(comparison)
    if not claims:
        return
    yield from (Text(""), Text("Error", style="bold"))
    grid = Table.grid(padding=(0, _GAP))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for letters, words in claims:
        grid.add_row(f"  {letters}", show.printable(words))
    yield grid


def _losses(comparison: Comparison, width: int) -> Iterable[RenderableType]:
    """Yield the cycle breakdown: the lower bound, and the causes that changed most.

    All other causes share one line, so that the lines add up to the total.
    """
    bound, *causes = comparison.losses
    causes.sort(key=lambda row: -row.largest)
    few, rest = causes[:MOST_CAUSES], causes[MOST_CAUSES:]
    if len(rest) == 1:
        few, rest = causes, []
    lines = [_Line(cells.cause(row.quantity.key), row) for row in (bound, *few)]
    if rest:
        lines.append(_Line(show.plural(len(rest), "other cause"), total(rest)))
    unit = "cycles" if comparison.same_clock else "time"
    yield from _rows(f"Where the {unit} went", comparison, lines, width)


def total(rows: Sequence[Row]) -> Row:
    """Return the sum of rows of one kind, run by run."""
    return replace(
        rows[0],
        values=tuple(
            sum(each or 0 for each in run) for run in zip(*(row.values for row in rows), strict=True)
        ),
    )


def _components(comparison: Comparison) -> list[_Line]:
    return [_Line(COMPONENT_NAMES.get(row.quantity.key, row.quantity.key), row) for row in comparison.energy]


def _rows(title: str, comparison: Comparison, lines: Sequence[_Line], width: int) -> Iterable[RenderableType]:
    """Yield a section with the lines that changed."""
    changed = [line for line in lines if line.row.changed]
    if changed:
        yield from (Text(""), Text(title, style="bold"))
        yield from _table(comparison, changed, width)


def _table(comparison: Comparison, lines: Sequence[_Line], width: int) -> Iterable[RenderableType]:
    """Yield tables with the numbers of all runs side by side, as many as the width requires."""
    names = max(len(line.name) for line in lines) + 2
    values = max(len(cells.value(line.row.quantity.kind, each)) for line in lines for each in line.row.values)
    room = (width - names - values - _GAP) // (values + 9 + 2 * _GAP)
    # A terminal too narrow for the baseline shows only the other run and its change.
    first = (0,) if room else ()
    for others in _chunks(range(1, len(comparison.runs)), room):
        grid = Table.grid(padding=(0, _GAP))
        grid.add_column(no_wrap=True)
        head = [Text("")]
        for run in (*first, *others):
            grid.add_column(justify="right", no_wrap=True)
            head.append(Text(comparison.letters[run], style="dim"))
            if run:
                grid.add_column(justify="right", no_wrap=True)
                head.append(Text("change", style="dim"))
        grid.add_row(*head)
        for line in lines:
            grid.add_row(Text(f"  {show.printable(line.name)}"), *_numbers(line.row, (*first, *others)))
        yield grid


def _numbers(row: Row, runs: Sequence[int]) -> Iterable[Text]:
    for run in runs:
        yield Text(cells.value(row.quantity.kind, row.values[run]), style="bold" if run else "")
        if run:
            yield Text(cells.change(row, run), style=_STYLES[cells.judgement(row, run)])


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
        grid = Table.grid(padding=(0, _GAP))
        grid.add_column(overflow="fold")
        for _ in (0, *others):
            grid.add_column(justify="right", no_wrap=True)
        grid.add_row("", *(Text(comparison.letters[run], style="dim") for run in (0, *others)))
        for path, row in differing.items():
            shown = (Text(row[run], style="bold" if row[run] != row[0] else "") for run in (0, *others))
            grid.add_row(Text(f"  {show.printable(path)}"), *shown)
        yield grid
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
        lines = [_Line(name, row.cost) for name, row in zip(names, shown, strict=True)]
        yield from _table(comparison, lines, width)
    else:
        yield _pair(shown, comparison, width)


def _pair(rows: Sequence[LayerRow], comparison: Comparison, width: int) -> RenderableType:
    """Return the table of layers of two runs, with the cause of each change.

    A narrow terminal leaves out the optional columns.
    """
    columns = [_Column("operator", [Text(show.shortened(row.op, 17)) for row in rows], optional=1)]
    for run in (0, 1):
        values = [Text(cells.value(row.cost.quantity.kind, row.cost.values[run])) for row in rows]
        columns.append(_Column(comparison.letters[run], values, right=True))
    styles = [_STYLES[cells.judgement(row.cost, 1)] for row in rows]
    changes = [row.cost.change(1) for row in rows]
    deltas = [cells.delta(comparison.cost_kind, change.delta if change else None) for change in changes]
    percents = [cells.percent(change) for change in changes]
    columns += [
        _Column("change", [Text(*each) for each in zip(deltas, styles, strict=True)], True, optional=2),
        _Column("", [Text(*each) for each in zip(percents, styles, strict=True)], True),
        _Column("mostly", [Text(_reason(row, comparison), style="dim") for row in rows], optional=3),
    ]
    for step in (1, 2, 3):
        if width - sum(column.width + 1 for column in columns) < LEAST_NAME:
            columns = [column for column in columns if column.optional != step]
    room = max(width - sum(column.width + 1 for column in columns) - 2, 8)
    names = [Text(f"  {name}") for name in short_names([row.name for row in rows], room, PLAIN_CUT)]
    columns.insert(0, _Column("  layer", names))
    grid = Table.grid(padding=(0, 1))
    for column in columns:
        grid.add_column(justify="right" if column.right else "left", no_wrap=True)
    grid.add_row(*(Text(column.head, style="dim") for column in columns))
    for line in zip(*(column.texts for column in columns), strict=True):
        grid.add_row(*line)
    return grid


class _Column(NamedTuple):
    """A column of a table.

    right:    its texts are flush right.
    optional: the order in which a narrow terminal drops it, 1 first; 0 if it never does.
    """

    head: str
    texts: list[Text]
    right: bool = False
    optional: int = 0

    @property
    def width(self) -> int:
        return max(len(self.head), *(text.cell_len for text in self.texts))


def _reason(row: LayerRow, comparison: Comparison) -> str:
    return cells.reason(row, 1, comparison.letters)


def _conditions(verdicts: Sequence[Verdict]) -> Iterable[RenderableType]:
    if not verdicts:
        return
    yield from (Text(""), Text("Conditions", style="bold"))
    grid = Table.grid(padding=(0, _GAP))
    grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for each in verdicts:
        state = Text("FAILS", style="bold red") if each.fails else Text("passes", style="green")
        grid.add_row(Text("  ").append_text(state), each.letter, Text(sentence(each)))
    yield grid


def sentence(verdict: Verdict) -> str:
    """Return a verdict as one line: the condition, the numbers compared, and by how much it fails."""
    text = show.printable(verdict.condition.text)
    numbers = f"{verdict.before:.6g} -> {verdict.after:.6g}"
    change = f", {verdict.measured}" if verdict.condition.relative else ""
    beyond = f", beyond the limit by {verdict.excess}" if verdict.fails else ""
    return f"{text}: {numbers}{change}{beyond}"
