"""The report of a run as one self-contained HTML page: main numbers and bottleneck first, then all details."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from npusim.isa.hardware.agreement import Agreement, standing
from npusim.isa.hardware.file import to_flat
from npusim.isa.hardware.parameters import parameters_read
from npusim.isa.hardware.units import KINDS
from npusim.numbers.causes import CAUSES
from npusim.numbers.layers import share
from npusim.reports.page.page import page
from npusim.reports.run import html_data, what_if
from npusim.reports.run.run_data import Bar, of_cause, run_data
from npusim.reports.run.series import Charts
from npusim.reports.words import claims
from npusim.reports.words import quantities as show
from npusim.reports.words.names import (
    CAUSE_NAMES,
    COMPONENT_NAMES,
    LIMITS,
    UNIT_NAMES,
    UNIT_WORDS,
    bound_name,
    bound_style,
    component_names,
    component_style,
    dataflow_name,
    short_names,
)

if TYPE_CHECKING:
    from npusim.isa.hardware.hardware import Hardware
    from npusim.numbers.layers import LayerResult
    from npusim.numbers.run import RunResult

SCRIPTS = ("page.js", "time.js", "report.js")

NAME_WIDTH = 34


def render(given: RunResult | Charts, files: Sequence[tuple[str, str]] = ()) -> str:
    """Return the page as HTML text.

    files: names of the files beside the page, with their purposes.
    """
    charts = Charts.of(given)
    model, machine = (show.printable(name) for name in (charts.result.model, charts.result.machine_name))
    drawn = html_data.data(charts)
    return page("report.html", SCRIPTS, drawn, title=f"{model} on {machine}", files=files, **_context(charts))


def _context(charts: Charts) -> dict[str, Any]:
    """Return the variables of the template: all that the page shows, but for the data of its scripts."""
    result, hardware = charts.result, charts.result.hardware
    names = short_names([layer.name for layer in result.layers], NAME_WIDTH)
    return vars(run_data(result)) | {
        "hardware": hardware,
        "several": result.several_devices,
        "devices": [device.name for device in result.at_work],
        "claim": claims.sentence(result.uncertainty.words("latency"), result.uncertainty.words("energy")),
        "verdicts": _verdicts(result),
        "what_if": what_if,
        "share": share,
        "limits": LIMITS,
        "bound_name": bound_name,
        "bound_style": bound_style,
        "dataflow_name": dataflow_name,
        "unit_names": UNIT_NAMES,
        "cause_names": CAUSE_NAMES,
        "causes": {name: cause.meaning for name, cause in CAUSES.items()},
        "layers": [(name, layer, *_parts(layer)) for name, layer in zip(names, result.layers, strict=True)],
        "layer_causes": [
            cause for cause in CAUSES if any(cause in layer.lost_cycles for layer in result.layers)
        ],
        "units": sorted({layer.unit for layer in result.layers}),
        "bounds": sorted({layer.bound_by for layer in result.layers}),
        "roof_bounds": sorted({layer.bound_by for layer in result.layers if layer.unit == "mac"}),
        "stall_rows": _stall_rows(charts),
        "layer_energy": _layer_energy(charts, names),
        "occupancy_peak": int(charts.occupancy.sizes.max(initial=0)),
        "buffers": len(charts.buffers),
        "partition": _partition(result),
        "regions": html_data.regions(result),
        "dram_used": html_data.used_bytes(result),
        "parameters": [
            (
                show.printable(name) if result.several_devices else "",
                npu,
                _parameters(npu),
                *_agreement(npu),
            )
            for name, npu in result.npus
        ],
        "made": result.provenance.to_dict(hardware),
    }


def _verdicts(result: RunResult) -> tuple[str, str]:
    """Return the two ratios of PerformanceInfo as words: "is 21 times as fast as", "on 4.3 % of its energy"."""
    time, energy = result.performance_info.execTime, result.performance_info.powerUsage
    factor = 1 / time if 0 < time <= 1 else time
    times = f"{factor:,.{0 if factor >= 10 else 1}f} times".replace(",", " ")
    fast = f"is {times} as fast as" if 0 < time <= 1 else f"takes {times} as long as"
    return fast, f"on {show.percent(energy)} of its energy"


def _stall_rows(charts: Charts) -> list[Bar]:
    """Return the cycles in which nothing computes, by cause."""
    amounts: dict[str, int] = {}
    lengths = (charts.stalls.end - charts.stalls.begin).tolist()
    for cause, cycles in zip(charts.stalls.cause, lengths, strict=True):
        amounts[cause] = amounts.get(cause, 0) + cycles
    ordered = sorted(amounts.items(), key=lambda item: -item[1])
    return [of_cause(cause, cycles, charts.result.cycles) for cause, cycles in ordered]


def _parts(layer: LayerResult) -> tuple[list[Bar], str]:
    """Return the parts of a layer's bar, lower bound and lost cycles by cause, and its largest loss as text."""
    lost = sorted((item for item in layer.lost_cycles.items() if item[1] > 0), key=lambda item: -item[1])
    losses = [of_cause(cause, cycles, layer.cycles) for cause, cycles in lost]
    rest = layer.cycles - sum(cycles for _, cycles in lost)
    name = "lower bound" if rest == layer.lower_bound_cycles else "lower bound less gains"
    bound = Bar(name, f"r-{layer.lower_bound_limit}", rest, share(rest, layer.cycles))
    largest = f"{losses[0].name} {show.percent(losses[0].share)}" if losses else "-"
    return [bound, *losses] if rest > 0 else losses, largest


