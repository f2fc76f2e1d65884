"""The pieces of a run for a terminal: which device computes which layers, and the cost of each boundary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from npusim.reports.words import quantities as show
from npusim.reports.words.claims import caveats

if TYPE_CHECKING:
    from npusim.isa.hardware.hardware import Hardware
    from npusim.numbers.job import JobResult
    from npusim.numbers.layers import Boundary, Piece
    from npusim.numbers.run import DeviceResult, RunResult


def npus(result: RunResult) -> list[tuple[str, Hardware]]:
    """Return the NPUs that ran a part of the model, each with its device's name, which is empty for one alone."""
    several = result.several_devices
    return [(show.printable(name) if several else "", hardware) for name, hardware in result.npus]


def lines(result: RunResult) -> list[str]:
    """Return the machine as a line; several devices as a line each, and a line for what they share."""
    if not result.several_devices:
        return [*_alone(result), *_clock(result)]
    own = [f"{show.printable(device.name)}: {_device(device)}" for device in result.at_work]
    return [*own, f"sharing {show.ports(result.hardware)}; {_cycles(result)}"]


def _alone(result: RunResult) -> list[str]:
    ((_, hardware),) = npus(result)
    *parts, node = show.machine(hardware).split(", ")
    machine = ", ".join([*parts, show.ports(hardware), node])
    if hardware.is_host_alone or (result.at_work and result.at_work[0].is_cpu):
        return [f"{cpu(hardware)}; its machine stands by:", machine]
    return [machine]


def _device(device: DeviceResult) -> str:
    return f"{cpu(device.hardware)}, the host" if device.is_cpu else show.machine(device.hardware)


def cpu(hardware: Hardware) -> str:
    """Return the host of a machine as text, such as "2 x cortex-a53 at 1800 MHz"."""
    host = hardware.host
    cores = f"{host.threads} x " if host.threads > 1 else ""
    return f"{cores}{host.core}" + (f" at {host.clock_mhz:g} MHz" if host.clock_mhz else "")


def _clock(result: RunResult) -> list[str]:
    """Return whose clock the cycles of the run count, if it is not that of the machine at work."""
    ((_, hardware),) = npus(result)
    return [_cycles(result)] if hardware.clock_mhz != result.hardware.clock_mhz else []


def _cycles(result: RunResult) -> str:
    first = show.printable(result.devices[0].name)
    return f"cycles are those of {first}, {result.hardware.clock_mhz:g} MHz"


def utilization(result: RunResult) -> str:
    """Return the utilization in MACs per cycle, such as "3.5 of 128 MACs/cycle"."""
    if result.several_devices:
        return "of the multipliers of the NPU at work"
    ((_, hardware),) = npus(result)
    return f"{show.digits(result.mac_utilization * hardware.macs_per_cycle)} of {hardware.macs_per_cycle} MACs/cycle"


def nodes(result: RunResult) -> str:
    """Return the process nodes of the machines, such as "22 nm"."""
    hardware = [device.hardware for device in result.devices if not device.is_cpu] or [result.hardware]
    return ", ".join(dict.fromkeys(f"{each.technology.node_nm} nm" for each in hardware))


def scratchpads(result: RunResult) -> list[tuple[str, int, int]]:
    """Return for each NPU its name, the scratchpad bytes that its programs use at most at a time, and the size."""
    if not result.several_devices:
        ((_, hardware),) = npus(result)
        return [("", result.scratchpad_peak_bytes, hardware.scratchpad_bytes)]
    return [
        (
            show.printable(device.name),
            max(
                stage.program.scratchpad_peak_bytes for stage in result.stages if stage.device == device.core
            ),
            device.hardware.scratchpad_bytes,
        )
        for device in result.at_work
        if not device.is_cpu
    ]


MOST_ROWS = 12
SIDE_WORDS = {"npu": "NPU", "host": "host"}


def title(result: RunResult) -> str:
    """Return the title of the table of pieces: how many there are, and on which sides."""
    number = show.plural(len(result.pieces), "piece")
    if result.several_devices:
        return f"Partition, {number} on {len(result.at_work)} devices"
    return f"Partition, {number} on NPU and host"


def who(result: RunResult, piece: Piece) -> str:
    """Return the side that computes a piece, with its device in a run on several devices."""
    if not result.several_devices:
        return SIDE_WORDS[piece.side]
    is_cpu = any(device.name == piece.device and device.is_cpu for device in result.devices)
    return show.printable(piece.device) + (", host" if piece.side == "host" and not is_cpu else "")


def boundaries(result: RunResult) -> list[Boundary]:
    """Return the boundaries that have cycles of their own, in order."""
    found = [boundary for piece in result.pieces for boundary in (piece.entered, piece.left)]
    return [boundary for boundary in found if boundary is not None and boundary.cycles]


