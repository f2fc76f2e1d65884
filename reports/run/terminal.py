"""The summary of a run in the terminal: main numbers first, then where time, energy and bytes go."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from io import StringIO
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from npusim.base.console import console
from npusim.isa.hardware.memories import FurtherMemory
from npusim.isa.hardware.units import WORKERS
from npusim.numbers.bounds import UNBOUND
from npusim.numbers.layers import sizes_text
from npusim.reports.run import pieces
from npusim.reports.words import quantities as show
from npusim.reports.words.claims import caveats, of_cpu
from npusim.reports.words.names import (
    BOUND_NAMES,
    CAUSE_NAMES,
    COMPONENT_NAMES,
    CUT,
    PLAIN_CUT,
    UNIT_NAMES,
    bound_name,
    dataflow_name,
    limit_of,
    short_names,
)
from npusim.reports.words.reason import ending, host_rows, idlest

if TYPE_CHECKING:
    from npusim.numbers.layers import LayerResult
    from npusim.numbers.run import RunResult

HOTTEST_LAYERS = 10
MOST_HOST_ROWS = 10
MOST_CAUSES = 8
NARROWEST, WIDEST = 60, 110
WIDEST_TABLE = 160
LONGEST_DEVICE = 16
LEAST_NAME, LEAST_OPERATOR, LONGEST_OPERATOR = 14, 9, 18

NAMES, VALUES = 17, 9
BEFORE_WORDS = NAMES + VALUES + 4
"""Columns of the terminal for the name of a fact and for its value, and for both with two spaces behind each."""

_EIGHTHS = " ▏▎▍▌▋▊▉█"


def render(result: RunResult, width: int = 80) -> str:
    """Return the summary as plain text, without colours."""
    file = StringIO()
    console(file, width=width, color_system=None, force_terminal=False).print(
        summary(result, width), crop=crops(width)
    )
    return file.getvalue()


def summary(result: RunResult, width: int, ascii_only: bool = False) -> RenderableType:
    """Return the summary for a terminal of `width` columns; `ascii_only` draws bars of ASCII characters."""
    table_width = min(max(width, NARROWEST), WIDEST_TABLE)
    width = min(max(width, NARROWEST), WIDEST)
    bars, cut = _Bars(max(width - 42, 12), ascii_only), PLAIN_CUT if ascii_only else CUT
    sections = [
        _heading(result),
        *_unknown(result),
        _answer(result, width, cut),
        *_ending(result, width, cut),
        *_titled("Busy, share of all cycles", _busy(result, bars)),
        *_titled("Memory", _memory(result, width)),
        *_titled("Where the cycles went", _cycles(result, _Bars(max(width - 48, 10), ascii_only))),
        *_titled(_hottest_title(result), _hottest(result, table_width, cut)),
        *_titled("Energy, by component", _energy(result, _Bars(max(width - 46, 10), ascii_only))),
        *_host(result),
        *_pieces(result),
        *_footer(result),
    ]
    return Group(*sections)


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


def _titled(title: str, body: RenderableType) -> Iterable[RenderableType]:
    return Text(""), Text(title, style="bold"), body


def _facts(rows: Iterable[tuple[str, str, str]], width: int) -> Table:
    """Lay out facts as rows of a name, its value, and further words."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(min_width=NAMES)
    grid.add_column(justify="right", min_width=VALUES, no_wrap=True)
    grid.add_column(style="dim")
    for name, value, more in rows:
        grid.add_row(
            Text(f"  {name}"), Text(value, style="bold"), Text(show.wrapped(more, width - BEFORE_WORDS))
        )
    return grid


def _heading(result: RunResult) -> Text:
    return Text.assemble(
        (show.printable(result.model), "bold"),
        " on ",
        (show.printable(result.machine_name), "bold"),
        ("\n" + "\n".join(pieces.lines(result)) + "\n", "dim"),
    )


def _answer(result: RunResult, width: int, cut: str) -> RenderableType:
    hardware, bound = result.hardware, result.lower_bound
    bound_ms = hardware.us_of_cycles(bound.cycles) * 1e-3
    reached = bound.cycles / result.cycles if result.cycles else 0.0
    ratios = result.performance_info
    cpu = pieces.cpu(hardware)
    return _facts(
        [
            (
                "Latency",
                show.time(result.latency_ms),
                f"{show.whole(result.cycles)} cycles; {show.digits(result.inferences_per_s)} inferences/s\n"
                + result.uncertainty.words("latency"),
            ),
            (
                "Energy",
                show.energy(result.energy_uj),
                f"per inference, with DRAM and host\n{result.uncertainty.words('energy')}",
            ),
            (
                "Power",
                show.power(result.power_mw.average),
                f"average; peak {show.peaks(result.power_mw)}",
            ),
            *_array(result, cut),
            (
                "Lower bound",
                show.time(bound_ms),
                f"{show.percent(reached)} of the latency, set by {limit_of(bound)}",
            ),
            *_area(result),
            (
                "execTime",
                show.ratio(ratios.execTime),
                "\n".join(filter(None, (f"PerformanceInfo: time, NPU / {cpu}", of_cpu(hardware.host)))),
            ),
            ("powerUsage", show.ratio(ratios.powerUsage), "PerformanceInfo: energy, NPU / CPU"),
        ],
        width,
    )


