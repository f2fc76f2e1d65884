"""The report of a run as one self-contained HTML page: main numbers and bottleneck first, then all details."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple

from npusim.isa.base.fields import Section
from npusim.isa.hardware.agreement import Agreement, standing
from npusim.isa.hardware.parameters import unread
from npusim.isa.hardware.units import COMPUTING, KINDS, PORT, WORKERS, Kind
from npusim.numbers.causes import CAUSES
from npusim.numbers.layers import Boundary, share
from npusim.reports.page.page import page
from npusim.reports.run import html_data, pieces, series, what_if
from npusim.reports.run.html_data import METHODS
from npusim.reports.words import claims
from npusim.reports.words import quantities as show
from npusim.reports.words.claims import caveats
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
from npusim.reports.words.reason import ending, host_layers, host_rows, idlest

if TYPE_CHECKING:
    from npusim.isa.hardware.hardware import Hardware
    from npusim.numbers.layers import LayerResult
    from npusim.numbers.run import RunResult
    from npusim.numbers.variants import Variant

SCRIPTS = ("page.js", "time.js", "report.js")

NAME_WIDTH = 34


def render(result: RunResult, files: Sequence[tuple[str, str]] = ()) -> str:
    """Return the page as HTML text.

    files: names of the files beside the page, with their purposes.
    """
    return page(
        "report.html",
        SCRIPTS,
        html_data.data(result),
        title=f"{show.printable(result.model)} on {show.printable(result.machine_name)}",
        files=files,
        **_context(result),
    )


def _context(result: RunResult) -> dict[str, Any]:
    """Return the variables of the template."""
    names = short_names([layer.name for layer in result.layers], NAME_WIDTH)
    return {
        "result": result,
        "hardware": result.hardware,
        "machines": pieces.lines(result),
        "utilization": pieces.utilization(result),
        "nodes": pieces.nodes(result),
        "scratchpads": pieces.scratchpads(result),
        "several": result.several_devices,
        "devices": [device.name for device in result.at_work],
        "unknown": " ".join(caveats(result.program)),
        "claim": claims.sentence(result.uncertainty.words("latency"), result.uncertainty.words("energy")),
        "area_mm2": result.area.total,
        "cpu": pieces.cpu(result.hardware),
        "cpu_claim": claims.of_cpu(result.hardware.host),
        "verdicts": _verdicts(result),
        "ending": ending(result),
        "help": _help(result),
        "idlest": idlest(result),
        "peaks": show.peaks(result.power_mw),
        "limits": LIMITS,
        "bound_name": bound_name,
        "bound_style": bound_style,
        "unit_names": UNIT_NAMES,
        "cause_names": CAUSE_NAMES,
        "causes": {name: cause.meaning for name, cause in CAUSES.items()},
        "cycle_rows": _cycle_rows(result),
        "busy": _busy(result),
        "layers": [_layer(result, i, name) for i, name in enumerate(names)],
        "layer_causes": [
            cause for cause in CAUSES if any(cause in layer.lost_cycles for layer in result.layers)
        ],
        "units": sorted({layer.unit for layer in result.layers}),
        "bounds": sorted({layer.bound_by for layer in result.layers}),
        "roof_bounds": sorted({layer.bound_by for layer in result.layers if layer.unit == "mac"}),
        "stall_rows": _stall_rows(result),
        "components": _components(result),
        "layer_energy": _layer_energy(result, names),
        "occupancy_peak": int(result.scratchpad_use().sizes.max(initial=0)),
        "buffers": len(series.buffers(result)),
        "partition": _partition(result),
        "pieces": [(pieces.who(result, piece), piece) for piece in result.pieces],
        "between": _between(result),
        "host_layers": len(host_layers(result)),
        "host_rows": host_rows(result),
        "regions": html_data.regions(result),
        "dram_used": html_data.used_bytes(result),
        "parameters": [
            (name, each, _parameters(each), *_agreement(each)) for name, each in pieces.npus(result)
        ],
        "methods": METHODS,
        "made": result.provenance.to_dict(result.hardware),
    }


def _verdicts(result: RunResult) -> tuple[str, str]:
    """Return the two ratios of PerformanceInfo as words: "is 21 times as fast as", "on 4.3 % of its energy"."""
    time, energy = result.performance_info.execTime, result.performance_info.powerUsage
    fast = f"is {_times(1 / time)} as fast as" if 0 < time <= 1 else f"takes {_times(time)} as long as"
    return fast, f"on {show.percent(energy)} of its energy"


def _times(factor: float) -> str:
    return f"{factor:,.{0 if factor >= 10 else 1}f} times".replace(",", " ")


class Helping(NamedTuple):
    """A row of the what-if section: a changed parameter, and its effects.

    changes: texts of the changes of latency, energy and area, each with "better", "worse" or "same".
    """

    parameter: str
    now: str
    then: str
    changes: Sequence[tuple[str, str]]
    per_mm2: str


class Help(NamedTuple):
    """The what-if section: the effect of each hardware change.

    advice: a sentence that names the best change.
    tables: title and rows by kind of parameter.
    quiet:  names of the parameters whose changes have no effect.
    how:    a sentence about how the changes were computed.
    """

    advice: str
    tables: Sequence[tuple[str, Sequence[Helping]]]
    quiet: str
    how: str


def _help(result: RunResult) -> Help | None:
    """Return the what-if section of a run; None if no variants were simulated."""
    found = result.variants
    if found is None:
        return None
    tables = [
        (title, [_helping(each) for group in what_if.felt(found, chosen) for each in group.ran])
        for chosen, title in what_if.GROUPS.items()
    ]
    quiet = ", ".join(what_if.quiet(found))
    return Help(what_if.advice(found), [each for each in tables if each[1]], quiet, what_if.how(found))


def _helping(variant: Variant) -> Helping:
    changes = (variant.latency_percent, variant.energy_percent, variant.area_percent)
    return Helping(
        variant.parameter,
        what_if.value(variant.before),
        what_if.value(variant.after),
        [(what_if.percent(change), _kind(change)) for change in changes],
        what_if.per_mm2(variant),
    )


def _kind(change: float | None) -> str:
    if change is None or abs(change) < what_if.LEAST_PERCENT:
        return "same"
    return "better" if change < 0 else "worse"


@dataclass(frozen=True, slots=True)
class Row:
    """A bar of a chart: its name, the style variable of its colour, its amount, its share, and a definition."""

    name: str
    colour: str
    amount: float
    share: float
    meaning: str = ""


def _cycle_rows(result: RunResult) -> list[Row]:
    """Return the cycle breakdown: the lower bound, then lost cycles by cause, the largest first.

    The rows add up to the cycles of the run.
    """
    bound, total = result.lower_bound, int(result.cycles)
    rows = [
        Row("lower bound", f"r-{bound.bound_by}", bound.cycles, share(bound.cycles, total),
            f"what the work needs at least, set by {LIMITS[bound.bound_by]}")
    ]  # fmt: skip
    lost = sorted(result.lost_cycles.items(), key=lambda item: -abs(item[1]))
    return rows + [
        Row(CAUSE_NAMES[cause], f"c-{cause}", cycles, share(cycles, total), CAUSES[cause].meaning)
        for cause, cycles in lost
    ]


def _busy(result: RunResult) -> list[Row]:
    cycles, bound = result.cycles, result.lower_bound

    def needs(kind: Kind) -> str:
        if kind.resource is None:
            return ""
        least = bound.by_resource[kind.resource.name]
        text = f"at least {show.whole(least)} for the work alone" if least else "no work"
        return f"DRAM port: {text}" if kind.resource.name == PORT else text

    rows = [(kind.label, f"r-{kind.name}", getattr(cycles, kind.name), needs(kind)) for kind in WORKERS]
    *some, last = [kind.label for kind in COMPUTING]
    nobody = f"neither {', '.join(some)} nor {last} works"
    rows.append(("nothing computes", "c-start_up", cycles.stall, nobody))
    return [Row(name, colour, busy, share(busy, cycles), note) for name, colour, busy, note in rows]


def _stall_rows(result: RunResult) -> list[Row]:
    """Return the cycles in which nothing computes, by cause."""
    amounts: dict[str, int] = {}
    found = series.stalls(result)
    for cause, cycles in zip(found.cause, (found.end - found.begin).tolist(), strict=True):
        amounts[cause] = amounts.get(cause, 0) + cycles
    return [
        Row(CAUSE_NAMES[cause], f"c-{cause}", cycles, share(cycles, result.cycles), CAUSES[cause].meaning)
        for cause, cycles in sorted(amounts.items(), key=lambda item: -item[1])
    ]


@dataclass(frozen=True, slots=True)
class LayerRow:
    """A row of the table of layers.

    share, length: its cycles as shares of the run's cycles, and of the longest layer's.
    lost:          its cycles beyond its lower bound; largest_loss: the main cause of them, as text.
    pieces:        the segments of its bar: lower bound and lost cycles by cause.
    """

    index: int
    layer: LayerResult
    short_name: str
    dataflow: str
    share: float
    length: float
    lost: int
    largest_loss: str
    pieces: Sequence[Row]


def _layer(result: RunResult, index: int, name: str) -> LayerRow:
    layer = result.layers[index]
    losses = sorted((item for item in layer.lost_cycles.items() if item[1] > 0), key=lambda item: -item[1])
    rest = layer.cycles - sum(cycles for _, cycles in losses)
    bound = "lower bound" if rest == layer.lower_bound_cycles else "lower bound less gains"
    pieces = [Row(bound, f"r-{layer.lower_bound_limit}", rest, share(rest, layer.cycles))]
    pieces += [
        Row(CAUSE_NAMES[cause], f"c-{cause}", cycles, share(cycles, layer.cycles)) for cause, cycles in losses
    ]
    return LayerRow(
        index=index,
        layer=layer,
        short_name=name,
        dataflow=dataflow_name(layer.dataflow),
        share=share(layer.cycles, result.cycles),
        length=share(layer.cycles, max(each.cycles for each in result.layers)),
        lost=layer.cycles - layer.lower_bound_cycles,
        largest_loss=f"{CAUSE_NAMES[losses[0][0]]} {show.percent(share(losses[0][1], layer.cycles))}"
        if losses
        else "-",
        pieces=[piece for piece in pieces if piece.amount > 0],
    )


def _components(result: RunResult) -> list[Row]:
    parts, total = result.energy_uj.by_component, float(result.energy_uj)
    labels = component_names(result.hardware)
    return [
        Row(labels[name], f"e-{component_style(name)}", parts[name], share(parts[name], total))
        for name in sorted(parts, key=lambda name: -parts[name])
        if parts[name] > 0
    ]


def _layer_energy(result: RunResult, names: Sequence[str]) -> list[tuple[int, str, float, list[Row]]]:
    """Return layers by energy, the largest first: index, name, energy in uJ, and bar segments by component."""
    parts = result.layer_energy_uj()
    largest = max((layer.energy_uj for layer in result.layers), default=0.0)
    ordered = sorted(enumerate(result.layers), key=lambda item: -item[1].energy_uj)
    return [
        (
            i,
            names[i],
            layer.energy_uj,
            [
                Row(label, f"e-{component_style(name)}", float(parts[name][i]), share(float(parts[name][i]), largest))
                for name, label in component_names(result.hardware).items()
                if name in parts and parts[name][i] > largest * 5e-4
            ],
        )
        for i, layer in ordered
    ]  # fmt: skip


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


def _between(result: RunResult) -> Boundary | None:
    """Return the sum of all boundaries that have cycles of their own; None without any."""
    found = pieces.boundaries(result)
    if not found:
        return None
    sums = {
        field.name: sum(getattr(each, field.name) for each in found)
        for field in fields(Boundary)
        if field.name != "tensors"
    }
    return Boundary(tensors=(), **sums)


def _parameters(hardware: Hardware) -> list[tuple[str, list[tuple[str, str, str]]]]:
    """Return name, value and meaning of every parameter that the simulation of a machine reads, by section."""
    without = unread(hardware)
    values = {name: getattr(hardware, name) for name in type(hardware).model_fields}
    sections = {name: value for name, value in values.items() if isinstance(value, Section)}
    several = {"memory": hardware.memory}
    sections |= {
        f"{title} {name}": inner
        for title, section in list(sections.items())
        for name, inner in section
        if isinstance(inner, Section)
    }
    sections |= {f"{name} {each.name}": each for name, value in several.items() for each in value}
    return [
        (
            _title(title),
            [
                (name, _plain(getattr(section, name)), field.description or "")
                for name, field in type(section).model_fields.items()
                if name not in ("name", "description", *several)
                and not isinstance(getattr(section, name), Section)
                and f"{title.replace(' ', '.')}.{name}".lstrip(".") not in without
            ],
        )
        for title, section in {"": hardware, **sections}.items()
        if title not in without
    ]


def _agreement(hardware: Hardware) -> tuple[Sequence[Agreement], str]:
    """Return the measured agreements that hold for a machine, and a text with all else known about its error."""
    found = standing(hardware)
    held = [each for each in found.agreements if found.claim(each.quantity) is not None]
    lines = claims.paragraph(found)
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
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "nothing"
    return f"{value:g}" if isinstance(value, float) else str(value)
