"""How a run came about, so that it can be had again and told from another. No time of day, no folder, no host."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from npusim.isa.base.version import npusim_version, sources_digest
from npusim.isa.hardware import file as hardware_file
from npusim.isa.hardware.hardware import Hardware

Inputs = Literal["random", "given", "none"]


@dataclass(frozen=True, slots=True)
class Provenance:
    """What a result does not show by itself.

    command:      a command that gives the same numbers, files by their names alone; None for what Python made.
    effort:       of the compiler, as `npusim run --effort`; None for a program that was compiled before.
    seed:         of the random inputs; None for others, and where no data was executed.
    inputs:       "random", "given", or "none" where no data was executed.
    model_sha256: of the file of the model or program, or of a built-in model; None for what Python made.
    shapes:       sizes that the model leaves open, as `npusim run --shape`; None where none were given.
    """

    command: str | None = None
    effort: str | int | None = None
    seed: int | None = None
    inputs: Inputs = "none"
    model_sha256: str | None = None
    shapes: str | None = None

    def to_dict(self, hardware: Hardware) -> dict[str, Any]:
        """The block of the JSON: versions, what is held here, and the digest of the hardware without its name."""
        return versions() | asdict(self) | {"hardware_sha256": digest_of_hardware(hardware)}


def versions() -> dict[str, Any]:
    """What computed: npusim, Python, and the packages that numbers pass through."""
    import platform

    import numpy
    import simpy

    return {
        "npusim": npusim_version(),
        "sources_sha256": sources_digest(),
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "simpy": simpy.__version__,
    }


def digest_of_hardware(hardware: Hardware) -> str:
    """SHA-256 of all parameters; machines that differ in name and description only have the same."""
    import json
    from hashlib import sha256

    plain = hardware_file.to_dict(hardware)
    numbers = {key: value for key, value in plain.items() if key not in ("name", "description")}
    return sha256(json.dumps(numbers, sort_keys=True).encode()).hexdigest()