def _array(result: RunResult, cut: str) -> Iterable[tuple[str, str, str]]:
    """Yield the line about the utilization of the MAC array; none for a CPU alone."""
    if not result.hardware.is_host_alone:
        least = idlest(result).replace(CUT, cut)
        words = f"{pieces.utilization(result)}; {show.count(result.macs)} MACs"
        yield "MAC utilization", show.percent(result.mac_utilization), "\n".join(filter(None, (words, least)))


def _area(result: RunResult) -> Iterable[tuple[str, str, str]]:
    """Yield the line about the NPU's area and operations per second."""
    if not result.hardware.is_host_alone:
        yield (
            "Area",
            show.area(result.area.total),
            f"{pieces.nodes(result)}; {show.digits(result.tops.peak)} TOPS at most, "
            f"{show.digits(result.tops.reached)} reached",
        )


def _ending(result: RunResult, width: int, cut: str) -> Iterable[RenderableType]:
    for line in ending(result):
        yield _facts([(line.title, line.value, line.words.replace(CUT, cut))], width)
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
    return Text(text, no_wrap=True, overflow="ignore", style="bold")


def _busy(result: RunResult, bars: _Bars) -> RenderableType:
    cycles = result.cycles
    rows = [(kind.label, getattr(cycles, kind.name), "cyan") for kind in WORKERS]
    rows.append(("stalled", cycles.stall, "yellow"))
    grid = _bar_grid()
    for name, busy, style in rows:
        share = busy / cycles if cycles else 0.0
        grid.add_row(Text(f"  {name}"), Text(show.percent(share)), bars(share, style))
    return grid


