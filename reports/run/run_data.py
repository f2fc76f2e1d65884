"""What the terminal and the page show of a run, computed once, as a value."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, NamedTuple

from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.hardware.units import COMPUTING, PORT, WORKERS, Kind
from npusim.numbers.causes import CAUSES
from npusim.numbers.layers import Boundary, share
from npusim.reports.words import claims
from npusim.reports.words import quantities as show
from npusim.reports.words.names import CAUSE_NAMES, LIMITS, component_names, component_style
from npusim.reports.words.reason import Line, ending, host_rows, idlest

if TYPE_CHECKING:
    from npusim.isa.hardware.hardware import Hardware
    from npusim.numbers.layers import Piece
    from npusim.numbers.run import DeviceResult, RunResult


class Bar(NamedTuple):
    """A bar of a chart: its name, the style variable of its colour, its amount, its share, and a definition."""

    name: str
    colour: str
    amount: float
    share: float
    meaning: str = ""


@dataclass(frozen=True, kw_only=True)
class RunData:
    """What the terminal and the page show of a run.

    machines:    the machine as a line; of several devices a line each, and a line for what they share.
    cpu:         the host as text; cpu_claim: the known error of its time.
    utilization, nodes, peaks: MACs per cycle, process nodes, and peak powers as text.
    scratchpads: name of each NPU, bytes of the scratchpad that its programs use at most at a time, and the size.
    unknown:     reasons why the numbers are estimates, which come before any number.
    ending:      the reason and the levers; idlest: the layer that lowers the utilization most, as a sentence.
    cycle_rows:  the lower bound, then lost cycles by cause, the largest first; they add up to the run.
    busy:        busy cycles of each unit, then the cycles in which nothing computes.
    components:  energy by component, the largest first.
    host_rows:   operators on the host, by kind and reason.
    pieces:      each piece with the side or device that computes it.
    between:     the sum of all boundaries that have cycles of their own; None without any.
    """

    result: RunResult
    machines: list[str]
    cpu: str
    cpu_claim: str
    utilization: str
    nodes: str
    peaks: str
    scratchpads: list[tuple[str, int, int]]
    unknown: list[str]
    ending: tuple[Line, ...]
    idlest: str
    cycle_rows: list[Bar]
    busy: list[Bar]
    components: list[Bar]
    host_rows: list[tuple[str, int, str, int, str]]
    pieces: list[tuple[str, Piece]]
    between: Boundary | None


def run_data(result: RunResult) -> RunData:
    """Compute what is shown of a run."""
    return RunData(
        result=result,
        machines=lines(result),
        cpu=_cpu(result.hardware),
        cpu_claim=claims.of_cpu(result.hardware.host),
        utilization=_utilization(result),
        nodes=_nodes(result),
        peaks=show.peaks(result.power_mw),
        scratchpads=scratchpads(result),
        unknown=list(claims.caveats(result.program)),
        ending=ending(result),
        idlest=idlest(result),
        cycle_rows=_cycle_rows(result),
        busy=_busy(result),
        components=_components(result),
        host_rows=host_rows(result),
        pieces=[(_who(result, piece), piece) for piece in result.pieces],
        between=_between(result),
    )


SIDE_WORDS = {"npu": "NPU", "host": "host"}


def lines(result: RunResult) -> list[str]:
    """Return the machine as a line; several devices as a line each, and a line for what they share."""
    first = show.printable(result.devices[0].name) if result.devices else ""
    cycles = f"cycles are those of {first}, {result.hardware.clock_mhz:g} MHz"
    if result.several_devices:
        own = [f"{show.printable(device.name)}: {_device(device)}" for device in result.at_work]
        return [*own, f"sharing {show.ports(result.hardware)}; {cycles}"]
    ((_, hardware),) = result.npus
    *parts, node = show.machine(hardware).split(", ")
    machine = [", ".join([*parts, show.ports(hardware), node])]
    if hardware.is_host_alone or (result.at_work and result.at_work[0].is_cpu):
        machine.insert(0, f"{_cpu(hardware)}; its machine stands by:")
    return machine + ([cycles] if hardware.clock_mhz != result.hardware.clock_mhz else [])


def _device(device: DeviceResult) -> str:
    return f"{_cpu(device.hardware)}, the host" if device.is_cpu else show.machine(device.hardware)


def _cpu(hardware: Hardware) -> str:
    """Return the host of a machine as text, such as "2 x cortex-a53 at 1800 MHz"."""
    host = hardware.host
    cores = f"{host.threads} x " if host.threads > 1 else ""
    return f"{cores}{host.core}" + (f" at {host.clock_mhz:g} MHz" if host.clock_mhz else "")


def _utilization(result: RunResult) -> str:
    """Return the utilization in MACs per cycle, such as "3.5 of 128 MACs/cycle"."""
    if result.several_devices:
        return "of the multipliers of the NPU at work"
    ((_, hardware),) = result.npus
    return f"{show.digits(result.mac_utilization * hardware.macs_per_cycle)} of {hardware.macs_per_cycle} MACs/cycle"


def _nodes(result: RunResult) -> str:
    """Return the process nodes of the machines, such as "22 nm"."""
    hardware = [device.hardware for device in result.devices if not device.is_cpu] or [result.hardware]
    return ", ".join(dict.fromkeys(f"{preset.technology.node_nm} nm" for preset in hardware))


def scratchpads(result: RunResult) -> list[tuple[str, int, int]]:
    """Return for each NPU its name, the scratchpad bytes that its programs use at most at a time, and the size."""
    if not result.several_devices:
        ((_, hardware),) = result.npus
        return [("", result.scratchpad_peak_bytes, hardware.scratchpad_bytes)]
    peaks = {
        device: max(
            stage.program.scratchpad_peak_bytes for stage in result.stages if stage.device == device.core
        )
        for device in result.at_work
        if not device.is_cpu
    }
    return [(show.printable(run.name), peak, run.hardware.scratchpad_bytes) for run, peak in peaks.items()]


def _cycle_rows(result: RunResult) -> list[Bar]:
    bound, total = result.lower_bound, int(result.cycles)
    meaning = f"what the work needs at least, set by {LIMITS[bound.bound_by]}"
    lost = sorted(result.lost_cycles.items(), key=lambda item: -abs(item[1]))
    first = Bar("lower bound", f"r-{bound.bound_by}", bound.cycles, share(bound.cycles, total), meaning)
    return [first, *(of_cause(cause, cycles, total) for cause, cycles in lost)]


def of_cause(cause: str, cycles: int, total: int) -> Bar:
    """Return the cycles that are lost to a cause as a bar, with their share of `total`."""
    return Bar(CAUSE_NAMES[cause], f"c-{cause}", cycles, share(cycles, total), CAUSES[cause].meaning)


def _busy(result: RunResult) -> list[Bar]:
    cycles, bound = result.cycles, result.lower_bound

    def needs(kind: Kind) -> str:
        if kind.resource is None:
            return ""
        least = bound.by_resource[kind.resource.name]
        text = f"at least {show.whole(least)} for the work alone" if least else "no work"
        return f"DRAM port: {text}" if kind.resource.name == PORT else text

    rows = [(kind.label, f"r-{kind.name}", getattr(cycles, kind.name), needs(kind)) for kind in WORKERS]
    *some, last = [kind.label for kind in COMPUTING]
    rows.append(
        ("nothing computes", "c-start_up", cycles.stall, f"neither {', '.join(some)} nor {last} works")
    )
    return [Bar(name, colour, busy, share(busy, cycles), note) for name, colour, busy, note in rows]


def _components(result: RunResult) -> list[Bar]:
    total, labels = float(result.energy_uj), component_names(result.hardware)
    parts = sorted(result.energy_uj.by_component.items(), key=lambda item: -item[1])
    return [
        Bar(labels[name], f"e-{component_style(name)}", energy_uj, share(energy_uj, total))
        for name, energy_uj in parts
        if energy_uj > 0
    ]


def _who(result: RunResult, piece: Piece) -> str:
    """Return the side that computes a piece, with its device in a run on several devices."""
    if not result.several_devices:
        return SIDE_WORDS[piece.side]
    is_cpu = any(device.name == piece.device and device.is_cpu for device in result.devices)
    return show.printable(piece.device) + (", host" if piece.side == "host" and not is_cpu else "")


def boundaries(result: RunResult) -> list[Boundary]:
    """Return the boundaries that have cycles of their own, in order."""
    crossings = [boundary for piece in result.pieces for boundary in (piece.entered, piece.left)]
    return [boundary for boundary in crossings if boundary is not None and boundary.cycles]


def _between(result: RunResult) -> Boundary | None:
    crossings = boundaries(result)
    names = [field.name for field in fields(Boundary) if field.name != "tensors"]
    sums = {name: sum(getattr(transfer, name) for transfer in crossings) for name in names}
    return Boundary(tensors=(), **sums) if crossings else None
