"""Rules that several fields of a hardware description must keep together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

from npusim.isa.base.errors import visible
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.engines.engine import ArrayRule, Engine
from npusim.isa.engines.kinds import ENGINES, kind_fault
from npusim.isa.hardware.cpu import core_fault
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.memories import CONTENTS, UNPRICED, WRITTEN, FurtherMemory, Port, Space
from npusim.isa.hardware.voltage import clock_fault, rated_fault, supply_fault


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: the field it is reported at, the fields it reads, and the fault (None when it holds)."""

    path: str
    reads: tuple[str, ...]
    fault: Callable[[Hardware], str | None]


def _power_of_two(section: str, field: str) -> Rule:
    def fault(hardware: Hardware) -> str | None:
        return _no_power_of_two(getattr(getattr(hardware, section), field))

    return Rule(f"{section}.{field}", (), fault)


def _no_power_of_two(value: int) -> str | None:
    below = 1 << (value.bit_length() - 1)
    return None if value == below else f"{value} is not a power of two, such as {below} or {2 * below}"


def _name(hardware: Hardware) -> str | None:
    return None if visible(hardware.name) else "must be printable text on one line"


def _holds_burst(port: Port, path: str, field: str) -> str | None:
    size, burst = getattr(port, field), port.burst_bytes
    return None if size >= burst else f"{size} is less than one burst ({path}.burst_bytes = {burst})"


def _dram_holds_scratchpad(hardware: Hardware) -> str | None:
    if hardware.dram_bytes >= hardware.scratchpad_bytes or hardware.holder("activations") != Space.DRAM:
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
    size_kib, multipliers = hardware.scratchpad.size_kib, hardware.macs_per_cycle
    if size_kib >= least_kib:
        return None
    return f"{size_kib} is too small for {multipliers} multipliers, at least {least_kib}"


def _float_columns(element: str, hardware: Hardware) -> str | None:
    """Return a fault if more columns compute a floating-point type than the array has."""
    number, columns = getattr(hardware.mac_array, f"{element}_columns"), hardware.mac_array.columns
    return f"{number} of {columns} columns, at most all of them" if number > columns else None


def _of_engine(engine: Engine, rule: ArrayRule) -> Rule:
    """Return the rule of a MAC engine type as a rule of the hardware; other engine types always keep it."""

    def fault(hardware: Hardware) -> str | None:
        array = hardware.mac_array
        return rule.fault(array) if array.kind == engine.kind else None

    reads = tuple(f"mac_array.{name}" for name in ("kind", *rule.reads))
    return Rule(f"mac_array.{rule.field}", reads, fault)


def _lacks_once(hardware: Hardware) -> str | None:
    repeated = [name for name, number in Counter(hardware.lacks_operators).items() if number > 1]
    return f"names {', '.join(repeated)} more than once" if repeated else None


RATED_POINT = ("technology.node_nm", "technology.rated_mhz", "technology.rated_v")

RULES: tuple[Rule, ...] = (
    Rule("name", (), _name),
    Rule("lacks_operators", (), _lacks_once),
    _power_of_two("dram", "row_bytes"),
    _power_of_two("dram", "banks"),
    _power_of_two("dram", "burst_bytes"),
    _power_of_two("dram", "grant_bytes"),
    Rule(
        "dram.row_bytes",
        ("dram.burst_bytes",),
        lambda hardware: _holds_burst(hardware.dram, "dram", "row_bytes"),
    ),
    Rule(
        "dram.grant_bytes",
        ("dram.burst_bytes",),
        lambda hardware: _holds_burst(hardware.dram, "dram", "grant_bytes"),
    ),
    Rule("dram.size_mib", ("scratchpad.size_kib",), _dram_holds_scratchpad),
    _power_of_two("scratchpad", "port_bytes"),
    Rule("scratchpad.banks", ("scratchpad.size_kib", "scratchpad.port_bytes"), _banks),
    Rule("mac_array.kind", (), lambda hardware: kind_fault(hardware.mac_array.kind)),
    Rule(
        "scratchpad.size_kib",
        ("mac_array.kind", *(key for engine in ENGINES for key in engine.sizes)),
        _scratchpad_size,
    ),
    *(
        Rule(f"mac_array.{element}_columns", ("mac_array.columns",), partial(_float_columns, element))
        for element in ("float16", "float32")
    ),
    *(_of_engine(engine, rule) for engine in ENGINES for rule in engine.rules),
    Rule("host.core", (), lambda hardware: core_fault(hardware.host.core)),
    Rule("technology.rated_v", ("technology.node_nm",), rated_fault),
    Rule("clock_mhz", RATED_POINT, clock_fault),
    Rule("technology.vdd_v", ("clock_mhz", *RATED_POINT), supply_fault),
)


RESERVED = (
    *("scratchpad", "dram", "name", "mac_array", "accumulator", "output_stage", "vector", "interconnect"),
    *("control", "system", "host"),
)
"""Names of other components, which no further memory may have."""


