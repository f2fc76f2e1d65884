"""Read hardware files (presets and user TOML) into a checked `Hardware`, and write them.

    extends = "edge-128"        # a preset, or a file relative to this one
    [scratchpad]
    size_kib = 1024

All faults of a file are reported at once, in one line.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from os.path import realpath
from pathlib import Path
from typing import Any

from npusim.isa.base import user_file
from npusim.isa.base.errors import HardwareError, nearest, visible
from npusim.isa.base.fields import Fault
from npusim.isa.base.toml_file import listed, merged, read, short
from npusim.isa.hardware.cpu import CORE_NAMES
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.memories import MOST_FURTHER
from npusim.isa.hardware.parameters import (
    ANY_NAME,
    MEMORY,
    known_paths,
    parameter,
    unread,
    why_unread,
    without_unread,
)
from npusim.isa.hardware.rules import broken_rules
from npusim.isa.hardware.voltage import with_rated_point

PRESETS = Path(__file__).parent / "presets"

MOST_COMPARED = 40
"""Maximum number of unknown keys for which a known key is suggested; a message has no space for more."""


def list_presets() -> tuple[str, ...]:
    """Return the names of the presets in the package, by family and size; hosts, named after their core, come last."""

    def family_and_size(name: str) -> tuple[bool, str, int]:
        family, _, size = name.rpartition("-")
        is_host = name in CORE_NAMES
        return (is_host, family, int(size)) if size.isdigit() else (is_host, name, 0)

    return tuple(sorted((file.stem for file in PRESETS.glob("*.toml")), key=family_and_size))


def hardware(name_or_path: str | Path) -> Hardware:
    """Return the hardware of a preset name or a TOML file. Raises HardwareError with every fault in one line."""
    return _load(_locate(name_or_path), ())


def sources(name_or_path: str | Path, folder: Path | None = None) -> tuple[Path, ...]:
    """Return the files that a hardware is read from: its own file, then the one that it extends, and so on.

    Presets are left out. A path is relative to `folder`, if given. Raises HardwareError for a file that cannot be read.
    """
    files: list[Path] = []
    path = _locate(name_or_path, folder)
    while path.parent != PRESETS and path not in files:
        files.append(path)
        extends = read(path, _shown(path), user_file.HARDWARE, HardwareError).get("extends")
        if not isinstance(extends, str):
            break
        path = _locate(extends, path.parent)
    return tuple(files)


def from_dict(values: Mapping[str, Any], source: str = "hardware", given: Iterable[str] = ()) -> Hardware:
    """Check plain values, nested as in the file, into a Hardware; the inverse of `to_dict`.

    source: prefix of the message of a HardwareError, which names where the values come from.
    given:  paths among `values` that a user set for this machine: one that the machine does not read is a fault.
            Other values that it does not read are dropped, because they may be inherited from another type of machine.
    """
    if not isinstance(values, Mapping):
        raise HardwareError(f"{source}: {short(values)} is not a table")
    faults: dict[str, str] = {}
    checked = _validated(values, faults)
    if checked is None:
        # Rules between fields are judged with defaults in place of the faulty fields, so that one
        # run reports both kinds; a rule that reads a faulty field stays silent.
        checked = _validated(_without(values, faults), {})
    if checked is not None:
        reasons = unread(checked)
        silent = {path: why for path in given if (why := why_unread(checked, path, reasons))}
        faults = silent | faults
        checked = with_rated_point(without_unread(checked, reasons))
        faults.update(broken_rules(checked, unless=tuple(faults)))
    if faults or checked is None:
        raise HardwareError(f"{source}: {listed(faults)}")
    return checked


def to_dict(value: Hardware) -> dict[str, Any]:
    """Return every parameter that the machine reads as plain values, nested as in the file.

    Unset parameters and empty lists are left out.
    """
    plain: dict[str, Any] = _plain(value.model_dump(exclude_none=True))
    for path in unread(value):
        *tables, key = path.split(".")
        table: Any = plain
        for name in tables:
            table = _named(table, name) if isinstance(table, list) else table.get(name, {})
        table.pop(key, None)
    return plain


def _plain(value: Any) -> Any:
    """Return tuples as lists; empty ones are left out, because an absent key means the same."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items() if item != ()}
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def to_toml(value: Hardware) -> str:
    """Return the text of a hardware file with every parameter; reading it gives an equal Hardware."""
    plain = to_dict(value)
    memories = plain.pop(MEMORY, ())
    lines = list(_table_lines(plain, ""))
    for table in memories:
        lines += ["", f"[[{MEMORY}]]", *_table_lines(table, MEMORY)]
    return "\n".join(lines) + "\n"


def _table_lines(table: Mapping[str, Any], path: str) -> Iterator[str]:
    """Yield the lines of a table: its keys, then the tables in it."""
    for key, item in table.items():
        if not isinstance(item, dict):
            yield f"{key} = {toml_value(item)}"
    for key, item in table.items():
        if isinstance(item, dict):
            below = f"{path}.{key}" if path else key
            yield from ("", f"[{below}]", *_table_lines(item, below))