def table(result: RunResult) -> Table:
    """Return the table of pieces, a row each; if there are very many, those that take longest.

    The pieces and boundaries add up to the run.
    """
    grid = Table.grid(padding=(0, 2))
    for justify in ("right", "left", "right", "right"):
        grid.add_column(justify=justify, no_wrap=True)
    grid.add_column(style="dim")
    shown = sorted(result.pieces, key=lambda piece: -piece.cycles)[:MOST_ROWS]
    for piece in sorted(shown, key=lambda piece: piece.first_layer):
        layers = f"{piece.first_layer}" + (f"-{piece.last_layer}" if piece.layers > 1 else "")
        grid.add_row(
            Text(f"  {layers}"),
            Text(who(result, piece), style="bold"),
            *_amounts(result, piece.cycles),
            Text(_entered(piece)),
        )
    left = len(result.pieces) - len(shown)
    if left:
        grid.add_row(
            Text(""), Text(""), Text(""), Text(""), Text(f"and {show.plural(left, 'shorter piece')}")
        )
    between = boundaries(result)
    if between:
        cycles = sum(boundary.cycles for boundary in between)
        words = show.plural(len(between), "boundary").replace("boundarys", "boundaries")
        grid.add_row(Text(""), Text("between", style="bold"), *_amounts(result, cycles), Text(words))
    return grid


def _amounts(result: RunResult, cycles: int) -> Iterator[Text]:
    yield Text(show.whole(cycles))
    yield Text(show.percent(cycles / result.cycles if result.cycles else 0.0))


def _entered(piece: Piece) -> str:
    """Return the cost of the boundary before a piece as text; for the last piece, also of that after it."""
    texts = [_crossed(piece.entered)] if piece.entered is not None else []
    texts += [f"behind it {_crossed(piece.left)}"] if piece.left is not None else []
    return "; ".join(texts)


def _crossed(boundary: Boundary) -> str:
    words = [show.size(boundary.bytes) + " cross"] if boundary.copies else ["nothing crosses"]
    if boundary.cycles:
        words.append(f"{show.whole(boundary.cycles)} cycles between")
    if boundary.copies:
        words.append(f"{show.whole(boundary.copy_cycles)} {'' if boundary.cycles else 'cycles '}of copies")
    if boundary.handover_cycles:
        words.append(f"{show.whole(boundary.handover_cycles)} of handover")
    return ", ".join(words)


LONGEST_NAME = 60


def summary(result: JobResult) -> RenderableType:
    """Return the summary of a `JobResult` for a terminal."""
    heading = Text.assemble(
        (show.printable(result.model), "bold"), " on ", (show.printable(result.hardware.name), "bold"), "\n"
    )
    said = dict.fromkeys(text for program in result.executable.programs for text in caveats(program))
    warnings = [Text(f"{caveat}\n", style="bold red") for caveat in said]
    return Group(heading, *warnings, _sums(result), Text(), _programs(result))


def _sums(result: JobResult) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    launches = sum(program.launches for program in result.programs)
    table.add_row(
        "Latency",
        show.time(result.latency_ms),
        f"{show.whole(result.cycles)} cycles in {show.whole(launches)} launches of "
        f"{show.plural(len(result.programs), 'program')}\n{result.uncertainty.words('latency')}",
    )
    energy = f"with DRAM and host\n{result.uncertainty.words('energy')}"
    table.add_row("Energy", show.energy(result.energy_uj), energy)
    read, write, fetched = result.dram_bytes.read, result.dram_bytes.write, result.dram_bytes.instructions
    table.add_row(
        "DRAM",
        show.size(read + write + fetched),
        f"read {show.size(read)}, write {show.size(write)}, instructions {show.size(fetched)}",
    )
    table.add_row("Work", show.count(result.macs), "MACs")
    table.add_row("Decided", _decisions(result), "as was said" if result.assumed else "by the data")
    return table


def _decisions(result: JobResult) -> str:
    """Return the decisions as text: "loop 10", or "loop 10 (3 times)" if it was decided so three times."""
    counts = Counter(result.decisions)
    return "\n".join(
        f"{show.shortened(name, LONGEST_NAME)} {number}" + (f" ({count} times)" if count > 1 else "")
        for (name, number), count in counts.items()
    )


def _programs(result: JobResult) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("program")
    for name in ("launches", "instructions", "cycles", "share", "energy", "DRAM"):
        table.add_column(name, justify="right")
    for program in result.programs:
        dram = program.dram_bytes
        table.add_row(
            show.shortened(program.name, LONGEST_NAME),
            show.whole(program.launches),
            show.whole(program.instructions),
            show.whole(program.cycles),
            show.percent(program.cycles / result.cycles if result.cycles else 0.0),
            show.energy(program.energy_uj),
            show.size(dram.read + dram.write + dram.instructions),
        )
    return table