def _bar_grid(numbers: int = 1) -> Table:
    """Create a table of names, right-aligned numbers, and bars."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(min_width=15 if numbers == 1 else 21)
    for _ in range(numbers):
        grid.add_column(justify="right", min_width=8, no_wrap=True)
    grid.add_column(no_wrap=True)
    return grid


def _further(result: RunResult, memory: FurtherMemory) -> tuple[str, str, str]:
    """Return the traffic of a further memory as a line."""
    moved = list(result.memory_bytes[memory.name].values())
    rate = memory.gb_per_s(result.hardware.clock_mhz)
    peak = rate * 1e3 / result.hardware.clock_mhz * result.cycles
    used = show.percent(sum(moved) / peak if peak else 0.0)
    return (
        f"{memory.name} traffic",
        show.size(sum(moved)),
        f"{show.size(moved[0])} read, {show.size(moved[1])} written; {used} of {rate:g} GB/s",
    )


def _memory(result: RunResult, width: int) -> RenderableType:
    hardware, moved = result.hardware, result.dram_bytes
    total = moved.read + moved.write + moved.instructions
    peak = hardware.dram_bytes_per_cycle * result.cycles
    used = total / peak if peak else 0.0
    dram = (
        (
            "DRAM traffic",
            show.size(total),
            f"{show.size(moved.read)} read, {show.size(moved.write)} written, and instructions",
        ),
        ("Instructions", show.size(moved.instructions), "fetched"),
        ("DRAM bandwidth", show.percent(used), f"used of {hardware.dram.bandwidth_gb_per_s:g} GB/s"),
    )
    return _facts(
        [
            *(dram if hardware.has_dram else ()),
            *(_further(result, memory) for memory in hardware.memory),
            *(
                ("Scratchpad peak", show.size(peak), f"of {show.size(size)}{name and ' on ' + name}")
                for name, peak, size in pieces.scratchpads(result)
            ),
        ],
        width,
    )


def _by_cycles(layers: Sequence[LayerResult]) -> list[int]:
    """Return the indices of layers that take cycles, the longest first; equal ones keep the order of the model."""
    return sorted((at for at, each in enumerate(layers) if each.cycles), key=lambda at: -layers[at].cycles)


def _hottest_title(result: RunResult) -> str:
    shown = min(HOTTEST_LAYERS, len(_by_cycles(result.layers)))
    return f"Hottest layers, {shown} of {len(result.layers)}"


def _hottest(result: RunResult, width: int, cut: str) -> RenderableType:
    """Return the table of the longest layers; a wider terminal shows more columns."""
    places = _by_cycles(result.layers)[:HOTTEST_LAYERS]
    hottest = [result.layers[at] for at in places]
    total = result.cycles or 1
    columns = [
        _Column("cycles", [show.whole(layer.cycles) for layer in hottest], right=True),
        _Column("time", [show.time(layer.time_us * 1e-3) for layer in hottest], right=True, least=100),
        _Column("share", [show.percent(layer.cycles / total) for layer in hottest], right=True),
        _Column("MAC util.", [_mac_share(layer) for layer in hottest], right=True, least=90),
        *_device_column(result, hottest),
        _Column("bound by", [_busiest(layer) for layer in hottest]),
        _Column("largest loss", [_largest_loss(layer) for layer in hottest]),
        _Column("output", [" ".join(map(sizes_text, layer.output_shapes)) for layer in hottest], least=130),
        _Column("kernel", [sizes_text(layer.kernel) for layer in hottest], least=140),
        _Column("stride", [sizes_text(layer.stride) for layer in hottest], least=140),
        _Column("tile", [sizes_text(layer.tile) for layer in hottest], least=150),
        _Column("dataflow", [dataflow_name(layer.dataflow) for layer in hottest], least=150),
    ]
    columns = [column for column in columns if width >= column.least]
    numbers = _Column("#", [str(at) for at in places], right=True)
    room = width - 2 - sum(column.width + 1 for column in (numbers, *columns))
    if width >= 80:
        longest = min(LONGEST_OPERATOR, max(room - LEAST_NAME, LEAST_OPERATOR))
        operators = _Column("operator", [_beginning(layer.op, longest, cut) for layer in hottest])
        columns.insert(0, operators)
        room -= operators.width + 1
    names = short_names([layer.name for layer in hottest], max(8, room), cut)
    columns = [numbers, _Column("layer", names), *columns]
    grid = Table.grid(padding=(0, 1), pad_edge=False)
    grid.add_column(width=1)
    for column in columns:
        grid.add_column(justify="right" if column.right else "left", no_wrap=True)
    grid.add_row("", *(Text(column.head, style="dim") for column in columns))
    for row in zip(*(column.texts for column in columns), strict=True):
        grid.add_row("", *map(Text, row))
    return grid


def _device_column(result: RunResult, layers: Sequence[LayerResult]) -> Iterable[_Column]:
    """Yield the column of the devices that run the layers, if there are several."""
    if result.several_devices:
        yield _Column("device", [show.shortened(layer.device, LONGEST_DEVICE) for layer in layers], least=70)


def _beginning(name: str, width: int, cut: str) -> str:
    """Return the beginning of an operator's name, in which such names differ."""
    shown = show.printable(name)
    return shown if len(shown) <= width else shown[: width - len(cut)] + cut


class _Column(NamedTuple):
    """A column of the table of layers; terminals narrower than `least` go without."""

    head: str
    texts: Sequence[str]
    right: bool = False
    least: int = 0

    @property
    def width(self) -> int:
        """Columns of the terminal that it takes."""
        return max(len(self.head), *(len(text) for text in self.texts), 0)


def _mac_share(layer: LayerResult) -> str:
    return show.percent(layer.utilization) if layer.unit == "mac" else UNIT_NAMES[layer.unit]


def _busiest(layer: LayerResult) -> str:
    """Return the unit or memory that works longest for a layer, with its busy time as a share of the layer's time."""
    if layer.bound_by == UNBOUND:
        return BOUND_NAMES[UNBOUND]
    share = layer.busy_cycles[layer.bound_by] / layer.cycles
    return f"{bound_name(layer.bound_by)} {share:.0%}"


def _largest_loss(layer: LayerResult) -> str:
    """Return the largest cause of lost cycles with its share of the layer; empty for a layer at its lower bound."""
    if layer.cycles <= layer.lower_bound_cycles:
        return CAUSE_NAMES["prefetched"] if "prefetched" in layer.lost_cycles else "-"
    cause, lost = max(layer.lost_cycles.items(), key=lambda item: item[1], default=("", 0))
    return f"{CAUSE_NAMES[cause]} {lost / layer.cycles * 100:.0f} %" if lost * 200 >= layer.cycles else "-"


def _cycles(result: RunResult, bars: _Bars) -> RenderableType:
    """Return the cycle breakdown: the lower bound, and lost cycles by cause; the rows add up to the total."""
    bound, lost = result.lower_bound, sorted(result.lost_cycles.items(), key=lambda item: -abs(item[1]))
    few, rest = lost[:MOST_CAUSES], lost[MOST_CAUSES:]
    if len(rest) == 1:
        few, rest = lost, []
    rows = [(f"lower bound, {BOUND_NAMES[bound.bound_by]}", bound.cycles, "cyan")]
    rows += [(CAUSE_NAMES[cause], cycles, "yellow") for cause, cycles in few]
    if rest:
        rows.append((show.plural(len(rest), "other cause"), sum(cycles for _, cycles in rest), "yellow"))
    grid = _bar_grid(numbers=2)
    for name, cycles, style in rows:
        share = cycles / result.cycles if result.cycles else 0.0
        grid.add_row(
            Text(f"  {name}"), Text(show.whole(cycles)), Text(show.percent(share)), bars(share, style)
        )
    grid.add_row(
        Text("  total", style="bold"), Text(show.whole(result.cycles), style="bold"), Text(""), Text("")
    )
    return grid


def _energy(result: RunResult, bars: _Bars) -> RenderableType:
    total = float(result.energy_uj)
    parts = sorted(result.energy_uj.by_component.items(), key=lambda item: -item[1])
    grid = _bar_grid(numbers=2)
    for name, energy_uj in parts:
        if energy_uj <= 0:
            continue
        share = energy_uj / total
        shown = f"  {COMPONENT_NAMES.get(name, name)}"
        grid.add_row(Text(shown), Text(show.energy(energy_uj)), Text(show.percent(share)), bars(share))
    energy = result.energy_uj
    kinds = ", ".join(
        f"{name} {show.energy(value)}"
        for name, value in (
            ("dynamic", energy.dynamic),
            ("static", energy.static),
            ("DRAM", energy.dram),
            ("host", energy.host),
        )
    )
    return Group(grid, Text(f"  {kinds}", style="dim"))


def _host(result: RunResult) -> Iterable[RenderableType]:
    """Return the operators that the host runs; those of one kind share a row, with the reason below it."""
    rows = host_rows(result)
    if not rows:
        return ()
    grid = Table.grid(padding=(0, 2))
    grid.add_column(justify="right", no_wrap=True, min_width=9)
    grid.add_column()
    for op, layers, first, cycles, reason in rows[:MOST_HOST_ROWS]:
        share = cycles / result.cycles if result.cycles else 0.0
        words = Text(f"{op}, {show.shortened(first, 30) if layers == 1 else show.plural(layers, 'layer')}")
        if reason:
            words.append(f": {show.printable(reason)}", style="dim")
        grid.add_row(Text(show.percent(share)), words)
    if len(rows) > MOST_HOST_ROWS:
        grid.add_row(Text(""), Text(f"and {len(rows) - MOST_HOST_ROWS} more kinds", style="dim"))
    everything = all(layer.unit in ("host", "none") for layer in result.layers)
    on_host = sum(layers for _, layers, *_ in rows)
    title = f"On the host, {on_host} of {show.plural(len(result.layers), 'layer')}"
    if everything:
        title += ": nothing of this model runs on the NPU"
    return _titled(title, grid)


def _pieces(result: RunResult) -> Iterable[RenderableType]:
    """Return the table of pieces: where a run passes between devices, or between NPU and host, and the cost."""
    several = len(result.pieces) > 1 or any(piece.entered or piece.left for piece in result.pieces)
    return _titled(pieces.title(result), pieces.table(result)) if several else ()


def _unknown(result: RunResult) -> Iterable[RenderableType]:
    """Return the caveats, which are printed before any number."""
    for caveat in caveats(result.program):
        yield Text(f"{caveat}\n", style="bold red")


def _footer(result: RunResult) -> Iterable[RenderableType]:
    wall = result.wall_s
    compiling = wall.compile if wall.restore is None else None
    steps = [
        f"{name} {seconds:.2f} s"
        for name, seconds in (
            ("load", wall.load),
            ("compile", compiling),
            ("restore", wall.restore),
            ("simulate", wall.simulate),
        )
        if seconds is not None
    ]
    lines = ["Left out: voltage regulators, clock generators, other DRAM users, an idle host."]
    if not result.outputs:
        lines.append("Timing only: no data was executed.")
    if steps:
        lines.append(f"Took {', '.join(steps)}.")
    if wall.restore is not None and wall.compile is not None:
        lines.append(f"Restored: without the cache, compile takes {wall.compile:.2f} s.")
    return Text(""), Text("\n".join(lines), style="dim")