def _layer_energy(charts: Charts, names: Sequence[str]) -> list[tuple[int, str, float, list[Bar]]]:
    """Return layers by energy, the largest first: index, name, energy in uJ, and bar segments by component."""
    parts, layers = charts.layer_energy_uj, charts.result.layers
    largest = max((layer.energy_uj for layer in layers), default=0.0)

    def segments(layer: int) -> list[Bar]:
        amounts = {name: float(parts[name][layer]) for name in labels if name in parts}
        return [
            Bar(labels[name], f"e-{component_style(name)}", amount, share(amount, largest))
            for name, amount in amounts.items()
            if amount > largest * 5e-4
        ]

    labels = component_names(charts.result.hardware)
    ordered = sorted(range(len(layers)), key=lambda at: -layers[at].energy_uj)
    return [(at, names[at], layers[at].energy_uj, segments(at)) for at in ordered]


class Part(NamedTuple):
    """The layers that run on one unit of a device, summed up: cycles, share of the run, MACs, and energy in uJ."""

    unit: str
    name: str
    layers: int
    cycles: int
    share: float
    macs: int
    energy_uj: float


def _partition(result: RunResult) -> list[Part]:
    parts = []
    for device in dict.fromkeys(layer.device for layer in result.layers):
        for unit, word in UNIT_WORDS.items():
            mine = [layer for layer in result.layers if (layer.device, layer.unit) == (device, unit)]
            if mine:
                name = f"{show.printable(device)}: {word}" if device else word
                cycles = sum(layer.cycles for layer in mine)
                macs, energy = sum(layer.macs for layer in mine), sum(layer.energy_uj for layer in mine)
                parts.append(Part(unit, name, len(mine), cycles, share(cycles, result.cycles), macs, energy))
    return parts


def _parameters(hardware: Hardware) -> list[tuple[str, list[tuple[str, str, str]]]]:
    """Return name, value and meaning of every parameter that the simulation of a machine reads, by table."""
    values, tables = to_flat(hardware), dict[str, list[tuple[str, str, str]]]()
    for parameter in parameters_read(hardware):
        table, _, key = parameter.path.rpartition(".")
        if key not in ("name", "description"):
            rows = tables.setdefault(table.replace(".", " "), [])
            rows.append((key, _plain(values.get(parameter.path, parameter.default)), parameter.description))
    # The keys of no table come first, those of tables inside others last.
    ordered = sorted(tables.items(), key=lambda item: len(item[0].split()))
    return [(_title(table), rows) for table, rows in ordered]


def _agreement(hardware: Hardware) -> tuple[Sequence[Agreement], str]:
    """Return the measured agreements that hold for a machine, and a text with all else known about its error."""
    claims_of = standing(hardware)
    held = [row for row in claims_of.agreements if claims_of.claim(row.quantity) is not None]
    lines = claims.paragraph(claims_of)
    return held, " ".join([line for line in lines if not line.startswith("- ")][1 if held else 0 :])


def _title(section: str) -> str:
    """Return the heading of a table of hardware parameters."""
    units = {kind.section: kind.label for kind in KINDS}
    name = units.get(section) or COMPONENT_NAMES.get(section, section) or "chip"
    return name[0].upper() + name[1:]


def _plain(value: object) -> str:
    if value is None:
        return "default"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple | list):
        return ", ".join(map(str, value)) or "nothing"
    return f"{value:g}" if isinstance(value, float) else str(value)
