"""What tells machines apart, parameter by parameter."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from npusim.isa.base.errors import CompileError
from npusim.isa.hardware.file import to_dict
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.program.program import Program


def require_same_hardware(path: str | Path, program: Program, chosen: Hardware | None) -> None:
    """A program is compiled for its hardware: tiles and addresses of another would be wrong.

    Raises CompileError that names what differs.
    """
    if chosen is None or chosen == program.hardware:
        return
    mine, other = parameters_of(program.hardware), parameters_of(chosen)
    differing = [key for key in dict.fromkeys([*mine, *other]) if mine.get(key) != other.get(key)]
    numbers = [key for key in differing if key not in ("name", "description")]
    shown = ", ".join((numbers or differing)[:3]) + (", ..." if len(numbers) > 3 else "")
    raise CompileError(
        f'{path}: compiled for "{program.hardware.name}", and "{chosen.name}" differs in {shown}; '
        "run it without --hw, or compile the model again for the other hardware"
    )


def parameters_of(hardware: Hardware) -> dict[str, Any]:
    """Everything that a hardware file says, by dotted path."""
    return _flat(to_dict(hardware))


def _flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat
