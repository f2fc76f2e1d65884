"""What a run says of its machine, or of the devices that it ran on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.reports.words import quantities as show

if TYPE_CHECKING:
    from npusim.isa.hardware.hardware import Hardware
    from npusim.numbers.run import RunResult


def at_work(result: RunResult) -> list[tuple[str, Hardware]]:
    """The machines that worked, with the names that tell them apart: empty for one alone."""
    if not result.at_work:
        return [("", result.hardware)]
    several = result.several_devices
    return [(show.printable(device.name) if several else "", device.hardware) for device in result.at_work]


def lines(result: RunResult) -> list[str]:
    """The machine in a line; several devices in one each, and one for what they share."""
    if not result.several_devices:
        (_, hardware), *_ = at_work(result)
        *parts, node = show.machine(hardware).split(", ")
        return [", ".join([*parts, show.ports(hardware), node]), *_clock(result, hardware)]
    own = [f"{name}: {show.machine(hardware)}" for name, hardware in at_work(result)]
    first = show.printable(result.devices[0].name)
    shared = f"sharing {show.ports(result.hardware)}; cycles are those of {first}, {result.hardware.clock_mhz:g} MHz"
    return [*own, shared]


def _clock(result: RunResult, hardware: Hardware) -> list[str]:
    """Whose cycles they are, where they are not those of the machine that worked."""
    if hardware.clock_mhz == result.hardware.clock_mhz:
        return []
    first = show.printable(result.devices[0].name)
    return [f"cycles are those of {first}, {result.hardware.clock_mhz:g} MHz"]


def utilization(result: RunResult) -> str:
    """What the utilization of the multipliers is of: "3.5 of 128 MACs/cycle"."""
    machines = at_work(result)
    if len(machines) > 1:
        return "of the multipliers of the device at work"
    (_, hardware), *_ = machines
    return f"{show.digits(result.mac_utilization * hardware.macs_per_cycle)} of {hardware.macs_per_cycle} MACs/cycle"


def nodes(result: RunResult) -> str:
    """The process nodes of the machines: "22 nm"."""
    hardware = [device.hardware for device in result.devices] or [result.hardware]
    return ", ".join(dict.fromkeys(f"{each.technology.node_nm} nm" for each in hardware))


def scratchpads(result: RunResult) -> list[tuple[str, int, int]]:
    """Of each machine its name, most bytes of its scratchpad that a program sets aside at a time, and its size."""
    if not result.at_work:
        return [("", result.scratchpad_peak_bytes, result.hardware.scratchpad_bytes)]
    several = result.several_devices
    return [
        (
            show.printable(device.name) if several else "",
            max(
                stage.program.scratchpad_peak_bytes for stage in result.stages if stage.device == device.core
            ),
            device.hardware.scratchpad_bytes,
        )
        for device in result.at_work
    ]
