"""The hardware of simulated devices, and the properties that change it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from npusim.frontends.nnadapter.nnadapter_codes import InvalidParameter
from npusim.isa.base.errors import HardwareError
from npusim.isa.hardware import file as hardware_file
from npusim.isa.hardware.hardware import Hardware
from npusim.nnadapter.hal.driver import Parser, Properties
from npusim.nnadapter.hal.properties import above_zero
from npusim.session import api
from npusim.session.options import Options

ORDER, COST, SINGLE = "order", "cost", "single"
MODES = (ORDER, COST, SINGLE)
"""How a model is partitioned: each operation on the first capable device, by measured cost, or all on one device."""

COMMON = "NPUSIM"
"""Prefix of keys for all simulated devices of a context. Keys with a device's own name in capitals as prefix take
precedence."""


class MachineKey(NamedTuple):
    """A property of simulated devices; `name` is its key without prefix.

    means:   its description in the manual.
    changes: (hardware, value) -> the parameters of the hardware file that it changes; None if it changes none.
    host:    whether it belongs to the host CPU.
    """

    name: str
    parser: Parser
    means: str
    changes: Callable[[Hardware, Any], Mapping[str, Any]] | None = None
    host: bool = False


def _machine(text: str) -> Hardware:
    return api.hardware(text)


def _real(text: str) -> float:
    number = float(text)
    if not 0 < number < 1e9:
        raise ValueError("must be a number above 0")
    return number


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def mode(text: str) -> str:
    """Parse a partition mode. Raises ValueError."""
    if text not in MODES:
        raise ValueError(f"may be {', '.join(MODES)}")
    return text


def _effort(text: str) -> str:
    Options(text).require_sound()
    return text


def _macs(hardware: Hardware, macs: int) -> Mapping[str, Any]:
    """Return the array with as many columns as multipliers need, and its widths and memories scaled along."""
    array = hardware.mac_array
    if array.kind != "systolic":
        raise InvalidParameter(
            f"{hardware.name}: an array of the kind {array.kind} has no columns; name another machine with HW"
        )
    columns, rest = divmod(macs, array.rows)
    if rest or not columns:
        raise InvalidParameter(
            f"{hardware.name}: {macs} multipliers; must be a multiple of the {array.rows} rows of its array"
        )

    def grown(value: int) -> int:
        return max(1, value * columns // array.columns)

    return {
        "mac_array.columns": columns,
        "mac_array.weight_bytes_per_cycle": grown(array.weight_bytes_per_cycle),
        "mac_array.output_lanes": grown(array.output_lanes),
        "mac_array.accumulator_kib": grown(array.accumulator_kib),
    }


def _sets(path: str) -> Callable[[Hardware, Any], Mapping[str, Any]]:
    return lambda _, value: {path: value}


# fmt: off
KEYS: tuple[MachineKey, ...] = (
    MachineKey("HW", _machine, "the machine: a hardware preset or file, in place of the device's own"),
    MachineKey("MACS", above_zero, "multipliers of the array: its columns, and what goes with them", _macs),
    MachineKey("CLOCK_MHZ", _real, "clock of the NPU", _sets("clock_mhz")),
    MachineKey("SCRATCHPAD_KIB", above_zero, "size of the scratchpad", _sets("scratchpad.size_kib")),
    MachineKey("DRAM_GB_PER_S", _real, "bandwidth of the DRAM", _sets("dram.bandwidth_gb_per_s")),
    MachineKey("LACKS_OPERATORS", _names, "operators that the NPU lacks: A,B,...", _sets("lacks_operators")),
    MachineKey("EFFORT", _effort, "effort of the compiler: fast, high, or how many schedules it tries"),
    MachineKey("HOST_CORE", str.strip, "core of the host's CPU", _sets("host.core"), True),
    MachineKey("HOST_THREADS", above_zero, "threads of the host", _sets("host.threads"), True),
    MachineKey("HOST_CLOCK_MHZ", _real, "clock of the host", _sets("host.clock_mhz"), True),
)
# fmt: on

PARTITION = f"{COMMON}_PARTITION"


def own_prefix(device: str) -> str:
    """Return the prefix of a device's keys: its name in capitals."""
    return "".join(letter if letter.isalnum() else "_" for letter in device).upper()


def keys_of(device: str, host: bool) -> dict[str, Parser]:
    """Return the parsers of a simulated device's keys; `host` if it is a CPU."""
    rows = [row for row in KEYS if row.host or not host]
    keys: dict[str, Parser] = {PARTITION: mode}
    for prefix in dict.fromkeys((COMMON, COMMON if host else own_prefix(device))):
        keys |= {f"{prefix}_{row.name}": row.parser for row in rows}
    return keys


def value_of(properties: Properties, device: str, name: str) -> Any:
    """Return a property of a device, its own or else that of all devices; None if it is not set."""
    for prefix in (own_prefix(device), COMMON):
        value = properties.get(f"{prefix}_{name}")
        if value is not None:
            return value
    return None


def changed(hardware: Hardware, device: str, properties: Properties) -> Hardware:
    """Return the hardware of a device with its properties applied. Raises InvalidParameter for illegal hardware."""
    machine = value_of(properties, device, "HW") or hardware
    changes: dict[str, Any] = {}
    for row in KEYS:
        value = value_of(properties, device, row.name)
        if value is not None and row.changes is not None:
            changes |= row.changes(machine, value)
    return with_changes(machine, changes, device)


def with_changes(machine: Hardware, changes: Mapping[str, Any], device: str) -> Hardware:
    """Return hardware with parameters changed. Raises InvalidParameter for illegal hardware."""
    try:
        return hardware_file.change(machine, changes, f"properties of {device}") if changes else machine
    except HardwareError as fault:
        raise InvalidParameter(str(fault)) from None


def sharing(machine: Hardware, owner: Hardware) -> Hardware:
    """Return hardware as a core of a system, with the memories and the host of the system's owner.

    Inputs and outputs are not placed in its scratchpad, because other devices read and write them. Raises
    InvalidParameter if scratchpad and memories do not go together.
    """
    shared = machine.model_copy(
        update={
            "dram": owner.dram,
            "memory": owner.memory,
            "host": owner.host,
            "scratchpad": machine.scratchpad.model_copy(update={"holds": ()}),
            "technology": machine.technology.model_copy(update={"dram": owner.technology.dram}),
        }
    )
    return with_changes(shared, {"host.threads": shared.host.threads}, machine.name)
