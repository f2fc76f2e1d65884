"""A program runs on the hardware that it was compiled for."""

from __future__ import annotations

from pathlib import Path

from npusim.isa.base.errors import CompileError
from npusim.isa.hardware.file import to_flat
from npusim.isa.hardware.hardware import Hardware
from npusim.isa.program.program import Program


def require_same_hardware(path: str | Path, program: Program, chosen: Hardware | None) -> None:
    """A program is compiled for its hardware: tiles and addresses of another would be wrong.

    Raises CompileError that names what differs.
    """
    if chosen is None or chosen == program.hardware:
        return
    mine, other = to_flat(program.hardware), to_flat(chosen)
    differing = [key for key in dict.fromkeys([*mine, *other]) if mine.get(key) != other.get(key)]
    numbers = [key for key in differing if key not in ("name", "description")]
    shown = ", ".join((numbers or differing)[:3]) + (", ..." if len(numbers) > 3 else "")
    raise CompileError(
        f'{path}: compiled for "{program.hardware.name}", and "{chosen.name}" differs in {shown}; '
        "run it without --hw, or compile the model again for the other hardware"
    )
