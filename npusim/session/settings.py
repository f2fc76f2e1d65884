"""Settings: changes to hardware by `--set KEY=VALUE` and keyword arguments, checked like keys of a hardware file."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from npusim.isa.base.errors import HardwareError
from npusim.isa.base.toml_file import short
from npusim.isa.hardware import file as hardware_file
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.hardware.parameters import parameter

OPTION = "--set"
LONGEST_NAME = 64
Settings = Mapping[str, Any]
"""The values of parameters by path."""


def parse(texts: Sequence[str]) -> Settings:
    """Return the settings of texts such as "mac_array.rows=32". Raises HardwareError with all faults in one line."""
    settings: dict[str, Any] = {}
    faults = []
    for text in texts:
        path, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not path:
            faults.append(f"{short(text)} is not KEY=VALUE, such as mac_array.rows=32")
        elif path in settings:
            faults.append(f"{path}: is set twice")
        else:
            try:
                settings[path] = hardware_file.field_value(path, _value(path, value))
            except ValueError as fault:
                faults.append(f"{path}: {fault}")
    if faults:
        raise HardwareError(f"{OPTION} {'; '.join(faults)}")
    return settings


def of_values(values: Settings, table: str = "") -> Settings:
    """Return settings from plain values by key, with tables as dicts. Raises HardwareError for the first wrong one."""
    settings: dict[str, Any] = {}
    for key, value in values.items():
        path = f"{table}{key}"
        if isinstance(value, Mapping):
            settings |= of_values(value, f"{path}.")
            continue
        try:
            settings[path] = hardware_file.field_value(path, value)
        except ValueError as fault:
            raise HardwareError(f"{path}: {fault}") from None
    return settings


def _value(path: str, text: str) -> object:
    """Parse a value: numbers, true and false as in TOML, a list if the parameter is one, else text.

    Text may be quoted.
    """
    known = parameter(path)
    kinds = bool | int | float | str
    if known is not None and isinstance(known.default, list):
        kinds |= list
    try:
        value: object = tomllib.loads(f"value = {text}")["value"] if "\n" not in text else text
    except tomllib.TOMLDecodeError:
        return text
    return value if isinstance(value, kinds) else text


def changed(hardware: Hardware, settings: Settings) -> Hardware:
    """Return a machine with settings, named after them unless they name it. Raises HardwareError for broken rules."""
    if not settings:
        return hardware
    words = ", ".join(f"{path}={_shown(value)}" for path, value in settings.items())
    named = {"name": _cut(f"{hardware.name}, {words}")}
    return hardware_file.change(hardware, named | dict(settings), f"{OPTION} {words}")


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return " ".join(map(str, value)) or "nothing"
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def _cut(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 3]}..."
