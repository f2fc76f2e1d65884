"""The summary of a run in the terminal: main numbers first, then where time, energy and bytes go."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from npusim.isa.hardware.memories import FurtherMemory
from npusim.numbers.bounds import UNBOUND
from npusim.numbers.layers import share, sizes_text
from npusim.reports.run.run_data import Bar, RunData, run_data
from npusim.reports.words import quantities as show
from npusim.reports.words.grids import WIDEST, Column, grid, plain, table, titled
from npusim.reports.words.layout import Grid, Group, Text
from npusim.reports.words.names import (
    BOUND_NAMES,
    CAUSE_NAMES,
    CUT,
    PLAIN_CUT,
    UNIT_NAMES,
    bound_name,
    dataflow_name,
    limit_of,
    short_names,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

    from npusim.numbers.layers import LayerResult
    from npusim.numbers.run import RunResult

HOTTEST_LAYERS = 10
MOST_HOST_ROWS = 10
MOST_CAUSES = 8
NARROWEST = 60
WIDEST_TABLE = 160
LONGEST_DEVICE = 16
LEAST_NAME, LEAST_OPERATOR, LONGEST_OPERATOR = 14, 9, 18

NAMES, VALUES = 17, 9
BEFORE_WORDS = NAMES + VALUES + 4
"""Columns of the terminal for the name of a fact and for its value, and for both with two spaces behind each."""

_EIGHTHS = " ▏▎▍▌▋▊▉█"


def render(result: RunResult, width: int = 80, ascii_only: bool = False) -> str:
    """Return the summary as plain text, without colours."""
    return plain(summary(result, width, ascii_only), width, crops(width))


def summary(result: RunResult, width: int, ascii_only: bool = False) -> Group:
    """Return the summary for a terminal of `width` columns; `ascii_only` draws bars of ASCII characters."""
    table_width = min(max(width, NARROWEST), WIDEST_TABLE)
    width = min(max(width, NARROWEST), WIDEST)
    cut, data = PLAIN_CUT if ascii_only else CUT, run_data(result)
    several = len(result.pieces) > 1 or any(piece.entered or piece.left for piece in result.pieces)

    def bars(before: int, least: int = 10) -> _Bars:
        return _Bars(max(width - before, least), ascii_only)

    return Group(
        heading(data),
        *(Text(f"{caveat}\n", style="bold red") for caveat in data.unknown),
        _answer(data, width, cut),
        *_ending(data, width, cut),
        *titled("Busy, share of all cycles", _busy(data, bars(42, 12))),
        *titled("Memory", _memory(data, width)),
        *titled("Where the cycles went", _cycles(data, bars(48))),
        *titled(*_hottest(result, table_width, cut)),
        *titled("Energy, by component", *_energy(data, bars(46))),
        *_host(data),
        *(_pieces(result, data) if several else ()),
        *_footer(result),
    )


def _pieces(result: RunResult, data: RunData) -> Iterable[RenderableType]:
    """Return the table of the pieces of a run over several programs, which few runs have."""
    from npusim.reports.run import pieces

    return titled(pieces.title(result), pieces.table(data))


def crops(width: int) -> bool:
    """Return whether lines are cut at the terminal's width: tables of narrow ones, but no command to paste."""
    return width < NARROWEST