def _memory_faults(hardware: Hardware) -> Iterator[tuple[str, str]]:
    """Yield the path and the fault of every key of a further memory that breaks a rule."""
    times = Counter(memory.name for memory in hardware.memory)
    for memory in hardware.memory:
        path = f"memory.{memory.name}"
        if times[memory.name] > 1:
            yield f"{path}.name", f"{times[memory.name]} memories have this name"
        if memory.name in RESERVED:
            yield (
                f"{path}.name",
                f"{memory.name} is the name of another part; it may be none of {', '.join(RESERVED)}",
            )
        for field in ("row_bytes", "burst_bytes", "grant_bytes"):
            fault = _no_power_of_two(getattr(memory, field)) or _holds_burst(memory, path, field)
            if fault is not None:
                yield f"{path}.{field}", fault
        yield from _clock_faults(memory, path)
        if (fault := _no_power_of_two(memory.banks)) is not None:
            yield f"{path}.banks", fault
        yield from _price_faults(memory, path)
    yield from _holds_faults(hardware)


def _clock_faults(memory: FurtherMemory, path: str) -> Iterator[tuple[str, str]]:
    """Yield faults of a memory whose speed is not given in exactly one way: in time, or in cycles of its clock."""
    access, given = memory.access_bytes, memory.bandwidth_gb_per_s is not None
    if memory.clock_ratio is None:
        if not given:
            yield f"{path}.bandwidth_gb_per_s", "is missing; give it, or clock_ratio and access_bytes"
        for field in ("access_bytes", "latency_cycles"):
            if getattr(memory, field) is not None:
                yield f"{path}.{field}", f"{getattr(memory, field)} without clock_ratio; give that, too"
        return
    if given:
        text = f"{memory.bandwidth_gb_per_s:g} beside clock_ratio; clock_mhz / clock_ratio x access_bytes says it"
        yield f"{path}.bandwidth_gb_per_s", text
    if access is None:
        yield f"{path}.access_bytes", "is missing; clock_ratio needs it"
    elif (fault := _no_power_of_two(access)) is not None:
        yield f"{path}.access_bytes", fault
    elif access > memory.burst_bytes:
        text = f"{access} is more than one burst ({path}.burst_bytes = {memory.burst_bytes})"
        yield f"{path}.access_bytes", text
    if memory.latency_cycles is not None and memory.latency_ns:
        text = (
            f"{memory.latency_cycles} beside latency_ns = {memory.latency_ns:g}; one of them is 0 or absent"
        )
        yield f"{path}.latency_cycles", text


def _price_faults(memory: FurtherMemory, path: str) -> Iterator[tuple[str, str]]:
    """Yield faults of a memory whose energy, power or area is missing, and of an off-chip memory with an area."""
    needed = (
        "read_pj_per_byte",
        *(("write_pj_per_byte",) if memory.is_written else ()),
        "standby_mw",
        "area_mm2",
    )
    if memory.kind in UNPRICED:
        for field in needed:
            if getattr(memory, field) is None:
                yield (
                    f"{path}.{field}",
                    f"is missing; npusim has no figure for {memory.kind}, give that of yours",
                )
    if not memory.on_chip and memory.area_mm2 is not None:
        yield f"{path}.area_mm2", f"{memory.area_mm2:g} for a {memory.kind}, which is no part of the chip"


def _holds_faults(hardware: Hardware) -> Iterator[tuple[str, str]]:
    """Yield faults of contents placed in two memories, or placed in a read-only memory although they are written."""
    holders = {"scratchpad": hardware.scratchpad.holds} | {
        f"memory.{m.name}": m.holds for m in hardware.memory
    }
    for content in CONTENTS:
        paths = [path for path, holds in holders.items() for held in holds if held == content]
        if len(paths) > 1:
            yield f"{paths[1]}.holds", f"{content} are held by {paths[0]} already"
    for memory in hardware.memory:
        written = [content for content in memory.holds if content in WRITTEN]
        if written and not memory.writable:
            text = f"a {memory.kind} cannot be written and so cannot hold {' and '.join(written)}"
            yield f"memory.{memory.name}.holds", text


def broken_rules(hardware: Hardware, unless: tuple[str, ...] = ()) -> dict[str, str]:
    """Return the faults of all broken rules by dotted path.

    A rule that reads a faulty field is skipped. Faulty are the paths `unless`, the fields below them, and the fields at
    which an earlier rule reported a fault.
    """
    faults: dict[str, str] = {}
    for rule in RULES:
        bad = tuple(f"{path}." for path in (*unless, *faults))
        if bad and any(f"{path}.".startswith(bad) for path in (rule.path, *rule.reads)):
            continue
        text = rule.fault(hardware)
        if text is not None:
            faults[rule.path] = text
    for path, fault in _memory_faults(hardware):
        faults.setdefault(path, fault)
    return faults