def change(
    value: Hardware, changes: Mapping[str, Any], source: str = "hardware", *, all_read: bool = True
) -> Hardware:
    """Return a copy with parameters changed by dotted path ("scratchpad.size_kib": 512), checked as a whole.

    The path of a further memory contains its name: "memory.flash.size_kib". Unless `all_read` is false, changing a key
    that the changed machine does not read is a fault.
    """
    plain = to_dict(value)
    for path, item in changes.items():
        *tables, key = path.split(".")
        table: Any = plain
        for name in tables:
            table = _named(table, name) if isinstance(table, list) else table.setdefault(name, {})
            if table is None:
                known = [memory.name for memory in value.memory]
                near = nearest(name, known)
                hint = f"did you mean {near}?" if near else f"there are {', '.join(known)}"
                raise HardwareError(f"{source}: 1 fault: {path}: no memory has this name, {hint}")
            if not isinstance(table, dict | list):
                raise HardwareError(f"{source}: 1 fault: {path}: {_unknown(path, item)}")
        if isinstance(table, list):
            raise HardwareError(f"{source}: 1 fault: {path}: {_unknown(path, item)}")
        table[key] = item
    return from_dict(plain, source, changes if all_read else ())


def _named(tables: list[Any], name: str) -> Any:
    """Return the table with a name from a list of tables; None if no table has it."""
    return next((table for table in tables if table["name"] == name), None)


def extend(extends: str, changes: Mapping[str, Any], path: Path) -> Hardware:
    """Return the hardware described by a part of another file at `path`, such as a space file.

    extends: a preset, or a file relative to `path`.
    changes: keys that replace those of `extends`, nested as in a hardware file.

    Raises HardwareError.
    """
    return from_dict(merged(_base(extends, path, ()), changes), _shown(path), dict(_flat(changes, "")))


def field_value(path: str, value: object) -> object:
    """Return the value that a parameter has after `value` is assigned to it: 500 becomes 500.0 in a float field.

    Rules between parameters are not checked. Raises ValueError for an unknown parameter, or with the allowed values.
    """
    *tables, key = path.split(".")
    values: dict[str, Any] = {key: value}
    if isinstance(value, Mapping) or parameter(path) is None:
        raise ValueError(_unknown(path, value))
    faults: dict[str, str] = {}
    checked: Any
    if tables[:1] == [MEMORY]:
        memory = {"name": tables[1], "kind": "sram", "size_kib": 1, "bandwidth_gb_per_s": 1.0}
        checked = _validated({"name": "unnamed", MEMORY: [memory | values]}, faults)
        checked = checked and getattr(checked, MEMORY)[0]
    else:
        for table in reversed(tables):
            values = {table: values}
        checked = _validated({"name": "unnamed"} | values, faults)
        for part in tables:
            checked = checked and getattr(checked, part)
    if checked is None:
        raise ValueError("; ".join(faults.values()))
    return getattr(checked, key)


def to_flat(value: Hardware) -> dict[str, Any]:
    """Map the dotted path of every parameter to its value; the path of a further memory contains its name."""
    return dict(_flat(to_dict(value), ""))