class _Bars:
    """Bars of at most `width` columns, in eighths of a column if the terminal can show them."""

    def __init__(self, width: int, ascii_only: bool) -> None:
        self.width, self.ascii_only = width, ascii_only

    def __call__(self, share: float, style: str = "cyan") -> Text:
        eighths = round(min(max(share, 0.0), 1.0) * self.width * 8)
        if self.ascii_only:
            return Text("#" * round(eighths / 8), style=style)
        return Text("█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip(), style=style)


def facts(rows: Iterable[tuple[str, str, str]], width: int) -> Grid:
    """Lay out facts as rows of a name, its value, and further words."""
    facts = grid(f"={NAMES}", f">{VALUES}", "= dim")
    for name, value, more in rows:
        words = Text(show.wrapped(more, width - BEFORE_WORDS))
        facts.add_row(Text(f"  {name}"), Text(value, style="bold"), words)
    return facts


def heading(data: RunData) -> Text:
    return Text.assemble(
        (show.printable(data.result.model), "bold"),
        " on ",
        (show.printable(data.result.machine_name), "bold"),
        ("\n" + "\n".join(data.machines) + "\n", "dim"),
    )


def _answer(data: RunData, width: int, cut: str) -> RenderableType:
    result, bound = data.result, data.result.lower_bound
    latency, energy = (result.uncertainty.words(quantity) for quantity in ("latency", "energy"))
    cycles = f"{show.whole(result.cycles)} cycles; {show.digits(result.inferences_per_s)} inferences/s"
    reached = f"{show.percent(share(bound.cycles, result.cycles))} of the latency, set by {limit_of(bound)}"
    rows = [
        ("Latency", show.time(result.latency_ms), f"{cycles}\n{latency}"),
        ("Energy", show.energy(result.energy_uj), f"per inference, with DRAM and host\n{energy}"),
        ("Power", show.power(result.power_mw.average), f"average; peak {data.peaks}"),
        ("Lower bound", show.time(result.hardware.us_of_cycles(bound.cycles) * 1e-3), reached),
        (
            "execTime",
            show.ratio(result.performance_info.execTime),
            "\n".join(filter(None, (f"PerformanceInfo: time, NPU / {data.cpu}", data.cpu_claim))),
        ),
        (
            "powerUsage",
            show.ratio(result.performance_info.powerUsage),
            "PerformanceInfo: energy, NPU / CPU",
        ),
    ]
    if not result.hardware.is_host_alone:
        used = f"{data.utilization}; {show.count(result.macs)} MACs"
        words = "\n".join(filter(None, (used, data.idlest.replace(CUT, cut))))
        tops = f"{show.digits(result.tops.peak)} TOPS at most, {show.digits(result.tops.reached)} reached"
        rows.insert(4, ("Area", show.area(result.area.total), f"{data.nodes}; {tops}"))
        rows.insert(3, ("MAC utilization", show.percent(result.mac_utilization), words))
    return facts(rows, width)


def _ending(data: RunData, width: int, cut: str) -> Iterable[RenderableType]:
    for line in data.ending:
        yield facts([(line.title, line.value, line.words.replace(CUT, cut))], width)
        if line.paste:
            yield _command(line.paste, width)


def _command(words: Sequence[str], width: int) -> Text:
    """Return words of a command to paste into a shell: lines end in a backslash, and a longer word stays whole."""
    lines: list[str] = []
    for word in words:
        if lines and BEFORE_WORDS + len(lines[-1]) + len(f" {word} \\") <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    text = " \\\n".join(" " * BEFORE_WORDS + show.printable(line) for line in lines)
    return Text(text, "bold", whole_lines=True)


def _busy(data: RunData, bars: _Bars) -> RenderableType:
    *units, stalled = data.busy
    return _bar_rows([*units, stalled._replace(name="stalled")], bars, ["cyan"] * len(units) + ["yellow"])


def _bar_rows(rows: Sequence[Bar], bars: _Bars, styles: Sequence[str], amounts: Sequence[str] = ()) -> Grid:
    """Create a table of names, amounts if there are any, shares, and bars."""
    table = grid(*(("=21", ">8", ">8", "<") if amounts else ("=15", ">8", "<")))
    for at, (row, style) in enumerate(zip(rows, styles, strict=True)):
        amount = [Text(amounts[at])] if amounts else []
        table.add_row(Text(f"  {row.name}"), *amount, Text(show.percent(row.share)), bars(row.share, style))
    return table


def _further(result: RunResult, memory: FurtherMemory) -> tuple[str, str, str]:
    """Return the traffic of a further memory as a line."""
    moved = list(result.memory_bytes[memory.name].values())
    rate = memory.gb_per_s(result.hardware.clock_mhz)
    used = show.percent(share(sum(moved), rate * 1e3 / result.hardware.clock_mhz * result.cycles))
    return (
        f"{memory.name} traffic",
        show.size(sum(moved)),
        f"{show.size(moved[0])} read, {show.size(moved[1])} written; {used} of {rate:g} GB/s",
    )


def _memory(data: RunData, width: int) -> RenderableType:
    result, hardware, moved = data.result, data.result.hardware, data.result.dram_bytes
    used = show.percent(share(moved.total, hardware.dram_bytes_per_cycle * result.cycles))
    rows = [
        (
            "DRAM traffic",
            show.size(moved.total),
            f"{show.size(moved.read)} read, {show.size(moved.write)} written, and instructions",
        ),
        ("Instructions", show.size(moved.instructions), "fetched"),
        ("DRAM bandwidth", used, f"used of {hardware.dram.bandwidth_gb_per_s:g} GB/s"),
    ] * hardware.has_dram
    rows += [_further(result, memory) for memory in hardware.memory]
    rows += [
        ("Scratchpad peak", show.size(peak), f"of {show.size(size)}{name and ' on ' + name}")
        for name, peak, size in data.scratchpads
    ]
    return facts(rows, width)


def _hottest(result: RunResult, width: int, cut: str) -> tuple[str, RenderableType]:
    """Return the title and the table of the longest layers; a wider terminal shows more columns."""
    working = [at for at, layer in enumerate(result.layers) if layer.cycles]
    places = sorted(working, key=lambda at: -result.layers[at].cycles)[:HOTTEST_LAYERS]
    hottest, total = [result.layers[at] for at in places], result.cycles or 1
    columns = [
        Column("cycles", [show.whole(layer.cycles) for layer in hottest], right=True),
        Column("time", [show.time(layer.time_us * 1e-3) for layer in hottest], right=True, least=100),
        Column("share", [show.percent(layer.cycles / total) for layer in hottest], right=True),
        Column("MAC util.", [_mac_share(layer) for layer in hottest], right=True, least=90),
        Column("device", [show.shortened(layer.device, LONGEST_DEVICE) for layer in hottest], least=70),
        Column("bound by", [_busiest(layer) for layer in hottest]),
        Column("largest loss", [_largest_loss(layer) for layer in hottest]),
        Column("output", [" ".join(map(sizes_text, layer.output_shapes)) for layer in hottest], least=130),
        Column("kernel", [sizes_text(layer.kernel) for layer in hottest], least=140),
        Column("stride", [sizes_text(layer.stride) for layer in hottest], least=140),
        Column("tile", [sizes_text(layer.tile) for layer in hottest], least=150),
        Column("dataflow", [dataflow_name(layer.dataflow) for layer in hottest], least=150),
    ]
    columns = [
        column
        for column in columns
        if width >= column.least and (column.head != "device" or result.several_devices)
    ]
    numbers = Column("#", [str(at) for at in places], right=True)
    room = width - 2 - sum(column.width + 1 for column in (numbers, *columns))
    if width >= 80:
        longest = min(LONGEST_OPERATOR, max(room - LEAST_NAME, LEAST_OPERATOR))
        operators = Column("operator", [_beginning(layer.op, longest, cut) for layer in hottest])
        columns.insert(0, operators)
        room -= operators.width + 1
    names = short_names([layer.name for layer in hottest], max(8, room), cut)
    title = f"Hottest layers, {len(hottest)} of {len(result.layers)}"
    return title, table([numbers, Column("layer", names), *columns], indent=1)


def _beginning(name: str, width: int, cut: str) -> str:
    """Return the beginning of an operator's name, in which such names differ."""
    shown = show.printable(name)
    return shown if len(shown) <= width else shown[: width - len(cut)] + cut


def _mac_share(layer: LayerResult) -> str:
    return show.percent(layer.utilization) if layer.unit == "mac" else UNIT_NAMES[layer.unit]


def _busiest(layer: LayerResult) -> str:
    """Return the unit or memory that works longest for a layer, with its busy time as a share of the layer's time."""
    if layer.bound_by == UNBOUND:
        return BOUND_NAMES[UNBOUND]
    return f"{bound_name(layer.bound_by)} {layer.busy_cycles[layer.bound_by] / layer.cycles:.0%}"


def _largest_loss(layer: LayerResult) -> str:
    """Return the largest cause of lost cycles with its share of the layer; empty for a layer at its lower bound."""
    if layer.cycles <= layer.lower_bound_cycles:
        return CAUSE_NAMES["prefetched"] if "prefetched" in layer.lost_cycles else "-"
    cause, lost = max(layer.lost_cycles.items(), key=lambda item: item[1], default=("", 0))
    return f"{CAUSE_NAMES[cause]} {lost / layer.cycles * 100:.0f} %" if lost * 200 >= layer.cycles else "-"


def _cycles(data: RunData, bars: _Bars) -> RenderableType:
    """Return the cycle breakdown: the lower bound, and lost cycles by cause; the rows add up to the total."""
    bound, *lost = data.cycle_rows
    few, rest = lost[:MOST_CAUSES], lost[MOST_CAUSES:]
    if len(rest) == 1:
        few, rest = lost, []
    rows = [bound._replace(name=f"lower bound, {BOUND_NAMES[data.result.lower_bound.bound_by]}"), *few]
    if rest:
        cycles = sum(int(row.amount) for row in rest)
        rows.append(Bar(show.plural(len(rest), "other cause"), "", cycles, share(cycles, data.result.cycles)))
    styles = ["cyan"] + ["yellow"] * (len(rows) - 1)
    table = _bar_rows(rows, bars, styles, [show.whole(int(row.amount)) for row in rows])
    table.add_row(Text("  total", style="bold"), Text(show.whole(data.result.cycles), style="bold"))
    return table


def _energy(data: RunData, bars: _Bars) -> tuple[RenderableType, ...]:
    energy, rows = data.result.energy_uj, data.components
    kinds = (
        ("dynamic", energy.dynamic),
        ("static", energy.static),
        ("DRAM", energy.dram),
        ("host", energy.host),
    )
    table = _bar_rows(rows, bars, ["cyan"] * len(rows), [show.energy(row.amount) for row in rows])
    words = ", ".join(f"{name} {show.energy(value)}" for name, value in kinds)
    return table, Text(f"  {words}", style="dim")


def _host(data: RunData) -> Iterable[RenderableType]:
    """Return the operators that the host runs; those of one kind share a row, with the reason below it."""
    rows, layers = data.host_rows, data.result.layers
    if not rows:
        return ()
    table = grid(">9", "=")
    for op, number, first, cycles, reason in rows[:MOST_HOST_ROWS]:
        words = Text(f"{op}, {show.shortened(first, 30) if number == 1 else show.plural(number, 'layer')}")
        if reason:
            words.append(f": {show.printable(reason)}", style="dim")
        table.add_row(Text(show.percent(share(cycles, data.result.cycles))), words)
    if len(rows) > MOST_HOST_ROWS:
        table.add_row(Text(""), Text(f"and {len(rows) - MOST_HOST_ROWS} more kinds", style="dim"))
    title = f"On the host, {sum(number for _, number, *_ in rows)} of {show.plural(len(layers), 'layer')}"
    if all(layer.unit in ("host", "none") for layer in layers):
        title += ": nothing of this model runs on the NPU"
    return titled(title, table)


def _footer(result: RunResult) -> Iterable[RenderableType]:
    wall = result.wall_s
    steps = {
        "load": wall.load,
        "compile": wall.compile if wall.restore is None else None,
        "restore": wall.restore,
        "simulate": wall.simulate,
    }
    lines = ["Left out: voltage regulators, clock generators, other DRAM users, an idle host."]
    if not result.outputs:
        lines.append("Timing only: no data was executed.")
    took = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in steps.items() if seconds is not None)
    lines += [f"Took {took}."] if took else []
    if wall.restore is not None and wall.compile is not None:
        lines.append(f"Restored: without the cache, compile takes {wall.compile:.2f} s.")
    return Text(""), Text("\n".join(lines), style="dim")
