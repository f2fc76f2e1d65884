"""Read system files: cores of any hardware that share memories and a host, checked as hardware files are.

    name = "two-cores"
    [[core]]
    hardware = "edge-128"       # a preset, or a file relative to this one
    count = 2
    [dram]                      # optional: keys that all cores have instead of those of their own files
    bandwidth_gb_per_s = 1.0

All faults of a file are reported at once, in one line.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from npusim.isa.base import user_file
from npusim.isa.base.errors import HardwareError, nearest
from npusim.isa.base.fields import Fault, Section, positive, text
from npusim.isa.base.lazy_dataclass import dataclass
from npusim.isa.base.toml_file import listed, read, short
from npusim.isa.hardware.file import extend, hardware, sources
from npusim.isa.hardware.hardware import Hardware

MOST_CORES = 64
"""Maximum number of cores in all tables together."""


class CoreTable(Section):
    """A table `[[core]]`: cores that are alike."""

    hardware: str = text(
        "a preset, or a hardware file relative to the system file", max_length=4096, min_length=1
    )
    count: int = positive("number of cores of this hardware", default=1, le=MOST_CORES)


class SystemTable(Section):
    """The keys of a system file outside of its tables."""

    name: str = text("name in reports and messages", max_length=64, min_length=1)


@dataclass(frozen=True, slots=True)
class SystemHardware:
    """The cores of a system, which share the memories behind ports, and take turns at a host."""

    name: str
    cores: tuple[Hardware, ...]

    def distinct(self) -> dict[Hardware, list[int]]:
        """Return each hardware of the system with the numbers of its cores."""
        numbers: dict[Hardware, list[int]] = {}
        for number, core in enumerate(self.cores):
            numbers.setdefault(core, []).append(number)
        return numbers


def system(path: str | Path) -> SystemHardware:
    """Read a system file (TOML). Raises HardwareError, whose one line lists all faults of the file."""
    path = Path(path)
    values = read(path, str(path), user_file.SYSTEM, HardwareError)
    faults: dict[str, str] = {}
    _check(
        SystemTable, {key: item for key, item in values.items() if key not in ("core", "dram")}, "", faults
    )
    tables, dram = values.get("core"), values.get("dram", {})
    if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
        faults["core"] = f"{short(tables)} is not a list of tables [[core]], one at least"
        tables = []
    if not isinstance(dram, dict):
        faults["dram"] = f"{short(dram)} is not a table"
        dram = {}
    cores: list[Hardware] = []
    for number, table in enumerate(tables):
        checked = _check(CoreTable, table, f"core.{number}.", faults)
        if checked is None:
            continue
        try:
            machine = (
                extend(checked.hardware, {"dram": dram}, path) if dram else _located(checked.hardware, path)
            )
        except HardwareError as fault:
            faults[f"core.{number}.hardware"] = str(fault)
            continue
        cores += [machine] * checked.count
    if len(cores) > MOST_CORES:
        faults["core"] = f"{len(cores)} cores, must be at most {MOST_CORES}"
    for other in cores[1:]:
        if differing := _differing(cores[0], other):
            remedy = (
                "a table [dram] in this file with these keys is that of all cores"
                if differing[0].startswith("dram.")
                else "extend one of them in a file with the values of the other"
            )
            faults["core"] = (
                f"{cores[0].name} and {other.name} differ in {', '.join(differing)}, which cores share; {remedy}"
            )
    if faults:
        raise HardwareError(f"{path}: {listed(faults)}")
    return SystemHardware(values["name"], tuple(cores))


def is_system(name: str) -> bool:
    """Return whether a name is that of a system file: a TOML file with tables `[[core]]`."""
    path = Path(name)
    return (
        path.suffix == ".toml"
        and path.is_file()
        and "core" in read(path, str(path), user_file.SYSTEM, HardwareError)
    )


def system_sources(path: str | Path) -> tuple[Path, ...]:
    """Return the files that a system is read from: its own, and those of its cores. Raises HardwareError."""
    path = Path(path)
    values = read(path, str(path), user_file.SYSTEM, HardwareError)
    tables = values.get("core")
    named = (
        [table.get("hardware") for table in tables if isinstance(table, dict)]
        if isinstance(tables, list)
        else []
    )
    files = [file for name in named if isinstance(name, str) for file in sources(name, path.parent)]
    return (path, *dict.fromkeys(files))


def _differing(one: Hardware, other: Hardware) -> list[str]:
    """Return the keys of memories that cores share, and that two cores have with different values."""
    keys = [
        f"dram.{key}"
        for key in type(one.dram).model_fields
        if getattr(one.dram, key) != getattr(other.dram, key)
    ]
    # The type of the DRAM sets its energy, which is counted once.
    keys += ["technology.dram"] * (one.has_dram and one.technology.dram != other.technology.dram)
    return keys + ["[[memory]]"] * (one.memory != other.memory)


def _located(name: str, path: Path) -> Hardware:
    """Return a preset, or the hardware of a file relative to the system file."""
    beside = path.parent / name
    return hardware(beside if beside.is_file() else name)


def _check(table: type[Section], values: dict[str, Any], prefix: str, faults: dict[str, str]) -> Any:
    """Return a checked table, or None after its faults were added."""
    violations: list[Fault] = []
    checked = table.read(values, (), violations)
    for fault in violations:
        key = str(fault.keys[0])
        if fault.kind == "unknown":
            near = nearest(key, table.model_fields)
            known = f"did you mean {near}?" if near else f"known here: {', '.join(table.model_fields)}"
            faults[prefix + key] = f"unknown key, {known}"
        elif fault.kind == "missing":
            faults[prefix + key] = f"is missing, must be {table.model_fields[key].allowed}"
        else:
            faults[prefix + key] = f"{short(fault.value)} is not {table.model_fields[key].allowed}"
    return None if violations else checked