def _flat(table: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, item in table.items():
        if isinstance(item, Mapping):
            yield from _flat(item, f"{prefix}{key}.")
        elif not prefix and key == MEMORY and isinstance(item, list):
            for element in item:
                if isinstance(element, Mapping):
                    yield from _flat(element, f"{MEMORY}.{element.get('name')}.")
        else:
            yield prefix + key, item


def _locate(name_or_path: str | Path, folder: Path | None = None) -> Path:
    """Return the file of a preset name or path; a path in a file is relative to its `folder`."""
    text = str(name_or_path)
    if text in list_presets():
        return PRESETS / f"{text}.toml"
    path = (folder / text) if folder else Path(text)
    if path.suffix == ".toml" or "/" in text or "\\" in text:
        return path
    near = nearest(text, list_presets())
    raise HardwareError(
        f"no hardware is named {short(text)}{f', did you mean {near}?' if near else ''}; "
        f"it may be {', '.join(list_presets())}, or the path of a .toml file"
    )


def _load(path: Path, extended_by: tuple[Path, ...]) -> Hardware:
    """Return the hardware of a file and the files that it extends. `extended_by` are the files that extend it."""
    return _preset(path) if path.parent == PRESETS else _read(path, extended_by)


@cache
def _preset(path: Path) -> Hardware:
    """Read a preset once: the claims of every hardware ask for those that it is compared with."""
    return _read(path, ())


def _read(path: Path, extended_by: tuple[Path, ...]) -> Hardware:
    shown = _shown(path)
    values = read(path, shown, user_file.HARDWARE, HardwareError)
    if isinstance(values.get("core"), list):
        raise HardwareError(
            f"{shown}: is a system file, with tables [[core]], where a hardware file is expected; its command is "
            "npusim run MODEL --system FILE"
        )
    base: dict[str, Any] = {}
    if "extends" in values:
        base = _base(values.pop("extends"), path, (*extended_by, path))
    values.setdefault("name", path.stem)
    return from_dict(merged(base, values), shown, dict(_flat(values, "")))


def _base(extends: object, path: Path, chain: tuple[Path, ...]) -> dict[str, Any]:
    """Return the values of the file or preset that a file extends."""
    where = f"{_shown(path)}: extends"
    if not isinstance(extends, str):
        raise HardwareError(f"{where}: {short(extends)} is not text: a preset or the path of a .toml file")
    try:
        base = _locate(extends, path.parent)
    except HardwareError as error:
        raise HardwareError(f"{where}: {error}") from None
    if any(realpath(base) == realpath(file) for file in chain):
        circle = " -> ".join(_shown(file) for file in (*chain, base))
        raise HardwareError(f"{where}: goes in a circle: {circle}")
    try:
        return to_dict(_load(base, chain))
    except HardwareError as error:
        # If the extended file cannot be read, this file is wrong; a fault inside it already names that file.
        raise HardwareError(str(error) if base.is_file() else f"{where}: {error}") from None


def _validated(values: Mapping[str, Any], faults: dict[str, str]) -> Hardware | None:
    """Return the Hardware of plain values; for invalid values return None and add to `faults` by dotted path."""
    violations: list[Fault] = []
    checked = Hardware.read(values, (), violations)
    for fault in violations:
        unknown = fault.kind == "unknown"
        path = _path(fault.keys, values, exact=unknown)
        if unknown:
            faults[path] = _unknown(path, fault.value) if len(faults) < MOST_COMPARED else "unknown key"
        elif fault.kind == "missing":
            faults[path] = f"is missing, must be {_allowed(path)}"
        else:
            faults[path] = f"{short(fault.value)} is not {_allowed(path)}"
    return None if violations else checked


def _path(location: tuple[int | str, ...], values: Mapping[str, Any], *, exact: bool) -> str:
    """Return the dotted path of a fault, with the name of a further memory, or its number from 0 if it has none.

    The location of a fault in a list ends with a position, which is cut off. So is the name of a table inside another
    one. A key that does not exist is `exact` as it is.
    """
    keys = [str(part) for part in location]
    if keys[0] == MEMORY and len(keys) > 1:
        table = values[MEMORY][int(keys[1])]
        name = table.get("name") if isinstance(table, Mapping) else None
        keys[1] = name if isinstance(name, str) and name else keys[1]
    while len(keys) > 1 and not exact and parameter(".".join(keys)) is None:
        if keys[0] == MEMORY and len(keys) == 2:
            break
        keys.pop()
    return ".".join(keys)


def _without(values: Mapping[str, Any], faults: Mapping[str, str], prefix: str = "") -> dict[str, Any]:
    """Return the values whose path has no fault; a missing name becomes "unnamed"."""
    kept: dict[str, Any] = {} if prefix else {"name": "unnamed"}
    for key, item in values.items():
        path = f"{prefix}{key}"
        if path == MEMORY:
            if not any(fault.partition(".")[0] == MEMORY for fault in faults):
                kept[key] = item
        elif path not in faults:
            kept[key] = _without(item, faults, f"{path}.") if isinstance(item, dict) else item
    return kept


def _allowed(path: str) -> str:
    known = parameter(path)
    if known is None and path == MEMORY:
        return f"a list of tables, at most {MOST_FURTHER}"
    return known.allowed if known else "a table"


def _unknown(path: str, value: object) -> str:
    """Return the fault of an unknown key, with the most similar known key of its table, or else of any table."""
    *tables, key = path.split(".")
    if tables[:1] == [MEMORY] and len(tables) == 2:
        tables[1] = ANY_NAME
    prefix = "".join(f"{table}." for table in tables)
    below = [known[len(prefix) :] for known in known_paths() if known.startswith(prefix)]
    known_here = dict.fromkeys(known.split(".")[0] for known in below)
    if not prefix:
        known_here["extends"] = None
    if isinstance(value, Mapping):
        near = nearest(key, [known for known in known_here if known not in below])
    else:
        near = nearest(key, [known for known in known_here if known in below or known == "extends"])
        near = near or _nearest_anywhere(key)
    hint = f"did you mean {near}?" if near else f"known here: {', '.join(known_here) or 'none'}"
    return f"unknown key, {hint}"


def _nearest_anywhere(key: str) -> str | None:
    """Return the path of the known key most similar to one without its table, such as mac_array.rows for "rows"."""
    spellings = {known.rpartition(".")[2]: known for known in known_paths()}
    spellings |= {known: known for known in known_paths()}
    match = nearest(key, spellings)
    return spellings[match] if match else None


def toml_value(value: object) -> str:
    """Return a value in TOML syntax: as in JSON, with invisible characters as escapes of TOML."""
    text = json.dumps(value, ensure_ascii=False)
    return text if visible(text) else "".join(mark if visible(mark) else _escape(mark) for mark in text)


def _escape(mark: str) -> str:
    code = ord(mark)
    return f"\\u{code:04x}" if code < 1 << 16 else f"\\U{code:08x}"


def _shown(path: Path) -> str:
    """Return the name of a file in messages: the path, or the name of a preset."""
    return path.stem if path.parent == PRESETS else str(path)
