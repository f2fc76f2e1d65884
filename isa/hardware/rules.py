"""Rules between the fields of a hardware description: what each single field's range cannot say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from npusim.isa.base.printable import visible
from npusim.isa.engines.engine import ArrayRule, Engine
from npusim.isa.engines.kinds import ENGINES, kind_fault
from npusim.isa.hardware.cpu import core_fault
from npusim.isa.hardware.hardware import Hardware


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: the field it is reported at, the fields it reads, and the fault (None when it holds)."""

    path: str
    reads: tuple[str, ...]
    fault: Callable[[Hardware], str | None]


def _power_of_two(section: str, field: str) -> Rule:
    def fault(hardware: Hardware) -> str | None:
        value: int = getattr(getattr(hardware, section), field)
        below = 1 << (value.bit_length() - 1)
        if value == below:
            return None
        return f"{value} is not a power of two, such as {below} or {2 * below}"

    return Rule(f"{section}.{field}", (), fault)


def _name(hardware: Hardware) -> str | None:
    return None if visible(hardware.name) else "must be printable text on one line"


def _row_holds_burst(hardware: Hardware) -> str | None:
    row, burst = hardware.dram.row_bytes, hardware.dram.burst_bytes
    return None if row >= burst else f"{row} is less than one burst (dram.burst_bytes = {burst})"


def _grant_holds_burst(hardware: Hardware) -> str | None:
    grant, burst = hardware.dram.grant_bytes, hardware.dram.burst_bytes
    return None if grant >= burst else f"{grant} is less than one burst (dram.burst_bytes = {burst})"


def _dram_holds_scratchpad(hardware: Hardware) -> str | None:
    if hardware.dram_bytes >= hardware.scratchpad_bytes:
        return None
    return f"{hardware.dram.size_mib} is less than the scratchpad ({hardware.scratchpad.size_kib} KiB)"


def _banks(hardware: Hardware) -> str | None:
    size, banks, port = hardware.scratchpad_bytes, hardware.scratchpad.banks, hardware.scratchpad.port_bytes
    if size % banks == 0 and size // banks % port == 0:
        return None
    return f"{banks} does not divide {size} bytes into banks of whole {port}-byte words"


def _scratchpad_size(hardware: Hardware) -> str | None:
    # Two stationary weight blocks (one in use, one on its way), and the same again for feature maps.
    least_kib = max(4, -(-4 * hardware.macs_per_cycle // 1024))
    if hardware.scratchpad.size_kib >= least_kib:
        return None
    rows, columns = hardware.mac_array.rows, hardware.mac_array.columns
    return f"{hardware.scratchpad.size_kib} is too small for a {rows} x {columns} array, at least {least_kib}"


def _of_engine(engine: Engine, rule: ArrayRule) -> Rule:
    """A rule of a kind of MAC array: it holds for the others."""

    def fault(hardware: Hardware) -> str | None:
        array = hardware.mac_array
        return rule.fault(array) if array.kind == engine.kind else None

    reads = tuple(f"mac_array.{name}" for name in ("kind", *rule.reads))
    return Rule(f"mac_array.{rule.field}", reads, fault)


RULES: tuple[Rule, ...] = (
    Rule("name", (), _name),
    _power_of_two("dram", "row_bytes"),
    _power_of_two("dram", "burst_bytes"),
    _power_of_two("dram", "grant_bytes"),
    Rule("dram.row_bytes", ("dram.burst_bytes",), _row_holds_burst),
    Rule("dram.grant_bytes", ("dram.burst_bytes",), _grant_holds_burst),
    Rule("dram.size_mib", ("scratchpad.size_kib",), _dram_holds_scratchpad),
    _power_of_two("scratchpad", "port_bytes"),
    Rule("scratchpad.banks", ("scratchpad.size_kib", "scratchpad.port_bytes"), _banks),
    Rule("mac_array.kind", (), lambda hardware: kind_fault(hardware.mac_array.kind)),
    Rule("scratchpad.size_kib", ("mac_array.kind", "mac_array.rows", "mac_array.columns"), _scratchpad_size),
    *(_of_engine(engine, rule) for engine in ENGINES for rule in engine.rules),
    Rule("host.core", (), lambda hardware: core_fault(hardware.host.core)),
)


def broken_rules(hardware: Hardware, unless: tuple[str, ...] = ()) -> dict[str, str]:
    """Faults by dotted path. A rule that reads a faulty field is skipped: one of the paths `unless`, a field
    below one, or one that an earlier rule has found.
    """
    faults: dict[str, str] = {}
    for rule in RULES:
        bad = tuple(f"{path}." for path in (*unless, *faults))
        if any(f"{path}.".startswith(bad) for path in (rule.path, *rule.reads)):
            continue
        found = rule.fault(hardware)
        if found is not None:
            faults[rule.path] = found
    return faults
