"""Hardware files: presets and user TOML to a checked `Hardware`, and back.

    extends = "edge-128"        # a preset, or a file relative to this one
    [scratchpad]
    size_kib = 1024

All faults of a file are reported at once, in one line.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from os.path import realpath
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from npusim.isa.base import user_file
from npusim.isa.base.errors import HardwareError, nearest, visible
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
"""Unknown keys that are compared with the known ones: as many as a message has room for."""


def list_presets() -> tuple[str, ...]:
    """Names of the presets that ship with the package, by family and size; hosts, named after their core, come last."""

    def family_and_size(name: str) -> tuple[bool, str, int]:
        family, _, size = name.rpartition("-")
        is_host = name in CORE_NAMES
        return (is_host, family, int(size)) if size.isdigit() else (is_host, name, 0)

    return tuple(sorted((file.stem for file in PRESETS.glob("*.toml")), key=family_and_size))


def hardware(name_or_path: str | Path) -> Hardware:
    """The hardware of a preset name or of a TOML file; raises HardwareError with every fault in one line."""
    return _load(_locate(name_or_path), ())


def sources(name_or_path: str | Path, folder: Path | None = None) -> tuple[Path, ...]:
    """The files that the hardware is read from: its own, then what that extends, and so on; none for a preset.

    A path is relative to `folder`, if there is one. Raises HardwareError for a file that cannot be read.
    """
    found: list[Path] = []
    path = _locate(name_or_path, folder)
    while path.parent != PRESETS and path not in found:
        found.append(path)
        extends = read(path, _shown(path), user_file.HARDWARE, HardwareError).get("extends")
        if not isinstance(extends, str):
            break
        path = _locate(extends, path.parent)
    return tuple(found)


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
        faults |= {path: why for path in given if (why := why_unread(checked, path)) and path not in faults}
        checked = with_rated_point(without_unread(checked))
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
    """Tuples as lists; without those that are empty, which say what an absent key says."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items() if item != ()}
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def to_toml(value: Hardware) -> str:
    """Every parameter as a hardware file; reading it gives an equal Hardware."""
    plain = to_dict(value)
    memories = plain.pop(MEMORY, ())
    lines = list(_table_lines(plain, ""))
    for table in memories:
        lines += ["", f"[[{MEMORY}]]", *_table_lines(table, MEMORY)]
    return "\n".join(lines) + "\n"


def _table_lines(table: Mapping[str, Any], path: str) -> Iterator[str]:
    """The keys of a table, then the tables in it."""
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
    """The table of a list that has a name; None if none has."""
    return next((table for table in tables if table["name"] == name), None)


def extend(extends: str, changes: Mapping[str, Any], path: Path) -> Hardware:
    """The hardware that a file at `path`, which is more than a hardware file, describes: what it `extends` (a
    preset, or a file relative to it) with `changes`, nested as in a hardware file. Raises HardwareError."""
    return from_dict(merged(_base(extends, path, ()), changes), _shown(path), dict(_flat(changes, "")))


def field_value(path: str, value: object) -> object:
    """What a parameter holds when it is given `value`: 500 is 500.0 in a field for numbers.

    Rules between parameters are not looked at. Raises ValueError with the fault: an unknown parameter, or what
    the field may be.
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
    """Every parameter by its dotted path; a further memory stands there by its name."""
    return dict(_flat(to_dict(value), ""))


def _flat(table: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, item in table.items():
        if isinstance(item, Mapping):
            yield from _flat(item, f"{prefix}{key}.")
        elif not prefix and key == MEMORY and isinstance(item, list):
            for each in item:
                if isinstance(each, Mapping):
                    yield from _flat(each, f"{MEMORY}.{each.get('name')}.")
        else:
            yield prefix + key, item


def _locate(name_or_path: str | Path, folder: Path | None = None) -> Path:
    """The file of a preset name or path; paths in a file are relative to its folder."""
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
    """Read one file on top of what it extends. `extended_by` are the files that led here."""
    values = read(path, _shown(path), user_file.HARDWARE, HardwareError)
    shown = _shown(path)
    base: dict[str, Any] = {}
    if "extends" in values:
        base = _base(values.pop("extends"), path, (*extended_by, path))
    values.setdefault("name", path.stem)
    return from_dict(merged(base, values), shown, dict(_flat(values, "")))


def _base(extends: object, path: Path, chain: tuple[Path, ...]) -> dict[str, Any]:
    """The values that a file extends."""
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
    """The Hardware of plain values, or None and the faults by dotted path."""
    try:
        return Hardware.model_validate(dict(values))
    except ValidationError as error:
        for item in error.errors(include_url=False, include_context=False):
            path = _path(item["loc"], values, exact=item["type"] == "extra_forbidden")
            if item["type"] == "extra_forbidden":
                near = len(faults) < MOST_COMPARED
                faults[path] = _unknown(path, item["input"]) if near else "unknown key"
            elif item["type"] == "missing":
                faults[path] = f"is missing, must be {_allowed(path)}"
            else:
                faults[path] = f"{short(item['input'])} is not {_allowed(path)}"
        return None


def _path(location: tuple[int | str, ...], values: Mapping[str, Any], *, exact: bool) -> str:
    """The dotted path of a fault, a further memory by its name or, without one, its number from 0.

    Behind the key, a location goes on with a branch of a union ("float") or a position in a list; only keys make
    the path, unless it is `exact`: that of a key that does not exist.
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
    """The values whose path has no fault; a missing name gets a stand-in."""
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
    """The fault of an unknown key, with the nearest known one: in its table, else anywhere."""
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
    """The path that a key without its table means: "rows" is mac_array.rows."""
    spellings = {known.rpartition(".")[2]: known for known in known_paths()}
    spellings |= {known: known for known in known_paths()}
    match = nearest(key, spellings)
    return spellings[match] if match else None


def toml_value(value: object) -> str:
    """A TOML scalar: a JSON scalar, with whatever is not visible in a text as TOML's escape."""
    text = json.dumps(value, ensure_ascii=False)
    return text if visible(text) else "".join(mark if visible(mark) else _escape(mark) for mark in text)


def _escape(mark: str) -> str:
    code = ord(mark)
    return f"\\u{code:04x}" if code < 1 << 16 else f"\\U{code:08x}"


def _shown(path: Path) -> str:
    """A file as messages name it: presets by their name."""
    return path.stem if path.parent == PRESETS else str(path)
