"""What a run says of its machine, or of the devices that it ran on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npusim.reports.words import quantities as show

if TYPE_CHECKING:
    from npusim.isa.hardware.hardware import Hardware
    from npusim.numbers.run import DeviceResult, RunResult


def npus(result: RunResult) -> list[tuple[str, Hardware]]:
    """The NPUs that worked, with the names that tell devices apart: empty for one alone."""
    several = result.several_devices
    return [(show.printable(name) if several else "", hardware) for name, hardware in result.npus]


def lines(result: RunResult) -> list[str]:
    """The machine in a line; several devices in one each, and one for what they share."""
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
    """The host of a machine: "2 x cortex-a53 at 1800 MHz"."""
    host = hardware.host
    cores = f"{host.threads} x " if host.threads > 1 else ""
    return f"{cores}{host.core}" + (f" at {host.clock_mhz:g} MHz" if host.clock_mhz else "")


def _clock(result: RunResult) -> list[str]:
    """Whose cycles they are, where they are not those of the machine that worked."""
    ((_, hardware),) = npus(result)
    return [_cycles(result)] if hardware.clock_mhz != result.hardware.clock_mhz else []


def _cycles(result: RunResult) -> str:
    first = show.printable(result.devices[0].name)
    return f"cycles are those of {first}, {result.hardware.clock_mhz:g} MHz"


def utilization(result: RunResult) -> str:
    """What the utilization of the multipliers is of: "3.5 of 128 MACs/cycle"."""
    if result.several_devices:
        return "of the multipliers of the NPU at work"
    ((_, hardware),) = npus(result)
    return f"{show.digits(result.mac_utilization * hardware.macs_per_cycle)} of {hardware.macs_per_cycle} MACs/cycle"


def nodes(result: RunResult) -> str:
    """The process nodes of the machines: "22 nm"."""
    hardware = [device.hardware for device in result.devices if not device.is_cpu] or [result.hardware]
    return ", ".join(dict.fromkeys(f"{each.technology.node_nm} nm" for each in hardware))


def scratchpads(result: RunResult) -> list[tuple[str, int, int]]:
    """Of each NPU its name, most bytes of its scratchpad that a program sets aside at a time, and its size."""
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
